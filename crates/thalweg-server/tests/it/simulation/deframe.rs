//! Frames taken apart, by means of their own: nothing here is shared with what
//! makes them.

use std::{borrow::Cow, io::BufRead};

use thalweg_wire::Framing;

/// One frame as its peer reads it.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    /// A message; for Server-Sent Events with its `event` and `id`.
    Message { event: Option<&'a str>, json: Cow<'a, str>, id: Option<&'a str> },
    /// An `id` without an event.
    Id(&'a str),
    /// A WebSocket's pong.
    Pong(&'a [u8]),
    /// A WebSocket's close.
    Close { code: u16, reason: &'a str },
}

/// The frame at the front of `bytes` and its length; `None` while it is not
/// complete. Panics where no frame can begin so.
pub(super) fn deframe(framing: Framing, bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    match framing {
        Framing::WebSocket => websocket(bytes),
        Framing::Sse | Framing::SseMany => sse(bytes),
        Framing::Ndjson => {
            let json = line(bytes)?;
            Some((Frame::Message { event: None, json: json.into(), id: None }, json.len() + 1))
        }
        Framing::ForeverFrame => script(bytes),
        compressed => unreachable!("{compressed:?} is not simulated"),
    }
}

/// The nonce of every document.
pub(super) const NONCE: &str = "n0nce";

/// From its call to the opening tag of the next one.
fn script(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let statement = line(bytes)?;
    let json = statement.strip_prefix("receive(").and_then(|rest| rest.strip_suffix(")</script>"));
    let json = json.unwrap_or_else(|| panic!("{statement} is no script"));
    assert!(!json.contains(['<', '\u{2028}', '\u{2029}']), "markup in {json}");
    let opening = format!("<script nonce=\"{NONCE}\">");
    let rest = &bytes[statement.len() + 1..];
    let is_opened = rest.len() >= opening.len();
    let shown = rest.len().min(opening.len());
    assert_eq!(utf8(&rest[..shown]), &opening[..shown], "no next script");
    // No payload holds an escape of its own.
    let json = json.replace(r"\u003c", "<").replace(r"\u2028", "\u{2028}").into();
    let len = statement.len() + 1 + opening.len();
    is_opened.then_some((Frame::Message { event: None, json, id: None }, len))
}

fn websocket(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let [first, second, rest @ ..] = bytes else { return None };
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
    let header_len = bytes.len() - rest.len();
    let frame = match first {
        0x81 => Frame::Message { event: None, json: utf8(payload).into(), id: None },
        0x88 => {
            let (code, reason) = payload.split_first_chunk().expect("a close code");
            Frame::Close { code: u16::from_be_bytes(*code), reason: utf8(reason) }
        }
        0x8a => Frame::Pong(payload),
        other => panic!("no frame of the server's begins with {other:#x}"),
    };
    Some((frame, header_len + payload.len()))
}

fn sse(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let (mut event, mut json, mut id) = (None, None, None);
    let mut len = 0;
    loop {
        let line = line(&bytes[len..])?;
        len += line.len() + 1;
        let Some((field, value)) = line.split_once(':') else {
            assert_eq!(line, "", "neither a field nor the end of an event");
            let frame = match (json, id) {
                (Some(json), id) => Frame::Message { event, json: Cow::Borrowed(json), id },
                (None, Some(id)) => Frame::Id(id),
                (None, None) => panic!("an event with nothing"),
            };
            return Some((frame, len));
        };
        let field = match field {
            "event" => &mut event,
            "data" => &mut json,
            "id" => &mut id,
            other => panic!("a field {other:?}"),
        };
        assert_eq!(field.replace(value), None, "a field twice");
    }
}

/// The line at the front of `bytes`, without its end.
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
