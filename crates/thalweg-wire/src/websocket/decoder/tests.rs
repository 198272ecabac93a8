use super::*;

const LIMIT: u32 = 100_000;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A client's frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..=125 => frame.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, k)| b ^ k));
    frame
}

/// What the decoder says of `input` in pieces of `piece_len` bytes.
fn decode(input: &[u8], piece_len: usize) -> (Vec<String>, Result<(), ProtocolError>) {
    let mut said = Vec::new();
    let mut decoder = Decoder::new(LIMIT);
    for piece in input.chunks(piece_len) {
        let outcome = decoder.push(piece, &mut |message| said.push(format!("{message:?}")));
        if outcome.is_err() {
            return (said, outcome);
        }
    }
    (said, Ok(()))
}

/// However the frames are cut, they are these messages, and then this error.
#[track_caller]
fn check(frames: &[(u8, &[u8])], messages: &[Message<'_>], outcome: Result<(), ProtocolError>) {
    let input: Vec<u8> = frames.iter().flat_map(|(f, p)| frame(*f, p)).collect();
    let messages: Vec<String> = messages.iter().map(|m| format!("{m:?}")).collect();
    for piece_len in [1, 2, 3, 5, 7, 64, input.len()] {
        let decoded = decode(&input, piece_len);
        assert_eq!(decoded, (messages.clone(), outcome), "by {piece_len}");
    }
}

const FIN: u8 = 0x80;

#[test]
fn an_idle_decoder_is_tiny() {
    assert!(size_of::<Decoder>() <= 48);
    assert_eq!(Decoder::new(LIMIT).buffer.capacity(), 0);
}

#[test]
fn messages_arrive_whole() {
    let long = "ü".repeat(40_000);
    check(
        &[
            (FIN | 1, b"hello"),
            (FIN | 2, &[0, 0xff]),
            (FIN | 1, b""),
            (FIN | 1, long.as_bytes()),
            (FIN | 9, b"are you there"),
            (FIN | 10, b""),
        ],
        &[
            Message::Text("hello"),
            Message::Binary(&[0, 0xff]),
            Message::Text(""),
            Message::Text(&long),
            Message::Ping(b"are you there"),
            Message::Pong(b""),
        ],
        Ok(()),
    );
}

#[test]
fn fragments_are_put_together_around_control_frames() {
    let bird = "🐦".as_bytes();
    check(
        &[
            (1, &bird[..1]),
            (FIN | 9, b"ping"),
            (0, &bird[1..3]),
            (0, b""),
            (FIN | 10, b"pong"),
            (FIN, &bird[3..]),
            (2, b"a"),
            (FIN, b"b"),
        ],
        &[
            Message::Ping(b"ping"),
            Message::Pong(b"pong"),
            Message::Text("🐦"),
            Message::Binary(b"ab"),
        ],
        Ok(()),
    );
}

#[test]
fn nothing_follows_a_close() {
    let close = |code, reason| Message::Close { code, reason };
    check(&[(FIN | 8, b""), (FIN | 1, b"x")], &[close(None, "")], Ok(()));
    let bye = b"\x03\xe8bye";
    check(&[(1, b"cut"), (FIN | 8, bye), (0x7f, b"")], &[close(Some(1000), "bye")], Ok(()));
}

#[test]
fn a_bad_close_is_refused() {
    check(&[(FIN | 8, &[3])], &[], Err(ProtocolError::HalfCloseCode));
    check(&[(FIN | 8, b"\x03\xe8\xff")], &[], Err(ProtocolError::NotUtf8));
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535_u16] {
        let error = ProtocolError::BadCloseCode(code);
        check(&[(FIN | 8, &code.to_be_bytes())], &[], Err(error));
    }
    for code in [1000, 1003, 1007, 1014, 3000, 4999_u16] {
        let close = Message::Close { code: Some(code), reason: "" };
        check(&[(FIN | 8, &code.to_be_bytes())], &[close], Ok(()));
    }
}

#[test]
fn frames_out_of_order_are_refused() {
    check(&[(FIN, b"x")], &[], Err(ProtocolError::NothingToContinue));
    check(&[(0, b"x")], &[], Err(ProtocolError::NothingToContinue));
    check(&[(1, b"x"), (FIN | 1, b"x")], &[], Err(ProtocolError::Interleaved));
    check(&[(2, b"x"), (2, b"x")], &[], Err(ProtocolError::Interleaved));
    let after = [(FIN | 1, &b"x"[..]), (FIN, b"x")];
    check(&after, &[Message::Text("x")], Err(ProtocolError::NothingToContinue));
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let not_utf8 = Err(ProtocolError::NotUtf8);
    check(&[(FIN | 1, b"a\xffb")], &[], not_utf8);
    check(&[(FIN | 1, b"a\xc3")], &[], not_utf8);
    check(&[(1, b"\xc3"), (FIN, b"")], &[], not_utf8);
    check(&[(1, b"\xc3"), (FIN, b"(")], &[], not_utf8);
    // A surrogate, an overlong form, and a code point beyond the last.
    check(&[(FIN | 1, b"\xed\xa0\x80")], &[], not_utf8);
    check(&[(FIN | 1, b"\xc0\xaf")], &[], not_utf8);
    check(&[(FIN | 1, b"\xf4\x90\x80\x80")], &[], not_utf8);
    check(&[(FIN | 2, b"\xff")], &[Message::Binary(b"\xff")], Ok(()));
}

#[test]
fn text_is_refused_long_before_its_end() {
    let mut input = frame(FIN | 1, &[b'x'; 50_000]);
    input[2000] ^= 0x80;
    assert_eq!(decode(&input[..3000], 1000).1, Err(ProtocolError::NotUtf8));
    let fragment = frame(1, b"\xf5");
    assert_eq!(decode(&fragment, 100).1, Err(ProtocolError::NotUtf8));
}

#[test]
fn a_message_over_the_limit_is_refused_by_its_header() {
    let too_big = Err(ProtocolError::TooBig { message_bytes_max: LIMIT });
    let whole = vec![b'x'; LIMIT as usize];
    let text = std::str::from_utf8(&whole).expect("ASCII");
    check(&[(FIN | 1, &whole)], &[Message::Text(text)], Ok(()));
    check(&[(1, &whole), (FIN, b"")], &[Message::Text(text)], Ok(()));

    let header_only = |first, len: usize| frame(first, &vec![0; len])[..14].to_vec();
    let over = header_only(FIN | 1, whole.len() + 1);
    assert_eq!(decode(&over, 100).1, too_big);
    let mut second = frame(2, &whole[..40_000]);
    second.extend(header_only(0, 70_000));
    assert_eq!(decode(&second, 100).1, too_big);
    let wrapping = [&[0x82, 0xff][..], &[0xff; 8], &MASK].concat();
    assert_eq!(decode(&wrapping, 100).1, too_big);
}

#[test]
fn a_ping_fits_beside_a_message_that_has_no_room_left() {
    let whole = vec![b'x'; LIMIT as usize];
    check(
        &[(2, &whole), (FIN | 9, &[7; 125]), (FIN, b"")],
        &[Message::Ping(&[7; 125]), Message::Binary(&whole)],
        Ok(()),
    );
}

#[test]
fn nothing_is_heard_after_an_error() {
    let mut decoder = Decoder::new(LIMIT);
    let mut ignore = |message: Message<'_>| panic!("{message:?}");
    decoder.push(&[0xff, 0], &mut ignore).expect_err("reserved bits");
    assert_eq!(decoder.push(&frame(FIN | 1, b"x"), &mut ignore), Ok(()));
}

#[test]
fn memory_follows_what_was_received_and_is_given_back() {
    let mut decoder = Decoder::new(u32::MAX);
    let mut ignore = |_: Message<'_>| {};
    let mut input = frame(FIN | 2, &[0; 70_000]);
    // Claims 2^32 - 1 bytes.
    input[6..10].fill(0xff);
    decoder.push(&input[..1014], &mut ignore).expect("a binary message");
    assert!(decoder.buffer.capacity() <= 2000);

    let mut decoder = Decoder::new(LIMIT);
    for (len, retained) in [(4096, 4096), (4097, 0)] {
        let input = frame(FIN | 2, &vec![0; len]);
        decoder.push(&input, &mut ignore).expect("a binary message");
        assert_eq!(decoder.buffer.capacity(), retained);
    }
}
