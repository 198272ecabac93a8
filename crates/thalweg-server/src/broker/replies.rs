//! Destinations of the answers to stores and reads. Every request gets an answer: a reply that is dropped, because the broker's
//! task has panicked or the broker ends, answers "unknown". A shard that waited for an answer that never comes would never end.
//!
//! Answers have their own queue. It is unbounded, because the number of requests bounds it, and therefore sending never waits: a
//! drop cannot.

use thalweg_broker::{AppendError, ReadPage, Stored, TicketError, Unreadable};
use thalweg_wire::Topic;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{BackfillId, FromBroker};

/// The destination of the answer to a [`Store`](super::Store). Dropping it answers [`AppendError::Unknown`].
#[derive(Debug)]
pub(crate) struct StoreReply(Option<Publisher>);

/// A shard that waits for a stored message.
#[derive(Debug)]
struct Publisher {
    topic: Topic,
    /// The shard's number of the message.
    number: u64,
    shard: mpsc::UnboundedSender<FromBroker>,
}

impl StoreReply {
    pub(crate) fn new(topic: Topic, number: u64, shard: mpsc::UnboundedSender<FromBroker>) -> Self {
        Self(Some(Publisher { topic, number, shard }))
    }

    pub(crate) fn send(mut self, result: Result<Stored, AppendError>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<Stored, AppendError>) {
        if let Some(Publisher { topic, number, shard }) = self.0.take() {
            // A shard that has ended needs no answer.
            let _ = shard.send(FromBroker::Stored { topic, number, result });
        }
    }
}

impl Drop for StoreReply {
    fn drop(&mut self) {
        self.answer(Err(AppendError::Unknown));
    }
}

/// The destination of the answer to a [`Read`](super::Read). Dropping it answers [`Unreadable`].
#[derive(Debug)]
pub(crate) struct ReadReply(Option<Reader>);

#[derive(Debug)]
pub(crate) enum Reader {
    /// The subscribers of a topic on a shard.
    Shard(BackfillId, mpsc::UnboundedSender<FromBroker>),
    /// A single request.
    Once(oneshot::Sender<Result<ReadPage, Unreadable>>),
}

impl ReadReply {
    pub(crate) fn new(reader: Reader) -> Self {
        Self(Some(reader))
    }

    pub(crate) fn send(mut self, result: Result<ReadPage, Unreadable>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<ReadPage, Unreadable>) {
        match self.0.take() {
            Some(Reader::Shard(id, shard)) => {
                // A shard that has ended needs no answer.
                let _ = shard.send(FromBroker::Page { id, result });
            }
            // The requester may be gone.
            Some(Reader::Once(answer)) => _ = answer.send(result),
            None => {}
        }
    }
}

impl Drop for ReadReply {
    fn drop(&mut self) {
        self.answer(Err(Unreadable));
    }
}

/// The destination of the answer to a [`TicketRequest`](super::TicketRequest). Dropping it means [`TicketError::Unknown`].
#[derive(Debug)]
pub(crate) struct TicketReply<T> {
    answer: oneshot::Sender<Result<T, TicketError>>,
    /// Its permit among all unanswered requests. The requester may be gone while the broker still works on it.
    _place: Option<OwnedSemaphorePermit>,
}

impl<T> TicketReply<T> {
    /// Returns a reply, and the receiver of its answer. The reply keeps `place` until it answers.
    pub(crate) fn channel(
        place: Option<OwnedSemaphorePermit>,
    ) -> (Self, oneshot::Receiver<Result<T, TicketError>>) {
        let (answer, answered) = oneshot::channel();
        (Self { answer, _place: place }, answered)
    }

    /// Returns whether somebody still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    pub(crate) fn send(self, result: Result<T, TicketError>) {
        // The requester may be gone.
        let _ = self.answer.send(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> Topic {
        "cars".parse().unwrap()
    }

    #[test]
    fn a_dropped_store_is_unknown_and_an_answered_one_is_not_answered_again() {
        let (shard, mut answers) = mpsc::unbounded_channel();
        drop(StoreReply::new(topic(), 7, shard.clone()));
        StoreReply::new(topic(), 8, shard).send(Err(AppendError::Unavailable));
        let mut next = || match answers.try_recv() {
            Ok(FromBroker::Stored { number, result, .. }) => Some((number, result)),
            _ => None,
        };
        assert_eq!(next(), Some((7, Err(AppendError::Unknown))));
        assert_eq!(next(), Some((8, Err(AppendError::Unavailable))));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_dropped_read_is_unreadable() {
        let (once, mut page) = oneshot::channel();
        drop(ReadReply::new(Reader::Once(once)));
        assert!(matches!(page.try_recv(), Ok(Err(Unreadable))));
    }
}
