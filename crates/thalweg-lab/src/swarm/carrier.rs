//! Transports as the swarm speaks them: bytes in, messages out.
//!
//! A carrier keeps no state between frames, so a connection that waits costs
//! nothing but its socket. It is given the bytes from a frame's beginning on
//! and says what is there.

mod forever_frame;
pub(super) mod http2;
mod http_streaming;
mod sse;
mod websocket;

pub(super) use websocket::{head as websocket_head, pong, text};

use crate::scenario::Transport;

/// A longer message or answer is refused, by whoever makes it: a subject that never
/// ends a line, or announces more than any memory holds, must not take the lab's. The
/// longest that a scenario can ask for is an event of a MiB in an envelope of many.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The reason that is told.
pub(super) const TOO_LONG: &str = "a message of over 64 MiB, or one without an end";

/// What the bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A message of the dialect, and the length of its frame.
    Message(&'a [u8], usize),
    /// A WebSocket ping with this payload, to be answered.
    Ping(&'a [u8], usize),
    /// A frame that says nothing, e.g. a comment.
    Nothing(usize),
    /// The transport's own close.
    Close,
    /// Part of a frame. With more bytes, the search for its end may leave out
    /// the first `searched`.
    Incomplete { searched: usize },
}

/// The bytes are not this transport's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct CarrierError(&'static str);

/// Takes one step. `searched` is what an `Incomplete` on fewer of the same
/// bytes said, otherwise 0.
#[inline]
pub(super) fn step(
    transport: Transport,
    bytes: &[u8],
    searched: usize,
) -> Result<Step<'_>, CarrierError> {
    let step = match transport {
        Transport::Websocket => websocket::step(bytes)?,
        Transport::Sse => sse::step(bytes, searched)?,
        Transport::HttpStreaming | Transport::LongPolling => http_streaming::step(bytes, searched),
        Transport::ForeverFrame => forever_frame::step(bytes, searched)?,
    };
    match step {
        Step::Incomplete { .. } if bytes.len() > MESSAGE_BYTES_MAX => Err(CarrierError(TOO_LONG)),
        step => Ok(step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let endless = vec![b'x'; MESSAGE_BYTES_MAX + 1];
        for transport in &ALL[1..] {
            assert_eq!(step(*transport, &endless, 0), Err(CarrierError(TOO_LONG)), "{transport}");
            let shorter = step(*transport, &endless[1..], 0);
            assert!(matches!(shorter, Ok(Step::Incomplete { .. })), "{transport}");
        }
        // As soon as it is announced.
        let announced = |bytes: u64| {
            let head = [&[0x81, 127][..], &bytes.to_be_bytes()].concat();
            step(Transport::Websocket, &head, 0).map(drop)
        };
        assert_eq!(announced(1 << 60), Err(CarrierError(TOO_LONG)));
        assert_eq!(announced(MESSAGE_BYTES_MAX as u64 + 1), Err(CarrierError(TOO_LONG)));
        assert!(announced(MESSAGE_BYTES_MAX as u64).is_ok());
    }

    /// Messages as the subject frames them.
    fn frames(transport: Transport, messages: &[String]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            match transport {
                Transport::Websocket => {
                    bytes.extend(websocket::tests::frame(1, message.as_bytes()));
                }
                Transport::Sse => {
                    bytes.extend(format!("data:{message}\nid:1.7\n\n").as_bytes());
                }
                Transport::HttpStreaming | Transport::LongPolling => {
                    bytes.extend(format!("{message}\n").as_bytes());
                }
                Transport::ForeverFrame => {
                    bytes.extend(format!("<script>receive('{message}')</script>\n").as_bytes());
                }
            }
        }
        bytes
    }

    const ALL: [Transport; 4] =
        [Transport::Websocket, Transport::Sse, Transport::HttpStreaming, Transport::ForeverFrame];

    /// Feeds the bytes in pieces as a connection does, carrying over what is
    /// incomplete.
    fn receive(transport: Transport, bytes: &[u8], cuts: &[usize]) -> Vec<String> {
        let (mut messages, mut carried, mut searched) = (Vec::new(), Vec::new(), 0);
        let mut at = 0usize;
        for piece in cuts.iter().map(|cut| cut % 97).chain([usize::MAX]) {
            let end = at.saturating_add(piece).min(bytes.len());
            carried.extend_from_slice(&bytes[at..end]);
            at = end;
            let mut used = 0;
            loop {
                match step(transport, &carried[used..], searched).unwrap() {
                    Step::Message(message, length) => {
                        messages.push(String::from_utf8(message.to_vec()).unwrap());
                        used += length;
                        searched = 0;
                    }
                    Step::Incomplete { searched: so_far } => {
                        searched = so_far;
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            carried.drain(..used);
        }
        assert!(carried.trim_ascii().is_empty());
        messages
    }

    proptest! {
        #[test]
        fn cuts_anywhere_change_nothing(
            messages in prop::collection::vec("[a-z\\[\\],{}\":0-9]{1,300}", 1..20),
            cuts in prop::collection::vec(any::<usize>(), 0..100),
        ) {
            for transport in ALL {
                let bytes = frames(transport, &messages);
                prop_assert_eq!(&receive(transport, &bytes, &cuts), &messages);
            }
        }

        #[test]
        fn any_bytes_are_an_answer_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for transport in ALL {
                let _ = step(transport, &bytes, 0);
            }
        }
    }
}
