//! Parses a document as a browser does: a script ends at the first `</script>`, runs only with the nonce of
//! the policy, and text between scripts is markup.

use super::super::message::Received;
use super::super::{Response, Socket};

#[derive(Debug)]
pub(crate) struct Document {
    nonce: String,
    has_begun: bool,
}

impl Document {
    pub(crate) fn new(head: &Response) -> Self {
        let policy = head.header("content-security-policy").expect("a policy");
        let (_, nonce) = policy.split_once("'nonce-").expect("a nonce in the policy");
        let (nonce, _) = nonce.split_once('\'').expect("the nonce's end");
        Self { nonce: nonce.to_owned(), has_begun: false }
    }

    pub(crate) fn next(&mut self, socket: &mut Socket, what: &str) -> Received {
        loop {
            let Some(piece) = socket.until(b"</script>", what) else { return Received::End };
            let piece = String::from_utf8(piece).expect("the document is UTF-8");
            let piece = piece.strip_suffix("</script>").expect("what it ends with");
            let (markup, script) = piece.split_once("<script").expect("a script's tag");
            let (attributes, script) = script.split_once('>').expect("the tag's end");
            assert_eq!(attributes.trim(), format!("nonce=\"{}\"", self.nonce), "{what}: {piece}");
            let call = script.strip_prefix("receive('").and_then(|call| call.strip_suffix("')"));
            let Some(text) = call else {
                assert!(!self.has_begun, "{what}: only `receive` is called: {piece}");
                assert!(script.contains("receive"), "{what}: {piece}");
                self.has_begun = true;
                continue;
            };
            assert!(self.has_begun, "{what}: `receive` is not defined yet: {piece}");
            assert_eq!(markup.trim(), "", "{what}: nothing between scripts but the head");
            // Inside of a script `<` could end it or begin a comment; the other two end a line of JavaScript older than ES2019.
            let is_escaped = !text.contains(['<', '\u{2028}', '\u{2029}']);
            assert!(is_escaped, "{what}: {text}");
            return Received::parse(string(text).as_bytes(), None, what);
        }
    }
}

/// Decodes a JavaScript string in single quotes. The escapes are those of JSON and `\'`, and every `'` has one.
pub(crate) fn string(quoted: &str) -> String {
    let json = quoted.replace(r"\'", "'").replace('"', r#"\""#);
    serde_json::from_str(&format!("\"{json}\"")).expect("a string")
}
