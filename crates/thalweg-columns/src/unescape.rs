use std::borrow::Cow;

/// Returns the text of a JSON string (RFC 8259 §7) without its quotes. `None`: the string has half a surrogate pair,
/// which no text can hold.
pub(crate) fn unescape(text: &[u8]) -> Option<Cow<'_, str>> {
    let Some(first) = memchr::memchr(b'\\', text) else {
        // Events are valid UTF-8; invalid bytes are replaced.
        return Some(String::from_utf8_lossy(text));
    };
    let (before, mut rest) = text.split_at(first);
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(before);
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (character, len) = escaped(&rest[at + 1..])?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[(at + 1 + len).min(rest.len())..];
    }
    out.extend_from_slice(rest);
    Some(String::from_utf8_lossy(&out).into_owned().into())
}

/// Returns the character that follows a backslash, and the length of its escape.
fn escaped(rest: &[u8]) -> Option<(char, usize)> {
    let simple = match rest.first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(rest),
        Some(byte) => char::from(*byte),
        None => return None,
    };
    Some((simple, 1))
}

fn unicode(rest: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = rest.get(at..at + 5)?.strip_prefix(b"u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0)?;
    let second = rest.get(5).filter(|byte| **byte == b'\\').and_then(|_| unit(6));
    match (first, second) {
        (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Some((char::from_u32(code)?, 11))
        }
        _ => Some((char::from_u32(first)?, 5)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_a_pair_is_no_text() {
        assert_eq!(unescape(br"a\ud83d\ude00b").as_deref(), Some("a😀b"));
        for half in [r"a\ud83db", r"a\ude00", r"\ud83d\u0041", r"\ude00\ud83d", r"\ud83d\\ude00"] {
            assert_eq!(unescape(half.as_bytes()), None, "{half}");
        }
        // U+FFFD itself is a character.
        assert_eq!(unescape("\u{fffd}\\ufffd".as_bytes()).as_deref(), Some("\u{fffd}\u{fffd}"));
    }

    proptest! {
        #[test]
        fn every_string_is_read_as_it_was_written(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            let said = unescape(&json.as_bytes()[1..json.len() - 1]);
            prop_assert_eq!(said.as_deref(), Some(&*text));
        }

        #[test]
        fn malformed_json_does_not_panic(bytes: Vec<u8>) {
            let _ = unescape(&bytes);
        }
    }
}
