//! Text as words of 64 bits, whose lowest byte comes first. An operation on eight bytes takes about as long as on one.

/// A one, or a high bit, in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = ONES << 7;

/// Returns the eight bytes at `at`, with zeros beyond the end.
#[inline]
pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => load_end(bytes, at),
    }
}

#[cold]
#[inline(never)]
fn load_end(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns the value of the digits at the start of `word`, and how many digits there are.
#[inline]
pub(crate) fn digits(word: u64) -> (u64, usize) {
    let values = word ^ each(b'0');
    // A byte above 9 gets its high bit, and no byte carries into the next.
    let others = ((values & !HIGH_BITS) + ONES * (0x80 - 10)) | values;
    let count = first(others & HIGH_BITS);
    // Removes the bytes after the digits, and puts zeros before the digits.
    let values = values.unbounded_shl(64 - 8 * count as u32);
    // Each step joins two adjacent numbers into one.
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    ((fours * 10_000 + (fours >> 32)) & 0xffff_ffff, count)
}

/// Returns the index of the first quote or backslash; 8 if there is none.
#[inline]
pub(crate) fn find_special(word: u64) -> usize {
    // Subtracting one sets the high bit of a zero. A borrow only reaches bytes after the first hit.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let (quotes, backslashes) = (word ^ each(b'"'), word ^ each(b'\\'));
    first((zeros(quotes) | zeros(backslashes)) & HIGH_BITS)
}

/// Returns the first and the last bytes of `text`, up to eight of each.
#[inline]
pub(crate) fn ends(text: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into());
    }
    (text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
}

/// Returns whether two texts are equal. Compares short texts without a call.
#[inline]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let len = one.len();
    len == other.len()
        && ends(one) == ends(other)
        && (len <= 16 || one[8..len - 8] == other[8..len - 8])
}

#[inline]
fn each(byte: u8) -> u64 {
    ONES * u64::from(byte)
}

/// Returns the index of the first byte with a bit set.
#[inline]
fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_word_is_as_its_bytes(text in "([0-9]{0,9}|[\"\\\\!#\\[\\]x]{0,9}|\\PC{0,3}){1,3}", at in 0..12_usize) {
            let rest = text.as_bytes().get(at..).unwrap_or_default();
            let rest = &rest[..rest.len().min(8)];
            let word = load(text.as_bytes(), at);
            prop_assert_eq!(&word.to_le_bytes()[..rest.len()], rest);

            let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = rest[..count].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
            prop_assert_eq!(digits(word), (number, count));

            let special = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(find_special(word), special.unwrap_or(8));
        }

        #[test]
        fn texts_are_the_same_or_not(text: Vec<u8>, at: proptest::sample::Index, byte: u8) {
            let mut other = text.clone();
            prop_assert!(is_same(&text, &other));
            prop_assert!(!is_same(&text, &[&*text, &[byte]].concat()));
            if !text.is_empty() {
                other[at.index(text.len())] = byte;
                prop_assert_eq!(is_same(&text, &other), text == other);
            }
        }

        #[test]
        fn every_word_has_this_number_of_digits(word: u64, digit in 0..8_u32) {
            for word in [word, word ^ (word ^ 0x3939_3939_3939_3939) >> (8 * digit)] {
                let count = word.to_le_bytes().iter().take_while(|byte| byte.is_ascii_digit()).count();
                prop_assert_eq!(digits(word).1, count);
            }
        }
    }
}
