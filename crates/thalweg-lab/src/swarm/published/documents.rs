//! Events that are versions of a document, such as a football match. These events have no numbers, so the offsets in envelopes
//! number them: on a new server the first event of a topic has offset 1. An event without an envelope is the expected one, or
//! else the newest one that is equal.
//!
//! A patch or delta is applied once, when the first subscriber gets it, and its result compared with the published version: of a
//! patch as JSON values (RFC 6902: the order of members may differ), of a delta byte for byte. Later copies of the same patch or
//! delta are compared byte for byte.

use super::{Arrival, Topic};
use crate::measure::Ledger;
use crate::scenario::Settings;
use crate::swarm::dialect::{Encoding, Version, VersionBody};
use crate::swarm::event::{Stamp, number};
use crate::swarm::span_statistics::SpanStatistics;
use crate::swarm::{fossil_delta, json_string};
use serde_json::Value;
use std::collections::VecDeque;
use thalweg_match_feed::{Match, Size};

/// Limit of the encoded versions that are kept: a topic never has more in flight.
const VERIFIED_MAX: usize = 64;
/// The same matches in every sample.
const SEED: u64 = 1;

#[derive(Debug)]
pub(super) struct Documents {
    game: Match,
    /// Match time from one version to the next.
    seconds: u32,
    /// The next version, if it is made already.
    next: Vec<u8>,
}

impl Documents {
    pub(super) fn new(topic: u32, settings: &Settings) -> Documents {
        let size =
            Size::ALL.into_iter().find(|found| found.bytes() == settings.event_bytes as usize);
        let game = Match::new(SEED, &topic.to_string(), size.unwrap_or(Size::Small));
        let seconds = settings.period().map_or(1, |period| period.as_secs().max(1) as u32);
        let mut documents = Documents { game, seconds, next: Vec::new() };
        documents.prepare();
        documents
    }

    pub(super) fn prepare(&mut self) {
        if self.next.is_empty() {
            self.game.advance_by(self.seconds);
            self.next.extend_from_slice(self.game.json());
        }
    }

    /// Replaces `version` with the next one.
    pub(super) fn take(&mut self, version: &mut Vec<u8>) {
        self.prepare();
        std::mem::swap(version, &mut self.next);
        self.next.clear();
    }
}

impl Topic {
    /// Receives documents of a log: an envelope with the number of its first event, or a single document.
    pub(super) fn receive_documents(
        &mut self,
        arrival: Arrival<'_>,
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) {
        let first = match arrival.first {
            b"" => self.number_of(arrival.events, ledger.next(arrival.subscription)),
            digits => number(digits),
        };
        let Some(first) = first else { return ledger.corrupt() };
        let mut rest = arrival.events;
        for seq in first..=self.published {
            let Some((after, due_us)) = self.ring[self.index(seq)].matches(seq, rest) else {
                return ledger.corrupt();
            };
            self.enter(arrival, Stamp { seq, due_us }, ledger, statistics);
            rest = after;
            if rest.is_empty() {
                return;
            }
        }
        ledger.early(1);
    }

    /// Returns the number of the version with these bytes.
    fn number_of(&self, document: &[u8], next: Option<u64>) -> Option<u64> {
        let oldest = self.published.saturating_sub(self.ring.len() as u64) + 1;
        let kept = (oldest..=self.published).rev();
        next.into_iter().chain(kept).find(|seq| {
            let slot = &self.ring[self.index(*seq)];
            slot.seq == *seq && slot.bytes == document
        })
    }

    /// Receives a version of a value topic. Versions replaced since the previous one are not lost, because only the newest counts.
    pub(in crate::swarm) fn receive_version(
        &mut self,
        arrival: Arrival<'_>,
        version: Version<'_>,
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) {
        let Version { number: seq, previous, .. } = version;
        if seq > self.published {
            return ledger.early(1);
        }
        if !self.is_intact(version) {
            return ledger.corrupt();
        }
        let Arrival { subscription, is_reader, now_us, .. } = arrival;
        let excused = self.excused_until(subscription);
        // A subscriber whose previous version is another one has missed a message.
        if ledger.next(subscription) == Some(previous + 1) && seq > previous {
            for replaced in (previous + 1..seq).filter(|_| is_reader) {
                let slot = &self.ring[self.index(replaced)];
                if slot.seq == replaced && replaced > excused {
                    statistics.late(slot.due_us, now_us, 1);
                    self.count_reader_of(replaced, now_us);
                }
            }
            ledger.replaced(subscription, seq - previous - 1);
        }
        let slot = &self.ring[self.index(seq)];
        let due_us = if slot.seq == seq { slot.due_us } else { now_us };
        self.enter(arrival, Stamp { seq, due_us }, ledger, statistics);
    }

    /// Returns whether the version equals the published one, if that is still stored.
    fn is_intact(&mut self, version: Version<'_>) -> bool {
        let Version { number: seq, previous, body } = version;
        let (before, after) = (&self.ring[self.index(previous)], &self.ring[self.index(seq)]);
        if after.seq != seq {
            return true;
        }
        match body {
            VersionBody::Document(document) => document == after.bytes,
            VersionBody::Encoded(encoding, bytes) => {
                let before = (before.seq == previous).then_some(&*before.bytes);
                self.verifier.verify((encoding, bytes), [previous, seq], before, &after.bytes)
            }
        }
    }
}

/// Decodes the encoded versions of a topic, and compares the results.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    right: VecDeque<VerifiedVersion>,
    /// The newest version that a patch produced, with its number.
    newest: Option<(u64, Value)>,
}

/// An encoded version that was decoded and is right.
#[derive(Debug)]
struct VerifiedVersion {
    encoding: Encoding,
    /// The numbers before and after.
    versions: [u64; 2],
    bytes: Vec<u8>,
}

impl Verifier {
    /// Returns whether an encoded version turns the one before into the one after, if they are still stored.
    fn verify(
        &mut self,
        (encoding, bytes): (Encoding, &[u8]),
        versions: [u64; 2],
        before: Option<&[u8]>,
        after: &[u8],
    ) -> bool {
        let is_same =
            |known: &&VerifiedVersion| (known.encoding, known.versions) == (encoding, versions);
        if let Some(known) = self.right.iter().find(is_same) {
            return known.bytes == bytes;
        }
        let is_right = match encoding {
            Encoding::Patch => self.patches_to(bytes, versions, before, after),
            Encoding::JsonString => {
                Some(json_string::unescaped(bytes).is_some_and(|text| text == after))
            }
            Encoding::FossilDelta => before.map(|before| {
                let delta = json_string::unescaped(bytes);
                let made = delta.and_then(|delta| fossil_delta::apply(before, &delta, after.len()));
                made.is_some_and(|made| made == after)
            }),
        };
        if is_right == Some(true) {
            if self.right.len() == VERIFIED_MAX {
                self.right.pop_front();
            }
            self.right.push_back(VerifiedVersion { encoding, versions, bytes: bytes.to_vec() });
        }
        is_right.unwrap_or(true)
    }

    /// Returns whether a patch turns one version into the other; `None` if the one before is gone.
    fn patches_to(
        &mut self,
        patch: &[u8],
        [previous, number]: [u64; 2],
        before: Option<&[u8]>,
        after: &[u8],
    ) -> Option<bool> {
        let is_newest = self.newest.as_ref().is_some_and(|(number, _)| *number == previous);
        if before.is_none() && !is_newest {
            return None;
        }
        let Some(made) = self.apply(patch, previous, before) else { return Some(false) };
        let is_right = serde_json::from_slice::<Value>(after).is_ok_and(|after| after == made);
        if is_right {
            self.newest = Some((number, made));
        }
        Some(is_right)
    }

    fn apply(&mut self, patch: &[u8], previous: u64, before: Option<&[u8]>) -> Option<Value> {
        let mut document = match self.newest.take() {
            Some((number, newest)) if number == previous => newest,
            _ => serde_json::from_slice(before?).ok()?,
        };
        let patch: json_patch::Patch = serde_json::from_slice(patch).ok()?;
        json_patch::patch(&mut document, &patch).ok()?;
        Some(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Payload;
    use crate::swarm::tests::fossil::delta_between;

    /// A topic of documents with one reader and versions published 1 ms apart.
    struct Feed {
        topic: Topic,
        versions: Vec<Vec<u8>>,
        ledger: Ledger,
        statistics: SpanStatistics,
    }

    impl Feed {
        fn new(versions: u64) -> Feed {
            let settings =
                Settings { payload: Payload::Match, event_bytes: 5000, ..Settings::default() };
            let mut topic = Topic::new(0, Some(1), &settings);
            let mut lines = Vec::new();
            for number in 1..=versions {
                topic.publish_on_schedule(number * 1000, &mut lines);
            }
            let versions = lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            let (ledger, statistics) = (Ledger::new(1, Some(1)), SpanStatistics::default());
            Feed { topic, versions, ledger, statistics }
        }

        fn document(&self, number: u64) -> Vec<u8> {
            self.versions[number as usize - 1].clone()
        }

        /// Replaces every differing member as a whole.
        fn patch(&self, previous: u64, number: u64) -> Vec<u8> {
            let value =
                |number| -> Value { serde_json::from_slice(&self.document(number)).unwrap() };
            let (before, after) = (value(previous), value(number));
            let members = after.as_object().unwrap().iter();
            let changed = members.filter(|(name, value)| before.get(name) != Some(*value));
            let replace = |(name, value): (&String, &Value)| serde_json::json!({ "op": "replace", "path": format!("/{name}"), "value": value });
            serde_json::to_vec(&changed.map(replace).collect::<Vec<_>>()).unwrap()
        }

        fn arrival<'a>(first: &'a [u8], events: &'a [u8]) -> Arrival<'a> {
            Arrival { subscription: 0, is_reader: true, first, events, now_us: 9000 }
        }

        fn version(&mut self, previous: u64, number: u64, body: VersionBody<'_>) {
            let version = Version { number, previous, body };
            let arrival = Feed::arrival(b"", b"");
            self.topic.receive_version(arrival, version, &mut self.ledger, &mut self.statistics);
        }

        /// Returns the ledger's text, the number of replaced versions, and whether all is settled.
        fn end(mut self) -> (String, u64, bool) {
            self.ledger.close(0, self.topic.published());
            let counts = self.ledger.counts();
            (counts.to_string(), counts.replaced, self.topic.is_settled())
        }
    }

    fn log(first: &str, change: impl Fn(&mut Vec<Vec<u8>>)) -> String {
        let mut feed = Feed::new(3);
        let mut documents: Vec<Vec<u8>> = (1..=3).map(|number| feed.document(number)).collect();
        change(&mut documents);
        let events = documents.join(&b","[..]);
        let arrival = Feed::arrival(first.as_bytes(), &events);
        feed.topic.receive(arrival, &mut feed.ledger, &mut feed.statistics);
        feed.end().0
    }

    #[test]
    fn documents_of_a_log_are_known_by_their_offsets() {
        assert_eq!(log("1", |_| {}), "whole");
        assert_eq!(log("1", |found| drop(found.pop())), "1 missing");
        assert_eq!(log("2", |found| drop(found.remove(0))), "1 missing");
        assert_eq!(log("1", |found| found[1][70] ^= 1), "2 missing, 1 corrupt");
        assert_eq!(log("2", |_| {}), "3 missing, 1 corrupt");
        assert_eq!(log("", |_| {}), "3 missing, 1 corrupt");
        assert_eq!(log("4", |_| {}), "3 missing, 1 early");
    }

    #[test]
    fn versions_that_are_skipped_are_replaced_and_in_time_with_the_newer() {
        let mut feed = Feed::new(4);
        let (first, fourth) = (feed.document(1), feed.document(4));
        feed.version(0, 1, VersionBody::Document(&first));
        feed.version(1, 4, VersionBody::Document(&fourth));
        let latency: Vec<_> = feed.statistics.latency.buckets().collect();
        assert_eq!(latency.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(feed.statistics.traffic.events, 2);
        assert_eq!(feed.end(), ("whole".to_owned(), 2, true));
        // The document claims to follow a version that this subscriber did not receive: that version is missing.
        let mut feed = Feed::new(4);
        feed.version(0, 1, VersionBody::Document(&first));
        feed.version(2, 4, VersionBody::Document(&fourth));
        assert_eq!(feed.end().0, "2 missing");
        let mut feed = Feed::new(1);
        feed.version(0, 2, VersionBody::Document(&fourth));
        feed.version(0, 1, VersionBody::Document(&fourth));
        assert_eq!(feed.end().0, "1 missing, 1 corrupt, 1 early");
    }

    #[test]
    fn a_patch_is_applied_once_and_then_compared() {
        let check = |second: &dyn Fn(&mut Vec<u8>), expected: &str| {
            let mut feed = Feed::new(3);
            let mut patches = [feed.patch(1, 2), feed.patch(2, 3)];
            let first = feed.document(1);
            feed.version(0, 1, VersionBody::Document(&first));
            feed.version(1, 2, VersionBody::Encoded(Encoding::Patch, &patches[0]));
            let mut verify = |patch: &[u8], versions| {
                feed.topic.verifier.verify((Encoding::Patch, patch), versions, None, &first)
            };
            assert!(verify(&patches[0], [1, 2]));
            assert!(!verify(&patches[1], [1, 2]));
            // A patch of a version that is gone cannot be applied.
            assert!(verify(&patches[1], [0, 2]));
            second(&mut patches[1]);
            feed.version(2, 3, VersionBody::Encoded(Encoding::Patch, &patches[1]));
            assert_eq!(feed.end().0, expected);
        };
        check(&|_| {}, "whole");
        check(&|patch| *patch = b"[]".to_vec(), "1 missing, 1 corrupt");
        check(&|patch| patch.truncate(9), "1 missing, 1 corrupt");
        check(
            &|patch| *patch = br#"[{"op":"replace","path":"/id","value":"x"}]"#.to_vec(),
            "1 missing, 1 corrupt",
        );
    }

    /// The text as the content of a JSON string.
    fn in_string(text: &[u8]) -> Vec<u8> {
        let quoted = serde_json::to_string(std::str::from_utf8(text).unwrap()).unwrap();
        quoted.as_bytes()[1..quoted.len() - 1].to_vec()
    }

    #[test]
    fn a_fossil_delta_is_applied_once_and_then_compared() {
        let feed = Feed::new(3);
        let [first, second, third] = [1, 2, 3].map(|number| feed.document(number));
        let check = |last: &[u8], expected: &str| {
            let mut feed = Feed::new(3);
            let delta = in_string(&delta_between(&first, &second));
            feed.version(0, 1, VersionBody::Encoded(Encoding::JsonString, &in_string(&first)));
            feed.version(1, 2, VersionBody::Encoded(Encoding::FossilDelta, &delta));
            let mut verify = |text: &[u8], versions| {
                feed.topic.verifier.verify((Encoding::FossilDelta, text), versions, None, &second)
            };
            assert!(verify(&delta, [1, 2]));
            assert!(!verify(last, [1, 2]));
            // A delta of a version that is gone cannot be applied.
            assert!(verify(last, [0, 2]));
            feed.version(2, 3, VersionBody::Encoded(Encoding::FossilDelta, last));
            assert_eq!(feed.end().0, expected);
        };
        let right = in_string(&delta_between(&second, &third));
        check(&right, "whole");
        check(&right[..right.len() - 1], "1 missing, 1 corrupt");
        // No string, and a delta of another version.
        check(&delta_between(&second, &third), "1 missing, 1 corrupt");
        check(&in_string(&delta_between(&second, &second)), "1 missing, 1 corrupt");
    }

    #[test]
    fn events_published_without_a_reader_are_not_expected() {
        let settings =
            Settings { payload: Payload::Match, event_bytes: 5000, ..Settings::default() };
        let mut topic = Topic::new(0, None, &settings);
        topic.publish_on_schedule(1000, &mut Vec::new());
        assert!(topic.is_settled(), "nobody reads");
        topic.join(0);
        assert_eq!(topic.last_due_to(0, 9000), None);
        topic.publish_on_schedule(2000, &mut Vec::new());
        assert_eq!((topic.is_settled(), topic.last_due_to(0, 9000)), (false, Some(2)));
        topic.leave(0, Some(2), 9000);
        assert!(topic.is_settled());
        topic.publish_on_schedule(3000, &mut Vec::new());
        assert!(topic.is_settled());
    }
}
