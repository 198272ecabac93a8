//! Deltas in Fossil's format (<https://fossil-scm.org/home/doc/trunk/www/delta_format.wiki>): the length of the result and a line
//! feed, then commands, each with a number first. `N@M,` copies N bytes from place M of the base, `N:` inserts the N bytes behind
//! it, and `N;` ends the delta with the checksum of the result. Pure.

/// Returns the result of a delta on `base`; `None` if the delta is malformed, its checksum is wrong, or its result is longer than
/// `bytes_max`.
pub(super) fn apply(base: &[u8], delta: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let (length, b'\n', mut rest) = number(delta)? else { return None };
    let length = Some(length as usize).filter(|length| *length <= bytes_max)?;
    let mut result = Vec::with_capacity(length);
    loop {
        let (count, command, behind) = number(rest)?;
        let (piece, behind) = match command {
            b'@' => {
                let (place, b',', behind) = number(behind)? else { return None };
                (base.get(place as usize..)?.get(..count as usize)?, behind)
            }
            b':' => behind.split_at_checked(count as usize)?,
            b';' => {
                let is_right =
                    behind.is_empty() && result.len() == length && count == checksum(&result);
                return is_right.then_some(result);
            }
            _ => return None,
        };
        if piece.len() > length - result.len() {
            return None;
        }
        result.extend_from_slice(piece);
        rest = behind;
    }
}

/// Returns the number of 32 bits at the beginning, the byte that ends it, and the bytes behind that.
fn number(bytes: &[u8]) -> Option<(u32, u8, &[u8])> {
    let length =
        bytes.iter().position(|byte| digit(*byte).is_none()).filter(|length| *length > 0)?;
    let (digits, behind) = bytes.split_at(length);
    let (end, behind) = behind.split_first()?;
    let add = |number: u32, byte: &u8| number.checked_mul(64)?.checked_add(digit(*byte)?);
    Some((digits.iter().try_fold(0, add)?, *end, behind))
}

/// Returns the value of a digit in base 64. The order of the digits is that of ASCII.
fn digit(byte: u8) -> Option<u32> {
    let value = match byte {
        b'0'..=b'9' => byte - b'0',
        b'A'..=b'Z' => byte - b'A' + 10,
        b'_' => 36,
        b'a'..=b'z' => byte - b'a' + 37,
        b'~' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Returns the sum of big-endian words of 32 bits, the last one filled up with zeros.
fn checksum(bytes: &[u8]) -> u32 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_be_bytes(word)
    };
    bytes.chunks(4).map(word).fold(0, u32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::tests::fossil::{Piece, delta};
    use proptest::prelude::*;

    const BYTES_MAX: usize = 4096;

    #[test]
    fn numbers_have_the_digits_of_fossil() {
        // The first numbers of the example in the format's document, and its checksum, which is negative there.
        for (text, value) in [("1Xb\n", 6246), ("4E@", 270), ("2zMM3E;", -1_101_438_770_i32 as u32)]
        {
            assert_eq!(number(text.as_bytes()).map(|(value, ..)| value), Some(value), "{text}");
        }
        assert_eq!(number(b"3~~~~~;"), Some((u32::MAX, b';', &b""[..])));
        for wrong in ["", "7", "@", "400000;", "~~~~~~;", "-1;"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_delta_copies_and_inserts() {
        let base = br#"{"minute":44,"home":0,"away":0}"#;
        let pieces = [
            Piece::Copy(0, 10),
            Piece::Insert(b"45".to_vec()),
            Piece::Copy(12, 8),
            Piece::Insert(b"1".to_vec()),
            Piece::Copy(21, 10),
        ];
        let (delta, result) = delta(base, &pieces);
        assert_eq!(delta, b"V\nA@0,2:458@C,1:1A@L,285w_k;");
        assert_eq!(result, br#"{"minute":45,"home":1,"away":0}"#);
        assert_eq!(apply(base, &delta, result.len()), Some(result));
        assert_eq!(apply(b"", b"0\n0;", 0), Some(Vec::new()));
    }

    #[test]
    fn malformed_deltas_have_no_result() {
        // `abcd` and `abc`: the last word is filled up.
        assert_eq!(apply(b"", b"4\n4:abcd1XObD_;", 9), Some(b"abcd".to_vec()));
        assert_eq!(apply(b"abc", b"3\n3@0,1XObC0;", 9), Some(b"abc".to_vec()));
        for (wrong, why) in [
            ("", "nothing"),
            ("4", "a length alone"),
            ("4\n", "no command"),
            ("4;4:abcd1XObD_;", "no line feed"),
            ("4\n4:abcd1XObD_", "no end"),
            ("4\n4:abcd1XObD_;x", "bytes behind the end"),
            ("4\n4:abce1XObD_;", "another checksum"),
            ("4\n4:abcd;", "no checksum"),
            ("5\n4:abcd1XObD_;", "too short"),
            ("3\n4:abcd1XObD_;", "too long"),
            ("4\n5:abcd", "an insert beyond the end"),
            ("4\n~~~~~:abcd1XObD_;", "a long insert"),
            ("3\n3@1,1XObC0;", "a copy beyond the base"),
            ("3\n3@3~~~~~,1XObC0;", "a copy from far behind the base"),
            ("3\n3@0;1XObC0;", "a copy without a comma"),
            ("4\n4#abcd1XObD_;", "an unknown command"),
            ("A\nA:aaaaaaaaaa_8xB2;", "a result above the limit"),
        ] {
            assert_eq!(apply(b"abc", wrong.as_bytes(), 9), None, "{why}");
        }
    }

    /// A base, and pieces of a result.
    fn pieces() -> impl Strategy<Value = (Vec<u8>, Vec<Piece>)> {
        let base = prop::collection::vec(any::<u8>(), 0..200);
        base.prop_flat_map(|base| {
            let length = base.len();
            let copy = (0..=length)
                .prop_flat_map(move |place| (Just(place), 0..=length - place))
                .prop_map(|(place, count)| Piece::Copy(place, count));
            let insert = prop::collection::vec(any::<u8>(), 0..100).prop_map(Piece::Insert);
            (Just(base), prop::collection::vec(prop_oneof![copy, insert], 0..9))
        })
    }

    proptest! {
        #[test]
        fn every_delta_has_its_result((base, pieces) in pieces(), cut in any::<prop::sample::Index>()) {
            let (delta, result) = delta(&base, &pieces);
            prop_assert_eq!(apply(&base, &delta, BYTES_MAX), Some(result.clone()));
            prop_assert_eq!(apply(&base, &delta, result.len()), Some(result.clone()));
            prop_assert_eq!(apply(&base, &delta[..cut.index(delta.len())], BYTES_MAX), None);
            if let Some(bytes_max) = result.len().checked_sub(1) {
                prop_assert_eq!(apply(&base, &delta, bytes_max), None);
            }
        }

        #[test]
        fn any_bytes_are_read_within_the_limit(base: Vec<u8>, delta in "[0-9A-Za-f~]{1,3}\n[0-9A@:,;~]{0,40}", bytes_max in 0_usize..64) {
            let result = apply(&base, delta.as_bytes(), bytes_max);
            prop_assert!(result.is_none_or(|result| result.len() <= bytes_max));
        }
    }
}
