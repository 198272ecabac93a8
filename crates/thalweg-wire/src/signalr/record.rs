/// The character that ends each record ("JSON Encoding": all JSON messages end with the ASCII character 0x1E). It
/// never occurs within JSON, which escapes control characters (RFC 8259 §7).
const SEPARATOR: u8 = 0x1e;

/// Returns the length of the first record of a text, with its separator, or of the whole text if that record is unfinished.
pub fn record_len(text: &str) -> usize {
    memchr::memchr(SEPARATOR, text.as_bytes()).map_or(text.len(), |end| end + 1)
}

/// Returns a record without its separator; `None` if it is unfinished.
pub(super) fn content(record: &str) -> Option<&str> {
    record.strip_suffix(char::from(SEPARATOR))
}

pub(super) fn end(out: &mut Vec<u8>) {
    out.push(SEPARATOR);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_with_its_separator() {
        for (text, len) in [("", 0), ("{}", 2), ("\u{1e}", 1), ("{}\u{1e}", 3), ("{}\u{1e}{", 3)] {
            assert_eq!(record_len(text), len, "{text:?}");
        }
        assert_eq!(content("{}\u{1e}"), Some("{}"));
        assert_eq!(content("{}"), None);
    }
}
