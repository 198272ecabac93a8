use super::CONTROL_BYTES_MAX;

/// First bytes of the server's frames: FIN and the opcode (RFC 6455 §5.2).
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
/// A text frame with RSV1 (RFC 7692 §6).
const DEFLATED_TEXT: u8 = 0xc1;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// Appends the header of an unfragmented text message of `payload_len` bytes. The caller appends the payload, unmasked
/// (RFC 6455 §5.1, §5.2).
pub fn text_header(payload_len: usize, out: &mut Vec<u8>) {
    header(TEXT, payload_len, out);
}

/// Appends the header of a binary message.
pub fn binary_header(payload_len: usize, out: &mut Vec<u8>) {
    header(BINARY, payload_len, out);
}

/// Appends the header of a text message that is compressed as in RFC 7692 §7.2.1, for a client that negotiated it.
pub fn deflated_text_header(payload_len: usize, out: &mut Vec<u8>) {
    header(DEFLATED_TEXT, payload_len, out);
}

/// Returns the number of bytes of a text message's header: 2, 4 or 10.
pub fn text_header_len(payload_len: usize) -> usize {
    match payload_len {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    }
}

/// Appends a ping with at most 125 bytes of `payload` (RFC 6455 §5.5.2).
pub fn ping(payload: &[u8], out: &mut Vec<u8>) {
    control(PING, &[payload], out);
}

/// Appends the pong that answers a ping, with at most 125 bytes of its `payload` (RFC 6455 §5.5.3).
pub fn pong(payload: &[u8], out: &mut Vec<u8>) {
    control(PONG, &[payload], out);
}

/// Appends a close frame with as many whole characters of `reason` as fit into 123 bytes (RFC 6455 §5.5.1).
pub fn close(code: u16, reason: &str, out: &mut Vec<u8>) {
    let code = code.to_be_bytes();
    let mut reason_len = reason.len().min(CONTROL_BYTES_MAX - code.len());
    while !reason.is_char_boundary(reason_len) {
        reason_len -= 1;
    }
    control(CLOSE, &[&code, &reason.as_bytes()[..reason_len]], out);
}

fn header(first: u8, payload_len: usize, out: &mut Vec<u8>) {
    // Only the shortest of the three forms is allowed (§5.2).
    out.push(first);
    if payload_len <= CONTROL_BYTES_MAX {
        out.push(payload_len as u8);
    } else if let Ok(len) = u16::try_from(payload_len) {
        out.push(126);
        out.extend_from_slice(&len.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(payload_len as u64).to_be_bytes());
    }
}

/// Appends a control frame. It cannot be fragmented, so the payload beyond the limit is dropped (RFC 6455 §5.5).
fn control(opcode: u8, payload: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[opcode, 0]);
    for part in payload {
        out.extend_from_slice(part);
    }
    out.truncate(start + 2 + CONTROL_BYTES_MAX);
    out[start + 1] = (out.len() - start - 2) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_header_has_the_shortest_form() {
        fn check(payload_len: usize, expected: &[u8]) {
            let mut out = vec![7];
            text_header(payload_len, &mut out);
            assert_eq!(out[1..], *expected, "{payload_len}");
            assert_eq!(text_header_len(payload_len), expected.len());
            deflated_text_header(payload_len, &mut out);
            assert_eq!(out[1 + expected.len()..], [&[0xc1], &expected[1..]].concat());
        }
        check(0, &[0x81, 0]);
        check(125, &[0x81, 125]);
        check(126, &[0x81, 126, 0, 126]);
        check(0xffff, &[0x81, 126, 0xff, 0xff]);
        check(0x1_0000, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn control_frames_are_appended() {
        let mut out = vec![7];
        ping(b"a", &mut out);
        pong(b"", &mut out);
        close(1001, "draining", &mut out);
        assert_eq!(out, b"\x07\x89\x01a\x8a\x00\x88\x0a\x03\xe9draining");
    }

    #[test]
    fn a_control_frame_ends_at_125_bytes() {
        let mut out = Vec::new();
        ping(&[b'x'; 126], &mut out);
        assert_eq!(out[..2], [0x89, 125]);
        assert_eq!(out[2..], [b'x'; 125]);
    }

    #[test]
    fn a_close_reason_is_cut_between_characters() {
        fn check(reason: &str, expected: &str) {
            let mut out = Vec::new();
            close(1000, reason, &mut out);
            assert_eq!(usize::from(out[1]), expected.len() + 2);
            assert_eq!(out[4..], *expected.as_bytes());
        }
        let whole = "x".repeat(123);
        check(&whole, &whole);
        check(&format!("{whole}y"), &whole);
        let cut = "x".repeat(122);
        check(&format!("{cut}é"), &cut);
        check(&format!("{}é", &cut[1..]), &format!("{}é", &cut[1..]));
    }
}
