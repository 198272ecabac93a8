//! An endless HTML document for an `<iframe>`, one script a message. Nothing that
//! a message holds ends its script early or is markup: every `<` is an escape.

use memchr::memchr2;

use crate::notice;

/// The beginning of the document, up to where the first script's call goes.
/// `nonce` is that of its Content-Security-Policy: letters and digits.
pub fn document(nonce: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<!doctype html><meta charset=\"utf-8\"><title>Thalweg</title>\n");
    opening(nonce, out);
    out.extend_from_slice(
        b"function receive(message){document.currentScript.remove();\
          parent.thalweg(message,window)}</script>\n",
    );
    opening(nonce, out);
}

/// The opening tag of the next script: ends each frame.
pub fn opening(nonce: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<script nonce=\"");
    out.extend_from_slice(nonce.as_bytes());
    out.extend_from_slice(b"\">");
}

/// Appends the rest of a script, whose argument `write` appends as JSON.
pub(super) fn script(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"receive(");
    let start = out.len();
    write(out);
    escape(out, start);
    out.extend_from_slice(b")</script>\n");
}

pub(super) fn heartbeat(out: &mut Vec<u8>) {
    script(out, |out| out.extend_from_slice(notice::HEARTBEAT));
}

/// Escapes what HTML or old JavaScript would read otherwise in the JSON from
/// `start` on. All three can only stand inside strings.
fn escape(out: &mut Vec<u8>, start: usize) {
    let suspect = |bytes: &[u8]| memchr2(b'<', 0xe2, bytes);
    let Some(first) = suspect(&out[start..]) else { return };
    let json = out.split_off(start + first);
    let mut rest = json.as_slice();
    while let Some(at) = suspect(rest) {
        out.extend_from_slice(&rest[..at]);
        let (escaped, taken): (&[u8], usize) = match &rest[at..] {
            [b'<', ..] => (b"\\u003c", 1),
            [0xe2, 0x80, 0xa8, ..] => (b"\\u2028", 3),
            [0xe2, 0x80, 0xa9, ..] => (b"\\u2029", 3),
            other => (&other[..1], 1),
        };
        out.extend_from_slice(escaped);
        rest = &rest[at + taken..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script_of(json: &str) -> String {
        let mut out = b"before<".to_vec();
        script(&mut out, |out| out.extend_from_slice(json.as_bytes()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_in_a_message_is_markup() {
        let script = script_of("\"</script><!-- \u{2028}\u{2029}\u{2027}\u{20ac}\"");
        let expected = "before<receive(\"\\u003c/script>\\u003c!-- \\u2028\\u2029\u{2027}\u{20ac}\")\
                        </script>\n";
        assert_eq!(script, expected);
    }

    #[test]
    fn a_message_without_any_is_untouched() {
        assert_eq!(script_of("[1]"), "before<receive([1])</script>\n");
    }
}
