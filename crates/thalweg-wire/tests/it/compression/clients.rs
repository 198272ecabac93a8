//! Clients that negotiated permessage-deflate.

use miniz_oxide::deflate::{
    compress_to_vec,
    core::{CompressorOxide, create_comp_flags_from_zip_params},
    stream::deflate,
};
use proptest::{collection::vec, prelude::*};
use thalweg_wire::websocket::{Decoder, Message, ProtocolError};

use crate::{
    arbitrary::config,
    client::{BINARY, CLOSE, CONTINUATION, FIN, Frame, PING, PONG, RSV1, TEXT, sent},
};

const LIMIT: u32 = 70_000;

fn received(input: &[u8], piece_len: usize) -> (Vec<String>, Option<ProtocolError>) {
    let mut decoder = Decoder::inflating(LIMIT);
    let mut said = Vec::new();
    for piece in input.chunks(piece_len) {
        let outcome = decoder.push(piece, &mut |message| said.push(format!("{message:?}")));
        if outcome.is_err() {
            return (said, outcome.err());
        }
    }
    (said, None)
}

#[track_caller]
fn check(frames: &[Frame<'_>], messages: &[Message<'_>], refusal: Option<ProtocolError>) {
    let input = sent(frames);
    let messages: Vec<String> = messages.iter().map(|message| format!("{message:?}")).collect();
    for piece_len in [1, 2, 7, 1000, input.len().max(1)] {
        assert_eq!(received(&input, piece_len), (messages.clone(), refusal), "by {piece_len}");
    }
}

/// Compresses like a client with a flush (RFC 7692 §7.2.1).
fn flushed(plain: &[u8], level: i32) -> Vec<u8> {
    let mut compressor = CompressorOxide::new(create_comp_flags_from_zip_params(level, -15, 0));
    let mut out = vec![0; plain.len() * 2 + 1000];
    let result = deflate(&mut compressor, plain, &mut out, miniz_oxide::MZFlush::Sync);
    assert_eq!(result.bytes_consumed, plain.len());
    out.truncate(result.bytes_written);
    out.strip_suffix(&[0, 0, 0xff, 0xff]).expect("a flush").to_vec()
}

/// RFC 7692 §7.2.3.
#[test]
fn the_examples_of_the_rfc_are_received() {
    let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let text = FIN | RSV1 | TEXT;
    let says_hello = [Message::Text("Hello")];
    check(&[(text, &hello)], &says_hello, None);
    check(&[(RSV1 | TEXT, &hello[..3]), (FIN, &hello[3..])], &says_hello, None);
    // The second message refers to the first: context takeover.
    let takeover = [(text, &hello[..]), (text, &[0xf2, 0x00, 0x11, 0x00, 0x00])];
    check(&takeover, &says_hello, Some(ProtocolError::NotDeflate));
    let stored = [0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00];
    check(&[(text, &stored)], &says_hello, None);
    let last_block = [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00];
    check(&[(text, &last_block)], &says_hello, None);
    let two_blocks = [0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00];
    check(&[(text, &two_blocks)], &says_hello, None);
    check(&[(text, &[0x00])], &[Message::Text("")], None);
}

#[test]
fn each_message_may_be_compressed_or_not() {
    let deflated = flushed("ü🐦 ".repeat(1000).as_bytes(), 6);
    let large = "ü🐦 ".repeat(1000);
    check(
        &[
            (FIN | RSV1 | BINARY, &flushed(&[0xff, 0], 1)),
            (FIN | TEXT, b"plain"),
            (RSV1 | TEXT, &deflated[..10]),
            (PING, b"ping"),
            (CONTINUATION, b""),
            (FIN, &deflated[10..]),
            (TEXT, b"pl"),
            (FIN, b"ain"),
            (CLOSE, b""),
        ],
        &[
            Message::Binary(&[0xff, 0]),
            Message::Text("plain"),
            Message::Ping(b"ping"),
            Message::Text(&large),
            Message::Text("plain"),
            Message::Close { code: None, reason: "" },
        ],
        None,
    );
}

#[test]
fn the_bit_stands_on_the_first_frame_of_a_message_only() {
    let reserved = Some(ProtocolError::ReservedBits);
    for first in [CLOSE | RSV1, PING | RSV1, PONG | RSV1, FIN | RSV1, RSV1] {
        check(&[(RSV1 | TEXT, b""), (first, b"")], &[], reserved);
    }
    for bits in [0x20, 0x10, 0x30, 0x60, 0x50, 0x70] {
        check(&[(FIN | TEXT | bits, b"")], &[], reserved);
    }
    let mut decoder = Decoder::new(LIMIT);
    let refused = decoder.push(&sent(&[(FIN | RSV1 | TEXT, &[0])]), &mut |_| {});
    assert_eq!(refused, Err(ProtocolError::ReservedBits), "nothing was negotiated");
}

#[test]
fn malformed_deflate_is_refused() {
    let text = FIN | RSV1 | TEXT;
    let not_deflate = Some(ProtocolError::NotDeflate);
    check(&[(text, b"")], &[], not_deflate);
    check(&[(text, &[0x06])], &[], not_deflate);
    check(&[(text, &[0x00, 0x09, 0x00, 0xf6, 0xff, 0x48])], &[], not_deflate);
    // Bytes after the last block; a flush that the sender did not omit adds nothing.
    check(&[(text, &[&compress_to_vec(b"x", 6)[..], &[0xff]].concat())], &[], not_deflate);
    let twice = [compress_to_vec(b"x", 6), compress_to_vec(b"y", 6), vec![0]].concat();
    check(&[(text, &twice)], &[], not_deflate);
    check(&[(text, &[0x00, 0x00, 0x00, 0xff, 0xff, 0x00])], &[Message::Text("")], None);
}

#[test]
fn a_compressed_text_that_is_not_utf8_is_refused() {
    let not_utf8 = Some(ProtocolError::NotUtf8);
    for bytes in [&b"a\xffb"[..], b"a\xc3", b"\xed\xa0\x80"] {
        let deflated = flushed(bytes, 6);
        check(&[(FIN | RSV1 | TEXT, &deflated)], &[], not_utf8);
        check(&[(FIN | RSV1 | BINARY, &deflated)], &[Message::Binary(bytes)], None);
    }
}

#[test]
fn the_limit_is_for_what_a_message_is_inflated_to() {
    let too_big = Some(ProtocolError::TooBig { message_bytes_max: LIMIT });
    let longest = "x".repeat(LIMIT as usize);
    let longest_deflated = flushed(longest.as_bytes(), 9);
    check(&[(FIN | RSV1 | TEXT, &longest_deflated)], &[Message::Text(&longest)], None);
    let over = flushed("x".repeat(LIMIT as usize + 1).as_bytes(), 9);
    check(&[(FIN | RSV1 | TEXT, &over)], &[], too_big);
    let bomb = flushed(&vec![0; 30_000_000], 9);
    check(&[(FIN | RSV1 | BINARY, &bomb)], &[], too_big);
    // The limit also applies to the compressed message: by its header, before inflation.
    let input = sent(&[(FIN | RSV1 | BINARY, &vec![0; LIMIT as usize + 1])]);
    assert_eq!(received(&input[..14], 14), (vec![], too_big));
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn compressed_messages_of_a_client_are_received(
        messages in vec((vec(any::<char>(), 0..200), 0..10_i32, any::<bool>()), 1..5),
        repeat in 1..50_usize,
        frame_len in 1..3000_usize,
        piece_len in 1..3000_usize,
    ) {
        let mut input = Vec::new();
        let mut expected = Vec::new();
        for (chars, level, marks_last) in &messages {
            let plain = String::from_iter(chars).repeat(repeat);
            let payload = if *marks_last {
                [compress_to_vec(plain.as_bytes(), *level as u8), vec![0]].concat()
            } else {
                flushed(plain.as_bytes(), *level)
            };
            let mut frames: Vec<Frame<'_>> =
                payload.chunks(frame_len).map(|part| (CONTINUATION, part)).collect();
            frames[0].0 = RSV1 | TEXT;
            frames.push((FIN, b""));
            input.extend(sent(&frames));
            expected.push(format!("{:?}", Message::Text(&plain)));
        }
        prop_assert_eq!(received(&input, piece_len), (expected, None));
    }

    #[test]
    fn garbage_is_deflate_or_refused_however_it_is_cut(
        payload in vec(any::<u8>(), 0..200),
        piece_len in 1..50_usize,
    ) {
        let input = sent(&[(FIN | RSV1 | BINARY, &payload)]);
        let whole = received(&input, input.len());
        prop_assert_eq!(&received(&input, piece_len), &whole);
        prop_assert_eq!(whole.0.len() + usize::from(whole.1.is_some()), 1);
    }
}
