use fastrand::Rng;
use thalweg_wire::Offset;

use super::conditions::magnitude;

/// The events of a keyed topic as its publishers know them.
pub(super) struct KeyedEvents {
    keys: Vec<String>,
    /// The number of each event's key, from offset 1 on.
    key_numbers: Vec<usize>,
    /// The events of each key: the offset, and whether it removes the key.
    by_key: Vec<Vec<(Offset, bool)>>,
}

impl KeyedEvents {
    pub(super) fn new(rng: &mut Rng) -> Self {
        // Characters that look like the end of a key, a list or a script.
        let endings = ["", "\"", "\\", "\",\"", "]}", "é", "</script>", "\u{2028}"];
        let count = 1 + magnitude(rng, 39);
        let key = |number| format!("k{number}{}", endings[number % endings.len()]);
        let keys = (0..count).map(key).collect();
        Self { keys, key_numbers: Vec::new(), by_key: vec![Vec::new(); count] }
    }

    /// Notes that the next event is published. Returns its key.
    pub(super) fn publish(&mut self, event: &str, rng: &mut Rng) -> &str {
        let number = rng.usize(0..self.keys.len());
        self.key_numbers.push(number);
        self.by_key[number].push((self.key_numbers.len() as Offset, event == "null"));
        &self.keys[number]
    }

    pub(super) fn key(&self, number: usize) -> &str {
        &self.keys[number]
    }

    /// Returns the number of an event's key.
    pub(super) fn number_of(&self, offset: Offset) -> usize {
        self.key_numbers[offset as usize - 1]
    }

    pub(super) fn is_removal(&self, offset: Offset) -> bool {
        let events = &self.by_key[self.number_of(offset)];
        events.binary_search(&(offset, true)).is_ok()
    }

    /// Returns the offset of the next event of an event's key.
    pub(super) fn superseded_by(&self, offset: Offset) -> Option<Offset> {
        let events = &self.by_key[self.number_of(offset)];
        let later = events.partition_point(|(other, _)| *other <= offset);
        events.get(later).map(|(offset, _)| *offset)
    }

    /// Returns the state after `offset`: the offset of each key's newest event, by the key's number. 0 if
    /// there is no such key.
    pub(super) fn state_at(&self, offset: Offset) -> Vec<Offset> {
        let newest = |events: &Vec<(Offset, bool)>| {
            let later = events.partition_point(|(other, _)| *other <= offset);
            let newest = later.checked_sub(1).map(|index| events[index]);
            newest.filter(|(_, is_removal)| !is_removal).map_or(0, |(offset, _)| offset)
        };
        self.by_key.iter().map(newest).collect()
    }
}
