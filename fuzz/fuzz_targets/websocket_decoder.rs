//! A client's bytes mean the same however they are cut.

#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use thalweg_wire::websocket::{Decoder, Message, ProtocolError};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    message_bytes_max: u16,
    cut: usize,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let Input { message_bytes_max, cut, bytes } = input;
    let whole = decode(message_bytes_max, [bytes]);
    assert_eq!(decode(message_bytes_max, bytes.chunks(1)), whole);
    let (head, tail) = bytes.split_at(cut % (bytes.len() + 1));
    assert_eq!(decode(message_bytes_max, [head, &[], tail]), whole);
});

fn decode<'a>(
    message_bytes_max: u16,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<ProtocolError>) {
    let mut decoder = Decoder::new(message_bytes_max.into());
    let mut said = Vec::new();
    let mut refusal = None;
    for piece in pieces {
        let outcome = decoder.push(piece, &mut |message| {
            if let Message::Text(text) = message {
                assert!(text.len() <= message_bytes_max.into());
            }
            said.push(format!("{message:?}"));
        });
        // The first error counts.
        refusal = refusal.or(outcome.err());
    }
    (said, refusal)
}
