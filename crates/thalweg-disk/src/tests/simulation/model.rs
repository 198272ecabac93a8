//! The records that have to be there, may be there, and must not be there.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use thalweg_broker::{Content, Delivery, KEY_LIFE, ReadPage};
use thalweg_core::stream::Payloads;
use thalweg_wire::{Epoch, Offset, Topic};

use crate::state::Hole;

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Events(Vec<String>),
    Paused(u64),
    End,
}

/// The answer to an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Stored at this offset; whether it is a repetition.
    Stored(Offset, bool),
    Unknown,
    Outdated(Option<Offset>),
    Reused,
    Refused,
}

#[derive(Debug, Clone)]
struct Submitted {
    place: usize,
    topic: Topic,
    body: Body,
    key: Option<Vec<u8>>,
    condition: Option<Offset>,
    fate: Option<Fate>,
    /// The append that this one repeats, and whether with the same event.
    retry_of: Option<(usize, bool)>,
    time_ms: u64,
}

/// A record at an offset.
#[derive(Debug, Clone)]
struct Known {
    place: usize,
    topic: Topic,
    body: Body,
    time_ms: u64,
    /// Whether it has to be there.
    is_certain: bool,
    /// Its append, if it is known.
    number: Option<usize>,
}

/// All that was appended in the current epochs.
#[derive(Debug)]
pub(super) struct Model {
    submitted: Vec<Submitted>,
    records: BTreeMap<Offset, Known>,
    /// The first offset of each event, by its text.
    by_event: HashMap<String, Offset>,
    /// Submitted appends that may be stored, by the text of their first event.
    uncertain: HashMap<String, usize>,
    /// Topics with an end or a pause that may be stored.
    unsure_topics: BTreeSet<(usize, String)>,
    epochs: Vec<Option<Epoch>>,
    events: u64,
    followed_from: Offset,
    /// The offset up to which the server has got all, and the gaps that it was told of.
    followed: BTreeSet<Offset>,
    gaps: Vec<Offset>,
    /// The places and offsets that stores have called lost.
    lost: Vec<(usize, Range<Offset>)>,
}

impl Known {
    fn end(&self, first: Offset) -> Offset {
        first + offsets(&self.body)
    }
}

fn offsets(body: &Body) -> u64 {
    match body {
        Body::Events(events) => events.len() as u64,
        Body::Paused(_) | Body::End => 1,
    }
}

impl Model {
    pub(super) fn new(places: usize) -> Self {
        Self {
            submitted: Vec::new(),
            records: BTreeMap::new(),
            by_event: HashMap::new(),
            uncertain: HashMap::new(),
            unsure_topics: BTreeSet::new(),
            epochs: vec![None; places],
            events: 0,
            followed_from: 0,
            followed: BTreeSet::new(),
            gaps: vec![0; places],
            lost: Vec::new(),
        }
    }

    /// Returns an event that no other is equal to.
    pub(super) fn event(&mut self, filler: &str) -> String {
        self.events += 1;
        format!("[{},\"{filler}\"]", self.events)
    }

    pub(super) fn epoch(&self, place: usize) -> Epoch {
        self.epochs[place].expect("it was set")
    }

    /// Sets the epoch of a store. Returns whether it is another one: then nothing has to be there.
    pub(super) fn set_epoch(&mut self, place: usize, epoch: Epoch) -> bool {
        let has_changed = self.epochs[place].replace(epoch) != Some(epoch);
        if has_changed {
            let is_its = |_: &Offset, record: &mut Known| record.place == place;
            let forgotten: Vec<Known> =
                self.records.extract_if(.., is_its).map(|(_, record)| record).collect();
            for Known { topic, body, number, .. } in forgotten {
                if let Body::Events(events) = &body {
                    events.iter().for_each(|event| _ = self.by_event.remove(event));
                }
                match number {
                    Some(number) => self.mark_uncertain(number),
                    None => _ = self.unsure_topics.insert((place, topic.to_string())),
                }
            }
        }
        has_changed
    }

    pub(super) fn follow_from(&mut self, head: Offset) {
        self.followed_from = head;
        self.followed.clear();
        self.gaps.fill(0);
    }

    pub(super) fn submit(
        &mut self,
        place: usize,
        topic: &Topic,
        body: Body,
        key: Option<Vec<u8>>,
        condition: Option<Offset>,
    ) -> usize {
        let topic = topic.clone();
        let (fate, retry_of, time_ms) = (None, None, 0);
        self.submitted.push(Submitted {
            place,
            topic,
            body,
            key,
            condition,
            fate,
            retry_of,
            time_ms,
        });
        self.mark_uncertain(self.submitted.len() - 1);
        self.submitted.len() - 1
    }

    pub(super) fn is_retry_of(&mut self, number: usize, known: usize, is_same: bool) {
        self.submitted[number].retry_of = Some((known, is_same));
    }

    fn mark_uncertain(&mut self, number: usize) {
        let Submitted { place, topic, body, .. } = &self.submitted[number];
        match body {
            Body::Events(events) => _ = self.uncertain.insert(events[0].clone(), number),
            Body::Paused(_) | Body::End => {
                self.unsure_topics.insert((*place, topic.to_string()));
            }
        }
    }

    /// Takes the answer to an append.
    pub(super) fn settle(&mut self, number: usize, fate: Fate, now_ms: u64) {
        let submitted = self.submitted[number].clone();
        self.submitted[number].fate = Some(fate);
        self.submitted[number].time_ms = now_ms;
        if let Some((known, is_same)) = submitted.retry_of {
            let first = self.submitted[known].fate;
            match (first, fate) {
                (Some(Fate::Stored(..)), Fate::Stored(_, false))
                    if now_ms >= self.submitted[known].time_ms + KEY_LIFE.as_millis() as u64 =>
                {
                    // The key was forgotten while it waited.
                    if let Body::Events(events) = &submitted.body {
                        events.iter().for_each(|event| _ = self.by_event.remove(event));
                    }
                }
                (Some(Fate::Stored(first, _)), Fate::Stored(again, is_repetition)) => {
                    assert!(
                        is_same && is_repetition && first == again,
                        "{submitted:?} {fate:?} {first}"
                    );
                    return self.no_longer_uncertain(number);
                }
                (Some(Fate::Stored(..)), Fate::Reused) => assert!(!is_same, "{submitted:?}"),
                (Some(Fate::Unknown), Fate::Stored(_, is_repetition)) if is_same => {
                    self.submitted[known].fate = Some(fate);
                    if !is_repetition {
                        self.submitted[known].time_ms = now_ms;
                    }
                }
                _ => {}
            }
        }
        match fate {
            Fate::Stored(first, is_repetition) => {
                assert!(!is_repetition || submitted.retry_of.is_some(), "{submitted:?}");
                self.no_longer_uncertain(number);
                let Submitted { place, topic, body, .. } = submitted;
                // The time of a record that an earlier append had stored is not known.
                let time_ms = if is_repetition { 0 } else { now_ms };
                self.note(
                    first,
                    Known { place, topic, body, time_ms, is_certain: true, number: Some(number) },
                );
            }
            Fate::Unknown => self.mark_uncertain(number),
            Fate::Outdated(newest) => {
                let is_sure = !self.is_unsure(submitted.place, &submitted.topic);
                let is_own = newest == submitted.condition;
                assert!(!is_sure || !is_own, "{submitted:?} is not outdated");
                self.no_longer_uncertain(number);
            }
            Fate::Reused => {
                assert!(submitted.retry_of.is_some(), "{submitted:?}");
                self.no_longer_uncertain(number);
            }
            Fate::Refused => self.no_longer_uncertain(number),
        }
    }

    fn no_longer_uncertain(&mut self, number: usize) {
        if let Body::Events(events) = &self.submitted[number].body
            && self.uncertain.get(&events[0]) == Some(&number)
        {
            self.uncertain.remove(&events[0]);
            // The append that it repeats may be stored.
            if let Some((known, true)) = self.submitted[number].retry_of
                && self.submitted[known].fate == Some(Fate::Unknown)
            {
                self.mark_uncertain(known);
            }
        }
    }

    fn is_unsure(&self, place: usize, topic: &Topic) -> bool {
        let is_its = |number: &&usize| {
            let submitted = &self.submitted[**number];
            submitted.place == place && submitted.topic == *topic
        };
        self.unsure_topics.contains(&(place, topic.to_string()))
            || self.uncertain.values().any(|number| is_its(&number))
            || self
                .records
                .values()
                .any(|record| record.place == place && record.topic == *topic && !record.is_certain)
    }

    /// Notes a record that was answered, read or delivered.
    fn note(&mut self, first: Offset, record: Known) {
        if let Some(known) = self.records.get_mut(&first) {
            assert_eq!(
                (&known.topic, &known.body),
                (&record.topic, &record.body),
                "two at {first}"
            );
            known.is_certain = true;
            return;
        }
        let before = self.records.range(..first).next_back();
        assert!(before.is_none_or(|(at, known)| known.end(*at) <= first), "{first} is given twice");
        let next = self.records.range(first..).next();
        assert!(next.is_none_or(|(at, _)| record.end(first) <= *at), "{first} is given twice");
        if let Body::Events(events) = &record.body {
            for event in events {
                let other = self.by_event.insert(event.clone(), first);
                assert!(
                    other.is_none_or(|other| other == first),
                    "{event} at {first} and {other:?}"
                );
            }
        }
        self.records.insert(first, record);
    }

    /// Notes a record that was seen: it was appended, and stays.
    fn seen(&mut self, place: usize, topic: &Topic, first: Offset, body: Body) {
        if let Body::Events(events) = &body
            && !self.records.contains_key(&first)
        {
            let number = self.uncertain.remove(&events[0]);
            let number =
                number.unwrap_or_else(|| panic!("{topic} {first} {body:?} was not appended"));
            let time_ms = self.submitted[number].time_ms.max(1);
            let submitted = self.submitted[number].clone();
            assert_eq!((submitted.place, &submitted.topic, &submitted.body), (place, topic, &body));
            if submitted.key.is_some() {
                self.submitted[number].fate = Some(Fate::Stored(first, false));
            }
            let number = Some(number);
            let topic = topic.clone();
            self.note(first, Known { place, topic, body, time_ms, is_certain: true, number });
            return;
        }
        self.note(
            first,
            Known { place, topic: topic.clone(), body, time_ms: 0, is_certain: true, number: None },
        );
    }

    /// The process has crashed.
    pub(super) fn crashed(&mut self, now_ms: u64) {
        for number in 0..self.submitted.len() {
            if self.submitted[number].fate.is_none() {
                self.settle(number, Fate::Unknown, now_ms);
            }
        }
    }

    /// Returns the first offset of a topic's newest record, if that is certain; 0 if it has none.
    pub(super) fn newest(&self, place: usize, topic: &Topic) -> Option<Offset> {
        if self.is_unsure(place, topic) {
            return None;
        }
        let mut records = self.records.iter().rev();
        let newest = records.find(|(_, record)| record.place == place && record.topic == *topic);
        Some(newest.map_or(0, |(first, _)| *first))
    }

    /// Returns an offset near that of a record.
    pub(super) fn offset(&self, nth: usize) -> Offset {
        let first = self.records.keys().nth(nth % self.records.len().max(1));
        first.map_or(0, |first| first + nth as u64 % 4)
    }

    /// Returns a stored or uncertain append with a key.
    pub(super) fn keyed(&self, nth: usize) -> Option<usize> {
        let is_keyed = |number: &usize| {
            let submitted = &self.submitted[*number];
            let is_stored = matches!(submitted.fate, Some(Fate::Stored(..) | Fate::Unknown));
            submitted.key.is_some() && is_stored && submitted.retry_of.is_none()
        };
        let keyed: Vec<usize> = (0..self.submitted.len()).rev().filter(is_keyed).take(20).collect();
        keyed.get(nth % keyed.len().max(1)).copied()
    }

    /// Returns an append: its store, topic, content, key, and time.
    pub(super) fn request(&self, number: usize) -> (usize, Topic, Body, Option<Vec<u8>>, u64) {
        let Submitted { place, topic, body, key, time_ms, .. } = self.submitted[number].clone();
        (place, topic, body, key, time_ms)
    }

    fn records_of(&self, place: usize, topic: &Topic) -> Vec<(Offset, Known)> {
        let of_topic =
            |(_, record): &(&Offset, &Known)| record.place == place && record.topic == *topic;
        let records = self.records.iter().filter(of_topic);
        records.map(|(first, record)| (*first, record.clone())).collect()
    }

    /// Notes holes of a store. Retention forgets them with the records around them, whose time it knows.
    pub(super) fn note_holes(&mut self, place: usize, holes: &[Hole]) {
        for hole in holes {
            let range = (place, hole.from..hole.until);
            if !self.lost.contains(&range) {
                self.lost.push(range);
            }
        }
    }

    /// Retention deleted no readable record that is newer than `oldest_ms`.
    pub(super) fn check_start(&self, place: usize, start: Offset, oldest_ms: u64) {
        let is_lost = |first: &Offset| {
            self.lost.iter().any(|(of, range)| *of == place && range.contains(first))
        };
        let deleted = self
            .records
            .range(..start)
            .filter(|(first, record)| record.place == place && !is_lost(first));
        for (first, record) in deleted {
            assert!(
                !record.is_certain || record.time_ms <= oldest_ms,
                "{first} {record:?} was deleted too early"
            );
        }
    }

    /// Checks a page of a log. `start` and `holes`: what the store says. `is_explained`: whether damage may have made gaps.
    pub(super) fn check_page(
        &mut self,
        place: usize,
        topic: &Topic,
        (from, until): (Offset, Offset),
        page: &ReadPage,
        (start, holes): (Offset, &[Hole]),
        is_explained: bool,
    ) {
        let mut at = 0;
        for (first, payloads) in &page.records {
            let events: Vec<String> =
                payloads.iter().map(|event| String::from_utf8_lossy(event).into_owned()).collect();
            let end = first + events.len() as u64;
            assert!(*first >= at && *first >= page.stored_from && end > from && *first < until);
            at = end;
            self.seen(place, topic, *first, Body::Events(events));
        }
        let records = self.records_of(place, topic);
        let is_unsure = self.unsure_topics.contains(&(place, topic.to_string()));
        let last_end = records.iter().rfind(|(_, record)| record.body == Body::End);
        let is_lost =
            |first: Offset| holes.iter().any(|hole| (hole.from..hole.until).contains(&first));
        let is_there = |(first, end): &&(Offset, Known)| end.is_certain && !is_lost(*first);
        let ended = last_end.filter(is_there).map_or(0, |(first, _)| *first);
        assert!(
            page.records.iter().all(|(first, _)| *first > ended),
            "{topic} has ended at {ended}"
        );
        assert!(
            is_explained
                || is_unsure
                || page.stored_from <= start.max(last_end.map_or(0, |(first, _)| first + 1)),
            "{topic} from {from}: a gap up to {} without a reason (start {start}, ended {ended})",
            page.stored_from
        );
        assert!(is_explained || is_unsure || page.holes.is_empty(), "{topic}: {page:?} has a hole");
        for hole in &page.holes {
            let is_within = hole.start >= from && hole.start < hole.end && hole.end <= until;
            let are_here = |(first, payloads): &(Offset, Payloads)| {
                *first < hole.end && first + payloads.count() as u64 > hole.start
            };
            assert!(is_within && !page.records.iter().any(are_here), "{topic}: {page:?}");
        }
        let is_announced = |first: Offset, end: Offset| {
            page.holes.iter().any(|hole| hole.start < end && hole.end > first)
        };
        let at = at.max(page.holes.last().map_or(0, |hole| hole.end));
        let covered = if page.is_whole { until } else { at };
        for (first, record) in &records {
            let is_due = record.end(*first) > from
                && *first < covered
                && *first >= page.stored_from
                && *first > ended
                && !is_announced(*first, record.end(*first))
                && record.is_certain;
            let Body::Events(_) = record.body else { continue };
            let is_there = page.records.iter().any(|(there, _)| there == first);
            assert!(
                !is_due || is_there,
                "{topic}: {first} {record:?} is missing from {from}: {page:?}"
            );
        }
        for (first, ms) in &page.pauses {
            if let Some(known) = self.records.get(first) {
                assert_eq!((&known.topic, &known.body), (topic, &Body::Paused(*ms)));
            }
        }
    }

    /// Checks the newest record of a value topic.
    pub(super) fn check_newest(
        &mut self,
        place: usize,
        topic: &Topic,
        page: &ReadPage,
        start: Offset,
        is_explained: bool,
    ) {
        for (first, payloads) in &page.records {
            let events = payloads.iter().map(|event| String::from_utf8_lossy(event).into_owned());
            self.seen(place, topic, *first, Body::Events(events.collect()));
        }
        let records = self.records_of(place, topic);
        let is_unsure = self.unsure_topics.contains(&(place, topic.to_string()));
        let is_state = |(_, record): &&(Offset, Known)| {
            record.is_certain && !matches!(record.body, Body::Paused(_))
        };
        let newest = records.iter().rfind(is_state);
        let found = page.records.last().map(|(first, _)| *first);
        let is_lost = page.stored_from > newest.map_or(0, |(first, _)| *first);
        match (newest, found) {
            (Some((first, record)), Some(found)) => {
                assert!(found >= *first, "{topic}: {found} is older than {first} {record:?}");
                assert!(record.body != Body::End || found > *first, "{topic} has ended");
            }
            (Some((first, Known { body: Body::Events(_), .. })), None) => {
                assert!(
                    is_unsure || (is_lost && is_explained),
                    "{topic}: {first} is missing: {page:?}"
                );
            }
            (Some((first, Known { body: Body::End, .. })), None) => {
                let is_known = page.newest >= *first || page.stored_from > *first;
                assert!(
                    is_known,
                    "{topic} has ended at {first}, and a reader keeps its value: {page:?} {start}"
                );
            }
            (_, _) => {}
        }
    }

    /// Takes a delivered record.
    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        let first = delivery.first;
        let last = self.followed.last().copied().unwrap_or(0);
        assert!(first >= self.followed_from && first > last, "{first} after {last}");
        self.followed.insert(first);
        let body = match &delivery.content {
            Content::Events(payloads) => Body::Events(
                payloads.iter().map(|event| String::from_utf8_lossy(event).into_owned()).collect(),
            ),
            Content::Paused(ms) => Body::Paused(*ms),
            Content::End(_) => Body::End,
        };
        self.seen(delivery.stream, &delivery.topic, first, body);
    }

    pub(super) fn restarted(&mut self, place: usize, from: Offset) {
        self.gaps[place] = self.gaps[place].max(from);
    }

    /// The server has all records before `next`.
    pub(super) fn check_followed(&self, next: Offset) {
        for (first, record) in self.records.range(self.followed_from..next) {
            let is_gap = *first < self.gaps[record.place];
            let is_there = self.followed.contains(first);
            assert!(
                is_there || is_gap || !record.is_certain,
                "{first} {record:?} was not delivered"
            );
        }
    }
}
