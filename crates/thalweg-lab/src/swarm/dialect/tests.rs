use super::*;
use crate::scenario::Peer;
use crate::swarm::carrier::{CarrierError, Decoder, Incoming};
use crate::swarm::golden;

fn dialects() -> Vec<Box<dyn Dialect>> {
    vec![
        Box::new(thalweg::Thalweg),
        Box::new(limit::Limit),
        Box::new(bare::Bare),
        Box::new(socketio::SocketIo::new(1)),
    ]
}

#[test]
fn a_runner_is_told_by_its_number() {
    assert_eq!(runner(1042).len(), runner::RUNNER_BYTES);
    assert_eq!(runner_id(&runner(1042)), Some(1042));
    assert_eq!(runner_id(br#"{"id":1,"a":2},{"id":2,"a":2}"#), None);
    assert_eq!(runner_id(b"[1]"), None);
}

#[test]
fn what_comes_back_is_told_by_its_number() {
    for dialect in dialects() {
        let (_, answer) = dialect.echo(4711);
        assert_eq!(dialect.echo_number(&answer), Some(4711), "{dialect:?}");
        assert_eq!(dialect.echo_number(&answer[1..]), None);
        assert_eq!(dialect.echo_number(b"{\"pad\":\"xxxx-xxx\"}"), None);
    }
}

/// What the client says, and what it makes of what it hears, on a recorded connection
/// whose bytes come in these pieces.
fn conversation(pieces: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
    let dialect = socketio::SocketIo::new(1);
    let (mut said, mut found, mut carried) = (Vec::new(), Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    for piece in pieces {
        carried.extend_from_slice(piece);
        let used = decoder.decode(Transport::Websocket, &carried, |incoming| {
            if let Incoming::Message(kind, message) = incoming {
                let message = dialect.on_message(kind, message, &mut said);
                found.push(match message.expect("a packet of Socket.IO") {
                    Message::Events { topic, position: b"", events, .. } => {
                        format!("{} {}", topic.escape_ascii(), events.escape_ascii())
                    }
                    Message::Answer(answer) => {
                        format!("answer {}", dialect.echo_number(answer).expect("a number"))
                    }
                    other => format!("{other:?}"),
                });
            }
            Ok::<_, CarrierError>(())
        });
        carried.drain(..used.expect("frames"));
    }
    (said, found)
}

#[test]
fn socket_io_as_it_was_recorded() {
    let stream = include_bytes!("../../../tests/golden/socketio/websocket.server");
    let head = memchr::memmem::find(stream, b"\r\n\r\n").expect("a head") + 4;
    let expected = "Opening, Opening, Confirmed, \
         bench/0 {\\\"seq\\\":1,\\\"due\\\":1000,\\\"crc\\\":\\\"cf001a20\\\",\\\"pad\\\":\\\"\\\"}, \
         bench/0 2, bench/0 3, answer 1, Heartbeat";
    golden::cut_everywhere(&stream[head..], |pieces| {
        let (said, found) = conversation(pieces);
        let short = |text: &String| match text.split_once("\\\"seq\\\":") {
            Some((_, rest)) if rest.starts_with(['2', '3']) => format!("bench/0 {}", &rest[..1]),
            _ => text.clone(),
        };
        assert_eq!(found.iter().map(short).collect::<Vec<_>>().join(", "), expected);
        // The masks are random: what is behind them is what the recorded client said.
        assert_eq!(unmasked(&said), ["40", r#"420["subscribe",["bench/0"]]"#, "3"]);
    });
}

/// What a client's short frames say.
fn unmasked(mut frames: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let [0x81, length, a, b, c, d, rest @ ..] = frames {
        let (payload, rest) = rest.split_at(usize::from(length & 0x7F));
        let mask = [a, b, c, d].into_iter().cycle();
        let text = payload.iter().zip(mask).map(|(byte, mask)| char::from(byte ^ mask)).collect();
        texts.push(text);
        frames = rest;
    }
    assert!(frames.is_empty(), "{frames:?}");
    texts
}

#[test]
fn what_is_no_packet_of_socket_io_is_refused() {
    let dialect = socketio::SocketIo::new(1);
    let mut replies = Vec::new();
    for packet in
        ["44{\"message\":\"x\"}", "451-[\"event\",\"bench/0\",{}]", "", "4", "42[\"event\"]"]
    {
        let message = dialect.on_message(Kind::Text, packet.as_bytes(), &mut replies);
        assert!(message.is_err(), "{packet}: {message:?}");
    }
    assert!(dialect.on_message(Kind::Binary, b"430[]", &mut replies).is_err());
    assert!(replies.is_empty());
}

#[test]
fn every_name_in_a_subject_toml_has_its_dialect() {
    for name in ["thalweg", "limit", "bare", "socketio"] {
        let text = format!("name='x'\ntitle='x'\ndialect='{name}'\ndrives=[]\ncommand=['x']\n");
        let program = Program::Peer(Box::new(Peer::read(&text, "").expect(name)));
        let dialect = of(&program, &Settings::default());
        assert_eq!(format!("{dialect:?}").to_lowercase().split(' ').next(), Some(name));
    }
}
