//! Destinations of the answers to stores and reads. Every request gets an answer: a reply that is dropped, because the broker's
//! task has panicked or the broker ends, answers "unknown". Otherwise a shard that waits for this answer would never end.
//!
//! Answers have their own queue. It is unbounded, because the number of requests bounds it. Sending never waits,
//! so `drop` can send.

use thalweg_broker::{AppendError, ReadPage, Stored, TicketError, Unreadable};
use thalweg_wire::Topic;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{BackfillId, FromBroker};

/// A caller that waits for a broker's answer.
pub(crate) trait Caller {
    /// The broker's answer.
    type Answer;

    /// The answer if the broker gives none.
    const UNKNOWN: Self::Answer;

    /// Takes the answer, which is dropped if the caller is gone.
    fn take(self, answer: Self::Answer);
}

/// The destination of the answer to a [`Store`](super::Store) or a [`Read`](super::Read). Dropping it answers
/// [`Caller::UNKNOWN`].
#[derive(Debug)]
pub(crate) struct BrokerReply<C: Caller>(Option<C>);

impl<C: Caller> BrokerReply<C> {
    /// Returns the reply to a caller.
    pub(crate) fn new(caller: C) -> Self {
        Self(Some(caller))
    }

    /// Sends the answer.
    pub(crate) fn send(mut self, answer: C::Answer) {
        self.answer(answer);
    }

    fn answer(&mut self, answer: C::Answer) {
        if let Some(caller) = self.0.take() {
            caller.take(answer);
        }
    }
}

impl<C: Caller> Drop for BrokerReply<C> {
    fn drop(&mut self) {
        self.answer(C::UNKNOWN);
    }
}

/// A shard that waits for a stored message.
#[derive(Debug)]
pub(crate) struct StoreCaller {
    pub(crate) topic: Topic,
    /// The shard's number of the message.
    pub(crate) number: u64,
    pub(crate) shard: mpsc::UnboundedSender<FromBroker>,
}

impl Caller for StoreCaller {
    type Answer = Result<Stored, AppendError>;

    const UNKNOWN: Self::Answer = Err(AppendError::Unknown);

    fn take(self, result: Self::Answer) {
        let Self { topic, number, shard } = self;
        let _ = shard.send(FromBroker::Stored { topic, number, result });
    }
}

/// A reader that waits for a page.
#[derive(Debug)]
pub(crate) enum ReadCaller {
    /// The subscribers of a topic on a shard.
    Shard(BackfillId, mpsc::UnboundedSender<FromBroker>),
    /// A single request.
    Once(oneshot::Sender<Result<ReadPage, Unreadable>>),
}

impl Caller for ReadCaller {
    type Answer = Result<ReadPage, Unreadable>;

    const UNKNOWN: Self::Answer = Err(Unreadable);

    fn take(self, result: Self::Answer) {
        match self {
            Self::Shard(id, shard) => _ = shard.send(FromBroker::Page { id, result }),
            Self::Once(answer) => _ = answer.send(result),
        }
    }
}

/// The destination of the answer to a [`TicketRequest`](super::TicketRequest). Dropping it answers
/// [`TicketError::Unknown`].
#[derive(Debug)]
pub(crate) struct TicketReply<T> {
    answer: oneshot::Sender<Result<T, TicketError>>,
    /// The permit of an unanswered request. The reply keeps it, because the broker may still work on the request when
    /// the caller is gone.
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
        // The caller may be gone.
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
        let reply =
            |number| BrokerReply::new(StoreCaller { topic: topic(), number, shard: shard.clone() });
        drop(reply(7));
        reply(8).send(Err(AppendError::Unavailable));
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
        drop(BrokerReply::new(ReadCaller::Once(once)));
        assert!(matches!(page.try_recv(), Ok(Err(Unreadable))));
    }
}
