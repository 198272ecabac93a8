//! Forever frame: an endless document, with one script per message. The message is a string in single quotes, which holds
//! no `<`, so a script ends at the first `</script>`.

use super::unread::{Malformed, Unread, text};

/// The string arguments of the scripts' calls of `receive`.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    pub(super) unread: Unread,
}

impl Scripts {
    pub(super) fn next(&mut self) -> Result<Option<String>, Malformed> {
        while let Some(piece) = self.unread.until(b"</script>")? {
            if let Some(quoted) = quoted(piece) {
                return string(quoted).map(Some);
            }
        }
        Ok(None)
    }
}

/// Returns `QUOTED` from `…<script …>receive('QUOTED')`.
fn quoted(piece: &[u8]) -> Option<&[u8]> {
    let tag = memchr::memmem::find(piece, b"<script")?;
    let tag_end = memchr::memchr(b'>', &piece[tag..])?;
    let script = piece[tag + tag_end + 1..].trim_ascii();
    script.strip_prefix(b"receive('")?.strip_suffix(b"')")
}

/// Parses the string in single quotes. Its escapes are those of JSON (RFC 8259 §7) and `\'`.
fn string(quoted: &[u8]) -> Result<String, Malformed> {
    let mut string = text(quoted)?;
    if string.contains('\\') {
        let json = string.replace(r"\'", "'").replace('"', r#"\""#);
        string = serde_json::from_str(&format!("\"{json}\"")).map_err(|_| Malformed::NoString)?;
    }
    Ok(string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_receive_are_messages() {
        let mut scripts = Scripts::default();
        scripts.unread.push(
            b"<!doctype html><title>T</title>\n<script nonce=\"a\">function receive(m){}</script>\n\
              <script nonce=\"a\">receive('{\"a\":\")\"}')</script>\n<script>other(1)</script>\
              <script nonce=\"a\">receive('2')</script>\n<script nonce=\"a\">receive('3')",
        );
        assert_eq!(scripts.next(), Ok(Some("{\"a\":\")\"}".to_owned())));
        assert_eq!(scripts.next(), Ok(Some("2".to_owned())));
        assert_eq!(scripts.next(), Ok(None));
    }

    #[test]
    fn escapes_are_undone() {
        let mut scripts = Scripts::default();
        let mut check = |quoted: &str, expected| {
            scripts.unread.push(format!("<script>receive('{quoted}')</script>").as_bytes());
            assert_eq!(scripts.next(), expected, "{quoted}");
        };
        check(r#"["it\'s","\\"\\\\\u003c"]"#, Ok(Some(r#"["it's","\"\\<"]"#.to_owned())));
        check(r"\\\'", Ok(Some(r"\'".to_owned())));
        for wrong in [r"\", r"\x3c", r"\u00"] {
            check(wrong, Err(Malformed::NoString));
        }
    }
}
