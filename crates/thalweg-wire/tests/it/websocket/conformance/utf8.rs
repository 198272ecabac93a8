//! 6 UTF-8. The sequences are those of Markus Kuhn's decoder test, judged by RFC 3629.

use thalweg_wire::websocket::{Decoder, ProtocolError};

use super::{LIMIT, check, text};
use crate::client::{CONTINUATION, FIN, Frame, TEXT, frame};

/// Returns `bytes` in frames of one byte each, and an empty last frame.
fn by_bytes(bytes: &[u8]) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = bytes.chunks(1).map(|byte| (CONTINUATION, byte)).collect();
    frames.push((FIN | CONTINUATION, b""));
    frames[0].0 |= TEXT;
    frames
}

/// Checks that this is a text with any fragmentation.
#[track_caller]
fn check_text(expected: &str) {
    let bytes = expected.as_bytes();
    check(&[(FIN | TEXT, bytes)], &[text(expected)], None);
    check(&by_bytes(bytes), &[text(expected)], None);
}

/// Checks that the decoder rejects `bytes` with any fragmentation as soon as the next byte, or the end of the message,
/// follows its first `good_len` bytes.
#[track_caller]
fn check_refused(bytes: &[u8], good_len: usize) {
    let refusal = Some(ProtocolError::NotUtf8);
    check(&[(FIN | TEXT, bytes)], &[], refusal);
    check(&by_bytes(bytes), &[], refusal);

    // Within a frame of an incomplete message.
    let input = frame((TEXT, bytes));
    let header_len = input.len() - bytes.len();
    let mut decoder = Decoder::new(LIMIT);
    let refused_at = input.chunks(1).position(|byte| decoder.push(byte, &mut |_| {}).is_err());
    let expected = (good_len < bytes.len()).then_some(header_len + good_len);
    assert_eq!(refused_at, expected, "{}", bytes.escape_ascii());
}

#[test]
fn empty_fragments_are_no_characters() {
    check(&[(FIN | TEXT, b"")], &[text("")], None);
    let empty = [(TEXT, &b""[..]), (CONTINUATION, b""), (FIN | CONTINUATION, b"")];
    check(&empty, &[text("")], None);
    let middle = [(TEXT, &b""[..]), (CONTINUATION, b"middle"), (FIN | CONTINUATION, b"")];
    check(&middle, &[text("middle")], None);
}

#[test]
fn text_is_text_wherever_it_is_cut() {
    let greek = "Hello-µ@ßöäüàá-UTF-8!! κόσμε";
    check_text(greek);
    for cut in 0..=greek.len() {
        let (head, tail) = greek.as_bytes().split_at(cut);
        check(&[(TEXT, head), (FIN | CONTINUATION, tail)], &[text(greek)], None);
    }
}

#[test]
fn a_text_that_ends_inside_a_character_is_refused() {
    let greek = "κόσμε".as_bytes();
    for len in 1..greek.len() {
        match str::from_utf8(&greek[..len]) {
            Ok(whole) => check_text(whole),
            Err(_) => check_refused(&greek[..len], len),
        }
    }
    // A sequence of two, three and four bytes lacks its last byte.
    for cut in [&b"\xdf"[..], b"\xef\xbf", b"\xf3\xbf\xbf", b"a\xc2", b"\xe0\xa0", b"\xf0\x90\x80"]
    {
        check_refused(cut, cut.len());
    }
    // All of them in a row.
    check_refused(b"\xc3\xe0\xa0", 1);
}

#[test]
fn invalid_utf8_is_refused_at_its_first_byte() {
    let valid = "κόσμε".as_bytes();
    check_refused(&[valid, b"\xed\xa0\x80edited"].concat(), valid.len() + 1);
    check_refused(&[valid, b"\xf4\x90\x80\x80edited"].concat(), valid.len() + 1);
    check_refused(&[valid, b"\xffedited"].concat(), valid.len());
}

#[test]
fn a_large_text_is_refused_long_before_its_end() {
    let mut payload = vec![b'x'; 50_000];
    payload[2000] = 0xff;
    let input = frame((FIN | TEXT, &payload));
    let mut decoder = Decoder::new(LIMIT);
    let outcome = decoder.push(&input[..3000], &mut |message| panic!("{message:?}"));
    assert_eq!(outcome, Err(ProtocolError::NotUtf8));
}

#[test]
fn the_first_and_last_of_each_length_are_text() {
    for edge in [
        "\u{0}",
        "\u{7f}",
        "\u{80}",
        "\u{7ff}",
        "\u{800}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
        // The neighbours of the surrogates; the replacement character.
        "\u{d7ff}",
        "\u{e000}",
        "\u{fffd}",
    ] {
        check_text(edge);
    }
}

#[test]
fn characters_that_stand_for_none_are_text() {
    for plane in 0..=0x10 {
        for low in [0xfffe, 0xffff] {
            let noncharacter = char::from_u32(plane << 16 | low).expect("no surrogate");
            check_text(&noncharacter.to_string());
        }
    }
    for special in '\u{fff9}'..='\u{ffff}' {
        check_text(&special.to_string());
    }
}

#[test]
fn sequences_beyond_unicode_are_refused() {
    check_refused(b"\xf4\x90\x80\x80", 1);
    check_refused(b"\xf7\xbf\xbf\xbf", 0);
    check_refused(b"\xf8\x88\x80\x80\x80", 0);
    check_refused(b"\xfb\xbf\xbf\xbf\xbf", 0);
    check_refused(b"\xfc\x84\x80\x80\x80\x80", 0);
    check_refused(b"\xfd\xbf\xbf\xbf\xbf\xbf", 0);
    check_refused(b"\xfe", 0);
    check_refused(b"\xff", 0);
}

#[test]
fn bytes_out_of_place_are_refused() {
    for unexpected in 0x80..=0xbf {
        check_refused(&[unexpected], 0);
    }
    for lonely in 0xc2..=0xf4 {
        check_refused(&[lonely, b' '], 1);
    }
}

#[test]
fn overlong_forms_are_refused() {
    // Overlong forms of "/", of the last character of each shorter form, and of NUL.
    for two in [b"\xc0\xaf", b"\xc1\xbf", b"\xc0\x80"] {
        check_refused(two, 0);
    }
    for three in [b"\xe0\x80\xaf", b"\xe0\x9f\xbf", b"\xe0\x80\x80"] {
        check_refused(three, 1);
    }
    for four in [b"\xf0\x80\x80\xaf", b"\xf0\x8f\xbf\xbf", b"\xf0\x80\x80\x80"] {
        check_refused(four, 1);
    }
}

#[test]
fn surrogates_are_refused_alone_and_in_pairs() {
    for single in [
        b"\xed\xa0\x80",
        b"\xed\xad\xbf",
        b"\xed\xae\x80",
        b"\xed\xaf\xbf",
        b"\xed\xb0\x80",
        b"\xed\xbe\x80",
        b"\xed\xbf\xbf",
    ] {
        check_refused(single, 1);
    }
    for pair in
        [b"\xed\xa0\x80\xed\xb0\x80", b"\xed\xad\xbf\xed\xbf\xbf", b"\xed\xaf\xbf\xed\xbf\xbf"]
    {
        check_refused(pair, 1);
    }
}
