use super::super::tests::received;
use super::*;
use crate::scenario::Transport;
use crate::swarm::tests::golden;
use proptest::prelude::*;

/// A server's frame.
pub(in crate::swarm) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    head(first, 0, payload.len(), &mut frame);
    frame.extend_from_slice(payload);
    frame
}

#[test]
fn every_length_comes_back() {
    for length in [0, 1, 125, 126, 127, 65535, 65536, 70000] {
        let payload = vec![b'x'; length];
        for (first, kind) in [(WHOLE_TEXT, Kind::Text), (WHOLE_BINARY, Kind::Binary)] {
            let bytes = frame(first, &payload);
            let whole = CarrierStep::Incoming(Incoming::Message(kind, &payload), bytes.len());
            assert_eq!(step(&bytes, &mut None, None), Ok(whole));
            let short = &bytes[..bytes.len() - 1];
            assert_eq!(
                step(short, &mut None, Some(&mut deflate::Inflate::Alone)),
                Ok(CarrierStep::Incomplete { searched: 0 })
            );
        }
    }
}

#[test]
fn a_clients_frames_are_masked_with_keys_of_their_own() {
    let sent = |payload: &[u8]| {
        let mut frame = Vec::new();
        text(payload, &mut frame);
        frame
    };
    let short = sent(b"hello");
    assert_eq!(short[..2], [0x81, 0x85]);
    let unmasked: Vec<u8> = (0..5).map(|at| short[6 + at] ^ short[2 + at % 4]).collect();
    assert_eq!(unmasked, b"hello");
    let masks: std::collections::HashSet<Vec<u8>> =
        (0..20).map(|_| sent(b"")[2..6].to_vec()).collect();
    assert!(masks.len() > 10, "{masks:?}");
    assert_eq!(sent(&[0; 126])[1..4], [0xFE, 0, 126]);
    assert_eq!(sent(&[0; 65536])[1..10], [0xFF, 0, 0, 0, 0, 0, 1, 0, 0]);
    let mut frames = Vec::new();
    pong(b"hi", &mut frames);
    close_back(b"\x03\xe9bye", &mut frames);
    close(&mut frames);
    assert_eq!((frames[0], frames[1], frames[8], frames[9]), (0x8A, 0x82, 0x88, 0x82));
    assert_eq!((frames[14] ^ frames[10], frames[15] ^ frames[11]), (3, 0xE9));
    assert_eq!((frames[22] ^ frames[18], frames[23] ^ frames[19]), (3, 0xE8));
}

proptest! {
    #[test]
    fn fragments_change_nothing(
        messages in prop::collection::vec(("[a-zé]{1,300}", prop::collection::vec(0usize..40, 0..4)), 0..12),
        cuts in prop::collection::vec(0usize..97, 0..100),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (message, fragments) in &messages {
            let (mut opcode, mut rest) = (TEXT, message.as_bytes());
            for fragment in fragments {
                let (now, later) = rest.split_at((*fragment).min(rest.len()));
                bytes.extend(frame(opcode, now));
                bytes.extend(frame(FINAL | PING, b"p"));
                expected.push("ping p".to_owned());
                (opcode, rest) = (CONTINUATION, later);
            }
            bytes.extend(frame(opcode | FINAL, rest));
            expected.push(format!("text {message}"));
        }
        prop_assert_eq!(received(Transport::Websocket, &golden::cut(&bytes, &cuts)), expected);
    }
}
