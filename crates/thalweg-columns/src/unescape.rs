/// Appends what a JSON string says (RFC 8259 §7); `text` is without its quotes. Half a surrogate pair
/// stands for no character: it becomes U+FFFD.
pub(crate) fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (character, len) = escaped(&rest[at + 1..]);
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[(at + 1 + len).min(rest.len())..];
    }
    out.extend_from_slice(rest);
}

/// The character that follows a backslash, and how many bytes name it.
fn escaped(rest: &[u8]) -> (char, usize) {
    let simple = match rest.first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(rest),
        Some(byte) => char::from(*byte),
        None => char::REPLACEMENT_CHARACTER,
    };
    (simple, 1)
}

fn unicode(rest: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = rest.get(at..at + 5)?.strip_prefix(b"u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 1) };
    let second = rest.get(5).filter(|byte| **byte == b'\\').and_then(|_| unit(6));
    match (first, second) {
        (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11)
        }
        _ => (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> String {
        let mut out = Vec::new();
        unescape(text.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn half_a_pair_is_a_replacement_character() {
        assert_eq!(said(r"a\ud83d\ude00b"), "a😀b");
        assert_eq!(said(r"a\ud83db\ude00"), "a\u{fffd}b\u{fffd}");
        assert_eq!(said(r"\ud83d\u0041"), "\u{fffd}A");
    }

    proptest! {
        #[test]
        fn every_string_is_said_as_it_was(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(said(&json[1..json.len() - 1]), text);
        }

        #[test]
        fn what_is_no_json_is_text_all_the_same(bytes: Vec<u8>) {
            unescape(&bytes, &mut Vec::new());
        }
    }
}
