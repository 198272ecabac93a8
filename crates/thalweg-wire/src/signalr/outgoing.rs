//! Records for one client.

use serde_json::value::RawValue;

use super::record;

/// A ping ("Ping Message Encoding").
pub const PING: &[u8] = b"{\"type\":6}\x1e";

/// The outcome of an invocation.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'a> {
    /// The invocation has no result, or a stream has ended.
    Done,
    /// The result of the invocation as JSON.
    Result(&'a [u8]),
    /// The reason why the invocation failed.
    Error(&'a str),
}

/// Appends the completion of an invocation, whose `id` is a JSON string ("Completion Message Encoding").
pub fn completion(id: &RawValue, outcome: Outcome<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"type":3,"invocationId":"#);
    out.extend_from_slice(id.get().as_bytes());
    end_completion(outcome, out);
}

/// Appends all that follows the id of a completion.
pub(super) fn end_completion(outcome: Outcome<'_>, out: &mut Vec<u8>) {
    match outcome {
        Outcome::Done => {}
        Outcome::Result(json) => {
            out.extend_from_slice(br#","result":"#);
            out.extend_from_slice(json);
        }
        Outcome::Error(error) => {
            out.extend_from_slice(br#","error":"#);
            string(error, out);
        }
    }
    out.push(b'}');
    record::end(out);
}

/// Appends a close ("Close Message Encoding"). A client with automatic reconnects obeys `may_reconnect`.
pub fn close(error: &str, may_reconnect: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"type":7,"error":"#);
    string(error, out);
    out.extend_from_slice(br#","allowReconnect":"#);
    out.extend_from_slice(if may_reconnect { b"true" } else { b"false" });
    out.push(b'}');
    record::end(out);
}

pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    // Writing a string to a `Vec` cannot fail: an `io::Error` only comes from the writer.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_has_a_result_or_an_error_or_neither() {
        let check = |outcome, expected: &str| {
            let mut out = Vec::new();
            completion(serde_json::from_str(r#""a\"7""#).unwrap(), outcome, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{expected}\u{1e}"));
        };
        check(Outcome::Done, r#"{"type":3,"invocationId":"a\"7"}"#);
        check(Outcome::Result(b"[1]"), r#"{"type":3,"invocationId":"a\"7","result":[1]}"#);
        check(Outcome::Error("no\n"), r#"{"type":3,"invocationId":"a\"7","error":"no\n"}"#);
    }

    #[test]
    fn a_close_says_whether_to_reconnect() {
        let mut out = Vec::new();
        close("draining", true, &mut out);
        assert_eq!(out, b"{\"type\":7,\"error\":\"draining\",\"allowReconnect\":true}\x1e");
    }
}
