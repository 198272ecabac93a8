//! Events that are versions of a document, such as a football match. They do not say their
//! numbers: the envelopes do, by their offsets, for in a server that has just been started the
//! first event of a topic has offset 1.
//!
//! A patch is applied once, by the first subscriber that gets it, and what comes of it compared
//! with what was published as JSON values (RFC 6902: the order of members may differ). All
//! others get the same patch or another one: that is compared byte for byte.

use super::{Arrival, Topic};
use crate::measure::Ledger;
use crate::swarm::dialect::{Version, VersionBody};
use crate::swarm::event::{Stamp, number};
use crate::swarm::span_statistics::SpanStatistics;
use crate::scenario::Settings;
use serde_json::Value;
use std::collections::VecDeque;
use thalweg_match_feed::{Match, Size};

/// Patches that are remembered: of one topic so many are under way at a time, at most.
const PATCHES_MAX: usize = 64;
/// The same matches in every sample.
const SEED: u64 = 1;

/// The versions of one document, one after the other.
#[derive(Debug)]
pub(super) struct Documents {
    game: Match,
    /// Of match time, from one version to the next.
    seconds: u32,
    /// The next version, if it is made already.
    next: Vec<u8>,
}

impl Documents {
    /// Of the topic with this number.
    pub(super) fn new(topic: u32, settings: &Settings) -> Documents {
        let size = Size::ALL.into_iter().find(|it| it.bytes() == settings.event_bytes as usize);
        let game = Match::new(SEED, &topic.to_string(), size.unwrap_or(Size::Small));
        let seconds = settings.period().map_or(1, |period| period.as_secs().max(1) as u32);
        let mut documents = Documents { game, seconds, next: Vec::new() };
        documents.prepare();
        documents
    }

    /// Makes the next version, if it is not there.
    pub(super) fn prepare(&mut self) {
        if self.next.is_empty() {
            self.game.advance_by(self.seconds);
            self.next.extend_from_slice(self.game.json());
        }
    }

    /// The next version, in place of what is there.
    pub(super) fn take(&mut self, version: &mut Vec<u8>) {
        self.prepare();
        std::mem::swap(version, &mut self.next);
        self.next.clear();
    }
}

impl Topic {
    /// Documents of a log, in envelopes that say the number of the first.
    pub(super) fn receive_documents(
        &mut self,
        arrival: Arrival<'_>,
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) {
        let Some(first) = number(arrival.first) else { return ledger.corrupt() };
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

    /// A version of a value topic. Those between it and the one before were replaced, which is
    /// no loss: a subscriber has the data of their time as soon as it has any newer.
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
        // Whoever was sent another version before has missed a message.
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

    /// Whether it is what was published: as far as that is still there.
    fn is_intact(&mut self, version: Version<'_>) -> bool {
        let Version { number: seq, previous, body } = version;
        let (before, after) = (&self.ring[self.index(previous)], &self.ring[self.index(seq)]);
        if after.seq != seq {
            return true;
        }
        match body {
            VersionBody::Document(document) => document == after.bytes,
            VersionBody::Patch(patch) => {
                let before = (before.seq == previous).then_some(&*before.bytes);
                self.patches.make(patch, [previous, seq], before, &after.bytes)
            }
        }
    }
}

/// The patches of a topic that have come, and what they come to.
#[derive(Debug, Default)]
pub(super) struct Patches {
    /// Those that were applied and found to be right: from which version to which.
    right: VecDeque<([u64; 2], Vec<u8>)>,
    /// The newest version that one led to, with its number.
    newest: Option<(u64, Value)>,
}

impl Patches {
    /// Whether a patch makes one version of another; of one that is no longer there, whether
    /// it was found to do so before.
    fn make(
        &mut self,
        patch: &[u8],
        versions: [u64; 2],
        before: Option<&[u8]>,
        after: &[u8],
    ) -> bool {
        if let Some((_, right)) = self.right.iter().find(|(of, _)| *of == versions) {
            return right == patch;
        }
        let Some(made) = self.apply(patch, versions[0], before) else { return false };
        if serde_json::from_slice::<Value>(after).ok().as_ref() != Some(&made) {
            return false;
        }
        self.newest = Some((versions[1], made));
        if self.right.len() == PATCHES_MAX {
            self.right.pop_front();
        }
        self.right.push_back((versions, patch.to_vec()));
        true
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
