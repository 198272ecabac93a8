//! Idempotency keys with the digests of their events. Pure.
//!
//! A digest of 64 bits takes the place of the event, which may be large. It tells a repetition from a key that a
//! publisher uses for two events by mistake.

use std::collections::{HashMap, VecDeque};

use thalweg_broker::{AppendError, KEY_LIFE, Stored};
use thalweg_wire::{Epoch, Offset, Topic};

type Key = (Topic, Vec<u8>);

/// The most keys that are known. Each takes about 300 bytes, and publishers choose how many there are.
const KEYS_MAX: usize = if cfg!(test) { 1000 } else { 200_000 };

/// The keys of the last five minutes, or the newest [`KEYS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    by_key: HashMap<Key, KnownRecord>,
    oldest: VecDeque<Key>,
    /// The time of the newest record, in ms since 1970.
    newest_ms: u64,
}

/// The record of a key.
#[derive(Debug, Clone, Copy)]
struct KnownRecord {
    first: Offset,
    digest: u64,
    time_ms: u64,
}

impl KnownKeys {
    /// Returns the answer to an append whose key is known; `None` if the record is to be stored.
    pub(crate) fn find(
        &self,
        topic: &Topic,
        key: &[u8],
        digest: u64,
        epoch: Epoch,
    ) -> Option<Result<Stored, AppendError>> {
        let known = self.by_key.get(&(topic.clone(), key.to_vec()))?;
        Some(repetition(epoch, known.first, known.digest == digest))
    }

    /// Returns the time of the newest record, in ms since 1970.
    pub(crate) fn newest_ms(&self) -> u64 {
        self.newest_ms
    }

    /// Takes records from the future as records of now.
    pub(crate) fn set_time(&mut self, now_ms: u64) {
        self.newest_ms = now_ms;
        for known in self.by_key.values_mut() {
            known.time_ms = known.time_ms.min(now_ms);
        }
    }

    /// Remembers the key of a record, and forgets those that are older than [`KEY_LIFE`], or too many.
    pub(crate) fn insert(
        &mut self,
        topic: Topic,
        key: Vec<u8>,
        digest: u64,
        first: Offset,
        time_ms: u64,
    ) {
        self.newest_ms = self.newest_ms.max(time_ms);
        let forgotten_ms = self.newest_ms.saturating_sub(KEY_LIFE.as_millis() as u64);
        while let Some(oldest) = self.oldest.front() {
            let is_young =
                self.by_key.get(oldest).is_some_and(|known| known.time_ms >= forgotten_ms);
            if is_young && self.oldest.len() < KEYS_MAX {
                break;
            }
            self.by_key.remove(oldest);
            self.oldest.pop_front();
        }
        let key = (topic, key);
        self.oldest.push_back(key.clone());
        self.by_key.insert(key, KnownRecord { first, digest, time_ms });
    }
}

/// Returns the answer to an append whose key is known, for the record at `first`. `is_same`: whether both have the same event.
pub(crate) fn repetition(
    epoch: Epoch,
    first: Offset,
    is_same: bool,
) -> Result<Stored, AppendError> {
    if is_same {
        Ok(Stored { epoch, first, is_repetition: true })
    } else {
        Err(AppendError::KeyReused)
    }
}

/// Returns the digest of an event. It is part of the format.
pub(crate) fn event_digest(event: &[u8]) -> u64 {
    let seed = 0x51_7c_c1_b7_27_22_0a_95 ^ event.len() as u64;
    let mut chunks = event.chunks_exact(8);
    let mix = |hash: u64, word: u64| {
        let hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    };
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let hash = chunks.by_ref().fold(seed, |hash, chunk| mix(hash, word(chunk)));
    mix(mix(hash, word(chunks.remainder())), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_for_their_life() {
        let epoch = Epoch::new(7).expect("not 0");
        let topic = |name: &str| name.parse::<Topic>().expect("a topic");
        let mut keys = KnownKeys::default();
        keys.insert(topic("a"), b"k".to_vec(), 1, 300, 1000);
        let stored = Stored { epoch, first: 300, is_repetition: true };
        assert_eq!(keys.find(&topic("a"), b"k", 1, epoch), Some(Ok(stored)));
        assert_eq!(keys.find(&topic("a"), b"k", 2, epoch), Some(Err(AppendError::KeyReused)));
        assert_eq!(keys.find(&topic("b"), b"k", 1, epoch), None);
        let life_ms = KEY_LIFE.as_millis() as u64;
        keys.insert(topic("a"), b"l".to_vec(), 1, 301, 1000 + life_ms);
        assert!(keys.find(&topic("a"), b"k", 1, epoch).is_some());
        keys.insert(topic("a"), b"m".to_vec(), 1, 302, 1001 + life_ms);
        assert_eq!(keys.find(&topic("a"), b"k", 1, epoch), None);
        assert_eq!((keys.by_key.len(), keys.oldest.len()), (2, 2));
    }

    #[test]
    fn the_oldest_of_too_many_keys_are_forgotten() {
        let epoch = Epoch::new(7).expect("not 0");
        let topic = || "a".parse::<Topic>().expect("a topic");
        let key = |number: usize| number.to_string().into_bytes();
        let mut keys = KnownKeys::default();
        (0..KEYS_MAX + 7).for_each(|number| keys.insert(topic(), key(number), 1, 300, 1000));
        assert_eq!((keys.by_key.len(), keys.oldest.len()), (KEYS_MAX, KEYS_MAX));
        assert_eq!(keys.find(&topic(), &key(6), 1, epoch), None);
        assert!(keys.find(&topic(), &key(7), 1, epoch).is_some());
    }

    #[test]
    fn the_digest_depends_on_each_byte_and_is_part_of_the_format() {
        let event = br#"{"order":4711,"price":12.5}"#;
        for at in 0..event.len() {
            let mut other = event.to_vec();
            other[at] ^= 1;
            assert_ne!(event_digest(&other), event_digest(event), "byte {at}");
        }
        assert_ne!(event_digest(b"0"), event_digest(b"00"));
        assert_eq!(event_digest(b"1"), 13_581_163_600_384_651_700);
    }
}
