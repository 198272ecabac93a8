use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use fastrand::Rng;
use thalweg_core::stream::{
    Appended, Batch, BatchBounds, FeedKind, Offsets, Page, Payloads, Sequencer,
};
use thalweg_wire::{Epoch, Offset, Topic};

use super::{
    conditions::{Conditions, magnitude, own_rng},
    documents::Document,
    keyed_events::KeyedEvents,
};

/// One topic as its publishers know it, by which every subscription is checked.
pub(super) struct Published {
    pub(super) topic: Topic,
    pub(super) epoch: Epoch,
    kind: Kind,
    order: Order,
    published: usize,
    events: BTreeMap<Offset, String>,
    sealed: Offset,
    batches: Vec<Weak<Batch>>,
    /// The first and the end of each sealed batch, as a broker stores them.
    messages: Vec<(Offset, Offset)>,
    /// The broker no longer has older events.
    pub(super) stored_from: Offset,
    /// The messages that the broker has lost, by their first offsets.
    lost: BTreeSet<Offset>,
}

enum Kind {
    Log,
    Value(Document),
    Keyed(KeyedEvents),
}

enum Order {
    Own(Sequencer),
    /// A broker assigns them: the number of the last batch, and the events that wait to be one.
    Fed {
        sequence: u64,
        waiting: Vec<String>,
        since_us: u64,
        /// Whether the broker stores them, too.
        is_stored: bool,
    },
}

/// Offsets for each number of a broker's batch.
const FED_SPAN: u64 = 256;

impl Published {
    pub(super) fn new(index: usize, conditions: &Conditions, rng: &mut Rng) -> Self {
        let epoch_max = u64::MAX >> rng.u32(0..64);
        let epoch = Epoch::new(rng.u64(1..=epoch_max)).expect("from 1 on");
        let is_value = conditions.values && rng.bool();
        let order = match conditions.feeds && rng.bool() {
            true => {
                let is_stored = is_value || rng.bool();
                Order::Fed { sequence: 0, waiting: Vec::new(), since_us: 0, is_stored }
            }
            false => Order::Own(Sequencer::new(epoch, conditions.batch)),
        };
        let is_own = matches!(order, Order::Own(_));
        let mut keyed_rng = own_rng(rng);
        let kind = match is_value {
            true => Kind::Value(Document::new(conditions.event_bytes_max)),
            false if is_own && conditions.keyed.is_some() && keyed_rng.u8(0..3) > 0 => {
                Kind::Keyed(KeyedEvents::new(&mut keyed_rng))
            }
            false => Kind::Log,
        };
        Self {
            kind,
            topic: format!("topics/{index}").parse().expect("a topic"),
            epoch,
            order,
            published: 0,
            events: BTreeMap::new(),
            sealed: 0,
            batches: Vec::new(),
            messages: Vec::new(),
            stored_from: FED_SPAN,
            lost: BTreeSet::new(),
        }
    }

    pub(super) fn kind(&self) -> FeedKind {
        match &self.kind {
            Kind::Log => FeedKind::Log,
            Kind::Value(_) => FeedKind::Value,
            Kind::Keyed(_) => FeedKind::Keyed,
        }
    }

    pub(super) fn is_value(&self) -> bool {
        self.kind() == FeedKind::Value
    }

    pub(super) fn keyed(&self) -> Option<&KeyedEvents> {
        match &self.kind {
            Kind::Keyed(events) => Some(events),
            Kind::Log | Kind::Value(_) => None,
        }
    }

    /// The newest event that subscribers may get.
    pub(super) fn sealed(&self) -> Offset {
        self.sealed
    }

    pub(super) fn offsets(&self) -> Offsets {
        match self.order {
            Order::Own(_) => Offsets::Consecutive,
            Order::Fed { is_stored: true, .. } => Offsets::Stored,
            Order::Fed { is_stored: false, .. } => Offsets::Derived,
        }
    }

    pub(super) fn payload(&self, offset: Offset) -> &str {
        &self.events[&offset]
    }

    pub(super) fn event_from(&self, offset: Offset) -> Option<Offset> {
        self.events.range(offset..).next().map(|(offset, _)| *offset)
    }

    /// The offset of the event before `offset`. 0 if there is none.
    pub(super) fn event_before(&self, offset: Offset) -> Offset {
        self.events.range(..offset).next_back().map_or(0, |(offset, _)| *offset)
    }

    pub(super) fn end(&self) -> Offset {
        self.event_before(Offset::MAX) + 1
    }

    pub(super) fn publish(&mut self, conditions: &Conditions, now_us: u64, rng: &mut Rng) {
        let mut published = Vec::new();
        for _ in 0..rng.usize(0..=conditions.events_max) {
            self.published += 1;
            published.push(match &mut self.kind {
                Kind::Value(document) => document.next(rng),
                Kind::Keyed(_) if rng.u8(0..6) == 0 => "null".to_owned(),
                Kind::Log if conditions.changes && rng.bool() => row(self.published, rng),
                Kind::Log | Kind::Keyed(_) => {
                    payload(&self.topic, self.published, conditions.event_bytes_max, rng)
                }
            });
        }
        match &mut self.order {
            Order::Own(sequencer) => {
                let mut payloads = match &mut self.kind {
                    Kind::Keyed(events) => keyed_payloads(&published, events, rng),
                    Kind::Log | Kind::Value(_) => payloads(&published),
                };
                let appended = sequencer.append(&mut payloads, now_us);
                let first = self.events.len() as Offset + 1;
                self.events.extend((first..).zip(published));
                let end = self.events.len() as Offset + 1;
                assert_eq!(appended, Appended { first, end });
            }
            Order::Fed { waiting, since_us, .. } => {
                if waiting.is_empty() {
                    *since_us = now_us;
                }
                waiting.extend(published);
            }
        }
    }

    pub(super) fn due_us(&self) -> Option<u64> {
        match &self.order {
            Order::Own(sequencer) => sequencer.due_us(),
            Order::Fed { waiting, since_us, .. } => (!waiting.is_empty()).then_some(*since_us),
        }
    }

    pub(super) fn seal(
        &mut self,
        bounds: BatchBounds,
        now_us: u64,
        rng: &mut Rng,
    ) -> Vec<Arc<Batch>> {
        let is_due = self.due_us().is_some_and(|due_us| due_us <= now_us);
        let batches = match &mut self.order {
            Order::Own(sequencer) => sequencer.seal(now_us),
            Order::Fed { sequence, waiting, .. } => {
                let (mut end, mut batches) = (self.sealed + 1, Vec::new());
                while !waiting.is_empty() {
                    // Other topics have numbers in between.
                    *sequence += rng.u64(1..4);
                    let mut bytes = 0;
                    let fitting = waiting.iter().take(bounds.events_max).take_while(|event| {
                        bytes += event.len() + 1;
                        bytes <= bounds.bytes_max
                    });
                    let count = rng.usize(1..=fitting.count().max(1));
                    let events: Vec<_> = waiting.drain(..count).collect();
                    let first = *sequence * FED_SPAN;
                    let batch = Batch::seal(end, first, payloads(&events), now_us);
                    end = batch.end();
                    self.events.extend((first..).zip(events));
                    batches.push(batch);
                }
                batches
            }
        };
        assert_eq!(is_due, !batches.is_empty(), "sealed when due and only then");
        let batches: Vec<_> = batches.into_iter().map(Arc::new).collect();
        for batch in &batches {
            assert_eq!(batch.start(), self.sealed + 1, "batches follow one another");
            self.sealed = batch.end() - 1;
            self.messages.push((batch.first(), batch.end()));
            self.batches.push(Arc::downgrade(batch));
        }
        batches
    }

    /// The first offset that no event up to now has, nor any with the same number.
    pub(super) fn coverage(&self) -> Option<Offset> {
        match self.order {
            Order::Own(_) | Order::Fed { is_stored: false, .. } => None,
            Order::Fed { sequence, .. } => Some((sequence + 1) * FED_SPAN),
        }
    }

    /// Time passes, and the broker drops some of its oldest messages.
    pub(super) fn expire(&mut self, rng: &mut Rng) {
        if let Some((_, end)) = rng.choice(&self.messages) {
            self.stored_from = self.stored_from.max(*end);
        }
    }

    /// The disk of the broker is damaged, and some messages are lost.
    pub(super) fn lose(&mut self, rng: &mut Rng) {
        let first = rng.usize(0..=self.messages.len());
        let count = rng.usize(0..4);
        self.lost.extend(self.messages.iter().skip(first).take(count).map(|(first, _)| *first));
    }

    /// Whether the broker has lost all messages from `from` on, before `until`.
    pub(super) fn has_lost_all(&self, from: Offset, until: Offset) -> bool {
        let mut its = self.messages.iter().filter(|(first, end)| *end > from && *first < until);
        its.all(|(first, _)| self.lost.contains(first))
    }

    /// Whether the broker has given an offset, or a later one.
    pub(super) fn has_given(&self, offset: Offset) -> bool {
        self.messages.last().is_some_and(|(first, _)| offset / FED_SPAN <= first / FED_SPAN)
            || offset < FED_SPAN
    }

    /// The newest version, as the broker gives it to a reader with the versions before `until`.
    pub(super) fn version(&self, until: Offset) -> Page {
        let newest = self.messages.last().map(|(first, end)| {
            let events: Vec<String> =
                self.events.range(first..end).map(|(_, event)| event.clone()).collect();
            (*first, payloads(&events))
        });
        let messages = newest.into_iter().collect();
        let stored_from = self.stored_from;
        let (holes, is_last_before) = (Vec::new(), Some(until));
        Page {
            from: stored_from,
            messages,
            holes,
            is_last_before,
            stored_from,
            compacted: 0,
            unix_ms: 0,
        }
    }

    /// The broker's answer to a reader of the events from `from` on, before the history that begins at `until`.
    pub(super) fn page(&self, from: Offset, until: Offset, rng: &mut Rng) -> Page {
        let from = from.max(self.stored_from);
        let wanted = |(first, end): &&(Offset, Offset)| *end > from && *first < until;
        let mut all: Vec<_> = self.messages.iter().filter(wanted).copied().collect();
        let is_whole = rng.bool() || all.len() < 2;
        if !is_whole {
            all.truncate(rng.usize(1..all.len()));
        }
        let events = |first, end| -> Vec<String> {
            self.events.range(first..end).map(|(_, event)| event.clone()).collect()
        };
        let is_lost = |(first, _): &(Offset, Offset)| self.lost.contains(first);
        // Only the messages around a loss say how far it goes.
        let holes = all.iter().filter(|message| is_lost(message)).map(|(first, end)| {
            let before = self.messages.iter().rfind(|(_, before)| before <= first);
            let from = rng.u64(before.map_or(from, |(_, end)| *end).max(from).min(*first)..=*first);
            let after = self.messages.iter().find(|(after, _)| after >= end);
            let until = after.map_or(until, |(first, _)| *first).min(until).max(*end);
            from..rng.u64(*end..=until).min(until)
        });
        let holes = holes.collect();
        let message = |(first, end)| (first, payloads(&events(first, end)));
        Page {
            from,
            messages: all.iter().copied().filter(|it| !is_lost(it)).map(message).collect(),
            holes,
            is_last_before: is_whole.then_some(until),
            stored_from: self.stored_from,
            compacted: 0,
            unix_ms: 0,
        }
    }

    pub(super) fn has_same_columns(&self) -> bool {
        let look = |event: &String| -> String {
            event.chars().filter(|character| "[]{}:,.\"".contains(*character)).collect()
        };
        let mut looks = self.events.values().map(look);
        let first = looks.next();
        looks.all(|look| Some(look) == first)
    }

    /// The ends of the batches whose frame of columns is kept, and of those whose frame was too large.
    pub(super) fn column_frames(&self) -> (BTreeSet<Offset>, BTreeSet<Offset>) {
        let ends = |is_it: fn(&Batch) -> bool| {
            let here = self.batches.iter().filter_map(Weak::upgrade);
            here.filter(|batch| is_it(batch)).map(|batch| batch.end()).collect()
        };
        (ends(Batch::is_column_frame_kept), ends(Batch::is_column_frame_too_large))
    }

    pub(super) fn is_held(&self) -> bool {
        self.batches.iter().any(|batch| batch.strong_count() > 0)
    }
}

fn payloads(events: &[String]) -> Payloads {
    let mut payloads = Payloads::default();
    events.iter().for_each(|event| push(event, &mut payloads));
    payloads
}

fn keyed_payloads(events: &[String], keyed: &mut KeyedEvents, rng: &mut Rng) -> Payloads {
    let mut payloads = Payloads::default();
    for event in events {
        push(event, &mut payloads);
        payloads.push_key(keyed.publish(event, rng));
    }
    payloads
}

fn push(event: &str, payloads: &mut Payloads) {
    let pushed: Result<(), ()> = payloads.push(|bytes| {
        bytes.extend_from_slice(event.as_bytes());
        Ok(())
    });
    assert_eq!(pushed, Ok(()));
}

fn row(number: usize, rng: &mut Rng) -> String {
    match (number / 8) % 5 {
        0 => format!(r#"{{"n":{number}}}"#),
        1 => format!(r#"{{"n":{number},"s":"{}"}}"#, rng.alphabetic()),
        2 => format!(r#"{{"n":{number}.5,"b":true}}"#),
        3 => format!(r#"[{number},"{}"]"#, rng.alphabetic()),
        _ => format!(r#"[{number}.25,{{"n":1}}]"#),
    }
}

/// A JSON value that no other event has, unless it is very short.
fn payload(topic: &Topic, offset: usize, bytes_max: usize, rng: &mut Rng) -> String {
    let bytes = magnitude(rng, bytes_max);
    if bytes < 10 {
        return offset.to_string();
    }
    // Characters that look like the end of an event, an envelope or a character.
    let paddings = ["x", ",", "]}", "é", "data:", r"\n", "</script>", "\u{2028}"];
    let padding = match paddings.get(rng.usize(0..=paddings.len())) {
        Some(padding) => padding.repeat(bytes / padding.len()),
        // Characters that compress badly.
        None => std::iter::repeat_with(|| rng.alphanumeric()).take(bytes).collect(),
    };
    format!(r#"["{topic}",{offset},"{padding}"]"#)
}
