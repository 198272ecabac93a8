//! All shards, as a broker sees them.
//!
//! A node receives every message of its streams, but most topics may have no reader. Waking a shard for each message
//! would cost as much as the message. Messages without readers therefore wait briefly for others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use thalweg_broker::{Delivery, Follower};
use thalweg_wire::{Epoch, Offset, Topic};
use tokio::sync::{Mutex, Notify, mpsc};

use super::{FromBroker, Readiness};
use crate::owner_shard::{hash_of, owner_shard_of_hash};

/// The maximum wait of an unread message.
const WAIT: Duration = Duration::from_millis(20);

/// Maximum messages and bytes that wait for one shard.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Bits of [`ReadTopics`]: with a thousand read topics, 1.5 % of the others count as read.
const BITS: u64 = 1 << 16;

/// All shards, as one broker sees them: each topic has one owner shard. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Shards(Arc<All>);

#[derive(Debug)]
struct All {
    shards: Vec<ToShard>,
    /// The number of the broker's first stream among those of all brokers.
    first_stream: usize,
    readiness: Readiness,
    /// Signals that a message has begun to wait.
    waits: Notify,
}

#[derive(Debug)]
struct ToShard {
    sender: mpsc::Sender<FromBroker>,
    read: Arc<ReadTopics>,
    /// Locked while sending, which keeps the order.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    records: Vec<Delivery>,
    bytes: usize,
}

impl Shards {
    pub(crate) fn new(
        shards: impl Iterator<Item = (mpsc::Sender<FromBroker>, Arc<ReadTopics>)>,
        first_stream: usize,
        readiness: Readiness,
    ) -> Self {
        let to_shard = |(sender, read)| ToShard { sender, read, waiting: Mutex::default() };
        let (shards, waits) = (shards.map(to_shard).collect(), Notify::new());
        Self(Arc::new(All { shards, first_stream, readiness, waits }))
    }

    /// Sends waiting messages, at most 20 ms later. Runs forever beside the broker, in a runtime with timers.
    pub(crate) async fn send_waiting(self) {
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

impl Follower for Shards {
    async fn deliver(&self, mut delivery: Delivery) {
        delivery.stream += self.0.first_stream;
        let hash = hash_of(&delivery.topic);
        let shard = &self.0.shards[owner_shard_of_hash(hash, self.0.shards.len())];
        let mut waiting = shard.waiting.lock().await;
        waiting.bytes += delivery.content.bytes();
        waiting.records.push(delivery);
        let is_due = shard.read.contains(hash)
            || waiting.records.len() >= WAITING_MAX
            || waiting.bytes >= WAITING_BYTES_MAX;
        if is_due {
            shard.send(&mut waiting).await;
        } else if waiting.records.len() == 1 {
            self.0.waits.notify_one();
        }
    }

    async fn restarted(&self, stream: usize, epoch: Epoch, from: Offset) {
        let stream = stream + self.0.first_stream;
        for shard in &self.0.shards {
            let mut waiting = shard.waiting.lock().await;
            shard.send(&mut waiting).await;
            // A shard that has ended needs no more.
            let _ = shard.sender.send(FromBroker::Restarted { stream, epoch, from }).await;
        }
    }

    fn set_ready(&self, is_ready: bool) {
        self.0.readiness.set(is_ready);
    }
}

impl ToShard {
    async fn send(&self, waiting: &mut Waiting) {
        let Waiting { records, .. } = std::mem::take(waiting);
        if !records.is_empty() {
            // A shard that has ended needs no more.
            let _ = self.sender.send(FromBroker::Records(records)).await;
        }
    }
}

/// The topics that readers of a shard read, with false positives. Only that shard writes it.
#[derive(Debug)]
pub(crate) struct ReadTopics(Box<[AtomicU64]>);

impl Default for ReadTopics {
    fn default() -> Self {
        Self((0..BITS / 64).map(|_| AtomicU64::new(0)).collect())
    }
}

impl ReadTopics {
    pub(crate) fn insert(&self, topic: &Topic) {
        let (word, bit) = place_of(hash_of(topic));
        self.0[word].fetch_or(bit, Relaxed);
    }

    pub(crate) fn replace(&self, hashes: impl Iterator<Item = u64>) {
        let mut words = vec![0; self.0.len()];
        for (word, bit) in hashes.map(place_of) {
            words[word] |= bit;
        }
        self.0.iter().zip(words).for_each(|(word, bits)| word.store(bits, Relaxed));
    }

    /// Returns whether the topic with this hash is read, with false positives.
    fn contains(&self, hash: u64) -> bool {
        let (word, bit) = place_of(hash);
        self.0[word].load(Relaxed) & bit != 0
    }
}

/// Returns the word and bit for a hash, from its upper bits: the lower bits select the shard.
fn place_of(hash: u64) -> (usize, u64) {
    let bit = (hash >> 32) % BITS;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use thalweg_broker::Content;
    use thalweg_core::stream::Payloads;

    use super::*;

    fn topic(number: u32) -> Topic {
        format!("topics/{number}").parse().unwrap()
    }

    fn delivery(first: Offset, number: u32) -> Delivery {
        let content = Content::Events(Payloads::from_lines(b"1".to_vec()).unwrap());
        Delivery { stream: 1, first, topic: topic(number), content }
    }

    #[tokio::test]
    async fn unread_messages_wait_and_keep_their_order() {
        let (sender, mut shard) = mpsc::channel(8);
        let read = Arc::<ReadTopics>::default();
        let shards = Shards::new(std::iter::once((sender, read.clone())), 2, Readiness::default());
        tokio::spawn(shards.clone().send_waiting());
        read.insert(&topic(2));
        let mut offsets = async |expected: &[u64]| match shard.recv().await {
            Some(FromBroker::Records(records)) => {
                let offsets: Vec<u64> = records.iter().map(|record| record.first).collect();
                assert_eq!(offsets, expected);
                assert!(records.iter().all(|record| record.stream == 3));
            }
            other => panic!("{other:?}"),
        };
        shards.deliver(delivery(1, 1)).await;
        shards.deliver(delivery(2, 2)).await;
        offsets(&[1, 2]).await;
        // The wait ends by itself.
        shards.deliver(delivery(3, 1)).await;
        shards.deliver(delivery(4, 1)).await;
        offsets(&[3, 4]).await;
        read.replace(std::iter::empty());
        for offset in 5..5 + WAITING_MAX as u64 {
            shards.deliver(delivery(offset, 2)).await;
        }
        offsets(&(5..5 + WAITING_MAX as u64).collect::<Vec<_>>()).await;
        shards.deliver(delivery(99, 2)).await;
        shards.restarted(0, "9f".parse().unwrap(), 1).await;
        offsets(&[99]).await;
        assert!(matches!(shard.recv().await, Some(FromBroker::Restarted { .. })));
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
