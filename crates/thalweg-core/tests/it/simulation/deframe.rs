//! Takes frames apart. It shares no code with the server's.

use std::io::BufRead;

use thalweg_wire::{Format, Framing, format::Compression};

use super::{
    chunks::{Chunk, chunk, is_chunked},
    conditions::is_signalr,
    inflate::{Inflated, gzip_frame, is_alone, message},
};

#[derive(Debug)]
pub(super) enum Frame {
    /// A message. Server-Sent Events have an `event` and an `id`.
    Message {
        event: Option<String>,
        json: String,
        id: Option<String>,
    },
    Pong(Vec<u8>),
    Close {
        code: u16,
        reason: String,
    },
    /// The last chunk of a response.
    End,
}

pub(super) struct Deframed {
    pub(super) frame: Frame,
    /// Bytes after which its peer knows its message.
    pub(super) told: usize,
    pub(super) len: usize,
    pub(super) is_compressed: bool,
    pub(super) stream: Option<u32>,
    /// The text that later frames may refer to, if it is inflated.
    pub(super) text: Vec<u8>,
    /// Whether it refers to text before it.
    pub(super) refers: bool,
}

impl Deframed {
    fn whole(frame: Frame, len: usize) -> Self {
        Self {
            frame,
            told: len,
            len,
            is_compressed: false,
            stream: None,
            text: Vec::new(),
            refers: false,
        }
    }
}

/// Returns the frame at the front of `bytes`, which may refer to the inflated text `before`. `None` while it is incomplete. Panics
/// if no frame can begin so.
pub(super) fn deframe(format: Format, bytes: &[u8], before: &[u8]) -> Option<Deframed> {
    let chunked = is_chunked(format);
    let deframed =
        if chunked { in_chunks(format, bytes, before) } else { in_stream(format, bytes, before) };
    let mut deframed = deframed?;
    if let Frame::Message { json, .. } = &mut deframed.frame
        && is_signalr(format)
    {
        let (own, stream) = hub_message(json);
        (*json, deframed.stream) = (own.to_owned(), stream);
    }
    Some(deframed)
}

/// Returns the message of the own protocol that a message of SignalR wraps, and the stream that it is an item of.
fn hub_message(text: &str) -> (&str, Option<u32>) {
    // Answers of the simulation are not of the protocol.
    let Some(text) = text.strip_suffix('\u{1e}') else { return (text, None) };
    let (record, completion) = text.split_once('\u{1e}').unwrap_or((text, ""));
    if record == r#"{"type":6}"# {
        return (r#"{"heartbeat":{}}"#, None);
    }
    if let Some(item) = record.strip_prefix(r#"{"type":2,"invocationId":""#) {
        let (id, item) = item.split_once(r#"","item":"#).expect("an item");
        let item = item.strip_suffix('}').expect("the end of an item");
        let completed = format!(r#"{{"type":3,"invocationId":"{id}""#);
        assert_eq!(
            completion.starts_with(&completed),
            item.contains(r#","end":{"code":"#),
            "{text}"
        );
        return (item, Some(id.parse().expect("a number")));
    }
    let invocation = record.strip_prefix(r#"{"type":1,"target":""#).expect("an invocation");
    let (target, object) = invocation.split_once(r#"","arguments":["#).expect("arguments");
    let object = object.strip_suffix("]}").expect("one argument");
    assert!(["Events", "Gap", "End"].contains(&target) && completion.is_empty(), "{text}");
    (object, None)
}

/// A frame that is a chunk, or two if the second is the connection's own.
fn in_chunks(format: Format, bytes: &[u8], before: &[u8]) -> Option<Deframed> {
    let Chunk { data, data_at, len } = chunk(bytes)?;
    if data.is_empty() {
        return Some(Deframed::whole(Frame::End, len));
    }
    if let Some(deframed) = in_stream(format, data, before) {
        assert_eq!(deframed.len, data.len(), "a chunk of more than a frame");
        return Some(Deframed { told: data_at + deframed.told, len, ..deframed });
    }
    assert!(format.has_trailer(), "a chunk of less than a frame: {}", data.escape_ascii());
    let shared = (data, len);
    let Chunk { data, data_at, len } = chunk(&bytes[shared.1..])?;
    let both = [shared.0, data].concat();
    let deframed = in_stream(format, &both, before).expect("a frame with its own ending");
    assert_eq!(deframed.len, both.len(), "more than a frame in two chunks");
    let told = shared.1 + data_at + (deframed.told - shared.0.len());
    Some(Deframed { told, len: shared.1 + len, ..deframed })
}

fn in_stream(format: Format, bytes: &[u8], before: &[u8]) -> Option<Deframed> {
    match (format.compression(), format.framing()) {
        (Compression::None, _) => {
            let (frame, len) = plain(format.framing(), bytes)?;
            Some(Deframed::whole(frame, len))
        }
        (compression, Framing::WebSocket) if bytes.first() == Some(&0xc1) => {
            let (payload, len) = websocket_payload(bytes)?;
            let text = message(payload, before).expect("a message refers to other text");
            let is_smaller = payload.len() < text.len();
            // With a context a larger message is compressed, too: it becomes part of the context.
            assert!(is_smaller || compression != Compression::Deflate, "not smaller");
            let frame = Frame::Message { event: None, json: utf8(&text).into(), id: None };
            let refers = message(payload, &[]).is_none();
            let whole = Deframed::whole(frame, len);
            Some(Deframed { is_compressed: is_smaller, text, refers, ..whole })
        }
        (_, Framing::WebSocket) => {
            let (frame, len) = plain(format.framing(), bytes)?;
            Some(Deframed::whole(frame, len))
        }
        (_, Framing::Ndjson) => gzip(bytes, b"\n", before, line_message),
        (_, _) => gzip(bytes, b"\n\n", before, sse),
    }
}

fn plain(framing: Framing, bytes: &[u8]) -> Option<(Frame, usize)> {
    match framing {
        Framing::WebSocket => websocket(bytes),
        Framing::Sse | Framing::SseMany => sse(bytes),
        Framing::Ndjson => line_message(bytes),
        Framing::ForeverFrame => script(bytes),
        Framing::ArrowMessages => panic!("read by columns"),
        Framing::SseData | Framing::Bare => panic!("not simulated"),
    }
}

/// A frame of a gzip stream, whose text has an end and is read by `read`.
fn gzip(
    bytes: &[u8],
    end: &[u8],
    before: &[u8],
    read: impl FnOnce(&[u8]) -> Option<(Frame, usize)>,
) -> Option<Deframed> {
    let inflated = gzip_frame(bytes, end, before)?;
    let (frame, text_len) = read(&inflated.text).expect("a whole frame");
    assert_eq!(text_len, inflated.text.len(), "blocks of more than one frame");
    let Inflated { text, told, len, is_stored } = inflated;
    let refers = !is_alone(&bytes[..len]);
    let whole = Deframed::whole(frame, len);
    Some(Deframed { told, is_compressed: !is_stored, text, refers, ..whole })
}

pub(super) const NONCE: &str = "n0nce";

/// A script, from its call to the opening tag of the next one.
fn script(bytes: &[u8]) -> Option<(Frame, usize)> {
    let statement = line(bytes)?;
    let text =
        statement.strip_prefix("receive('").and_then(|rest| rest.strip_suffix("')</script>"));
    let text = text.unwrap_or_else(|| panic!("{statement} is no script"));
    assert!(!text.contains(['<', '\u{2028}', '\u{2029}']), "markup in {text}");
    let opening = format!("<script nonce=\"{NONCE}\">");
    let rest = &bytes[statement.len() + 1..];
    let is_opened = rest.len() >= opening.len();
    let shown = rest.len().min(opening.len());
    assert_eq!(utf8(&rest[..shown]), &opening[..shown], "no next script");
    let unescaped = text.replace(r"\\", "").replace(r"\'", "");
    assert!(!unescaped.contains('\''), "the string ends early in {text}");
    // Its escapes are those of JSON but for one.
    let json = text.replace(r"\'", "'").replace('"', r#"\""#);
    let json: String = serde_json::from_str(&format!("\"{json}\"")).expect("a string");
    let len = statement.len() + 1 + opening.len();
    is_opened.then_some((Frame::Message { event: None, json, id: None }, len))
}

fn line_message(bytes: &[u8]) -> Option<(Frame, usize)> {
    let json = line(bytes)?;
    Some((Frame::Message { event: None, json: json.into(), id: None }, json.len() + 1))
}

fn websocket(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (payload, len) = websocket_payload(bytes)?;
    let frame = match bytes[0] {
        0x81 => Frame::Message { event: None, json: utf8(payload).into(), id: None },
        0x88 => {
            let (code, reason) = payload.split_first_chunk().expect("a close code");
            Frame::Close { code: u16::from_be_bytes(*code), reason: utf8(reason).into() }
        }
        0x8a => Frame::Pong(payload.into()),
        other => panic!("no frame of the server's begins with {other:#x}"),
    };
    Some((frame, len))
}

/// Returns the payload of the frame at the front of `bytes`, and the frame's length.
fn websocket_payload(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let [_, second, rest @ ..] = bytes else { return None };
    let (payload_len, rest) = match *second {
        len @ 0..126 => (u64::from(len), rest),
        126 => {
            let (len, rest) = rest.split_first_chunk()?;
            let len = u16::from_be_bytes(*len);
            assert!(len >= 126, "a length of {len} in two bytes");
            (u64::from(len), rest)
        }
        127 => {
            let (len, rest) = rest.split_first_chunk()?;
            let len = u64::from_be_bytes(*len);
            assert!(len >= 0x1_0000, "a length of {len} in eight bytes");
            (len, rest)
        }
        masked => panic!("{masked:#x} for a length: the frame is masked"),
    };
    let payload = rest.get(..payload_len as usize)?;
    Some((payload, bytes.len() - rest.len() + payload.len()))
}

fn sse(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (mut event, mut json, mut id) = (None, None, None);
    let mut len = 0;
    loop {
        let line = line(&bytes[len..])?;
        len += line.len() + 1;
        let Some((field, value)) = line.split_once(':') else {
            assert_eq!(line, "", "neither a field nor the end of an event");
            // Several clients dispatch a block without data as an empty event.
            let json = json.expect("a block has data");
            return Some((Frame::Message { event, json, id }, len));
        };
        let field = match field {
            "event" => &mut event,
            "data" => &mut json,
            "id" => &mut id,
            other => panic!("a field {other:?}"),
        };
        assert_eq!(field.replace(value.to_owned()), None, "a field twice");
    }
}

fn line(bytes: &[u8]) -> Option<&str> {
    let mut rest = bytes;
    let len = rest.skip_until(b'\n').expect("memory can be read");
    let line = bytes[..len].strip_suffix(b"\n")?;
    assert!(!line.contains(&b'\r'), "a carriage return in a line");
    Some(utf8(line))
}

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}
