//! A client's compressed messages decode to the same text however they are cut, and never to more than the limit.
//! The decoder accepts what another implementation deflates.

#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use miniz_oxide::{
    MZFlush,
    deflate::{
        core::{CompressorOxide, create_comp_flags_from_zip_params},
        stream::deflate,
    },
};
use thalweg_wire::websocket::{Decoder, Message, ProtocolError};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    message_bytes_max: u16,
    cut: usize,
    level: u8,
    /// Sent as they are, as the payload of a compressed message, and compressed.
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let Input { message_bytes_max, cut, level, bytes } = input;
    check_cuts(message_bytes_max, cut, bytes);

    let message = frame(bytes);
    check_cuts(message_bytes_max, cut, &message);

    let deflated = deflated(bytes, level % 10);
    let (received, refusal) = decode(message_bytes_max, [&*frame(&deflated)]);
    if bytes.len().max(deflated.len()) <= message_bytes_max.into() {
        assert_eq!((received, refusal), (vec![format!("{:?}", Message::Binary(bytes))], None));
    } else {
        let message_bytes_max = message_bytes_max.into();
        assert_eq!(
            (received, refusal),
            (vec![], Some(ProtocolError::TooBig { message_bytes_max }))
        );
    }
});

fn check_cuts(message_bytes_max: u16, cut: usize, input: &[u8]) {
    let whole = decode(message_bytes_max, [input]);
    assert_eq!(decode(message_bytes_max, input.chunks(1)), whole);
    let (head, tail) = input.split_at(cut % (input.len() + 1));
    assert_eq!(decode(message_bytes_max, [head, &[], tail]), whole);
}

/// A compressed binary message, masked with zeros.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xc2];
    match payload.len() {
        len @ 0..=125 => frame.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            frame.push(0xfe);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0xff);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// RFC 7692 §7.2.1.
fn deflated(plain: &[u8], level: u8) -> Vec<u8> {
    let flags = create_comp_flags_from_zip_params(level.into(), -15, 0);
    let mut compressor = CompressorOxide::new(flags);
    let mut out = vec![0; plain.len() * 2 + 1000];
    let result = deflate(&mut compressor, plain, &mut out, MZFlush::Sync);
    assert_eq!(result.bytes_consumed, plain.len());
    out.truncate(result.bytes_written);
    out.strip_suffix(&[0, 0, 0xff, 0xff]).expect("a flush").to_vec()
}

fn decode<'a>(
    message_bytes_max: u16,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<ProtocolError>) {
    let mut decoder = Decoder::inflating(message_bytes_max.into());
    let mut said = Vec::new();
    let mut refusal = None;
    for piece in pieces {
        let outcome = decoder.push(piece, &mut |message| {
            if let Message::Text(text) = message {
                assert!(text.len() <= message_bytes_max.into());
            }
            if let Message::Binary(bytes) = message {
                assert!(bytes.len() <= message_bytes_max.into());
            }
            said.push(format!("{message:?}"));
        });
        // The first error counts.
        refusal = refusal.or(outcome.err());
    }
    (said, refusal)
}
