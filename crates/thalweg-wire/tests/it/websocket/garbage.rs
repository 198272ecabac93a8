//! Invalid frames, many of them almost valid.

use proptest::{collection::vec, prelude::*, sample::Index};

use super::received::LIMIT;

/// Several frames, each of which may be malformed or out of place.
pub(super) fn frames() -> impl Strategy<Value = Vec<u8>> {
    vec(frame(), 1..8).prop_map(|frames| frames.concat())
}

/// `input` with a few bytes changed, inserted or removed.
pub(super) fn damaged(input: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damage = (any::<Index>(), any::<u8>(), 0..3_u8);
    (input, vec(damage, 1..4)).prop_map(|(mut input, damages)| {
        for (index, byte, how) in damages {
            let at = index.index(input.len() + 1);
            match how {
                0 => input.insert(at, byte),
                _ if at == input.len() => {}
                1 => input[at] = byte,
                _ => drop(input.remove(at)),
            }
        }
        input
    })
}

/// Returns `input` and enough zero bytes to complete any frame in it. An oracle that judges whole frames then judges all of them.
pub(super) fn to_the_end(mut input: Vec<u8>) -> Vec<u8> {
    input.resize(input.len() + LIMIT as usize + 20, 0);
    input
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        9 => prop::sample::select(vec![0x01, 0x81, 0x02, 0x82, 0x00, 0x80, 0x88, 0x89, 0x8a]),
        1 => any::<u8>(),
    ];
    (first, length_form(), prop::bool::weighted(0.97), any::<[u8; 4]>(), payload()).prop_map(
        |(first, length_form, is_masked, mask, payload)| {
            let mut frame = vec![first];
            frame.extend(length_form.write(payload.len()));
            if is_masked {
                frame[1] |= 0x80;
                frame.extend(mask);
                frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, k)| b ^ k));
            } else {
                frame.extend(payload);
            }
            frame
        },
    )
}

/// The form of a length (RFC 6455 §5.2).
#[derive(Debug, Clone, Copy)]
enum LengthForm {
    Shortest,
    In2Bytes,
    In8Bytes,
    /// Another length than the payload's.
    Wrong(u64),
}

impl LengthForm {
    fn write(self, len: usize) -> Vec<u8> {
        match self {
            Self::Wrong(len) => Self::In8Bytes.write(len as usize),
            Self::Shortest | Self::In2Bytes if len > 0xffff => Self::In8Bytes.write(len),
            Self::Shortest if len > 125 => Self::In2Bytes.write(len),
            Self::Shortest => vec![len as u8],
            Self::In2Bytes => [&[126], &(len as u16).to_be_bytes()[..]].concat(),
            Self::In8Bytes => [&[127], &(len as u64).to_be_bytes()[..]].concat(),
        }
    }
}

fn length_form() -> impl Strategy<Value = LengthForm> {
    prop_oneof![
        60 => Just(LengthForm::Shortest),
        1 => Just(LengthForm::In2Bytes),
        1 => Just(LengthForm::In8Bytes),
        1 => (u64::from(LIMIT) - 2..u64::from(LIMIT) + 3).prop_map(LengthForm::Wrong),
        1 => any::<u64>().prop_map(LengthForm::Wrong),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<char>(), 0..10).prop_map(|chars| String::from_iter(chars).into_bytes()),
        // Characters cut anywhere: the next fragment may or may not continue them.
        4 => vec(prop::sample::select("é🐦\u{d7ff}z".as_bytes()), 0..4),
        2 => (close_code(), "[a-zé]{0,9}").prop_map(|(code, reason)| {
            [&code.to_be_bytes(), reason.as_bytes()].concat()
        }),
        1 => vec(any::<u8>(), 0..10),
        1 => (120..130_usize).prop_map(|len| vec![b'x'; len]),
        1 => (10_000..LIMIT as usize + 10).prop_map(|len| vec![b'x'; len]),
    ]
}

fn close_code() -> impl Strategy<Value = u16> {
    prop_oneof![998..1018_u16, 2998..3002_u16, 4998..5002_u16, any::<u16>()]
}
