//! Messages of experiment C, which come back.

/// The message of this number: no two are the same.
pub(super) fn uuid(number: u64) -> String {
    format!("{number:08x}-7468-416c-8765-{:012x}", number.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF)
}

/// The number of the UUID that the text begins with. Only so much of a longer text is looked at.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text.get(..8)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}
