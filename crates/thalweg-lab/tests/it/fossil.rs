//! Encodes deltas in Fossil's format, independently of the lab's decoder, whose own tests use this file, too.

const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

/// A part of a result.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// A place of the base, and the number of bytes from there on.
    Copy(usize, usize),
    Insert(Vec<u8>),
}

/// Returns the delta with these pieces, and its result.
pub(crate) fn delta(base: &[u8], pieces: &[Piece]) -> (Vec<u8>, Vec<u8>) {
    let (mut commands, mut result) = (Vec::new(), Vec::new());
    for piece in pieces {
        let bytes = match piece {
            Piece::Copy(place, count) => &base[*place..place + count],
            Piece::Insert(bytes) => bytes,
        };
        result.extend_from_slice(bytes);
        commands.extend(in_base_64(bytes.len() as u32));
        match piece {
            Piece::Copy(place, _) => {
                commands.extend([&b"@"[..], &in_base_64(*place as u32), b","].concat());
            }
            Piece::Insert(_) => commands.extend([b":", bytes].concat()),
        }
    }
    let (length, sum) = (in_base_64(result.len() as u32), in_base_64(checksum(&result)));
    ([&length[..], b"\n", &commands, &sum, b";"].concat(), result)
}

/// Returns a delta that copies the common beginning and end of two texts.
pub(crate) fn delta_between(before: &[u8], after: &[u8]) -> Vec<u8> {
    let begin = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let rest = before[begin..].iter().rev().zip(after[begin..].iter().rev());
    let end = rest.take_while(|(a, b)| a == b).count();
    let changed = after[begin..after.len() - end].to_vec();
    let pieces =
        [Piece::Copy(0, begin), Piece::Insert(changed), Piece::Copy(before.len() - end, end)];
    delta(before, &pieces).0
}

fn in_base_64(mut number: u32) -> Vec<u8> {
    let mut digits = Vec::new();
    loop {
        digits.insert(0, DIGITS[(number % 64) as usize]);
        number /= 64;
        if number == 0 {
            return digits;
        }
    }
}

/// The sum of all bytes, each at its place within a word of 32 bits.
fn checksum(bytes: &[u8]) -> u32 {
    let shifted = |(index, byte): (usize, &u8)| u32::from(*byte) << (24 - index % 4 * 8);
    bytes.iter().enumerate().map(shifted).fold(0, u32::wrapping_add)
}
