use std::io::IoSlice;

use thalweg_core::fanout::{Sent, Sink};
use tokio::sync::oneshot;

/// The answer to a waiting poll: whole messages. If the sender is dropped, the connection has ended, or another
/// poll waits: the poll then gets 204 ("Long Polling" in SignalR's `TransportProtocols.md`).
pub(crate) type PollAnswer = oneshot::Sender<Vec<u8>>;

/// The polls of one client, of which at most one waits. Without one the connection is full: the cursors wait, and no queue grows.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    waiting: Option<PollAnswer>,
}

impl Polls {
    /// Lets a poll wait for messages, in place of an earlier one ("Long Polling": a newer poll ends the one
    /// before).
    pub(crate) fn wait(&mut self, poll: PollAnswer) {
        self.waiting = Some(poll);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.as_ref().is_some_and(|poll| !poll.is_closed())
    }
}

impl Sink for Polls {
    /// Answers the waiting poll with all bytes, which end between messages. ("Long Polling": messages count
    /// as sent once they are written to a poll.)
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let Some(poll) = self.waiting.take() else { return Sent::Bytes(0) };
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let mut messages = Vec::with_capacity(bytes);
        slices.iter().for_each(|slice| messages.extend_from_slice(slice));
        // The client of a poll may have gone. It gets the messages with its next poll.
        Sent::Bytes(poll.send(messages).map_or(0, |()| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(polls: &mut Polls, parts: &[&str]) -> Sent {
        let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part.as_bytes())).collect();
        polls.send(&slices)
    }

    #[test]
    fn a_poll_gets_everything_once() {
        let mut polls = Polls::default();
        assert_eq!(send(&mut polls, &["a"]), Sent::Bytes(0));
        let (poll, mut answer) = oneshot::channel();
        polls.wait(poll);
        assert!(polls.is_waiting());
        assert_eq!(send(&mut polls, &["a", "bc"]), Sent::Bytes(3));
        assert_eq!(answer.try_recv(), Ok(b"abc".to_vec()));
        assert!(!polls.is_waiting());
        assert_eq!(send(&mut polls, &["d"]), Sent::Bytes(0));
    }

    #[test]
    fn an_abandoned_poll_takes_nothing_and_an_earlier_one_ends() {
        let mut polls = Polls::default();
        let (poll, answer) = oneshot::channel();
        polls.wait(poll);
        drop(answer);
        assert!(!polls.is_waiting());
        assert_eq!(send(&mut polls, &["a"]), Sent::Bytes(0));
        let (first, mut answer) = oneshot::channel();
        let (second, _answer) = oneshot::channel();
        polls.wait(first);
        polls.wait(second);
        assert!(
            answer.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed)
        );
    }
}
