use super::*;
use crate::swarm::tests::golden;
use proptest::prelude::*;

const ALL: [Transport; 4] =
    [Transport::Websocket, Transport::Sse, Transport::HttpStreaming, Transport::ForeverFrame];

fn described(incoming: Incoming<'_>) -> Result<String, CarrierError> {
    let text = match incoming {
        Incoming::Message(Kind::Text, payload) => {
            let text = String::from_utf8_lossy(payload).replace('\r', "\\r");
            format!("text {}", text.replace('\n', "\\n"))
        }
        Incoming::Message(Kind::Binary, payload) => format!("binary {}", payload.escape_ascii()),
        Incoming::Ping(payload) => format!("ping {}", payload.escape_ascii()),
        Incoming::SignOfLife => "sign of life".to_owned(),
        Incoming::Close(payload) => format!("close {}", websocket::close_reason(payload)?),
    };
    Ok(text.trim_end().to_owned())
}

/// Messages of a connection, which carries over incomplete bytes, and errors. Pieces must give the same.
pub(super) fn received(transport: Transport, pieces: &[&[u8]]) -> Vec<String> {
    received_by(false, transport, pieces)
}

fn received_by(inflates: bool, transport: Transport, pieces: &[&[u8]]) -> Vec<String> {
    let inflate = || inflates.then(|| Box::new(deflate::Inflate::Alone));
    let decoder = || Decoder { inflate: inflate(), ..Decoder::default() };
    let (mut found, mut carried) = (Vec::new(), Vec::new());
    let (mut again, mut piece_decoder) =
        (Vec::new(), PieceDecoder { decoder: decoder(), ..PieceDecoder::default() });
    let mut decoder = decoder();
    let mut is_closed = false;
    for piece in pieces {
        if is_closed {
            break;
        }
        carried.extend_from_slice(piece);
        let used = decoder.decode(transport, &carried, |incoming| {
            is_closed = matches!(incoming, Incoming::Close(_));
            found.push(described(incoming)?);
            Ok::<_, CarrierError>(())
        });
        let taken = piece_decoder.decode(transport, piece, |incoming| {
            again.push(described(incoming)?);
            Ok::<_, CarrierError>(())
        });
        assert_eq!(taken.as_ref().err(), used.as_ref().err());
        match used {
            Ok(used) => drop(carried.drain(..used)),
            Err(error) => {
                found.push(format!("error {error}"));
                return found;
            }
        }
        assert_eq!(carried, piece_decoder.rest());
    }
    assert_eq!(found, again);
    if transport == Transport::HttpStreaming {
        found.extend(lines::last(&carried).map(|last| described(last).unwrap()));
    }
    found
}

#[test]
fn golden_streams() {
    golden::check("websocket", |pieces| received(Transport::Websocket, pieces));
    golden::check("deflate", |pieces| received_by(true, Transport::Websocket, pieces));
    golden::check("sse", |pieces| received(Transport::Sse, pieces));
    golden::check("lines", |pieces| received(Transport::HttpStreaming, pieces));
}

#[test]
fn waiting_carriers_are_small_and_hold_no_buffer() {
    assert!(size_of::<Decoder>() <= 24, "{}", size_of::<Decoder>());
    let nothing = |_: Incoming<'_>| Ok::<_, CarrierError>(());
    let mut decoder = Decoder::default();
    decoder.decode(Transport::Websocket, b"\x01\x01a\x00\x01b", nothing).unwrap();
    assert!(decoder.partial.is_some());
    decoder.decode(Transport::Websocket, b"\x80\x01c", nothing).unwrap();
    assert!(decoder.partial.is_none(), "a message that was handed on is gone");
}

#[test]
fn responses_without_an_end_are_refused() {
    let endless = vec![b'x'; MESSAGE_BYTES_MAX + 1];
    for transport in &ALL[1..] {
        let decode = |bytes| Decoder::default().decode(*transport, bytes, |_| Ok(()));
        assert_eq!(decode(&endless), Err(too_long()), "{transport}");
        assert!(decode(&endless[1..]).is_ok(), "{transport}");
    }
    // As soon as it is announced.
    let announced = |begun: &[u8], first: u8, bytes: u64| {
        let head = [begun, &[first, 127], &bytes.to_be_bytes()].concat();
        Decoder::default().decode(Transport::Websocket, &head, |_| Ok(()))
    };
    let most = MESSAGE_BYTES_MAX as u64;
    assert_eq!(announced(b"", 0x81, 1 << 60), Err(too_long()));
    assert_eq!(announced(b"", 0x81, most + 1), Err(too_long()));
    assert_eq!(announced(b"", 0x81, most), Ok(0));
    assert_eq!(announced(b"\x01\x01a", 0x80, most), Err(too_long()));
    // In many lines, too.
    let line = [b"data:", &endless[..MESSAGE_BYTES_MAX / 2], b"\n"].concat();
    let mut decoder = PieceDecoder::default();
    let mut more = || decoder.decode(Transport::Sse, &line, |_| Ok(()));
    assert_eq!((more(), more(), more()), (Ok(()), Err(too_long()), Err(too_long())));
}

/// Messages as the subject frames them.
fn frames(transport: Transport, messages: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        let framed = match transport {
            Transport::Websocket => websocket::tests::frame(0x81, message.as_bytes()),
            Transport::Sse => format!("data:{message}\nid:1.7\n\n").into_bytes(),
            Transport::HttpStreaming | Transport::LongPolling => {
                format!("{message}\n").into_bytes()
            }
            Transport::ForeverFrame => {
                format!("<script>receive('{message}')</script>\n").into_bytes()
            }
        };
        bytes.extend(framed);
    }
    bytes
}

/// The standard's algorithm, step by step, on a stream of SSE that is over.
fn naive(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    // Text after the last line's end is not a line.
    lines.pop();
    let (mut events, mut data) = (Vec::new(), String::new());
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                let text = Incoming::Message(Kind::Text, data.as_bytes());
                events.push(described(text).unwrap());
                data.clear();
            }
        } else if field.is_empty() {
            events.push("sign of life".to_owned());
        } else if field == "data" {
            data.push_str(value);
            data.push('\n');
        }
    }
    events
}

proptest! {
    #[test]
    fn cuts_anywhere_change_nothing(
        messages in prop::collection::vec("[a-z\\[\\],{}\":0-9]{1,300}", 1..20),
        cuts in prop::collection::vec(0usize..97, 0..100),
    ) {
        let expected: Vec<_> = messages.iter().map(|message| format!("text {message}")).collect();
        for transport in ALL {
            let bytes = frames(transport, &messages);
            prop_assert_eq!(&received(transport, &golden::cut(&bytes, &cuts)), &expected);
        }
    }

    #[test]
    fn any_bytes_are_an_answer_and_cuts_change_nothing(
        bytes in prop::collection::vec(prop_oneof![
            any::<u8>(),
            prop::sample::select(vec![0x81, 0x01, 0x80, 0x89, 0x88, 0, 1, 2, 126]),
            prop::sample::select(b"data:\r\n ".to_vec()),
        ], 0..200),
        cuts in prop::collection::vec(0usize..97, 0..9),
    ) {
        for transport in ALL {
            let whole = received(transport, &[&bytes]);
            prop_assert_eq!(received(transport, &golden::cut(&bytes, &cuts)), whole);
        }
    }

    #[test]
    fn sse_is_the_standards_algorithm(
        text in "(\u{FEFF})?(data|data:|data: |:|id: 1|event:x|retry|é|a|\r|\n|\r\n|\n\n){0,40}",
        cuts in prop::collection::vec(0usize..9, 0..60),
    ) {
        let bytes = text.as_bytes();
        let expected = naive(bytes);
        prop_assert_eq!(&received(Transport::Sse, &[bytes]), &expected);
        prop_assert_eq!(&received(Transport::Sse, &golden::cut(bytes, &cuts)), &expected);
    }
}
