//! Forever frame: an endless document, one script a message. A message holds no
//! `<`, so a script ends at the first `</script>` after it.

use super::{
    Malformed,
    unread::{Unread, text},
};

/// The arguments of scripts that call `receive`.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    pub(super) unread: Unread,
}

impl Scripts {
    pub(super) fn next(&mut self) -> Result<Option<String>, Malformed> {
        while let Some(piece) = self.unread.until(b"</script>")? {
            if let Some(argument) = argument(piece) {
                return text(argument).map(Some);
            }
        }
        Ok(None)
    }
}

/// `…<script …>receive(ARGUMENT)`.
fn argument(piece: &[u8]) -> Option<&[u8]> {
    let tag = memchr::memmem::find(piece, b"<script")?;
    let tag_end = memchr::memchr(b'>', &piece[tag..])?;
    let script = piece[tag + tag_end + 1..].trim_ascii();
    script.strip_prefix(b"receive(")?.strip_suffix(b")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_receive_are_messages() {
        let mut scripts = Scripts::default();
        scripts.unread.push(
            b"<!doctype html><title>T</title>\n<script nonce=\"a\">function receive(m){}</script>\n\
              <script nonce=\"a\">receive({\"a\":\")\"})</script>\n<script>other(1)</script>\
              <script nonce=\"a\">receive(2)</script>\n<script nonce=\"a\">receive(3)",
        );
        assert_eq!(scripts.next(), Ok(Some("{\"a\":\")\"}".to_owned())));
        assert_eq!(scripts.next(), Ok(Some("2".to_owned())));
        assert_eq!(scripts.next(), Ok(None));
    }
}
