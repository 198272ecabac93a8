//! Messages of a WebSocket client (RFC 6455 §5.2), and their echo.

use crate::frame::push_websocket_header;

/// Largest size of a message. An echo needs no larger ones.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// The end of a connection: the client has closed it, or has broken the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Over;

/// Echoes every whole message in `received` into `answers`; the rest of `received` is part of a message.
pub(crate) fn echo_messages(received: &mut Vec<u8>, answers: &mut Vec<u8>) -> Result<(), Over> {
    let mut used = 0;
    while let Some((opcode, payload, mask, length)) = message(&received[used..])? {
        let payload = &received[used..][payload..length];
        match opcode {
            TEXT => push_websocket_header(answers, payload.len()),
            PING => answers.extend([FINAL | PONG, payload.len() as u8]),
            PONG => {
                used += length;
                continue;
            }
            _ => return Err(Over),
        }
        answers.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        used += length;
    }
    received.drain(..used);
    Ok(())
}

/// Returns the first message's opcode, the start of its payload, its mask and its end; `None` if the message is incomplete.
#[allow(clippy::type_complexity, reason = "four parts of one header")]
fn message(bytes: &[u8]) -> Result<Option<(u8, usize, [u8; 4], usize)>, Over> {
    let &[first, second, ref rest @ ..] = bytes else {
        return Ok(None);
    };
    let opcode = first & 0x0F;
    if first & 0xF0 != FINAL || second & MASKED == 0 || opcode == CLOSE {
        return Err(Over);
    }
    let (length, head) = match (second & !MASKED, rest) {
        (126, &[a, b, ..]) => (usize::from(u16::from_be_bytes([a, b])), 4),
        (127, _) => return Err(Over),
        (126, _) => return Ok(None),
        (short, _) => (usize::from(short), 2),
    };
    if length > MESSAGE_BYTES_MAX || opcode == PING && length > 125 {
        return Err(Over);
    }
    let (payload, end) = (head + 4, head + 4 + length);
    let Some(&[a, b, c, d]) = bytes.get(head..payload) else {
        return Ok(None);
    };
    Ok((bytes.len() >= end).then_some((opcode, payload, [a, b, c, d], end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![FINAL | opcode];
        match payload.len() {
            short @ ..126 => frame.push(MASKED | short as u8),
            medium => {
                frame.push(MASKED | 126);
                frame.extend((medium as u16).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    #[test]
    fn messages_cut_anywhere_come_back() {
        let long = "x".repeat(300);
        let sent = [frame(TEXT, b"hi"), frame(PONG, b"p"), frame(TEXT, long.as_bytes())].concat();
        for cut in 0..sent.len() {
            let (mut received, mut answers) = (sent[..cut].to_vec(), Vec::new());
            echo_messages(&mut received, &mut answers).unwrap();
            received.extend(&sent[cut..]);
            echo_messages(&mut received, &mut answers).unwrap();
            assert!(received.is_empty());
            let expected = [b"\x81\x02hi\x81\x7e\x01\x2c", long.as_bytes()].concat();
            assert_eq!(answers, expected, "cut at {cut}");
        }
    }

    #[test]
    fn pings_are_answered_and_protocol_errors_end_the_connection() {
        let mut answers = Vec::new();
        echo_messages(&mut frame(PING, b"hi"), &mut answers).unwrap();
        assert_eq!(answers, b"\x8a\x02hi");
        for over in [frame(CLOSE, b""), frame(0x2, b""), vec![0x81, 0x02], vec![0x01, 0x80]] {
            assert_eq!(echo_messages(&mut over.clone(), &mut answers), Err(Over), "{over:?}");
        }
    }
}
