//! All shards, as a backend reaches them.
//!
//! A node takes every message of its streams, and most topics may have no reader. To wake a shard for
//! each message would cost as much as the message. So what nobody reads waits a little for others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use thalweg_wire::{Epoch, Topic};
use tokio::sync::{Mutex, Notify, mpsc};

use super::{Content, Fed, FromBackend};
use crate::home::{hash_of, home_of_hash};

/// How long a message waits at most that nobody reads.
const WAIT: Duration = Duration::from_millis(20);

/// Messages and bytes that wait for one shard at most.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Bits of [`ReadTopics`]: with a thousand topics that are read, 1.5 % of the others are taken for read.
const BITS: u64 = 1 << 16;

/// All shards: each topic has one as its home. Clones are the same.
#[derive(Debug, Clone)]
pub struct Shards(Arc<All>);

#[derive(Debug)]
struct All {
    shards: Vec<ToShard>,
    /// Something has begun to wait.
    waits: Notify,
}

#[derive(Debug)]
struct ToShard {
    sender: mpsc::Sender<FromBackend>,
    read: Arc<ReadTopics>,
    /// Locked while it is sent: so nothing overtakes anything.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: Vec<Fed>,
    bytes: usize,
}

impl Shards {
    pub(crate) fn new(
        shards: impl Iterator<Item = (mpsc::Sender<FromBackend>, Arc<ReadTopics>)>,
    ) -> Self {
        let to_shard = |(sender, read)| ToShard { sender, read, waiting: Mutex::default() };
        Self(Arc::new(All { shards: shards.map(to_shard).collect(), waits: Notify::new() }))
    }

    /// Passes on a message of a stream. Events are 1 to [`super::EVENTS_MAX`], each one JSON value without
    /// insignificant whitespace. Of each stream messages come in the order of their sequence
    /// numbers, each once. It waits while the shard has much to take: then do not take more from the
    /// stream. Needs [`Self::send_waiting`].
    pub async fn message(&self, stream: usize, sequence: u64, topic: Topic, content: Content) {
        let hash = hash_of(&topic);
        let shard = &self.0.shards[home_of_hash(hash, self.0.shards.len())];
        let mut waiting = shard.waiting.lock().await;
        waiting.bytes += content.bytes();
        waiting.messages.push(Fed { stream, sequence, topic, content });
        let is_due = shard.read.contains(hash)
            || waiting.messages.len() >= WAITING_MAX
            || waiting.bytes >= WAITING_BYTES_MAX;
        if is_due {
            shard.send(&mut waiting).await;
        } else if waiting.messages.len() == 1 {
            self.0.waits.notify_one();
        }
    }

    /// A stream is another one from now on: its sequence numbers mean other events than before.
    /// From `from_sequence` on its messages will be brought. Subscribers of all its topics are told of
    /// a gap. The epoch may be the same: then messages before that one are gone.
    pub async fn restarted(&self, stream: usize, epoch: Epoch, from_sequence: u64) {
        for shard in &self.0.shards {
            let mut waiting = shard.waiting.lock().await;
            shard.send(&mut waiting).await;
            let restarted = FromBackend::Restarted { stream, epoch, from_sequence };
            // A shard that has ended needs no more.
            let _ = shard.sender.send(restarted).await;
        }
    }

    /// Sends what waits, 20 ms later at most. For ever: a backend runs it beside the rest, in a runtime
    /// with time.
    pub async fn send_waiting(self) {
        loop {
            self.0.waits.notified().await;
            tokio::time::sleep(WAIT).await;
            for shard in &self.0.shards {
                let mut waiting = shard.waiting.lock().await;
                shard.send(&mut waiting).await;
            }
        }
    }
}

impl ToShard {
    async fn send(&self, waiting: &mut Waiting) {
        let Waiting { messages, .. } = std::mem::take(waiting);
        if !messages.is_empty() {
            // A shard that has ended needs no more.
            let _ = self.sender.send(FromBackend::Messages(messages)).await;
        }
    }
}

/// The topics of a shard that somebody reads, and some others. Their home writes it.
#[derive(Debug)]
pub(crate) struct ReadTopics(Box<[AtomicU64]>);

impl Default for ReadTopics {
    fn default() -> Self {
        Self((0..BITS / 64).map(|_| AtomicU64::new(0)).collect())
    }
}

impl ReadTopics {
    /// Somebody reads a topic from now on.
    pub(crate) fn insert(&self, topic: &Topic) {
        let (word, bit) = place_of(hash_of(topic));
        self.0[word].fetch_or(bit, Relaxed);
    }

    /// The topics with these hashes are read, and no others.
    pub(crate) fn replace(&self, hashes: impl Iterator<Item = u64>) {
        let mut words = vec![0; self.0.len()];
        for (word, bit) in hashes.map(place_of) {
            words[word] |= bit;
        }
        self.0.iter().zip(words).for_each(|(word, bits)| word.store(bits, Relaxed));
    }

    /// Whether the topic with a hash is read; sometimes also if it is not.
    fn contains(&self, hash: u64) -> bool {
        let (word, bit) = place_of(hash);
        self.0[word].load(Relaxed) & bit != 0
    }
}

/// The upper bits of the hash: the lower ones say which shard.
fn place_of(hash: u64) -> (usize, u64) {
    let bit = (hash >> 32) % BITS;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_core::stream::Payloads;

    fn topic(number: u32) -> Topic {
        format!("topics/{number}").parse().unwrap()
    }

    fn one_event() -> Content {
        Content::Events(Payloads::from_lines(b"1".to_vec()).unwrap())
    }

    #[tokio::test]
    async fn what_nobody_reads_waits_and_nothing_overtakes_it() {
        let (sender, mut shard) = mpsc::channel(8);
        let read = Arc::<ReadTopics>::default();
        let shards = Shards::new(std::iter::once((sender, read.clone())));
        tokio::spawn(shards.clone().send_waiting());
        read.insert(&topic(2));
        let mut sequences = async |expected: &[u64]| match shard.recv().await {
            Some(FromBackend::Messages(fed)) => {
                let sequences: Vec<u64> = fed.iter().map(|fed| fed.sequence).collect();
                assert_eq!(sequences, expected);
            }
            other => panic!("{other:?}"),
        };
        shards.message(0, 1, topic(1), one_event()).await;
        shards.message(0, 2, topic(2), one_event()).await;
        sequences(&[1, 2]).await;
        // It comes by itself.
        shards.message(0, 3, topic(1), one_event()).await;
        shards.message(0, 4, topic(1), one_event()).await;
        sequences(&[3, 4]).await;
        read.replace(std::iter::empty());
        for sequence in 5..5 + WAITING_MAX as u64 {
            shards.message(0, sequence, topic(2), one_event()).await;
        }
        sequences(&(5..5 + WAITING_MAX as u64).collect::<Vec<_>>()).await;
        shards.message(0, 99, topic(2), one_event()).await;
        shards.restarted(0, "9f".parse().unwrap(), 1).await;
        sequences(&[99]).await;
        assert!(matches!(shard.recv().await, Some(FromBackend::Restarted { .. })));
    }

    #[test]
    fn few_topics_are_taken_for_others() {
        let read = ReadTopics::default();
        let topics: Vec<Topic> = (0..1000).map(topic).collect();
        read.replace(topics.iter().map(hash_of));
        assert!(topics.iter().all(|topic| read.contains(hash_of(topic))));
        let taken = (1000..11_000).filter(|number| read.contains(hash_of(&topic(*number)))).count();
        assert!((50..400).contains(&taken), "{taken} of 10,000");
    }
}
