//! The posted drive: what was published, who has it, what is due next.
//!
//! In a closed loop event n + window is due at the moment the last reading
//! subscriber has event n; each topic has a window of its own. In an open loop
//! events are due on a schedule (`pace`), and what is outstanding grows as far as
//! it must.

use super::event::{self, Stamp};
use super::tally::Tally;
use crate::measure::{Ledger, littles};

/// One topic and its outstanding events.
#[derive(Debug)]
pub(super) struct Topic {
    window: u64,
    event_bytes: usize,
    /// Subscriptions that must have an event before the window moves on.
    readers: u32,
    /// The outstanding events, by number modulo its length (a power of two).
    ring: Vec<Slot>,
    /// Number of the last event published.
    published: u64,
    /// Number of the last event that all readers have.
    complete: u64,
    /// Whether it is known that something is to be published.
    is_known_due: bool,
    /// Of the span, for Little's law.
    completed: Completed,
}

/// Events that all readers have got since the span began.
#[derive(Clone, Copy, Debug, Default)]
struct Completed {
    events: u64,
    /// From published to complete, all of them together.
    total_us: u64,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    seq: u64,
    due_us: u64,
    /// Readers that have it.
    have: u32,
    bytes: Vec<u8>,
}

/// Events that reached a subscription.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) subscription: usize,
    /// Whether the window waits for this subscription.
    pub(super) is_reader: bool,
    /// Separated by commas.
    pub(super) events: &'a [u8],
    pub(super) now_us: u64,
}

impl Topic {
    pub(super) fn new(window: u32, readers: u32, event_bytes: u32) -> Topic {
        Topic {
            window: u64::from(window),
            event_bytes: event_bytes as usize,
            readers,
            ring: vec![Slot::default(); (window as usize).next_power_of_two()],
            published: 0,
            complete: 0,
            is_known_due: true,
            completed: Completed::default(),
        }
    }

    /// The span begins.
    pub(super) fn begin_span(&mut self) {
        self.completed = Completed::default();
    }

    /// Little's law over the span, in which so many events were delivered to this
    /// topic's readers: what must have been outstanding, to the window. Deliveries
    /// and completions are counted in different places, so neither vouches for
    /// itself.
    pub(super) fn littles_ratio(&self, delivered: f64, span_us: u64) -> Option<f64> {
        let Completed { events, total_us } = self.completed;
        let mean_us = total_us as f64 / events.max(1) as f64;
        let complete = delivered / f64::from(self.readers.max(1));
        littles::ratio(self.window as f64, complete, span_us, mean_us)
    }

    /// Whether something is to be published.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.published < self.complete + self.window
    }

    /// Whether something is to be published, told once.
    #[inline]
    pub(super) fn has_moved(&mut self) -> bool {
        self.is_due() && !std::mem::replace(&mut self.is_known_due, true)
    }

    /// Whether all readers have everything.
    pub(super) fn is_settled(&self) -> bool {
        self.published == self.complete
    }

    /// Events that not all readers have.
    pub(super) fn outstanding(&self) -> u64 {
        self.published - self.complete
    }

    /// When the first of them was due.
    pub(super) fn waits_since_us(&self) -> Option<u64> {
        (!self.is_settled()).then(|| self.ring[self.index(self.complete + 1)].due_us)
    }

    /// Number of the last event published.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// Appends everything that is due, one event a line.
    pub(super) fn publish(&mut self, due_us: u64, lines: &mut Vec<u8>) {
        self.is_known_due = false;
        while self.is_due() {
            self.publish_next(due_us, lines);
        }
    }

    /// Appends the next event, window or not.
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
        (slot.seq, slot.due_us, slot.have) = (seq, due_us, 0);
        slot.bytes.clear();
        event::write(&mut slot.bytes, Stamp { seq, due_us }, self.event_bytes);
        lines.extend_from_slice(&slot.bytes);
        lines.push(b'\n');
    }

    /// Room for twice as many outstanding events.
    #[cold]
    fn grow(&mut self) {
        let wider = vec![Slot::default(); self.ring.len() * 2];
        for slot in std::mem::replace(&mut self.ring, wider) {
            let index = self.index(slot.seq);
            self.ring[index] = slot;
        }
    }

    /// Compares what arrived with what was published, byte for byte, and
    /// enters it in ledger and tally.
    #[inline]
    pub(super) fn receive(&mut self, arrival: Arrival<'_>, ledger: &mut Ledger, tally: &mut Tally) {
        let mut rest = arrival.events;
        let mut next = ledger.next(arrival.subscription).unwrap_or(1);
        let mut in_order = 0;
        while !rest.is_empty() {
            let index = self.index(next);
            let Some((after, due_us)) = self.ring[index].matches(next, rest) else {
                ledger.in_order(arrival.subscription, in_order);
                in_order = 0;
                rest = self.receive_unexpected(arrival, rest, ledger, tally);
                next = ledger.next(arrival.subscription).unwrap_or(1);
                continue;
            };
            tally.came(due_us, arrival.now_us, 1);
            if arrival.is_reader {
                self.count_reader(index, arrival.now_us);
            }
            rest = after;
            next += 1;
            in_order += 1;
        }
        ledger.in_order(arrival.subscription, in_order);
    }

    /// Not the event that was to come: lost, repeated, overtaken or damaged?
    #[cold]
    fn receive_unexpected<'a>(
        &mut self,
        arrival: Arrival<'a>,
        rest: &'a [u8],
        ledger: &mut Ledger,
        tally: &mut Tally,
    ) -> &'a [u8] {
        // Neither numbers nor padding hold a brace.
        let end = memchr::memchr(b'}', rest).map_or(rest.len(), |at| at + 1);
        let (event, after) = rest.split_at(end);
        match event::read(event) {
            Some(stamp) if event.len() == self.event_bytes && stamp.seq <= self.published => {
                tally.came(stamp.due_us, arrival.now_us, 1);
                let is_new = ledger.arrived(arrival.subscription, stamp.seq);
                let index = self.index(stamp.seq);
                if is_new && arrival.is_reader && self.ring[index].seq == stamp.seq {
                    self.count_reader(index, arrival.now_us);
                }
            }
            _ => ledger.corrupt(),
        }
        after.strip_prefix(b",").unwrap_or(after)
    }

    #[inline]
    fn count_reader(&mut self, index: usize, now_us: u64) {
        let slot = &mut self.ring[index];
        slot.have += 1;
        if slot.have == self.readers {
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

impl Slot {
    /// If `rest` begins with this event and it is number `seq`: what follows,
    /// and when it was due.
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
mod tests {
    use super::*;

    /// Two subscribers, five events outstanding; `deliver` makes of the events
    /// what the first subscriber gets, the second gets them as published.
    fn check(deliver: impl FnOnce(&mut Vec<String>), expected: &str) {
        let mut topic = Topic::new(5, 2, 128);
        let (mut ledger, mut tally) = (Ledger::new(2, Some(1)), Tally::default());
        let mut lines = Vec::new();
        topic.publish(1000, &mut lines);
        let lines = String::from_utf8(lines).unwrap();
        let intact: Vec<String> = lines.lines().map(str::to_owned).collect();
        let mut changed = intact.clone();
        deliver(&mut changed);
        for (subscription, events) in [changed, intact].iter().enumerate() {
            let events = events.join(",").into_bytes();
            let arrival = Arrival { subscription, is_reader: true, events: &events, now_us: 1500 };
            topic.receive(arrival, &mut ledger, &mut tally);
        }
        for subscription in 0..2 {
            ledger.close(subscription, topic.published());
        }
        assert_eq!(ledger.counts().to_string(), expected);
    }

    #[test]
    fn a_subject_that_misbehaves_is_caught() {
        check(|_| {}, "whole");
        check(|events| drop(events.remove(2)), "1 missing");
        check(|events| drop(events.pop()), "1 missing");
        check(|events| events.clear(), "5 missing");
        check(|events| events.insert(2, events[1].clone()), "1 duplicated");
        check(|events| events.swap(1, 2), "1 reordered");
        // A changed byte: damaged, and so the event itself never came.
        check(|events| events[3] = events[3].replacen("xx", "xy", 1), "1 missing, 1 corrupt");
        check(|events| events[0] = events[0].replacen("1000", "1001", 1), "1 missing, 1 corrupt");
        check(|events| events.push("{}".to_owned()), "1 corrupt");
    }

    #[test]
    fn late_events_are_compared_however_many_are_outstanding() {
        let mut topic = Topic::new(4, 1, 128);
        let (mut ledger, mut tally) = (Ledger::new(1, Some(1)), Tally::default());
        let mut heard = 0;
        for burst in [3u64, 700, 5, 2000, 1] {
            let mut lines = Vec::new();
            for _ in 0..burst {
                topic.publish_on_schedule(1000 + topic.published(), &mut lines);
            }
            assert_eq!(topic.outstanding(), burst);
            assert_eq!(topic.waits_since_us(), Some(1000 + heard));
            heard += burst;
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                let events = &line[..line.len() - 1];
                let arrival = Arrival { subscription: 0, is_reader: true, events, now_us: 5000 };
                let next = ledger.next(0).unwrap();
                assert!(topic.ring[topic.index(next)].matches(next, events).is_some(), "{next}");
                topic.receive(arrival, &mut ledger, &mut tally);
            }
            assert_eq!((topic.waits_since_us(), topic.outstanding()), (None, 0));
        }
        assert_eq!(ledger.counts().to_string(), "whole");
        assert_eq!(tally.traffic.events, heard);
        // Exact to three digits.
        assert!((4000..4005).contains(&tally.latency.quantile_us(1.0).unwrap()));
    }

    #[test]
    fn the_window_moves_when_the_last_reader_has_an_event() {
        let mut topic = Topic::new(1, 2, 128);
        let (mut ledger, mut tally) = (Ledger::new(3, Some(1)), Tally::default());
        let mut line = Vec::new();
        topic.publish(0, &mut line);
        line.pop();
        let mut arrive = |subscription, is_reader, topic: &mut Topic| {
            let arrival = Arrival { subscription, is_reader, events: &line, now_us: 0 };
            topic.receive(arrival, &mut ledger, &mut tally);
            topic.has_moved()
        };
        assert!(!arrive(0, true, &mut topic));
        assert!(!arrive(2, false, &mut topic), "nobody waits for one that will stop");
        assert!(arrive(1, true, &mut topic));
        assert!(!topic.has_moved(), "it is told once");
        topic.publish(0, &mut Vec::new());
        assert!(!topic.has_moved(), "the window is full");
    }

    /// Two outstanding, each for 1 ms, on one reader, for 100 ms: what Little's law
    /// says if the clock runs `fast` times too fast, and each delivery counts as
    /// `counted`.
    fn littles(fast: u64, counted: f64) -> f64 {
        let mut topic = Topic::new(2, 1, 128);
        let (mut ledger, mut tally) = (Ledger::new(1, Some(1)), Tally::default());
        let mut lines = Vec::new();
        topic.publish(0, &mut lines);
        topic.begin_span();
        for number in 1..=100 {
            let events = String::from_utf8(lines.clone()).unwrap().trim().replace('\n', ",");
            let now_us = number * 1000 * fast;
            let events = events.as_bytes();
            let arrival = Arrival { subscription: 0, is_reader: true, events, now_us };
            topic.receive(arrival, &mut ledger, &mut tally);
            lines.clear();
            topic.publish(now_us, &mut lines);
        }
        topic.littles_ratio(tally.traffic.events as f64 * counted, 100_000).unwrap()
    }

    #[test]
    fn littles_law_holds_and_finds_a_broken_clock_and_a_broken_count() {
        assert!((littles(1, 1.0) - 1.0).abs() < 1e-9);
        assert!((littles(2, 1.0) - 2.0).abs() < 1e-9);
        assert!((littles(1, 0.5) - 0.5).abs() < 1e-9);
    }
}
