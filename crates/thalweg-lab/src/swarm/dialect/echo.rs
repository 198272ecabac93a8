//! Messages of experiment C, which the subject echoes.

/// Returns the message with this number; no two are equal.
pub(super) fn uuid(number: u64) -> String {
    format!("{number:08x}-7468-416c-8765-{:012x}", number.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF)
}

/// Returns the number of the UUID at the beginning of the text. Ignores the rest.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text.get(..8)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}
