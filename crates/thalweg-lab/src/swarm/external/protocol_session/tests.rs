use super::*;
use crate::scenario::Transport;
use proptest::prelude::*;

fn said(incoming: Incoming<'_>) -> Option<String> {
    match incoming {
        Incoming::Message(_, payload) => Some(String::from_utf8_lossy(payload).into_owned()),
        Incoming::SignOfLife => Some("sign".to_owned()),
        Incoming::Ping(_) => Some("ping".to_owned()),
        Incoming::Close(_) => None,
    }
}

/// What was received, and how it ended: `+` is open, `-` was refused, `.` is over,
/// `!` is malformed, `?` waits for the head.
fn received<'a>(
    transport: Transport,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    end: Option<End>,
) -> Vec<String> {
    let wanted = Wanted { transport, accept: "A".to_owned(), subprotocol: None };
    let (mut session, mut found) = (ProtocolSession::new(wanted), Vec::new());
    let (mut opened, mut carried) = (0, Vec::new());
    for piece in pieces {
        carried.extend_from_slice(piece);
        match session.receive(&carried, |incoming| found.extend(said(incoming))) {
            Ok(used) => drop(carried.drain(..used)),
            Err(error) => {
                found.push(format!("!{error}"));
                return found;
            }
        }
        opened += i32::from(session.take_opened().is_some());
    }
    if let Some(end) = end {
        session.end(end, |incoming| found.extend(said(incoming)));
    }
    assert_eq!(opened, i32::from(session.is_open() || session.ended().is_some()));
    found.push(match (session.refused(), session.ended()) {
        (Some(reason), _) => format!("-{reason}"),
        (_, Some(how)) => format!(".{how}"),
        _ => if session.is_open() { "+" } else { "?" }.to_owned(),
    });
    found
}

/// What is quoted of something malformed is what was there of it.
fn unquoted(found: Vec<String>) -> Vec<String> {
    let is_quote = |text: &String| text.starts_with(['!', '-']);
    let cut = |text: String| text.split('"').next().unwrap_or_default().to_owned();
    found.into_iter().map(|text| if is_quote(&text) { cut(text) } else { text }).collect()
}

fn check(transport: Transport, said: &str, end: Option<End>, expected: &[&str]) {
    let bytes = said.as_bytes();
    assert_eq!(received(transport, [bytes], end), expected, "{said:?}");
    assert_eq!(received(transport, bytes.chunks(1), end), expected, "{said:?}, byte by byte");
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const LINES: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const SOCKET: &str = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: A\r\n\r\n";

#[test]
fn from_the_head_to_the_end() {
    let (fin, reset) = (Some(End::Orderly), Some(End::Reset));
    let sse = format!("{SSE}data:1\n\n:\n\ndata:2\n");
    check(Transport::Sse, &sse, None, &["1", "sign", "+"]);
    check(Transport::Sse, &sse, fin, &["1", "sign", ".the answer was over"]);
    let cut = ".the connection was reset in the middle of the answer";
    check(Transport::Sse, &sse, reset, &["1", "sign", cut]);
    let lines = format!("{LINES}1\n\n2\r\n345xyz");
    check(
        Transport::HttpStreaming,
        &lines,
        None,
        &["1", "sign", "2", "345", ".the answer was over"],
    );
    let short = format!("{LINES}1\n2");
    let cut = ".the connection was ended in the middle of the answer";
    check(Transport::HttpStreaming, &short, fin, &["1", cut]);
    let chunked = format!("{CHUNKED}1\r\na\r\n3\r\nb\nc\r\n0\r\n\r\n");
    check(Transport::HttpStreaming, &chunked, None, &["ab", "c", ".the answer was over"]);
    let until = "HTTP/1.0 200 OK\r\n\r\na\nb";
    check(Transport::HttpStreaming, until, fin, &["a", "b", ".the answer was over"]);
    let early = format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{SSE}data:1\n\n");
    check(Transport::Sse, &early, None, &["1", "+"]);
    check(Transport::Websocket, &format!("{SOCKET}\u{1}\u{1}x"), None, &["+"]);
    let cut = ".the connection was ended without a close frame (1006)";
    check(Transport::Websocket, SOCKET, fin, &[cut]);
}

#[test]
fn refusals_say_what_the_body_says() {
    let fin = Some(End::Orderly);
    let full = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 26\r\n\r\n\n too many connections \nxyz";
    check(Transport::Sse, full, None, &["-503 Service Unavailable: too many connections"]);
    let bare = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    check(Transport::Websocket, bare, None, &["-403 Forbidden"]);
    let until = "HTTP/1.1 404 Not Found\r\n\r\nno such";
    check(Transport::Sse, until, None, &["?"]);
    check(Transport::Sse, until, fin, &["-404 Not Found: no such"]);
    let chunked = CHUNKED.replace("200 OK", "401 Unauthorized") + "5\r\ntoken\r\n0\r\n\r\n";
    check(Transport::Sse, &chunked, None, &["-401 Unauthorized: token"]);
    let long = format!("HTTP/1.1 500 Oh\r\n\r\n{}", "x".repeat(REASON_BYTES_MAX + 7));
    check(Transport::Sse, &long, None, &[&format!("-500 Oh: {}", "x".repeat(200))]);
    check(Transport::Sse, "", fin, &["-the connection was ended before there was an answer"]);
    let heard = received(Transport::Sse, [&b"SSH-2.0-x\r\n"[..]], None);
    assert_eq!(heard, ["-it sent something that is not HTTP/1.1: \"SSH-2.0-x\""]);
}

#[test]
fn what_is_malformed_once_it_is_open_is_an_error() {
    let bytes = [SOCKET.as_bytes(), b"\x81\x01\xff"].concat();
    let heard = received(Transport::Websocket, [&bytes[..]], None);
    assert_eq!(heard, ["!it sent a text message that is not UTF-8 (RFC 6455 §8.1)"]);
    let heard = received(Transport::HttpStreaming, [CHUNKED.as_bytes(), b"x\r\n"], None);
    assert!(heard[0].contains("for the size of a chunk"), "{heard:?}");
}

#[test]
fn ten_thousand_interim_answers_are_no_depth() {
    let bytes = "HTTP/1.1 102 Processing\r\n\r\n".repeat(10_000) + SSE;
    assert_eq!(received(Transport::Sse, [bytes.as_bytes()], None), ["+"]);
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_and_cuts_change_nothing(
        head in prop::sample::select(vec![SSE, LINES, CHUNKED, SOCKET, "HTTP/1.1 500 X\r\n\r\n"]),
        rest in prop::collection::vec(prop_oneof![
            any::<u8>(), prop::sample::select(b"data:\r\n01a\x81\x01\x80".to_vec()),
        ], 0..100),
        cut in 0usize..200,
        is_reset in any::<bool>(),
    ) {
        let bytes = [head.as_bytes(), &rest[..]].concat();
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        let end = Some(if is_reset { End::Reset } else { End::Orderly });
        for transport in [Transport::Websocket, Transport::Sse, Transport::HttpStreaming] {
            let whole = unquoted(received(transport, [&bytes[..]], end));
            prop_assert_eq!(unquoted(received(transport, [first, second], end)), whole);
        }
    }
}
