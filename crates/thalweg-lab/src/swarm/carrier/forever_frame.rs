//! A forever frame: a document that never ends, each message a script that
//! hands it to the page. What stands between two scripts is not looked at.

use super::Step;
use memchr::memmem::find;

const CALL: &[u8] = b">receive(";
const END: &[u8] = b")</script>";

pub(super) fn step(bytes: &[u8], searched: usize) -> Step<'_> {
    // A marker may have been cut where the last search ended.
    let from = searched.saturating_sub(CALL.len().max(END.len())).min(bytes.len());
    // What was searched held no whole message: its call may stand in it.
    let Some(call) = find(bytes, CALL) else {
        return Step::Incomplete { searched: 0 };
    };
    let message = call + CALL.len();
    let end_from = from.max(message);
    match find(&bytes[end_from..], END) {
        Some(at) => Step::Message(&bytes[message..end_from + at], end_from + at + END.len()),
        None => Step::Incomplete { searched: bytes.len() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_between_anything() {
        let document =
            b"<!doctype html><script nonce=\"x\">function receive(m){parent.thalweg(m,window)}\
            </script>\n<script nonce=\"x\">receive({\"heartbeat\":{}})</script>\nrest";
        let Step::Message(message, length) = step(document, 0) else { panic!() };
        assert_eq!(message, b"{\"heartbeat\":{}}");
        assert_eq!(&document[length..], b"\nrest");
        for cut in 0..length {
            let Step::Incomplete { searched } = step(&document[..cut], 0) else { panic!("{cut}") };
            assert_eq!(step(document, searched), Step::Message(message, length), "{cut}");
        }
    }
}
