//! A client's frames, valid and invalid, by the sections of the Autobahn suite for servers; the two other
//! implementations judge each case too:
//!
//! 1 framing, 2 pings and pongs, 3 reserved bits, 4 opcodes, 5 fragmentation, 6 UTF-8 (in `utf8`), 7 closing, 9 limits,
//! 10 the rest. Sections 12 and 13 are compression; 8 and 11 are empty.

mod utf8;

use thalweg_wire::websocket::{Decoder, ProtocolError, pong};

use super::received::{LIMIT, Received, Said, agree, ours};
use crate::client::{BINARY, CLOSE, CONTINUATION, FIN, Frame, MASK, PING, PONG, TEXT, frame, sent};

fn text(text: &str) -> Said {
    Said::Text(text.to_owned())
}

fn binary(bytes: &[u8]) -> Said {
    Said::Binary(bytes.to_vec())
}

/// Checks that the frames, cut anywhere, give these messages and then this refusal.
#[track_caller]
fn check(frames: &[Frame<'_>], messages: &[Said], refusal: Option<ProtocolError>) {
    let input = sent(frames);
    let expected = Received { messages: messages.to_vec(), refusal };
    for piece_lens in [&[][..], &[1; 500], &[2, 3, 5, 7], &[64; 500], &[997; 500]] {
        assert_eq!(ours(&input, piece_lens), expected, "in pieces of {piece_lens:?}");
    }
    agree(&input).expect("the others hear the same");
}

#[track_caller]
fn check_refused(frames: &[Frame<'_>], refusal: ProtocolError) {
    check(frames, &[], Some(refusal));
}

// 1 Framing.

#[test]
fn messages_of_every_length_of_length_arrive_whole() {
    for len in [0, 1, 125, 126, 127, 128, 65_535, 65_536, LIMIT as usize] {
        let payload = vec![b'*'; len];
        let whole = String::from_utf8(payload.clone()).expect("ASCII");
        check(&[(FIN | TEXT, &payload)], &[text(&whole)], None);
        let payload = vec![0xfe; len];
        check(&[(FIN | BINARY, &payload)], &[binary(&payload)], None);
    }
}

// 2 Pings and pongs.

#[test]
fn a_ping_is_received_with_its_payload_and_answered_with_it() {
    for payload in [&b""[..], b"Hello, world!", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", &[0xfe; 125]] {
        check(&[(PING, payload)], &[Said::Ping(payload.to_vec())], None);
        let mut answer = Vec::new();
        pong(payload, &mut answer);
        assert_eq!(answer, [&[0x8a, payload.len() as u8], payload].concat());
    }
    check(&[(PING, &b"again"[..]); 10], &vec![Said::Ping(b"again".to_vec()); 10], None);
}

#[test]
fn a_pong_nobody_asked_for_is_received_and_changes_nothing() {
    let frames = [(PONG, &b""[..]), (PONG, b"unsolicited"), (PING, b"ping")];
    let [pong, ping] = [Said::Pong(b"unsolicited".to_vec()), Said::Ping(b"ping".to_vec())];
    check(&frames, &[Said::Pong(vec![]), pong, ping], None);
}

#[test]
fn a_control_frame_of_126_bytes_is_refused() {
    for first in [PING, PONG, CLOSE] {
        check_refused(&[(first, &[0xfe; 126])], ProtocolError::LongControl);
    }
}

// 3 Reserved bits.

#[test]
fn a_reserved_bit_is_refused_on_every_frame() {
    for reserved in (0x10..0x80).step_by(0x10) {
        for opcode in [FIN | TEXT, FIN | BINARY, TEXT, CLOSE, PING, PONG] {
            let frames = [(FIN | TEXT, &b"before"[..]), (opcode | reserved, b""), (PING, b"")];
            check(&frames, &[text("before")], Some(ProtocolError::ReservedBits));
        }
        let inside = [(TEXT, &b"a"[..]), (FIN | CONTINUATION | reserved, b"b")];
        check_refused(&inside, ProtocolError::ReservedBits);
    }
}

// 4 Opcodes.

#[test]
fn a_reserved_opcode_is_refused() {
    for opcode in (3..8).chain(11..16) {
        for payload in [&b""[..], b"reserved opcode payload"] {
            let frames = [(FIN | TEXT, &b"before"[..]), (FIN | opcode, payload), (PING, b"")];
            check(&frames, &[text("before")], Some(ProtocolError::ReservedOpcode(opcode)));
        }
    }
}

// 5 Fragmentation.

#[test]
fn a_fragmented_control_frame_is_refused() {
    for first in [PING, PONG, CLOSE] {
        let frames = [(first & !FIN, &b"frag"[..]), (FIN | CONTINUATION, b"ment")];
        check_refused(&frames, ProtocolError::FragmentedControl);
    }
}

#[test]
fn fragments_are_put_together_around_control_frames() {
    let bird = "🐦".as_bytes();
    check(
        &[
            (TEXT, &bird[..1]),
            (PING, b"ping 1"),
            (CONTINUATION, &bird[1..3]),
            (CONTINUATION, b""),
            (PONG, b"pong"),
            (PING, b"ping 2"),
            (FIN | CONTINUATION, &bird[3..]),
            (BINARY, b"a"),
            (FIN | CONTINUATION, b"b"),
        ],
        &[
            Said::Ping(b"ping 1".to_vec()),
            Said::Pong(b"pong".to_vec()),
            Said::Ping(b"ping 2".to_vec()),
            text("🐦"),
            binary(b"ab"),
        ],
        None,
    );
}

#[test]
fn frames_out_of_order_are_refused() {
    let nothing = ProtocolError::NothingToContinue;
    for first in [CONTINUATION, FIN | CONTINUATION] {
        check_refused(&[(first, b"x"), (FIN | TEXT, b"y")], nothing);
        check(&[(FIN | TEXT, b"x"), (first, b"y")], &[text("x")], Some(nothing));
        let after_fragments = [(TEXT, &b"a"[..]), (FIN | CONTINUATION, b"b"), (first, b"c")];
        check(&after_fragments, &[text("ab")], Some(nothing));
    }
    for first in [TEXT, FIN | TEXT, BINARY, FIN | BINARY] {
        check_refused(&[(TEXT, b"x"), (first, b"y")], ProtocolError::Interleaved);
        check_refused(&[(BINARY, b"x"), (first, b"y")], ProtocolError::Interleaved);
    }
}

// 7 Closing.

#[test]
fn a_close_is_received_with_its_code_and_reason() {
    let close = |code, reason: &str| Said::Close(code, reason.to_owned());
    check(&[(CLOSE, b"")], &[close(None, "")], None);
    check(&[(CLOSE, b"\x03\xe8")], &[close(Some(1000), "")], None);
    check(
        &[(CLOSE, b"\x03\xe8Goodbye \xf0\x9f\x90\xa6")],
        &[close(Some(1000), "Goodbye 🐦")],
        None,
    );
    let longest = "*".repeat(123);
    let payload = [b"\x03\xe8", longest.as_bytes()].concat();
    check(&[(CLOSE, &payload)], &[close(Some(1000), &longest)], None);
}

#[test]
fn messages_after_a_close_are_ignored() {
    let close = Said::Close(Some(1000), String::new());
    for after in [(CLOSE, &b"\x03\xe8"[..]), (PING, b""), (FIN | TEXT, b"x"), (0x7f, b"\xff")] {
        check(&[(CLOSE, b"\x03\xe8"), after], std::slice::from_ref(&close), None);
    }
    let inside = [(TEXT, &b"cut"[..]), (CLOSE, b"\x03\xe8"), (FIN | CONTINUATION, b"off")];
    check(&inside, &[close], None);
}

#[test]
fn a_malformed_close_is_refused() {
    check_refused(&[(CLOSE, &[3])], ProtocolError::HalfCloseCode);
    check_refused(&[(CLOSE, b"\x03\xe8\xff")], ProtocolError::NotUtf8);
    check_refused(&[(CLOSE, b"\x03\xe8\xce\xba\xe1\xbd")], ProtocolError::NotUtf8);
}

/// RFC 6455 §7.4.1, §7.4.2, and IANA's registry of close codes.
#[test]
fn a_close_code_is_one_that_may_be_sent_or_refused() {
    for code in 0..=u16::MAX {
        let may_be_sent = match code {
            // Not used by this protocol.
            0..=999 | 5000.. => false,
            // Defined; 1004 is reserved, and no frame holds 1005, 1006 and 1015.
            1000..=1003 | 1007..=1014 => true,
            1004..=1006 | 1015 => false,
            // Reserved for later versions.
            1016..=2999 => false,
            // Registered with IANA, and private.
            3000..=4999 => true,
        };
        let input = frame((CLOSE, &code.to_be_bytes()));
        let expected = match may_be_sent {
            true => (vec![Said::Close(Some(code), String::new())], None),
            false => (vec![], Some(ProtocolError::BadCloseCode(code))),
        };
        let Received { messages, refusal } = ours(&input, &[]);
        assert_eq!((messages, refusal), expected);
        agree(&input).expect("the others hear the same");
    }
}

// 9 Limits.

#[test]
fn a_message_up_to_the_limit_arrives_in_fragments_of_any_length() {
    let whole: String = "0123456789".chars().cycle().take(LIMIT as usize).collect();
    for fragment_len in [64, 256, 1000, 4096, 65_536] {
        let mut frames: Vec<Frame<'_>> =
            whole.as_bytes().chunks(fragment_len).map(|part| (CONTINUATION, part)).collect();
        frames[0].0 = TEXT;
        frames.push((FIN | CONTINUATION, b""));
        check(&frames, &[text(&whole)], None);
    }
}

#[test]
fn a_message_over_the_limit_is_refused_by_the_header_that_shows_it() {
    let too_big = Some(ProtocolError::TooBig { message_bytes_max: LIMIT });
    let header = |first, payload_len| frame((first, &vec![0; payload_len]))[..14].to_vec();
    let limit = LIMIT as usize;

    assert_eq!(ours(&header(FIN | TEXT, limit), &[]).refusal, None);
    assert_eq!(ours(&header(FIN | TEXT, limit + 1), &[]).refusal, too_big);
    let first = frame((BINARY, &vec![0; limit - 65_536]));
    let at_limit = [first.clone(), header(CONTINUATION, 65_536)].concat();
    assert_eq!(ours(&at_limit, &[]).refusal, None);
    let over = [first, header(CONTINUATION, 65_537)].concat();
    assert_eq!(ours(&over, &[]).refusal, too_big);
    let wrapping = [&[0x82, 0xff][..], &[0xff; 8], &MASK].concat();
    assert_eq!(ours(&wrapping, &[]).refusal, too_big);
}

#[test]
fn a_ping_fits_beside_a_message_that_has_no_room_left() {
    let whole = vec![b'x'; LIMIT as usize];
    check(
        &[(BINARY, &whole), (PING, &[7; 125]), (FIN | CONTINUATION, b"")],
        &[Said::Ping(vec![7; 125]), binary(&whole)],
        None,
    );
}

#[test]
fn many_small_messages_arrive_in_order() {
    let numbers: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let frames: Vec<Frame<'_>> = numbers.iter().map(|n| (FIN | TEXT, n.as_bytes())).collect();
    let messages: Vec<Said> = numbers.iter().map(|number| text(number)).collect();
    check(&frames, &messages, None);
}

// 10 The rest.

#[test]
fn a_message_that_its_client_cut_into_packets_arrives_whole() {
    let payload = vec![b'*'; 65_536];
    let mut frames: Vec<Frame<'_>> =
        payload.chunks(1300).map(|part| (CONTINUATION, part)).collect();
    frames[0].0 = BINARY;
    if let Some(last) = frames.last_mut() {
        last.0 |= FIN;
    }
    check(&frames, &[binary(&payload)], None);
}

#[test]
fn messages_after_a_refusal_are_ignored() {
    let mut decoder = Decoder::new(LIMIT);
    let mut ignore = |message: thalweg_wire::websocket::Message<'_>| panic!("{message:?}");
    decoder.push(&[0xff, 0], &mut ignore).expect_err("reserved bits");
    assert_eq!(decoder.push(&frame((FIN | TEXT, b"x")), &mut ignore), Ok(()));
}

#[test]
fn a_frame_without_a_mask_is_refused() {
    for first in [FIN | TEXT, BINARY, CLOSE, PING, PONG] {
        let received = ours(&[first, 0], &[1]);
        assert_eq!(received, Received { messages: vec![], refusal: Some(ProtocolError::Unmasked) });
    }
}
