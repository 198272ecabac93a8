//! HTTP/2 (RFC 9113) as far as a subscriber needs it: frames in, requests and control frames out. Header compression (RFC 7541)
//! has no dynamic table in either direction.

use super::{CarrierError, wrong};

const FRAME_HEAD_BYTES: usize = 9;
/// Default limit of a peer's frames (SETTINGS_MAX_FRAME_SIZE, §6.5.2).
const FRAME_BYTES_MAX: usize = 16 * 1024;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Initial size of every flow-control window (§6.9.2).
const WINDOW_BYTES_AT_FIRST: u32 = 65_535;
/// Flow-control windows of a stream and of a connection. They are as large as a browser's, because the lab measures the
/// subject, not its wait for a window.
pub(in crate::swarm) const STREAM_WINDOW_BYTES: u32 = 6 << 20;
pub(in crate::swarm) const CONNECTION_WINDOW_BYTES: u32 = 15 << 20;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const GOAWAY: u8 = 0x7;
const WINDOW_UPDATE: u8 = 0x8;

const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITISED: u8 = 0x20;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::swarm) enum Frame<'a> {
    /// The answer's status.
    Status { stream: u32, status: u16, is_end: bool },
    /// Part of the answer's body, which uses `window_bytes` of the windows.
    Data { stream: u32, bytes: &'a [u8], window_bytes: u32, is_end: bool },
    /// The stream is over, with this error (§7).
    Reset { stream: u32, error: u32 },
    /// How many streams may be open at once, if stated. Requires an ack.
    Settings { streams_max: Option<u32> },
    /// Requires an answer with the same eight bytes.
    Ping([u8; 8]),
    /// The connection will end, with this error.
    GoAway { error: u32 },
    /// Needs no action.
    Nothing,
}

/// Returns the frame at the beginning of the bytes, and its length; `None` while it is incomplete.
#[inline]
pub(in crate::swarm) fn frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, CarrierError> {
    let Some((head, rest)) = bytes.split_first_chunk::<FRAME_HEAD_BYTES>() else {
        return Ok(None);
    };
    let &[a, b, c, kind, flags, s0, s1, s2, s3] = head;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    let stream = u32::from_be_bytes([s0 & 0x7F, s1, s2, s3]);
    if length > FRAME_BYTES_MAX {
        return Err(wrong("an HTTP/2 frame over 16 KiB (RFC 9113 §4.2)"));
    }
    let Some(payload) = rest.get(..length) else {
        return Ok(None);
    };
    let frame = match kind {
        DATA => Frame::Data {
            stream,
            bytes: unpadded(payload, flags)?,
            window_bytes: length as u32,
            is_end: flags & END_STREAM != 0,
        },
        HEADERS => {
            if flags & END_HEADERS == 0 {
                return Err(wrong("an answer's head in several HTTP/2 frames"));
            }
            let block = unpadded(payload, flags)?;
            let block = if flags & PRIORITISED != 0 { block.get(5..) } else { Some(block) };
            let status = block.and_then(status).ok_or(wrong("a head without :status"))?;
            Frame::Status { stream, status, is_end: flags & END_STREAM != 0 }
        }
        RST_STREAM => Frame::Reset { stream, error: number(payload)? },
        SETTINGS if flags & ACK == 0 => Frame::Settings { streams_max: streams_max(payload) },
        PING if flags & ACK == 0 => {
            let bytes = payload.try_into();
            Frame::Ping(bytes.map_err(|_| wrong("a ping of other than eight bytes"))?)
        }
        GOAWAY => Frame::GoAway { error: number(payload.get(4..).unwrap_or_default())? },
        // Acks, updates of windows, and unknown frames, which must be ignored (§5.5); the lab has disabled push.
        _ => Frame::Nothing,
    };
    Ok(Some((frame, FRAME_HEAD_BYTES + length)))
}

fn unpadded(payload: &[u8], flags: u8) -> Result<&[u8], CarrierError> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(TOO_SHORT)?;
    rest.len().checked_sub(usize::from(padding)).map(|length| &rest[..length]).ok_or(TOO_SHORT)
}

const TOO_SHORT: CarrierError = wrong("an HTTP/2 frame shorter than it must be");

fn number(payload: &[u8]) -> Result<u32, CarrierError> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).ok_or(TOO_SHORT)
}

fn streams_max(payload: &[u8]) -> Option<u32> {
    payload.chunks_exact(6).find_map(|setting| match *setting {
        [a, b, c, d, e, f] if u16::from_be_bytes([a, b]) == MAX_CONCURRENT_STREAMS => {
            Some(u32::from_be_bytes([c, d, e, f]))
        }
        _ => None,
    })
}

/// Reads the status in a header block: the first field (§8.3), with name 8 of the static table (RFC 7541 §6, appendix A), perhaps after
/// an update of the dynamic table's size.
fn status(mut block: &[u8]) -> Option<u16> {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    while let [first @ 0x20..=0x3F, rest @ ..] = block {
        block = rest;
        if *first == 0x3F {
            let end = block.iter().position(|byte| byte & 0x80 == 0)?;
            block = &block[end + 1..];
        }
    }
    match block {
        [indexed @ 0x88..=0x8E, ..] => INDEXED.get(usize::from(indexed - 0x88)).copied(),
        // A literal: with, without or never indexed.
        [0x48 | 0x08 | 0x18, 3, digits @ ..] => {
            std::str::from_utf8(digits.get(..3)?).ok()?.parse().ok()
        }
        // Huffman-coded; digits have five bits (0–2) or six (3–9).
        [0x48 | 0x08 | 0x18, coded, digits @ ..] if coded & 0x80 != 0 => {
            huffman_digits(digits.get(..usize::from(coded & 0x7F))?)
        }
        _ => None,
    }
}

/// Decodes three digits in the Huffman code of RFC 7541, appendix B.
fn huffman_digits(bytes: &[u8]) -> Option<u16> {
    let bits: Vec<u16> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)))
        .collect();
    let (mut at, mut number) = (0, 0);
    for _ in 0..3 {
        let take = |count: usize| {
            bits.get(at..at + count).map(|bits| bits.iter().fold(0, |value, bit| value << 1 | bit))
        };
        let (digit, length) = match (take(5)?, take(6)) {
            (digit @ 0..=2, _) => (digit, 5),
            (_, Some(code @ 0x19..=0x1F)) => (code - 0x19 + 3, 6),
            _ => return None,
        };
        at += length;
        number = number * 10 + digit;
    }
    Some(number)
}

/// Appends the client's first bytes: large windows, no push, no dynamic table.
pub(in crate::swarm) fn preface(out: &mut Vec<u8>) {
    out.extend_from_slice(PREFACE);
    let settings =
        [(HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES)];
    head(out, 6 * settings.len(), SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend(name.to_be_bytes());
        out.extend(value.to_be_bytes());
    }
    window_update(out, 0, CONNECTION_WINDOW_BYTES - WINDOW_BYTES_AT_FIRST);
}

/// Appends a GET request. Every field is literal and not indexed.
pub(in crate::swarm) fn request(
    out: &mut Vec<u8>,
    stream: u32,
    fields: &[(&str, &[u8])],
) -> Result<(), CarrierError> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name.as_bytes(), value] {
            text_length(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    if block.len() > FRAME_BYTES_MAX {
        return Err(wrong("an HTTP/2 request over 16 KiB: use fewer topics"));
    }
    head(out, block.len(), HEADERS, END_HEADERS | END_STREAM, stream);
    out.extend(block);
    Ok(())
}

/// Appends the length of a text without Huffman code, as an integer with a prefix of seven bits (RFC 7541 §5.1).
fn text_length(block: &mut Vec<u8>, length: usize) {
    const PREFIX: usize = 127;
    let Some(mut rest) = length.checked_sub(PREFIX) else {
        return block.push(length as u8);
    };
    block.push(PREFIX as u8);
    while rest >= 128 {
        block.push(0x80 | (rest % 128) as u8);
        rest /= 128;
    }
    block.push(rest as u8);
}

pub(in crate::swarm) fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, SETTINGS, ACK, 0);
}

pub(in crate::swarm) fn pong(out: &mut Vec<u8>, bytes: [u8; 8]) {
    head(out, bytes.len(), PING, ACK, 0);
    out.extend(bytes);
}

/// Appends an update that returns this many bytes of window; stream 0 is the connection.
pub(in crate::swarm) fn window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    head(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend(bytes.to_be_bytes());
}

fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        head(&mut bytes, payload.len(), kind, flags, stream);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn check(kind: u8, flags: u8, payload: &[u8], expected: Frame<'_>) {
        let bytes = frame_of(kind, flags, 3, payload);
        assert_eq!(frame(&bytes), Ok(Some((expected, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(frame(&bytes[..cut]), Ok(None));
        }
    }

    #[test]
    fn frames_are_told_apart() {
        let data =
            |is_end, window_bytes| Frame::Data { stream: 3, bytes: b"x", window_bytes, is_end };
        check(DATA, 0, b"x", data(false, 1));
        check(DATA, PADDED | END_STREAM, b"\x02x..", data(true, 4));
        check(RST_STREAM, 0, &[0, 0, 0, 7], Frame::Reset { stream: 3, error: 7 });
        check(SETTINGS, 0, &[0, 3, 0, 0, 0, 100], Frame::Settings { streams_max: Some(100) });
        check(SETTINGS, ACK, b"", Frame::Nothing);
        check(PING, 0, b"12345678", Frame::Ping(*b"12345678"));
        check(GOAWAY, 0, &[0, 0, 0, 0, 0, 0, 0, 1], Frame::GoAway { error: 1 });
        check(0xBE, 0, b"?", Frame::Nothing);
        assert!(frame(&frame_of(DATA, PADDED, 1, b"\x05x")).is_err());
        assert!(frame(&[1, 0, 0, 0, 0, 0, 0, 0, 1]).is_err(), "too long");
    }

    #[test]
    fn a_status_in_every_coding() {
        let check = |block: &[u8], expected| assert_eq!(status(block), expected, "{block:?}");
        check(&[0x88], Some(200));
        check(&[0x20, 0x8D, 0x11], Some(404));
        check(&[0x3F, 0xE1, 0x1F, 0x88], Some(200));
        check(b"\x48\x03429", Some(429));
        // 406 and 503: 011010 00000 011100, 011011 00000 011001, padded with ones.
        check(&[0x08, 0x83, 0b0110_1000, 0b0000_1110, 0b0111_1111], Some(406));
        check(&[0x48, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111], Some(503));
        check(&[0x82], None);
        check(&[], None);
    }

    #[test]
    fn text_lengths_are_encoded_with_continuation_bytes() {
        let check = |length, expected: &[u8]| {
            let mut block = Vec::new();
            text_length(&mut block, length);
            assert_eq!(block, expected, "{length}");
        };
        check(0, &[0]);
        check(126, &[126]);
        check(127, &[127, 0]);
        check(254, &[127, 127]);
        check(255, &[127, 128, 1]);
        check(1337, &[127, 0b1011_1010, 9]);
        let mut out = Vec::new();
        assert!(request(&mut out, 1, &[(":path", &[b'x'; FRAME_BYTES_MAX])]).is_err());
        assert!(out.is_empty());
    }

    #[test]
    fn arbitrary_bytes_never_panic() {
        let mut random = 1u64;
        for length in 0..2000usize {
            let bytes: Vec<u8> = (0..length % 40)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 56) as u8
                })
                .collect();
            let _ = (frame(&bytes), status(&bytes));
            let _ = frame(&frame_of((length % 10) as u8, (random >> 40) as u8, 1, &bytes));
        }
    }
}
