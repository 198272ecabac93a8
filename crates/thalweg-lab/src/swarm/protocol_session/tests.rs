use super::*;
use crate::scenario::{Endpoint, Program, Transport, Typed};
use crate::swarm::carrier::Kind;
use crate::swarm::dialect::{self, Dialect, Message};
use crate::swarm::handshake;
use crate::swarm::tests::fed::Fed;
use crate::swarm::tests::golden;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

/// An endpoint's dialect that keeps its messages.
#[derive(Debug)]
struct RecordingDialect(Box<dyn Dialect>, Rc<RefCell<Vec<String>>>);

impl Dialect for RecordingDialect {
    fn compresses(&self) -> bool {
        self.0.compresses()
    }

    fn confirms(&self) -> bool {
        self.0.confirms()
    }

    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let sent = self.0.on_message(kind, message, replies)?;
        if let (Message::Event(_, event), _) = sent {
            self.1.borrow_mut().push(String::from_utf8_lossy(event).into_owned());
        }
        Ok(sent)
    }
}

/// Offers compression where it is accepted. Returns messages, and the end: `+` is open, `-` was refused, `.` is over, `!` is
/// malformed, `?` waits for the head.
fn received(transport: Transport, bytes: &[u8], cuts: &[usize], end: Option<End>) -> Vec<String> {
    let url = if transport == Transport::Websocket { "ws://h/" } else { "http://h/" };
    let transport_name = Some(transport.to_string());
    let compress = ["gzip", "-deflate"]
        .iter()
        .any(|found| memchr::memmem::find(bytes, found.as_bytes()).is_some());
    let url = url.to_owned();
    let typed = Typed { url, transport: transport_name, compress, ..Typed::default() };
    let program = Program::Url(Box::new(Endpoint::read(&typed).unwrap()));
    let settings = Settings { transport, ..Settings::default() };
    let found = Rc::new(RefCell::new(Vec::new()));
    let recording = RecordingDialect(dialect::new(&program, &settings), Rc::clone(&found));
    let mut fed = Fed::speaking(Box::new(recording), &settings);
    for piece in golden::cut(&with_key(bytes, &fed), cuts) {
        if let Err(error) = fed.feed(piece) {
            found.borrow_mut().push(format!("!{error}"));
            return found.take();
        }
    }
    if let Some(end) = end {
        fed.end(end);
    }
    let how = match (&fed.over, fed.session.stage) {
        (Some(Over::Refused(reason)), _) => format!("-{reason}"),
        (Some(Over::Closed(how) | Over::Ended(how)), _) => format!(".{how}"),
        (Some(Over::Completed), _) => ".completed".to_owned(),
        (None, Stage::Established) => "+".to_owned(),
        (None, _) => "?".to_owned(),
    };
    found.borrow_mut().push(how);
    found.take()
}

/// The answer to the connection's key is written as A.
fn with_key(bytes: &[u8], fed: &Fed) -> Vec<u8> {
    let mut request = Vec::new();
    fed.request.first(0, &mut request);
    let request = String::from_utf8(request).unwrap();
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = handshake::accept(key.unwrap_or_default());
    match memchr::memmem::find(bytes, b"Accept: A\r\n") {
        Some(at) => [&bytes[..at + 8], accept.as_bytes(), &bytes[at + 9..]].concat(),
        None => bytes.to_vec(),
    }
}

/// Errors quote the available bytes.
fn unquoted(found: Vec<String>) -> Vec<String> {
    let is_quote = |text: &String| text.starts_with(['!', '-']);
    let cut = |text: String| text.split('"').next().unwrap_or_default().to_owned();
    found.into_iter().map(|text| if is_quote(&text) { cut(text) } else { text }).collect()
}

fn check(transport: Transport, sent: &str, end: Option<End>, expected: &[&str]) {
    let bytes = sent.as_bytes();
    assert_eq!(received(transport, bytes, &[], end), expected, "{sent:?}");
    assert_eq!(received(transport, bytes, &[1; 6000], end), expected, "{sent:?}, byte by byte");
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const LINES: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const SOCKET: &str = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: A\r\n\r\n";

#[test]
fn from_the_head_to_the_end() {
    let (fin, reset) = (Some(End::Orderly), Some(End::Reset));
    let sse = format!("{SSE}data:1\n\n:\n\ndata:2\n");
    check(Transport::Sse, &sse, None, &["1", "+"]);
    let with_connection = ".the connection was ended, and with it the answer";
    check(Transport::Sse, &sse, fin, &["1", with_connection]);
    let cut = ".the connection was reset in the middle of the answer";
    check(Transport::Sse, &sse, reset, &["1", cut]);
    let lines = format!("{LINES}1\n\n2\r\n345xyz");
    check(Transport::HttpStreaming, &lines, None, &["1", "2", "345", ".completed"]);
    let short = format!("{LINES}1\n2");
    let cut = ".the connection was ended in the middle of the answer";
    check(Transport::HttpStreaming, &short, fin, &["1", cut]);
    let chunked = format!("{CHUNKED}1\r\na\r\n3\r\nb\nc\r\n0\r\n\r\n");
    check(Transport::HttpStreaming, &chunked, None, &["ab", "c", ".completed"]);
    let until = "HTTP/1.0 200 OK\r\n\r\na\nb";
    check(Transport::HttpStreaming, until, fin, &["a", "b", with_connection]);
    let early = format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{SSE}data:1\n\n");
    check(Transport::Sse, &early, None, &["1", "+"]);
    check(Transport::Websocket, &format!("{SOCKET}\u{1}\u{1}x"), None, &["+"]);
    let cut = ".the connection was ended without a close frame (1006)";
    check(Transport::Websocket, SOCKET, fin, &[cut]);
}

#[test]
fn messages_behind_a_close_do_not_count() {
    let bytes = [SOCKET.as_bytes(), b"\x81\x011\x88\x02\x03\xe8\x81\x012"].concat();
    let found = received(Transport::Websocket, &bytes, &[], None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0] == "1" && found[1].starts_with('.'), "{found:?}");
}

#[test]
fn refusals_quote_the_body() {
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
    let reasons = received(Transport::Sse, b"SSH-2.0-x\r\n", &[], None);
    assert_eq!(reasons, ["-it sent something that is not HTTP/1.1: \"SSH-2.0-x\""]);
}

#[test]
fn malformed_messages_of_an_open_session_are_errors() {
    let bytes = [SOCKET.as_bytes(), b"\x81\x01\xff"].concat();
    let reasons = received(Transport::Websocket, &bytes, &[], None);
    assert_eq!(reasons, ["!it sent a text message that is not UTF-8 (RFC 6455 §8.1)"]);
    let reasons =
        received(Transport::HttpStreaming, format!("{CHUNKED}x\r\n").as_bytes(), &[], None);
    assert!(reasons[0].contains("for the size of a chunk"), "{reasons:?}");
}

#[test]
fn ten_thousand_interim_answers_are_no_depth() {
    let bytes = "HTTP/1.1 102 Processing\r\n\r\n".repeat(10_000) + SSE;
    assert_eq!(received(Transport::Sse, bytes.as_bytes(), &[], None), ["+"]);
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
        let end = Some(if is_reset { End::Reset } else { End::Orderly });
        for transport in [Transport::Websocket, Transport::Sse, Transport::HttpStreaming] {
            let whole = unquoted(received(transport, &bytes, &[], end));
            prop_assert_eq!(unquoted(received(transport, &bytes, &[cut], end)), whole);
        }
    }
}

/// All bytes so far can be read, and all of the body whichever way it ends.
#[test]
fn a_compressed_body_is_the_same_however_it_is_cut_and_delimited() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"data: one\n\n").unwrap();
    gzip.flush().unwrap();
    let first = gzip.get_ref().len();
    gzip.write_all(b"data: two\n\n:life\n").unwrap();
    let body = gzip.finish().unwrap();
    let with_head = |more: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\
             {more}\r\n"
        );
        [head.as_bytes(), body].concat()
    };
    let chunk =
        |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let chunks = [chunk(&body[..first]), chunk(&body[first..]), b"0\r\n\r\n".to_vec()].concat();
    for (bytes, end) in [
        (with_head("Transfer-Encoding: chunked\r\n", &chunks), "completed"),
        (with_head(&format!("Content-Length: {}\r\n", body.len()), &body), "completed"),
        (with_head("", &body), ENDED_WITH_CONNECTION),
    ] {
        let end = format!(".{end}");
        golden::cut_everywhere(&bytes, |pieces| {
            let cuts: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
            let found = received(Transport::Sse, &bytes, &cuts, Some(End::Orderly));
            assert_eq!(found, ["one", "two", &end]);
        });
    }
    let begun = with_head("", &body[..first]);
    assert_eq!(received(Transport::Sse, &begun, &[], None), ["one", "+"]);
}

/// RFC 7692 §7.2.3.1, after a handshake that agrees on it.
#[test]
fn messages_of_a_websocket_are_inflated_if_that_was_agreed_on() {
    let head = b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: A\r\nSec-WebSocket-Extensions: permessage-deflate; \
        server_no_context_takeover\r\n\r\n";
    let hello = b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\x81\x02hi";
    let bytes = [&head[..], hello].concat();
    for cut in 0..bytes.len() {
        let found = received(Transport::Websocket, &bytes, &[cut], None);
        assert_eq!(found, ["Hello", "hi", "+"], "{cut}");
    }
}
