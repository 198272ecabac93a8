//! One topic: its number of events so far, and this turn's events.

use crate::frame::{Envelope, Framing};

/// A topic may be this long (`docs/wire.md`).
const TOPIC_BYTES_MAX: usize = 200;

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    /// Groups of connections that subscribe, by framing.
    pub(crate) groups: [Vec<usize>; Framing::ALL.len()],
    /// Offset of the last event that earlier turns sent.
    sealed: u64,
    /// This turn's events, comma-separated within a batch.
    events: Vec<u8>,
    batches: Vec<Batch>,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    first: u64,
    count: u64,
    /// Where its bytes end in `events`.
    end: usize,
}

impl Topic {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            groups: Default::default(),
            sealed: 0,
            events: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Offset of the newest event, this turn's included.
    pub(crate) fn head(&self) -> u64 {
        self.batches.last().map_or(self.sealed, |batch| batch.first + batch.count - 1)
    }

    /// Whether this turn has anything to send.
    pub(crate) fn is_pending(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Begins a batch: the events that follow share a frame.
    pub(crate) fn open_batch(&mut self) {
        self.batches.push(Batch { first: self.head() + 1, count: 0, end: self.events.len() });
    }

    /// Copies an event into the open batch.
    pub(crate) fn append(&mut self, event: &[u8]) {
        if let Some(batch) = self.batches.last_mut() {
            if batch.count > 0 {
                self.events.push(b',');
            }
            self.events.extend_from_slice(event);
            batch.count += 1;
            batch.end = self.events.len();
        }
    }

    /// This turn's batches, each as an envelope.
    pub(crate) fn envelopes(&self) -> impl Iterator<Item = Envelope<'_>> {
        let mut start = 0;
        self.batches.iter().map(move |batch| {
            let events = &self.events[start..batch.end];
            start = batch.end;
            Envelope { topic: &self.name, first: batch.first, count: batch.count, events }
        })
    }

    /// What confirms a subscription: an envelope without events. Its position
    /// is the last one sent, because this turn's events go to the new
    /// subscriber too.
    pub(crate) fn confirmation(&self) -> Envelope<'_> {
        Envelope { topic: &self.name, first: self.sealed + 1, count: 0, events: b"" }
    }

    /// Ends the turn; buffers stay for the next.
    pub(crate) fn seal(&mut self) {
        self.sealed = self.head();
        self.events.clear();
        self.batches.clear();
    }
}

/// Whether `name` is in the topic grammar of `docs/wire.md`.
pub(crate) fn is_topic(name: &str) -> bool {
    let is_segment = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
    };
    name.len() <= TOPIC_BYTES_MAX && name.split('/').all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_run_on_through_batches_and_turns() {
        let mut topic = Topic::new("cars".to_owned());
        topic.open_batch();
        topic.append(b"1");
        topic.append(b"2");
        topic.open_batch();
        topic.append(b"3");
        assert_eq!(topic.confirmation().first, 1);
        let seen: Vec<_> = topic
            .envelopes()
            .map(|envelope| (envelope.first, envelope.count, envelope.events.to_vec()))
            .collect();
        assert_eq!(seen, [(1, 2, b"1,2".to_vec()), (3, 1, b"3".to_vec())]);
        topic.seal();
        assert!(!topic.is_pending());
        assert_eq!((topic.head(), topic.confirmation().first), (3, 4));
    }

    #[test]
    fn the_topic_grammar_is_that_of_the_wire() {
        for good in ["cars", "matchesfeed/8/matchcentre", "a.b~c_d-e", "..."] {
            assert!(is_topic(good), "{good}");
        }
        let long = "x".repeat(TOPIC_BYTES_MAX + 1);
        for bad in ["", "/", "a//b", "a/", ".", "a/..", "ä", "a b", "a%2Fb", &long] {
            assert!(!is_topic(bad), "{bad}");
        }
    }
}
