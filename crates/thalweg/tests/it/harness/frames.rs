//! HTTP/2 frame by frame (RFC 9113 §4), also invalid frames.

use super::Raw;

/// RFC 9113 §3.4.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 §6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) mod flag {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
}

#[derive(Debug)]
pub(crate) struct H2Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl H2Frame {
    /// Returns the error code of a `RST_STREAM` or `GOAWAY` (RFC 9113 §7).
    pub(crate) fn error(&self) -> u32 {
        let at = if self.kind == kind::GOAWAY { 4 } else { 0 };
        let bytes = self.payload[at..at + 4].try_into().expect("an error code");
        u32::from_be_bytes(bytes)
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes headers as literals without indexing (RFC 7541 §6.2.2).
pub(crate) fn hpack(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            push_length(text.len(), &mut block);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// RFC 7541 §5.1, with a prefix of 7 bits.
fn push_length(length: usize, out: &mut Vec<u8>) {
    if length < 127 {
        return out.push(length as u8);
    }
    out.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// A connection after the preface.
#[derive(Debug)]
pub(crate) struct H2 {
    pub(crate) raw: Raw,
}

impl H2 {
    /// Sends the preface with settings: identifier and value (RFC 9113 §6.5.1).
    pub(crate) fn start(mut raw: Raw, settings: &[(u16, u32)]) -> Self {
        raw.send(PREFACE);
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            payload.extend_from_slice(&identifier.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        raw.send(frame(kind::SETTINGS, flag::NONE, 0, payload));
        Self { raw }
    }

    /// Sends a frame. Returns whether the connection accepted it.
    pub(crate) fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        data: impl AsRef<[u8]>,
    ) -> bool {
        self.raw.send(frame(kind, flags, stream, data))
    }

    pub(crate) fn get(&mut self, stream: u32, path: &str, headers: &[(&str, &str)]) -> bool {
        let block = [Self::head("GET", path), hpack(headers)].concat();
        self.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, block)
    }

    pub(crate) fn head(method: &str, path: &str) -> Vec<u8> {
        hpack(&[
            (":method", method),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", path),
        ])
    }

    pub(crate) fn next(&mut self) -> Option<H2Frame> {
        let head = self.raw.exact(9, "the head of a frame")?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.raw.exact(length, "the payload of a frame")?;
        Some(H2Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Returns the next frame that matches. It answers other frames if required.
    pub(crate) fn until(&mut self, is_it: impl Fn(&H2Frame) -> bool) -> Option<H2Frame> {
        loop {
            let frame = self.next()?;
            if is_it(&frame) {
                return Some(frame);
            }
            match frame.kind {
                kind::SETTINGS | kind::PING if frame.flags & flag::ACK == 0 => {
                    let echoed: &[u8] = if frame.kind == kind::PING { &frame.payload } else { &[] };
                    self.send(frame.kind, flag::ACK, 0, echoed);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn until_kind(&mut self, kind: u8) -> Option<H2Frame> {
        self.until(|frame| frame.kind == kind)
    }

    pub(crate) fn body(&mut self, stream: u32) -> String {
        let mut body = Vec::new();
        loop {
            let frame =
                self.until(|frame| frame.stream == stream).expect("the stream's next frame");
            assert_ne!(frame.kind, kind::RST_STREAM, "stream {stream}: {frame:?}");
            if frame.kind == kind::DATA {
                body.extend_from_slice(&frame.payload);
            }
            let ends = frame.flags & flag::END_STREAM != 0;
            if ends && matches!(frame.kind, kind::DATA | kind::HEADERS) {
                return String::from_utf8_lossy(&body).into_owned();
            }
        }
    }

    /// Returns the error code with which the server closed the connection, if there is one.
    pub(crate) fn ended_with(&mut self) -> Option<u32> {
        self.until_kind(kind::GOAWAY).map(|frame| frame.error())
    }
}
