//! The map of a subscriber to a keyed topic, and the one that publishers expect.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Gap, Received, Server, Subscriber, at, offset};

pub(crate) type Map = BTreeMap<String, Value>;

/// A client's map. It checks each message against its position.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub(crate) map: Map,
    pub(crate) position: String,
    /// The largest `until` that it has received.
    until: u64,
    /// Events since the start.
    pub(crate) events: usize,
    pub(crate) gaps: Vec<Gap>,
    /// The events, with their offsets and keys.
    pub(crate) received: Vec<(u64, String, Value)>,
}

impl Mirror {
    /// Returns a map that a client has kept, without the position: its next message confirms that.
    pub(crate) fn kept(&self) -> Self {
        Self { map: self.map.clone(), ..Self::default() }
    }

    /// Reads one message.
    pub(crate) fn next(&mut self, subscriber: &mut Subscriber) {
        let received = subscriber.news();
        self.take(&received);
    }

    pub(crate) fn take(&mut self, received: &Received) {
        match received {
            Received::Envelope(envelope) => self.take_message(&envelope.text),
            Received::Gap(gap) => {
                // All keys are forgotten, and come again.
                assert_eq!((offset(&gap.position), gap.missed), (0, None), "{gap:?}");
                (self.map, self.until) = (Map::new(), 0);
                self.position.clone_from(&gap.position);
                self.gaps.push(gap.clone());
            }
            other => panic!("events were due, not {other:?}"),
        }
    }

    /// Takes an envelope, or a page of a read.
    pub(crate) fn take_message(&mut self, text: &str) {
        let message: Value = serde_json::from_str(text).expect("JSON");
        let list = |name: &str| message[name].as_array().cloned().unwrap_or_default();
        let (keys, events, offsets) = (list("keys"), list("events"), list("offsets"));
        let position = message["position"].as_str().expect("a position").to_owned();
        let first = message["first"].as_u64().expect("an offset");
        let last = offset(&position);
        assert!(message["keys"].is_array() && keys.len() == events.len(), "{text}");
        if !self.position.is_empty() {
            let before = message["after"].as_u64().unwrap_or(first - 1);
            assert_eq!(at(&self.position, before), self.position, "{text}");
        }
        if message.get("offsets").is_some() {
            let numbers: Vec<u64> = offsets.iter().filter_map(Value::as_u64).collect();
            assert_eq!(numbers.len(), events.len(), "{text}");
            assert!(numbers.is_sorted_by(|one, other| one < other), "{text}");
            assert!(numbers.last().is_none_or(|number| *number <= last), "{text}");
            assert!(numbers.first().is_none_or(|number| *number == first), "{text}");
        } else {
            assert_eq!(first + events.len() as u64, last + 1, "{text}");
        }
        if let Some(until) = message["until"].as_u64() {
            assert!(until > last, "{text}");
            self.until = self.until.max(until);
        }
        self.events += events.len();
        let numbers = offsets.iter().filter_map(Value::as_u64);
        let numbers: Vec<u64> = match offsets.is_empty() {
            true => (first..).take(events.len()).collect(),
            false => numbers.collect(),
        };
        for ((number, key), event) in numbers.into_iter().zip(&keys).zip(events) {
            let key = key.as_str().expect("a key is text").to_owned();
            self.received.push((number, key.clone(), event.clone()));
            match event {
                Value::Null => self.map.remove(&key),
                event => self.map.insert(key, event),
            };
        }
        self.position = position;
    }

    /// Returns whether the map is a state that has existed.
    pub(crate) fn is_complete(&self) -> bool {
        !self.position.is_empty() && offset(&self.position) >= self.until
    }

    /// Reads until the map is the state at a position or a later one.
    pub(crate) fn follow(&mut self, subscriber: &mut Subscriber, position: &str) {
        while !self.is_complete() || offset(&self.position) < offset(position) {
            self.next(subscriber);
        }
    }

    /// Reads the first message, which has no events.
    pub(crate) fn confirmed(subscriber: &mut Subscriber) -> Self {
        let mut mirror = Self::default();
        mirror.next(subscriber);
        assert_eq!(mirror.events, 0);
        mirror
    }

    /// Reads the state in pages of at most `limit` keys.
    pub(crate) fn read(server: &Server, topic: &str, limit: usize) -> Self {
        let mut mirror = Self::default();
        loop {
            let cursor = match mirror.position.as_str() {
                "" => String::new(),
                position => format!("&cursor={position}"),
            };
            let page = server.get(&format!("/v1/topics/{topic}?limit={limit}{cursor}"));
            assert_eq!(page.status, 200, "{}", page.text());
            let before = mirror.events;
            mirror.take_message(&page.text());
            assert!(mirror.events - before <= limit);
            if mirror.is_complete() && page.json()["head"] == mirror.position.as_str() {
                return mirror;
            }
        }
    }
}
