use super::*;
use proptest::prelude::*;

/// What was heard, as text.
#[derive(Default)]
struct Heard(Vec<String>);

impl Handler for Heard {
    fn on_message(&mut self, kind: Kind, payload: &[u8]) {
        self.0.push(format!("{kind:?} {}", payload.escape_ascii()));
    }
    fn on_sign_of_life(&mut self) {
        self.0.push("sign".to_owned());
    }
    fn on_ping(&mut self, payload: &[u8]) {
        self.0.push(format!("ping {}", payload.escape_ascii()));
    }
    fn on_close(&mut self, code: &[u8]) {
        self.0.push(format!("close {code:?}"));
    }
}

/// Everything heard, and the close or the error at the end.
fn received<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut websocket, mut heard) = (Websocket::default(), Heard::default());
    for piece in pieces {
        match websocket.feed(piece, &mut heard) {
            Ok(None) => {}
            Ok(Some(closed)) => {
                heard.0.push(closed);
                break;
            }
            Err(error) => {
                heard.0.push(error.to_string());
                break;
            }
        }
    }
    heard.0
}

/// A server's frame.
fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    websocket_head(first, 0, payload.len(), &mut frame);
    frame.extend_from_slice(payload);
    frame
}

fn check(frames: &[(u8, &[u8])], expected: &[&str]) {
    let bytes: Vec<u8> = frames.iter().flat_map(|(first, payload)| sent(*first, payload)).collect();
    assert_eq!(received([&bytes[..]]), expected, "{frames:?}");
    assert_eq!(received(bytes.chunks(1)), expected, "{frames:?}, byte by byte");
}

#[test]
fn messages_come_whole_in_fragments_and_around_control_frames() {
    check(&[(0x81, b"a"), (0x82, b"\xff"), (0x81, b"")], &["Text a", "Binary \\xff", "Text "]);
    check(
        &[(0x01, b"a"), (0x89, b"hi"), (0x00, b""), (0x8A, b""), (0x80, b"b"), (0x81, b"c")],
        &["ping hi", "sign", "Text ab", "Text c"],
    );
    check(&[(0x02, b"\xc3"), (0x80, b"\xa9")], &["Binary \\xc3\\xa9"]);
    // UTF-8 may be cut anywhere.
    check(&[(0x01, b"\xc3"), (0x80, b"\xa9")], &["Text \\xc3\\xa9"]);
    check(&[(0x01, b""), (0x80, b"")], &["Text "]);
    for length in [125, 126, 127, 65535, 65536, 70000] {
        check(&[(0x82, &vec![b'x'; length])], &[&format!("Binary {}", "x".repeat(length))]);
    }
}

#[test]
fn a_close_ends_with_its_code_and_reason() {
    check(&[(0x88, b"\x03\xe9bye"), (0x81, b"late")], &["close [3, 233]", "closed with 1001: bye"]);
    check(&[(0x01, b"a"), (0x88, b"\x0f\xa0")], &["close [15, 160]", "closed with 4000"]);
    check(&[(0x88, b"")], &["close []", "closed without a code (1005)"]);
}

#[test]
fn what_is_malformed_is_named() {
    let check = |frames: &[(u8, &[u8])], expected: &str| {
        let bytes: Vec<u8> =
            frames.iter().flat_map(|(first, payload)| sent(*first, payload)).collect();
        for heard in [received([&bytes[..]]), received(bytes.chunks(1))] {
            let said = heard.last().unwrap();
            assert!(said.contains(expected), "{said:?} should say {expected:?}");
        }
    };
    check(&[(0x80, b"a")], "a continuation of no message");
    check(&[(0x01, b"a"), (0x81, b"b")], "begins within another");
    check(&[(0xC1, b"a")], "an extension that was not offered");
    check(&[(0x83, b"a")], "the unknown kind 3");
    check(&[(0x8B, b"a")], "the unknown kind 11");
    check(&[(0x09, b"a")], "a control frame in fragments");
    check(&[(0x89, &[b'x'; 126])], "over 125 bytes");
    check(&[(0x81, b"\xff")], "not UTF-8");
    check(&[(0x01, b"\xc3"), (0x80, b"a")], "not UTF-8");
    check(&[(0x88, b"\x03")], "of one byte");
    check(&[(0x88, b"\x03\xed")], "the close code 1005");
    check(&[(0x88, b"\x03\xe8\xff")], "reason that is not UTF-8");
    assert!(received([&[0x81, 0x81, 0, 0, 0, 0, 0][..]])[0].contains("a masked frame"));
    // Refused by its head, before it takes memory.
    let huge = [&[0x82, 127][..], &(MESSAGE_BYTES_MAX as u64 + 1).to_be_bytes()].concat();
    assert!(received([&huge[..]])[0].contains("over 64 MiB"));
    let endless = [0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255];
    assert!(received([&endless[..]])[0].contains("over 64 MiB"));
    let rest = [&sent(0x02, b"a")[..], &[0x80, 127], &(MESSAGE_BYTES_MAX as u64).to_be_bytes()];
    assert!(received([&rest.concat()[..]])[0].contains("over 64 MiB"));
}

#[test]
fn frames_are_masked_with_keys_of_their_own() {
    let said = |payload: &[u8]| {
        let mut frame = Vec::new();
        text(payload, &mut frame);
        frame
    };
    let short = said(b"hello");
    assert_eq!(short[..2], [0x81, 0x85]);
    let unmasked: Vec<u8> = (0..5).map(|at| short[6 + at] ^ short[2 + at % 4]).collect();
    assert_eq!(unmasked, b"hello");
    let masks: std::collections::HashSet<Vec<u8>> =
        (0..20).map(|_| said(b"")[2..6].to_vec()).collect();
    assert!(masks.len() > 10, "{masks:?}");
    assert_eq!(said(&[0; 126])[1..4], [0xFE, 0, 126]);
    assert_eq!(said(&[0; 65536])[1..10], [0xFF, 0, 0, 0, 0, 0, 1, 0, 0]);
    let mut frame = Vec::new();
    pong(b"hi", &mut frame);
    closing(&[3, 232], &mut frame);
    assert_eq!((frame[0], frame[1], frame[8], frame[9]), (0x8A, 0x82, 0x88, 0x82));
}

proptest! {
    #[test]
    fn cuts_and_fragments_change_nothing(
        messages in prop::collection::vec(("[a-zé]{0,300}", prop::collection::vec(0usize..40, 0..4)), 0..12),
        cuts in prop::collection::vec(0usize..97, 0..100),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (message, fragments) in &messages {
            let (mut opcode, mut rest) = (0x01, message.as_bytes());
            for fragment in fragments {
                let (now, later) = rest.split_at((*fragment).min(rest.len()));
                bytes.extend(sent(opcode, now));
                bytes.extend(sent(0x89, b"p"));
                expected.push("ping p".to_owned());
                (opcode, rest) = (0x00, later);
            }
            bytes.extend(sent(opcode | FINAL, rest));
            expected.push(format!("Text {}", message.as_bytes().escape_ascii()));
        }
        let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        prop_assert_eq!(received(pieces), expected);
    }

    #[test]
    fn any_bytes_are_an_answer(
        bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), prop::sample::select(vec![0x81, 0x01, 0x80, 0x89, 0x88, 0, 1, 2, 126]),
        ], 0..200),
        cut in 0usize..200,
    ) {
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        prop_assert_eq!(received([first, second]), received([&bytes[..]]));
    }
}
