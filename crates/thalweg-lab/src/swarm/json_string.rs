//! Content of a JSON string (RFC 8259 §7), as far as the lab needs it: its events need only quotes and backslashes escaped.

/// Appends the text as the content of a JSON string.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + text.len() / 8);
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// Returns the text of this content.
pub(super) fn unescaped(escaped: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        out.extend(if byte == b'\\' { bytes.next() } else { Some(&byte) });
    }
    out
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
            assert_eq!(unescaped(&within), text.as_bytes());
        }
    }
}
