//! Content of a JSON string (RFC 8259 §7), without the quotes around it.

/// Appends the text as the content of a JSON string. Events of the lab need only quotes and backslashes escaped.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + text.len() / 8);
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// Returns the text of this content, with any escapes; `None` if it is not the content of a JSON string.
pub(super) fn unescaped(escaped: &[u8]) -> Option<Vec<u8>> {
    let quoted = [b"\"", escaped, b"\""].concat();
    serde_json::from_slice(&quoted).ok().map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_library_does_it() {
        for text in [r#"{"a":"b\"c","d":"\\"}"#, "", "é"] {
            let mut within = Vec::new();
            escape(text.as_bytes(), &mut within);
            let quoted = format!("\"{}\"", String::from_utf8(within.clone()).unwrap());
            assert_eq!(quoted, serde_json::to_string(text).unwrap());
            assert_eq!(unescaped(&within).as_deref(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn any_escape_is_read() {
        let check = |escaped: &str, text: Option<&str>| {
            assert_eq!(
                unescaped(escaped.as_bytes()).as_deref(),
                text.map(str::as_bytes),
                "{escaped}"
            );
        };
        check(r"6U\n2:\u003c\ud83d\ude00\/", Some("6U\n2:<😀/"));
        for wrong in ["a\"b", "a\nb", r"\", r"\x", r"\ud83d"] {
            check(wrong, None);
        }
        assert_eq!(unescaped(b"\xFF"), None);
    }
}
