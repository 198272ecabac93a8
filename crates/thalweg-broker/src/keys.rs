//! Idempotency keys that a broker remembers by itself.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use thalweg_wire::{Epoch, Offset, Topic};

use crate::{Append, AppendError, Content, Stored};

/// A broker remembers a key for at least this long. A publisher must not retry an append for longer.
pub const KEY_LIFE: Duration = Duration::from_secs(300);

/// The idempotency keys of a broker's topics, each with the offset and the content of its record. It keeps in
/// memory every event that was published with a key in the last five minutes.
#[derive(Debug, Default)]
pub struct IdempotencyKeys {
    by_key: HashMap<(Topic, Vec<u8>), Remembered>,
    oldest: VecDeque<(Topic, Vec<u8>)>,
    /// The time of the newest record, in ms since 1970.
    newest_ms: i64,
}

#[derive(Debug)]
struct Remembered {
    first: Offset,
    event: Vec<u8>,
    time_ms: i64,
}

impl IdempotencyKeys {
    /// Returns the answer to an append whose key is known; `None` if the record is to be stored.
    pub fn find(&self, append: &Append, epoch: Epoch) -> Option<Result<Stored, AppendError>> {
        let known = self.by_key.get(&(append.topic.clone(), append.key.clone()?))?;
        let is_same = known.event == event(append);
        let stored = Stored { epoch, first: known.first, is_repetition: true };
        Some(if is_same { Ok(stored) } else { Err(AppendError::KeyReused) })
    }

    /// If the append has a key, remembers it with the offset `first`, and forgets keys that are older than
    /// [`KEY_LIFE`]. The time comes from the content ([`Content::stored_at`]).
    pub fn insert(&mut self, append: &Append, first: Offset) {
        let Some(key) = append.key.clone() else { return };
        if let Content::Events(payloads) = &append.content {
            self.newest_ms = self.newest_ms.max(payloads.published_ms().unwrap_or(self.newest_ms));
        }
        let forgotten_ms = self.newest_ms.saturating_sub(KEY_LIFE.as_millis() as i64);
        while let Some(oldest) = self.oldest.front() {
            if self.by_key.get(oldest).is_some_and(|known| known.time_ms >= forgotten_ms) {
                break;
            }
            self.by_key.remove(oldest);
            self.oldest.pop_front();
        }
        let key = (append.topic.clone(), key);
        self.oldest.push_back(key.clone());
        let (event, time_ms) = (event(append), self.newest_ms);
        self.by_key.insert(key, Remembered { first, event, time_ms });
    }
}

/// Returns the bytes that a repetition has, too.
fn event(append: &Append) -> Vec<u8> {
    match &append.content {
        // The key of the event, which has no line feed, tells keyed topics apart.
        Content::Events(payloads) if payloads.has_keys() => {
            [payloads.joined_keys(), b"\n", payloads.joined()].concat()
        }
        Content::Events(payloads) => payloads.joined().to_vec(),
        Content::Paused(_) | Content::End(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_core::stream::Payloads;

    use super::*;

    fn append(topic: &str, key: Option<&str>, event: &str) -> Append {
        let payloads = Payloads::from_lines(event.into()).expect("an event");
        Append {
            stream: 0,
            topic: topic.parse().expect("a topic"),
            content: Content::Events(payloads),
            key: key.map(Into::into),
            waited: Duration::ZERO,
        }
    }

    fn stored_at(append: Append, time: Duration) -> Append {
        let content = append.content.stored_at(time.as_nanos() as u64);
        Append { content, ..append }
    }

    #[test]
    fn a_repetition_has_the_offset_of_the_first_record() {
        let epoch = Epoch::new(7).expect("not 0");
        let mut keys = IdempotencyKeys::default();
        assert_eq!(keys.find(&append("a", Some("k"), "1"), epoch), None);
        keys.insert(&append("a", Some("k"), "1"), 300);
        keys.insert(&append("a", None, "1"), 301);
        let stored = Stored { epoch, first: 300, is_repetition: true };
        assert_eq!(keys.find(&append("a", Some("k"), "1"), epoch), Some(Ok(stored)));
        let reused = keys.find(&append("a", Some("k"), "2"), epoch);
        assert_eq!(reused, Some(Err(AppendError::KeyReused)));
        for other in [append("b", Some("k"), "1"), append("a", None, "1")] {
            assert_eq!(keys.find(&other, epoch), None);
        }
    }

    #[test]
    fn keys_are_forgotten_after_their_life() {
        let epoch = Epoch::new(7).expect("not 0");
        let mut keys = IdempotencyKeys::default();
        let now = Duration::from_secs(1000);
        let stored = [("k", now), ("l", now + KEY_LIFE)];
        for (first, (key, time)) in (1..).zip(stored) {
            keys.insert(&stored_at(append("a", Some(key), "1"), time), first);
        }
        assert!(keys.find(&append("a", Some("k"), "1"), epoch).is_some());
        let late = now + KEY_LIFE + Duration::from_millis(1);
        keys.insert(&stored_at(append("a", Some("m"), "1"), late), 3);
        assert!(keys.find(&append("a", Some("k"), "1"), epoch).is_none());
        assert!(keys.find(&append("a", Some("l"), "1"), epoch).is_some());
        assert_eq!((keys.by_key.len(), keys.oldest.len()), (2, 2));
    }
}
