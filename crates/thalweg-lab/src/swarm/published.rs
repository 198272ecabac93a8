//! The published load: events that were published, which readers have them, and which events are due next.
//!
//! In a closed loop, event n + window is due at the moment the last reading subscriber has event n; each topic has its own window. In an
//! open loop, events are due on a schedule (`pace`), and the number of outstanding events grows as needed.
//!
//! - `documents`: events that are versions of a document, told apart by their offsets

mod documents;

use super::event::{self, Stamp};
use super::json_string;
use super::span_statistics::SpanStatistics;
use crate::measure::{Ledger, littles};
use crate::scenario::{Payload, Settings};
use documents::{Documents, Verifier};
use std::collections::HashMap;

/// Minimum of versions of a document that are kept: patches for a subscriber that resumes begin at a recent one.
const VERSIONS_MIN: u32 = 16;

/// One topic and its outstanding events.
#[derive(Debug)]
pub(super) struct Topic {
    window: u64,
    content: Content,
    /// Whether events come as JSON strings, without the quotes around them.
    is_escaped: bool,
    verifier: Verifier,
    /// Number of subscriptions that must have an event published now before the window moves on.
    readers: u32,
    /// Whether readers join one by one.
    is_joined: bool,
    /// The outstanding events, by number modulo its length (a power of two).
    ring: Vec<PublishedSlot>,
    /// Number of the last event published.
    published: u64,
    /// Number of the last event that all readers have.
    complete: u64,
    /// Readers that had a gap or joined late, and the number up to which the window does not wait for them.
    excused: HashMap<usize, u64>,
    is_known_due: bool,
    /// For Little's law over the span.
    completed: Completed,
}

/// Events that all readers have got since the span began.
#[derive(Clone, Copy, Debug, Default)]
struct Completed {
    events: u64,
    /// Sum of the times from published to complete.
    total_us: u64,
}

#[derive(Debug)]
enum Content {
    /// Events with a number, of this length.
    Padded(usize),
    Documents(Box<Documents>),
}

#[derive(Clone, Debug, Default)]
struct PublishedSlot {
    seq: u64,
    due_us: u64,
    /// Number of readers that must receive the event.
    readers: u32,
    have: u32,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) subscription: usize,
    /// Whether the window waits for this subscription.
    pub(super) is_reader: bool,
    /// Offset of the first event, in digits, if the subject says so.
    pub(super) first: &'a [u8],
    /// Separated by commas.
    pub(super) events: &'a [u8],
    pub(super) now_us: u64,
}

/// Returns the ratio of outstanding events, computed from deliveries with Little's law, to the windows. All topics are one sum, because a
/// fast topic has more deliveries than a slow one. Deliveries and completions are counted in different places, so they check each other.
pub(super) fn littles_ratio(topics: &[Topic], delivered: f64, span_us: u64) -> Option<f64> {
    let windows: u64 = topics.iter().map(|topic| topic.window).sum();
    let events: u64 = topics.iter().map(|topic| topic.completed.events).sum();
    let total_us: u64 = topics.iter().map(|topic| topic.completed.total_us).sum();
    let mean_us = total_us as f64 / events.max(1) as f64;
    let complete = delivered / f64::from(topics.first()?.readers.max(1));
    littles::ratio(windows as f64, complete, span_us, mean_us)
}

impl Topic {
    /// Returns a topic with `readers` that read from the beginning; with `None`, readers join later.
    pub(super) fn new(number: u32, readers: Option<u32>, settings: &Settings) -> Topic {
        let Settings { window, event_bytes, .. } = *settings;
        let slots = match settings.payload {
            Payload::Padded => window,
            Payload::Match => window.max(VERSIONS_MIN),
        };
        Topic {
            window: u64::from(window),
            content: match settings.payload {
                Payload::Padded => Content::Padded(event_bytes as usize),
                Payload::Match => Content::Documents(Box::new(Documents::new(number, settings))),
            },
            is_escaped: false,
            verifier: Verifier::default(),
            readers: readers.unwrap_or(0),
            is_joined: readers.is_none(),
            ring: vec![PublishedSlot::default(); (slots as usize).next_power_of_two()],
            published: 0,
            complete: 0,
            excused: HashMap::new(),
            is_known_due: true,
            completed: Completed::default(),
        }
    }

    pub(super) fn escaped(self) -> Topic {
        Topic { is_escaped: true, ..self }
    }

    pub(super) fn begin_span(&mut self) {
        self.completed = Completed::default();
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.published < self.complete + self.window
    }

    /// Returns whether events are due, but `true` only once until the next publish.
    #[inline]
    pub(super) fn has_moved(&mut self) -> bool {
        self.is_due() && !std::mem::replace(&mut self.is_known_due, true)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.published == self.complete
    }

    /// Returns the number of events that not all readers have.
    pub(super) fn outstanding(&self) -> u64 {
        self.published - self.complete
    }

    /// Returns the due time of the first outstanding event.
    pub(super) fn waits_since_us(&self) -> Option<u64> {
        (!self.is_settled()).then(|| self.ring[self.index(self.complete + 1)].due_us)
    }

    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// Appends all due events, one per line.
    pub(super) fn publish(&mut self, due_us: u64, lines: &mut Vec<u8>) {
        self.is_known_due = false;
        while self.is_due() {
            self.publish_next(due_us, lines);
        }
    }

    /// Appends the next event, regardless of the window.
    pub(super) fn publish_on_schedule(&mut self, due_us: u64, lines: &mut Vec<u8>) {
        if self.outstanding() == self.ring.len() as u64 {
            self.grow();
        }
        self.publish_next(due_us, lines);
    }

    fn publish_next(&mut self, due_us: u64, lines: &mut Vec<u8>) {
        self.published += 1;
        let seq = self.published;
        let index = self.index(seq);
        let slot = &mut self.ring[index];
        (slot.seq, slot.due_us, slot.readers, slot.have) = (seq, due_us, self.readers, 0);
        slot.bytes.clear();
        match &mut self.content {
            Content::Padded(bytes) => event::write(&mut slot.bytes, Stamp { seq, due_us }, *bytes),
            Content::Documents(documents) => documents.take(&mut slot.bytes),
        }
        lines.extend_from_slice(&slot.bytes);
        lines.push(b'\n');
        if self.is_escaped {
            // Events are compared in the form in which they arrive.
            let plain = std::mem::take(&mut slot.bytes);
            json_string::escape(&plain, &mut slot.bytes);
        }
        if self.readers == 0 {
            self.complete = seq;
        }
    }

    /// Creates the next event in advance, if that takes long.
    pub(super) fn prepare(&mut self) {
        if let Content::Documents(documents) = &mut self.content {
            documents.prepare();
        }
    }

    /// Adds a reader of everything that is published from now on.
    pub(super) fn join(&mut self, subscription: usize) {
        self.readers += 1;
        self.excused.insert(subscription, self.published);
    }

    /// Removes a reader that would have got this number next: no event waits for it any more.
    pub(super) fn leave(&mut self, subscription: usize, next: Option<u64>, now_us: u64) {
        let excused = self.excused.remove(&subscription).unwrap_or(self.published);
        for seq in next.unwrap_or(1).max(excused + 1)..=self.published {
            self.count_reader_of(seq, now_us);
        }
        self.readers -= 1;
    }

    /// Returns the number of the last event due before this time and published after the reader joined; `None` if there is none.
    pub(super) fn last_due_to(&self, subscription: usize, time_us: u64) -> Option<u64> {
        let is_due = |seq: &u64| {
            let slot = &self.ring[self.index(*seq)];
            slot.seq != *seq || slot.due_us < time_us
        };
        (self.excused_until(subscription).saturating_add(1)..=self.published).rev().find(is_due)
    }

    #[cold]
    fn grow(&mut self) {
        let wider = vec![PublishedSlot::default(); self.ring.len() * 2];
        for slot in std::mem::replace(&mut self.ring, wider) {
            let index = self.index(slot.seq);
            self.ring[index] = slot;
        }
    }

    /// Compares arrivals with published events, byte for byte, and enters them in ledger and statistics.
    #[inline]
    pub(super) fn receive(
        &mut self,
        arrival: Arrival<'_>,
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) {
        if matches!(self.content, Content::Documents(_)) {
            self.receive_documents(arrival, ledger, statistics);
            return;
        }
        let mut rest = arrival.events;
        let mut next = ledger.next(arrival.subscription).unwrap_or(1);
        let mut in_order = 0;
        let excused = self.excused_until(arrival.subscription);
        while !rest.is_empty() {
            let index = self.index(next);
            let Some((after, due_us)) = self.ring[index].matches(next, rest) else {
                ledger.in_order(arrival.subscription, in_order);
                in_order = 0;
                rest = self.receive_unexpected(arrival, rest, ledger, statistics);
                next = ledger.next(arrival.subscription).unwrap_or(1);
                continue;
            };
            if arrival.is_reader {
                statistics.record(due_us, arrival.now_us, 1);
                if next > excused {
                    self.count_reader(index, arrival.now_us);
                }
            }
            rest = after;
            next += 1;
            in_order += 1;
        }
        ledger.in_order(arrival.subscription, in_order);
    }

    #[cold]
    fn receive_unexpected<'a>(
        &mut self,
        arrival: Arrival<'a>,
        rest: &'a [u8],
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) -> &'a [u8] {
        // Neither numbers nor padding hold a brace.
        let end = memchr::memchr(b'}', rest).map_or(rest.len(), |at| at + 1);
        let (event, after) = rest.split_at(end);
        let unescaped = if self.is_escaped { json_string::unescaped(event) } else { None };
        let plain = unescaped.as_deref().unwrap_or(event);
        match event::read(plain) {
            Some(stamp) if stamp.seq > self.published => ledger.early(1),
            Some(stamp)
                if matches!(self.content, Content::Padded(bytes) if bytes == plain.len())
                    && self.is_published(stamp.seq, event) =>
            {
                self.enter(arrival, stamp, ledger, statistics);
            }
            _ => ledger.corrupt(),
        }
        after.strip_prefix(b",").unwrap_or(after)
    }

    fn enter(
        &mut self,
        arrival: Arrival<'_>,
        Stamp { seq, due_us }: Stamp,
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) {
        let is_counted = seq <= self.excused_until(arrival.subscription);
        match arrival.is_reader {
            true if !is_counted => statistics.record(due_us, arrival.now_us, 1),
            // An event that was published before the reader arrived is new to it, and not late.
            true => statistics.traffic.events += 1,
            false => {}
        }
        let is_new = ledger.arrived(arrival.subscription, seq);
        if is_new && arrival.is_reader && !is_counted {
            self.count_reader_of(seq, arrival.now_us);
        }
    }

    /// Returns whether the event is the one published under this number, if that is still stored: a checksum can be forged.
    fn is_published(&self, seq: u64, event: &[u8]) -> bool {
        let slot = &self.ring[self.index(seq)];
        slot.seq != seq || slot.bytes == event
    }

    /// Handles a gap: the window does not wait for the missed events or, if their number is unknown, for anything published so far.
    #[cold]
    pub(super) fn gap(&mut self, arrival: Arrival<'_>, missed: Option<u64>, ledger: &mut Ledger) {
        let subscription = arrival.subscription;
        let next = ledger.next(subscription).unwrap_or(1);
        // Unpublished events cannot be missed.
        let until = missed.map_or(self.published, |missed| {
            next.saturating_add(missed).saturating_sub(1).min(self.published)
        });
        ledger.gap(subscription, missed.map(|_| (until + 1).saturating_sub(next)));
        if !arrival.is_reader {
            return;
        }
        let excused = self.excused_until(subscription);
        for seq in next.max(excused + 1)..=until {
            self.count_reader_of(seq, arrival.now_us);
        }
        self.excused.insert(subscription, until.max(excused));
    }

    /// Returns the last number for which the window does not wait: 0 without a gap, the maximum for a subscription that has not joined.
    #[inline]
    fn excused_until(&self, subscription: usize) -> u64 {
        let other = if self.is_joined { u64::MAX } else { 0 };
        if self.excused.is_empty() {
            return other;
        }
        self.excused.get(&subscription).copied().unwrap_or(other)
    }

    /// Calls `count_reader`, if the event is still outstanding.
    fn count_reader_of(&mut self, seq: u64, now_us: u64) {
        let index = self.index(seq);
        if self.ring[index].seq == seq {
            self.count_reader(index, now_us);
        }
    }

    #[inline]
    fn count_reader(&mut self, index: usize, now_us: u64) {
        let slot = &mut self.ring[index];
        slot.have += 1;
        if slot.have == slot.readers {
            self.complete = self.complete.max(slot.seq);
            self.completed.events += 1;
            self.completed.total_us += now_us.saturating_sub(slot.due_us);
        }
    }

    #[inline]
    fn index(&self, seq: u64) -> usize {
        seq as usize & (self.ring.len() - 1)
    }
}

impl PublishedSlot {
    /// Returns what follows, and when the event was due, if this is number `seq` and `rest` begins with it.
    #[inline]
    fn matches<'a>(&self, seq: u64, rest: &'a [u8]) -> Option<(&'a [u8], u64)> {
        if self.seq != seq {
            return None;
        }
        match rest.strip_prefix(self.bytes.as_slice())? {
            [] => Some((&[], self.due_us)),
            [b',', after @ ..] if !after.is_empty() => Some((after, self.due_us)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
