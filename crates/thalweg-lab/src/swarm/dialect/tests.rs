mod speed;

use super::*;
use crate::scenario::{Endpoint, OpeningStep, Peer, Typed};
use crate::swarm::carrier::{CarrierError, Decoder, Incoming};
use crate::swarm::tests::golden;

fn dialects() -> Vec<Box<dyn Dialect>> {
    vec![
        Box::new(thalweg::Thalweg),
        Box::new(limit::Limit),
        Box::new(raw::Raw),
        Box::new(socketio::SocketIo),
        Box::new(socketio::EngineIo),
        Box::new(sockjs::SockJs::new(&Settings::default())),
        Box::new(primus::Primus),
    ]
}

#[test]
fn a_runner_is_identified_by_its_number() {
    assert_eq!(runner(1042).len(), runner::RUNNER_BYTES);
    assert_eq!(runner_id(&runner(1042)), Some(1042));
    assert_eq!(runner_id(br#"{"id":1,"a":2},{"id":2,"a":2}"#), None);
    assert_eq!(runner_id(b"[1]"), None);
}

#[test]
fn answers_are_matched_by_their_number() {
    for dialect in dialects() {
        let (_, answer) = dialect.echo(4711);
        assert_eq!(dialect.echo_number(&answer), Some(4711), "{dialect:?}");
        assert_eq!(dialect.echo_number(&answer[1..]), None);
        assert_eq!(dialect.echo_number(b"{\"pad\":\"xxxx-xxx\"}"), None);
    }
}

/// The client's messages, and its results, on a recorded connection whose bytes come in these pieces.
fn conversation(pieces: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
    let dialect = socketio::SocketIo;
    let (mut sent, mut found, mut carried) = (Vec::new(), Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    for piece in pieces {
        carried.extend_from_slice(piece);
        let used = decoder.decode(Transport::Websocket, &carried, |incoming| {
            if let Incoming::Message(kind, message) = incoming {
                let message = dialect.on_message(kind, message, &mut sent);
                found.push(match message.expect("a packet of Socket.IO").0 {
                    // The recorded client subscribed by a packet of its own.
                    Message::Answer(b"") => "answer".to_owned(),
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
    (sent, found)
}

#[test]
fn socket_io_as_it_was_recorded() {
    let stream = include_bytes!("../../../tests/golden/socketio/websocket.server");
    let head = memchr::memmem::find(stream, b"\r\n\r\n").expect("a head") + 4;
    let expected = "Opening, Confirmed, answer, \
         bench/0 {\\\"seq\\\":1,\\\"due\\\":1000,\\\"crc\\\":\\\"cf001a20\\\",\\\"pad\\\":\\\"\\\"}, \
         bench/0 2, bench/0 3, answer 1, Heartbeat";
    golden::cut_everywhere(&stream[head..], |pieces| {
        let (sent, found) = conversation(pieces);
        let short = |text: &String| match text.split_once("\\\"seq\\\":") {
            Some((_, rest)) if rest.starts_with(['2', '3']) => format!("bench/0 {}", &rest[..1]),
            _ => text.clone(),
        };
        assert_eq!(found.iter().map(short).collect::<Vec<_>>().join(", "), expected);
        // The masks are random: without them, the frames are the recorded client's.
        assert_eq!(unmasked(&sent), ["40", "3"]);
    });
}

/// Payloads of a client's short frames.
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
fn malformed_packets_of_socket_io_are_refused() {
    let dialect = socketio::SocketIo;
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

/// All contents of a message, and the replies to it.
fn parsed(dialect: &dyn Dialect, message: &str) -> (Vec<String>, Vec<String>) {
    let (mut rest, mut sent, mut replies) = (message.as_bytes(), Vec::new(), Vec::new());
    loop {
        let (message, behind) = match dialect.on_message(Kind::Text, rest, &mut replies) {
            Ok(parts) => parts,
            Err(error) => return (vec![format!("{error}")], Vec::new()),
        };
        sent.push(match message {
            Message::Events { topic, events, .. } => {
                format!("{} {}", topic.escape_ascii(), String::from_utf8_lossy(events))
            }
            Message::Version {
                topic,
                version: Version { number, previous, body: VersionBody::Encoded(encoding, text) },
                ..
            } => format!(
                "{} {encoding:?} {previous} to {number}: {}",
                topic.escape_ascii(),
                String::from_utf8_lossy(text)
            ),
            Message::Event(_, event) => String::from_utf8_lossy(event).into_owned(),
            Message::Ended(reason) => format!("ended: {}", reason.escape_ascii()),
            other => format!("{other:?}"),
        });
        if behind.is_empty() {
            return (sent, unmasked_any(&replies));
        }
        rest = behind;
    }
}

/// The same of frames that may be binary.
fn unmasked_any(frames: &[u8]) -> Vec<String> {
    let text: Vec<u8> = match frames {
        [0x82, rest @ ..] => [&[0x81], rest].concat(),
        other => other.to_vec(),
    };
    unmasked(&text)
}

#[test]
fn a_message_says_several_things() {
    let check = |dialect: &dyn Dialect, message: &str, sent: &[&str], replies: &[&str]| {
        let (found, answered) = parsed(dialect, message);
        assert_eq!((found, answered), (owned(sent), owned(replies)), "{dialect:?} {message}");
    };
    let settings = Settings::default();
    let nats = nats::Nats::new(&settings);
    check(
        &nats,
        "MSG bench/0 1 7\r\n{\"a\":1}\r\nMSG bench/1 2 reply 2\r\n\r\n\r\nPING\r\n",
        &["bench/0 {\"a\":1}", "bench/1 \r\n", "Heartbeat"],
        &["PONG\r\n"],
    );
    check(&nats, "INFO {}\r\nPONG\r\n", &["Opening", "Confirmed"], &[]);
    for cut in ["MSG bench/0 1 7\r\n{\"a\"", "MSG a", "PING", "MSG a b 1\r\n12\r\n"] {
        let (found, _) = parsed(&nats, cut);
        assert!(found[0].contains("cut by the end of its frame"), "{found:?}");
    }
    check(&nats, "-ERR 'Slow Consumer Detected'\r\n", &["Close"], &[]);
    let centrifugo = centrifugo::Centrifugo::new(&settings);
    check(
        &centrifugo,
        "{\"push\":{\"channel\":\"bench/0\",\"pub\":{\"data\":{\"a\":1}}}}\n{}\n{\"id\":2,\"subscribe\":{}}",
        &["bench/0 {\"a\":1}", "Heartbeat", "Confirmed"],
        &["{}"],
    );
    check(&centrifugo, "{\"channel\":\"bench/0\",\"pub\":{\"data\":[1]}}", &["bench/0 [1]"], &[]);
    let deltas = centrifugo::Centrifugo::new(&Settings { deltas: true, ..Settings::default() });
    check(
        &deltas,
        concat!(
            r#"{"id":2,"subscribe":{"epoch":"LrCi","positioned":true,"delta":true}}"#,
            "\n",
            r#"{"push":{"channel":"deltas:bench/3","pub":{"data":"{\"offset\":1}","offset":1}}}"#,
            "\n",
            r#"{"push":{"channel":"deltas:bench/3","pub":{"data":"6U\n6U@0,2nuoAl;","offset":2,"delta":true}}}"#,
        ),
        &[
            "Confirmed",
            r#"bench/3 JsonString 0 to 1: {\"offset\":1}"#,
            r"bench/3 FossilDelta 1 to 2: 6U\n6U@0,2nuoAl;",
        ],
        &[],
    );
    for wrong in [
        r#"{"id":2,"subscribe":{"epoch":"LrCi","positioned":true}}"#,
        r#"{"push":{"channel":"bench/3","pub":{"data":"1","offset":1}}}"#,
        r#"{"push":{"channel":"deltas:bench/3","pub":{"data":1,"offset":1}}}"#,
        r#"{"push":{"channel":"deltas:bench/3","pub":{"data":"1"}}}"#,
        r#"{"push":{"channel":"deltas:bench/3","pub":{"data":"1","offset":0}}}"#,
    ] {
        let (found, _) = parsed(&deltas, wrong);
        assert!(
            found[0].starts_with("a publication") || found[0].starts_with("a subscription"),
            "{found:?}"
        );
    }
    let hub = signalr::SignalR::new(&settings);
    check(
        &hub,
        "{}\u{1e}{\"type\":1,\"target\":\"Events\",\"arguments\":[{\"topic\":\"bench/0\",\"position\":\"1.2\",\"first\":1,\"events\":[1,2]}]}\u{1e}{\"type\":3,\"invocationId\":\"1\",\"result\":null}\u{1e}{\"type\":6}\u{1e}",
        &["Opening", "bench/0 1,2", "Opening", "Heartbeat"],
        &["{\"type\":6}\u{1e}"],
    );
    let (found, _) =
        parsed(&hub, "{\"type\":3,\"invocationId\":\"1\",\"error\":\"forbidden\"}\u{1e}");
    assert!(found[0].contains("not a message of a hub"), "{found:?}");
    let sockjs = sockjs::SockJs::new(&settings);
    check(
        &sockjs,
        r#"a["{\"a\":\"b\",\"c\":\"d\"}","2","3"]"#,
        &[r#"{\"a\":\"b\",\"c\":\"d\"}"#, "2", "3"],
        &[],
    );
    check(&sockjs, r#"a["subscribed"]"#, &["Confirmed"], &[]);
    check(&sockjs, r#"c[3000,"Go away!"]"#, &["Close"], &[]);
    check(&primus::Primus, r#""primus::ping::17""#, &["Heartbeat"], &["\"primus::pong::17\""]);
    check(&primus::Primus, r#""xxx""#, &["xxx"], &[]);
    check(&raw::Raw, "{\"a\":1}\n{\"a\":2}", &["{\"a\":1}", "{\"a\":2}"], &[]);
    check(&raw::Raw, "{\"a\":1}", &["{\"a\":1}"], &[]);
    check(&socketio::EngineIo, "4{\"a\":1}", &["{\"a\":1}"], &[]);
    check(&socketio::EngineIo, "2", &["Heartbeat"], &["3"]);
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn every_name_in_a_subject_toml_has_its_dialect() {
    let names =
        "thalweg limit raw socketio engineio sockjs primus nats nchan centrifugo mercure signalr";
    for name in names.split(' ') {
        let text = format!("name='x'\ntitle='x'\ndialect='{name}'\ndrives=[]\ncommand=['x']\n");
        let program = Program::Peer(Box::new(Peer::read(&text, "").expect(name)));
        let dialect = new(&program, &Settings::default());
        assert_eq!(format!("{dialect:?}").to_lowercase().split(' ').next(), Some(name));
    }
}

fn external(change: impl FnOnce(&mut Typed)) -> Box<dyn Dialect> {
    let mut typed = Typed { url: "ws://h/".to_owned(), ..Typed::default() };
    change(&mut typed);
    let endpoint = Endpoint::read(&typed).expect("an endpoint");
    let settings = Settings { transport: endpoint.transport, ..Settings::default() };
    new(&Program::Url(Box::new(endpoint)), &settings)
}

#[test]
fn messages_of_an_opening_wait_for_the_replies_before_them() {
    let send = |text: &str| OpeningStep::Send(text.to_owned());
    let dialect = external(|typed| {
        typed.opening = vec![
            send("a {token}"),
            OpeningStep::expect("type=ready"),
            send("b {connection}"),
            send("c"),
            OpeningStep::expect("ok"),
            OpeningStep::expect("[1]=true"),
            send("d"),
        ];
        typed.tokens = Some(vec!["t0".to_owned(), "t1".to_owned()]);
    });
    let (mut out, mut left) = (Vec::new(), dialect.replies());
    dialect.greet(1, &mut out);
    let mut step = |message: &str| {
        if dialect.is_reply(1, left, message.as_bytes(), &mut out) {
            left -= 1;
        }
        (left, unmasked(&std::mem::take(&mut out)).join(", "), dialect.awaited(left))
    };
    let expected = |left, sent: &str, awaited: &str| {
        (left, sent.to_owned(), Some(awaited.to_owned()).filter(|text| !text.is_empty()))
    };
    assert_eq!(step("ok, ready"), expected(3, "a t1", "type=ready"));
    assert_eq!(step(r#"{"x":{"type":"ready"}}"#), expected(3, "", "type=ready"));
    assert_eq!(step(r#"{"x":1,"type":"ready"}"#), expected(2, "b 1, c", "ok"));
    assert_eq!(step("it is ok"), expected(1, "", "[1]=true"));
    assert_eq!(step("[0,false]"), expected(1, "", "[1]=true"));
    assert_eq!(step("[0,true]"), expected(0, "d", ""));
    assert_eq!(step("[0,true]"), expected(0, "", ""));
}

#[test]
fn foreign_protocols_tell_events_from_other_messages() {
    let check = |name: &str, message: &str, contents: &[&str], replies: &[&str]| {
        let dialect = external(|typed| typed.dialect = Some(name.to_owned()));
        let (found, answered) = parsed(&*dialect, message);
        assert_eq!((found, answered), (owned(contents), owned(replies)), "{name} {message}");
    };
    check("socketio", r#"42/chat,7["a",{"n":1}]"#, &[r#"["a",{"n":1}]"#], &[]);
    check("socketio", r#"0{"sid":"x"}"#, &[r#"0{"sid":"x"}"#], &[]);
    // The id of an acknowledgement is the answer's.
    check("socketio", r#"4312["a"]"#, &[r#"4312["a"]"#], &[]);
    check("socketio", "2", &["Heartbeat"], &["3"]);
    check("socketio", "41", &["ended: the server has disconnected the client"], &[]);
    check("graphql-ws", r#"{"type":"ping"}"#, &["Heartbeat"], &[r#"{"type":"pong"}"#]);
    check("graphql-ws", r#"{"id":"1","type":"complete"}"#, &["Done"], &[]);
    check("graphql-ws", r#"{"a":"complete"}"#, &[r#"{"a":"complete"}"#], &[]);
    let both = "{\"type\":1,\"arguments\":[1]}\u{1e}{\"type\":6}\u{1e}";
    let ping = "{\"type\":6}\u{1e}";
    check("signalr", both, &[r#"{"type":1,"arguments":[1]}"#, "Heartbeat"], &[ping]);
    let lines = "{\"push\":{\"pub\":{\"data\":1}}}\n{}\n{\"push\":{\"leave\":{}}}";
    let push = r#"{"push":{"pub":{"data":1}}}"#;
    check("centrifugo", lines, &[push, "Heartbeat", "Heartbeat"], &["{}"]);
}
