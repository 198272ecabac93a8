//! A forever frame: a document that never ends. Each message is a script that passes a string to the page. Text
//! between two scripts is ignored.

use super::{CarrierError, CarrierStep, Incoming, Kind, wrong};
use memchr::{memchr, memmem::find};

const CALL: &[u8] = b">receive('";
const END: &[u8] = b"')</script>";

/// No event of the lab needs escapes in this framing, so a string is the message itself.
const ESCAPED: CarrierError = wrong("a message with an escape, which no event of a scenario has");

pub(super) fn step(bytes: &[u8], searched: usize) -> Result<CarrierStep<'_>, CarrierError> {
    // A marker may have been cut where the last search ended.
    let from = searched.saturating_sub(CALL.len().max(END.len())).min(bytes.len());
    // The searched bytes had no whole message, but perhaps its call.
    let Some(call) = find(bytes, CALL) else {
        return Ok(CarrierStep::Incomplete { searched: 0 });
    };
    let begin = call + CALL.len();
    let end_from = from.max(begin);
    let Some(at) = find(&bytes[end_from..], END) else {
        return Ok(CarrierStep::Incomplete { searched: bytes.len() });
    };
    let message = &bytes[begin..end_from + at];
    match memchr(b'\\', message) {
        Some(_) => Err(ESCAPED),
        None => {
            let message = Incoming::Message(Kind::Text, message);
            Ok(CarrierStep::Incoming(message, end_from + at + END.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_between_anything() {
        let document =
            b"<!doctype html><script nonce=\"x\">function receive(m){parent.thalweg(m,window)}\
            </script>\n<script nonce=\"x\">receive('{\"heartbeat\":{}}')</script>\nrest";
        let Ok(CarrierStep::Incoming(Incoming::Message(_, message), length)) = step(document, 0)
        else {
            panic!()
        };
        assert_eq!(message, b"{\"heartbeat\":{}}");
        assert_eq!(&document[length..], b"\nrest");
        let found = CarrierStep::Incoming(Incoming::Message(Kind::Text, message), length);
        for cut in 0..length {
            let Ok(CarrierStep::Incomplete { searched }) = step(&document[..cut], 0) else {
                panic!("{cut}")
            };
            assert_eq!(step(document, searched), Ok(found), "{cut}");
        }
        assert_eq!(step(br">receive('\'')</script>", 0), Err(ESCAPED));
    }
}
