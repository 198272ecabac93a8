use std::collections::{BTreeMap, VecDeque};

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{Transport, cursors::Cursors};
use thalweg_wire::StartAt;

/// A server's keyed topic, which never forgets a removal.
#[derive(Debug, Default)]
struct Model {
    /// The event of each offset from 1 on: a key, and a number or the removal.
    log: Vec<(String, Option<usize>)>,
    /// Pages by the offset before their first event. A server may send an old page.
    pages: Vec<(u64, String, u64)>,
    epoch: u64,
}

impl Model {
    fn head(&self) -> u64 {
        self.log.len() as u64
    }

    fn publish(&mut self, key: usize, is_removal: bool) {
        let event = (!is_removal).then_some(self.log.len());
        self.log.push((format!("key \"{key}\""), event));
    }

    fn state_at(&self, offset: u64) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        for (key, event) in &self.log[..offset as usize] {
            match event {
                Some(event) => state.insert(key.clone(), event.to_string()),
                None => state.remove(key),
            };
        }
        state
    }

    fn envelope(&self, after: u64, last: u64, until: u64, offsets: &[u64]) -> String {
        let entry = |offset: &u64| &self.log[*offset as usize - 1];
        let keys: Vec<_> = offsets.iter().map(|offset| format!("{:?}", entry(offset).0)).collect();
        let event = |offset: &u64| entry(offset).1.map_or("null".into(), |event| event.to_string());
        let events: Vec<String> = offsets.iter().map(event).collect();
        format!(
            r#"{{"topic":"cars","position":"{:x}.{last}","first":{},"after":{after}{},"offsets":{offsets:?},"keys":[{}],"events":[{}]}}"#,
            self.epoch + 1,
            offsets.first().unwrap_or(&(last + 1)),
            if until > last { format!(r#","until":{until}"#) } else { String::new() },
            keys.join(","),
            events.join(","),
        )
    }

    /// Returns a page of at most `count` keys after an offset, and its last offset.
    fn page(&mut self, after: u64, count: usize) -> (String, u64) {
        let newest: BTreeMap<&str, u64> =
            self.log.iter().zip(1..).map(|((key, _), offset)| (&**key, offset)).collect();
        let mut offsets: Vec<u64> = newest.into_values().filter(|offset| *offset > after).collect();
        offsets.sort_unstable();
        // A reader from the beginning needs no removals.
        offsets.retain(|offset| after > 0 || self.log[*offset as usize - 1].1.is_some());
        let is_rest = offsets.len() <= count;
        offsets.truncate(count);
        let last = if is_rest { self.head() } else { offsets[count - 1] };
        let page = self.envelope(after, last, self.head(), &offsets);
        self.pages.push((after, page.clone(), last));
        (page, last)
    }

    fn tail(&self, after: u64, count: u64) -> (String, u64) {
        let last = self.head().min(after + count);
        (self.envelope(after, last, 0, &(after + 1..=last).collect::<Vec<_>>()), last)
    }

    fn confirmation(&self, at: u64) -> String {
        self.envelope(at, at, self.head(), &[])
    }

    fn gap(&self, reason: &str) -> String {
        let epoch = self.epoch + 1;
        format!(
            r#"{{"topic":"cars","position":"{epoch:x}.0","gap":{{"missed":null,"reason":"{reason}"}}}}"#
        )
    }
}

#[derive(Debug, Clone)]
enum Step {
    Publish { key: usize, is_removal: bool },
    Page { count: usize },
    OldPage { index: prop::sample::Index },
    Tail { count: u64 },
    Cut,
    Gap,
    NewEpoch,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6usize, prop::bool::weighted(0.25))
            .prop_map(|(key, is_removal)| Step::Publish { key, is_removal }),
        4 => (1..4usize).prop_map(|count| Step::Page { count }),
        2 => any::<prop::sample::Index>().prop_map(|index| Step::OldPage { index }),
        3 => (1..5u64).prop_map(|count| Step::Tail { count }),
        2 => Just(Step::Cut),
        1 => Just(Step::Gap),
        1 => Just(Step::NewEpoch),
    ]
}

fn contents(map: &KeyedMap) -> BTreeMap<String, String> {
    map.iter().map(|(key, event)| (key.to_owned(), event.to_owned())).collect()
}

/// A subscriber of the model, and the map that a caller builds from the changes.
struct Reader {
    cursors: Cursors,
    map: KeyedMap,
    kept: BTreeMap<String, String>,
    /// The offset before the next message.
    at: u64,
}

impl Reader {
    fn new(model: &Model) -> Self {
        let topic: Topic = "cars".parse().unwrap();
        let mut reader = Self {
            cursors: Cursors::new(vec![topic.clone()], StartAt::Latest),
            map: KeyedMap::new(topic),
            kept: BTreeMap::new(),
            at: 0,
        };
        reader.receive(model, model.confirmation(0), 0);
        reader
    }

    fn receive(&mut self, model: &Model, text: String, at: u64) {
        let mut updates = VecDeque::new();
        self.cursors.receive(text, Transport::Sse, &mut updates).unwrap();
        self.at = at;
        for update in updates {
            let before = contents(&self.map);
            let Some(change) = self.map.apply(&update) else {
                assert_eq!(contents(&self.map), before, "no change is silent");
                continue;
            };
            for key in change.removed {
                assert!(self.kept.remove(&key).is_some(), "{key} was not there");
            }
            for key in change.changed {
                let event = self.map.get(&key).expect("an event").to_owned();
                self.kept.insert(key, event);
            }
            let position = self.map.position().expect("a whole state").offset;
            assert_eq!(self.kept, model.state_at(position), "at {position}");
            assert_eq!(contents(&self.map), self.kept);
        }
    }
}

proptest! {
    #[test]
    fn a_map_has_only_states_that_existed(steps in vec(step(), 0..80)) {
        let mut model = Model::default();
        let mut reader = Reader::new(&model);
        for step in steps {
            let at = reader.at;
            match step {
                Step::Publish { key, is_removal } => model.publish(key, is_removal),
                Step::Page { count } => {
                    let (page, last) = model.page(at, count);
                    reader.receive(&model, page, last);
                }
                Step::OldPage { index } => {
                    let old: Vec<_> = model.pages.iter().filter(|page| page.0 == at).collect();
                    if !old.is_empty() {
                        let (_, page, last) = index.get(&old);
                        reader.receive(&model, page.clone(), *last);
                    }
                }
                Step::Tail { count } if at < model.head() => {
                    let (tail, last) = model.tail(at, count);
                    reader.receive(&model, tail, last);
                }
                Step::Tail { .. } => {}
                Step::Cut => {
                    reader.cursors.disconnected();
                    reader.receive(&model, model.confirmation(at), at);
                }
                Step::Gap => {
                    reader.receive(&model, model.gap("trimmed"), 0);
                    reader.receive(&model, model.confirmation(0), 0);
                }
                Step::NewEpoch => {
                    model = Model { epoch: model.epoch + 1, ..Model::default() };
                    reader.receive(&model, model.gap("epoch"), 0);
                    reader.receive(&model, model.confirmation(0), 0);
                }
            }
        }
        while reader.at < model.head() {
            let (page, last) = model.page(reader.at, 3);
            reader.receive(&model, page, last);
        }
        reader.receive(&model, model.confirmation(reader.at), reader.at);
        prop_assert_eq!(contents(&reader.map), model.state_at(model.head()));
    }
}

#[test]
fn a_removed_key_of_an_old_page_comes_back_only_before_the_map_is_whole() {
    let mut model = Model::default();
    model.publish(1, false);
    model.publish(2, false);
    let (old, last) = model.page(0, 1);
    model.publish(1, true);
    let mut reader = Reader::new(&model);
    reader.receive(&model, old, last);
    assert!(!reader.map.is_whole() && reader.map.position().is_none());
    let (rest, last) = model.page(last, 9);
    reader.receive(&model, rest, last);
    assert!(reader.map.is_whole());
    assert_eq!(reader.map.len(), 1);
    assert_eq!(reader.map.offset_of("key \"2\""), Some(2));
}

#[test]
fn the_map_keeps_its_state_after_a_gap() {
    let mut model = Model::default();
    model.publish(1, false);
    model.publish(2, false);
    let mut reader = Reader::new(&model);
    let (page, last) = model.page(0, 9);
    reader.receive(&model, page, last);
    model.publish(1, true);
    model.publish(3, false);
    reader.receive(&model, model.gap("trimmed"), 0);
    let (page, last) = model.page(0, 1);
    reader.receive(&model, page, last);
    assert!(!reader.map.is_whole() && reader.map.len() == 2, "{:?}", reader.map);
    let (page, last) = model.page(last, 9);
    reader.receive(&model, page, last);
    assert_eq!(contents(&reader.map), model.state_at(4));
}

/// A subscription that resumes at a position lacks the keys from before it.
#[test]
fn a_map_does_not_begin_at_a_position() {
    let mut model = Model::default();
    model.publish(1, false);
    model.publish(2, false);
    let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], "1.1".parse().unwrap());
    let mut map = KeyedMap::new("cars".parse().unwrap());
    let mut updates = VecDeque::new();
    for text in [model.confirmation(1), model.tail(1, 9).0] {
        cursors.receive(text, Transport::Sse, &mut updates).unwrap();
    }
    assert!(updates.iter().all(|update| map.apply(update).is_none()));
    assert!(!map.is_whole() && map.is_empty());
}
