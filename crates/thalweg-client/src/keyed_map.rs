//! The newest event of each key of a keyed topic. Pure.

use std::collections::{HashMap, HashSet};

use thalweg_wire::{Offset, Position, Topic};

use crate::{Events, Update};

/// The newest event of each key of a keyed topic, built from the updates of a subscription.
///
/// The server sends a snapshot in pages, so the events of a page alone may be a state that never existed. The
/// map collects them and changes only from one state that existed to another.
///
/// Start the subscription at [`crate::StartAt::Latest`]: after a position, the map would lack the events that
/// came before it.
///
/// ```no_run
/// # async fn example(client: thalweg_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use thalweg_client::{KeyedMap, Subscribe};
///
/// let mut cars = KeyedMap::new("cars".parse()?);
/// let mut subscription = client.subscribe(vec![cars.topic().clone()], Subscribe::default())?;
/// loop {
///     if let Some(change) = cars.apply(&subscription.next().await?) {
///         println!("{} keys, {} of them new or changed", cars.len(), change.changed.len());
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KeyedMap {
    topic: Topic,
    /// The last whole state.
    entries: HashMap<String, Entry>,
    /// The changes since then; `None` removes the key.
    staged: HashMap<String, (Offset, Option<String>)>,
    /// The position of the whole state.
    position: Option<Position>,
    /// The largest received `until`.
    until: Offset,
    chain: Chain,
    /// Whether the staged changes begin with no keys, and not with the last whole state.
    is_fresh: bool,
    is_whole: bool,
}

/// The messages since the subscription began or had a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chain {
    /// No message has come.
    Expected,
    /// A gap has come: all keys follow.
    Announced,
    /// The messages lead from no keys to the position.
    Complete,
    /// The first message was not the topic's beginning.
    Incomplete,
}

/// The difference between two states of a [`KeyedMap`]. Keys are in arbitrary order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyedChange {
    /// The keys that have a new event. After a gap these are all keys of the map.
    pub changed: Vec<String>,
    /// The keys that the map no longer has.
    pub removed: Vec<String>,
}

#[derive(Debug, Clone)]
struct Entry {
    offset: Offset,
    event: String,
}

impl KeyedMap {
    /// Creates a map without keys for a new subscription.
    pub fn new(topic: Topic) -> Self {
        Self {
            topic,
            entries: HashMap::new(),
            staged: HashMap::new(),
            position: None,
            until: 0,
            chain: Chain::Expected,
            is_fresh: true,
            is_whole: false,
        }
    }

    /// Returns the topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Applies an update. Returns the change if the map has become another whole state; the first whole state is a
    /// change even without keys. Ignores updates about other topics and events without keys.
    pub fn apply(&mut self, update: &Update) -> Option<KeyedChange> {
        match update {
            Update::Events(events) if events.topic == self.topic => self.events(events),
            Update::Gap(gap) if gap.topic == self.topic => {
                self.staged.clear();
                self.until = 0;
                self.chain = Chain::Announced;
                self.is_fresh = true;
                self.is_whole = false;
                None
            }
            _ => None,
        }
    }

    /// Returns the newest event of a key, a JSON value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|entry| &*entry.event)
    }

    /// Returns the offset of the newest event of a key.
    pub fn offset_of(&self, key: &str) -> Option<Offset> {
        self.entries.get(key).map(|entry| entry.offset)
    }

    /// Returns the keys and their newest events, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, entry)| (&**key, &*entry.event))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the map has no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the position at which the topic had this state; `None` before the first whole state.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns whether the map has all received events. Otherwise it keeps an older state until more pages have
    /// come.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn events(&mut self, events: &Events) -> Option<KeyedChange> {
        let keys = events.keys()?;
        if self.chain == Chain::Expected {
            let first = events.iter().next().map(|(first, _)| first.saturating_sub(1));
            let begin = events.after.or(first).unwrap_or(events.position.offset);
            self.chain = if begin == 0 { Chain::Complete } else { Chain::Incomplete };
        }
        if self.chain == Chain::Incomplete {
            return None;
        }
        self.until = self.until.max(events.until().unwrap_or(0));
        for (key, (offset, event)) in keys.iter().zip(events.iter()) {
            // A page may repeat an event.
            if self.offset_at_least(key).is_none_or(|known| known < offset) {
                let event = (event != "null").then(|| event.to_owned());
                self.staged.insert(key.clone(), (offset, event));
            }
        }
        self.is_whole = events.position.offset >= self.until;
        match self.is_whole {
            true => self.complete(events.position),
            false => None,
        }
    }

    /// Returns the offset of the newest received event of a key.
    fn offset_at_least(&self, key: &str) -> Option<Offset> {
        let staged = self.staged.get(key).map(|(offset, _)| *offset);
        staged.or_else(|| self.offset_of(key).filter(|_| !self.is_fresh))
    }

    /// Makes the staged changes the map's state.
    fn complete(&mut self, position: Position) -> Option<KeyedChange> {
        let mut change = KeyedChange::default();
        if std::mem::take(&mut self.is_fresh) {
            let staged = &self.staged;
            let is_left = |key: &String| staged.get(key).is_some_and(|(_, event)| event.is_some());
            let lacking: HashSet<String> =
                self.entries.keys().filter(|key| !is_left(key)).cloned().collect();
            self.entries.retain(|key, _| !lacking.contains(key));
            change.removed.extend(lacking);
        } else if self.staged.is_empty() {
            self.position = Some(position);
            return None;
        }
        for (key, (offset, event)) in self.staged.drain() {
            match event {
                Some(event) => {
                    self.entries.insert(key.clone(), Entry { offset, event });
                    change.changed.push(key);
                }
                None if self.entries.remove(&key).is_some() => change.removed.push(key),
                None => {}
            }
        }
        let is_first = self.position.replace(position).is_none();
        let is_change = !change.changed.is_empty() || !change.removed.is_empty();
        (is_first || is_change).then_some(change)
    }
}

#[cfg(test)]
mod tests;
