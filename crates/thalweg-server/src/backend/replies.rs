//! Where answers to stores and reads go. Each is given, whatever becomes of who has to give it: one
//! that is dropped, because the backend's task has panicked or the backend ends, answers that nothing
//! is known. A shard that waited for an answer that never comes would never end.
//!
//! Answers wait in a queue of their own. It has no bound of its own, because there are never more of
//! them than were asked for, and so giving one never waits: a drop cannot.

use thalweg_wire::Topic;
use tokio::sync::{mpsc, oneshot};

use super::{FromBackend, ReadPage, RecallId, StoreError, Stored, Unreadable};

/// Where the answer to a [`Store`](super::Store) goes. Dropped, it answers [`StoreError::Unknown`].
#[derive(Debug)]
pub struct Reply(Option<Publisher>);

/// A shard that waits for a message to be stored.
#[derive(Debug)]
struct Publisher {
    topic: Topic,
    /// Which message of the shard it is.
    number: u64,
    shard: mpsc::UnboundedSender<FromBackend>,
}

impl Reply {
    /// To a shard, about its message with this number.
    pub(crate) fn new(
        topic: Topic,
        number: u64,
        shard: mpsc::UnboundedSender<FromBackend>,
    ) -> Self {
        Self(Some(Publisher { topic, number, shard }))
    }

    /// Answers.
    pub fn send(mut self, result: Result<Stored, StoreError>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<Stored, StoreError>) {
        if let Some(Publisher { topic, number, shard }) = self.0.take() {
            // A shard that has ended needs no answer.
            let _ = shard.send(FromBackend::Stored { topic, number, result });
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answer(Err(StoreError::Unknown));
    }
}

/// Where the answer to a [`Read`](super::Read) goes. Dropped, it answers [`Unreadable`].
#[derive(Debug)]
pub struct ReadReply(Option<Reader>);

/// Who reads.
#[derive(Debug)]
pub(crate) enum Reader {
    /// The subscribers of a topic on a shard.
    Shard(RecallId, mpsc::UnboundedSender<FromBackend>),
    /// Somebody who waits for it.
    Once(oneshot::Sender<Result<ReadPage, Unreadable>>),
}

impl ReadReply {
    /// To whoever reads.
    pub(crate) fn new(reader: Reader) -> Self {
        Self(Some(reader))
    }

    /// Answers.
    pub fn send(mut self, result: Result<ReadPage, Unreadable>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<ReadPage, Unreadable>) {
        match self.0.take() {
            Some(Reader::Shard(id, shard)) => {
                // A shard that has ended needs no answer.
                let _ = shard.send(FromBackend::Page { id, result });
            }
            // Whoever asked may be gone by then.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> Topic {
        "cars".parse().unwrap()
    }

    #[test]
    fn a_dropped_store_is_unknown_and_an_answered_one_is_not_answered_again() {
        let (shard, mut answers) = mpsc::unbounded_channel();
        drop(Reply::new(topic(), 7, shard.clone()));
        Reply::new(topic(), 8, shard).send(Err(StoreError::Unavailable));
        let mut next = || match answers.try_recv() {
            Ok(FromBackend::Stored { number, result, .. }) => Some((number, result)),
            _ => None,
        };
        assert_eq!(next(), Some((7, Err(StoreError::Unknown))));
        assert_eq!(next(), Some((8, Err(StoreError::Unavailable))));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_dropped_read_is_unreadable() {
        let (once, mut page) = oneshot::channel();
        drop(ReadReply::new(Reader::Once(once)));
        assert!(matches!(page.try_recv(), Ok(Err(Unreadable))));
    }
}
