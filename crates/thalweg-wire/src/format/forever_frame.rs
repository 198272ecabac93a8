//! An endless HTML document for an `<iframe>`, with one script per message. The script passes the message's text, not its value:
//! an object literal is not JSON (`__proto__` sets a prototype, ECMA-262 §13.2.5), and a browser silently drops a literal that it
//! rejects, e.g. one that nests too deep. No message can end its script early or contain markup: every `<` is escaped.

use memchr::memchr2;

const BEFORE: &[u8] = b"receive('";
const AFTER: &[u8] = b"')</script>\n";

/// Bytes of a script without its text.
pub(super) const AROUND_LEN: usize = BEFORE.len() + AFTER.len();

/// Appends the beginning of the document, up to the first script's call. `nonce` is the nonce of the document's
/// Content-Security-Policy: letters and digits.
pub fn document(nonce: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<!doctype html><meta charset=\"utf-8\"><title>Thalweg</title>\n");
    opening(nonce, out);
    out.extend_from_slice(
        b"function receive(text){document.currentScript.remove();\
          parent.thalweg(text,window)}</script>\n",
    );
    opening(nonce, out);
}

/// Appends the opening tag of the next script, which ends each frame.
pub fn opening(nonce: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<script nonce=\"");
    out.extend_from_slice(nonce.as_bytes());
    out.extend_from_slice(b"\">");
}

/// Appends the rest of a script, whose argument is the output of `write`: JSON without line breaks.
pub(super) fn script(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(BEFORE);
    let start = out.len();
    write(out);
    // The second escape adds backslashes after the first has escaped those of the text.
    escape(out, start, (b'\\', b'\''), quoted);
    escape(out, start, (b'<', 0xe2), harmless);
    out.extend_from_slice(AFTER);
}

/// Escapes characters that have another meaning in a string in single quotes. JSON has many double quotes and few single ones.
fn quoted(rest: &[u8]) -> (&[u8], usize) {
    match rest {
        [b'\\', ..] => (b"\\\\", 1),
        _ => (b"\\'", 1),
    }
}

/// Escapes characters that have a meaning in HTML, and U+2028 and U+2029, which end lines in JavaScript before ES2019.
fn harmless(rest: &[u8]) -> (&[u8], usize) {
    match rest {
        [b'<', ..] => (b"\\u003c", 1),
        [0xe2, 0x80, 0xa8, ..] => (b"\\u2028", 3),
        [0xe2, 0x80, 0xa9, ..] => (b"\\u2029", 3),
        other => (&other[..1], 1),
    }
}

/// Replaces text that begins with one of two bytes, from `start` on: `escaped` gets the text from that byte on and
/// returns the replacement and the number of bytes that it replaces.
fn escape(
    out: &mut Vec<u8>,
    start: usize,
    (one, other): (u8, u8),
    escaped: fn(&[u8]) -> (&[u8], usize),
) {
    let Some(first) = memchr2(one, other, &out[start..]) else { return };
    let text = out.split_off(start + first);
    let mut rest = text.as_slice();
    while let Some(at) = memchr2(one, other, rest) {
        out.extend_from_slice(&rest[..at]);
        let (escape, taken) = escaped(&rest[at..]);
        out.extend_from_slice(escape);
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
    fn text_in_a_message_is_not_markup() {
        let script = script_of("\"</script><!-- \u{2028}\u{2029}\u{2027}\u{20ac}\"");
        let expected = "before<receive('\"\\u003c/script>\\u003c!-- \\u2028\\u2029\u{2027}\u{20ac}\"')\
                        </script>\n";
        assert_eq!(script, expected);
    }

    #[test]
    fn text_in_a_message_never_ends_the_string() {
        let script = script_of(r#"["it's","\"\\\u003c"]"#);
        assert_eq!(
            script,
            format!("before<receive('{}')</script>\n", r#"["it\'s","\\"\\\\\\u003c"]"#)
        );
    }

    #[test]
    fn a_message_without_special_characters_is_unchanged() {
        assert_eq!(script_of("[1]"), "before<receive('[1]')</script>\n");
    }
}
