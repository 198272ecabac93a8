use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use crate::{json::Reader, words};

/// The distinct strings of one column, in order of their first occurrence, and the index of each row's string. The output depends
/// on the rows alone. The hashes have a seed, so that nobody can choose strings that all hash to one slot.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    /// The key of each row in Arrow's layout: `i32`, little endian.
    pub(crate) keys: Vec<u8>,
    /// Where each string ends in `bytes`.
    ends: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
    /// The slots. Their number is a power of two.
    places: Vec<Slot>,
    seed: RandomState,
    /// The last row's index. Successive rows often have equal strings.
    last: u32,
    /// Whether JSON writes the last string without escapes.
    is_plain: bool,
}

/// A slot for a string: a part of its hash, and its index plus 1. 0 means empty.
#[derive(Debug, Default, Clone, Copy)]
struct Slot {
    hash: u32,
    next_index: u32,
}

const PLACES: usize = 64;

impl Dictionary {
    pub(crate) fn new(rows: usize) -> Self {
        Self { keys: Vec::with_capacity(rows * 4), ..Self::default() }
    }

    /// Appends the next string as a row if it has no escapes. Otherwise reads nothing.
    #[inline]
    pub(crate) fn push_next(&mut self, reader: &mut Reader<'_>) -> bool {
        if self.is_plain && reader.take_string(self.string(self.last)) {
            self.keys.extend_from_slice(&self.last.to_le_bytes());
            return true;
        }
        let before = reader.clone();
        if reader.peek() != Some(b'"') {
            return false;
        }
        let (text, has_escapes) = reader.string();
        if has_escapes {
            *reader = before;
            return false;
        }
        self.push(text);
        self.is_plain = true;
        true
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        if self.ends.is_empty() || !words::is_same(self.string(self.last), text) {
            self.last = self.index_of(text);
            self.is_plain = false;
        }
        self.keys.extend_from_slice(&self.last.to_le_bytes());
    }

    pub(crate) fn push_null(&mut self) {
        self.keys.extend_from_slice(&[0; 4]);
    }

    /// Removes the last row. Its string stays.
    pub(crate) fn pop(&mut self) {
        self.keys.truncate(self.keys.len() - 4);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns where each string begins, and where the last one ends, in Arrow's layout: `i32`, little endian.
    pub(crate) fn offsets(&self) -> Vec<u8> {
        let ends = self.ends.iter().flat_map(|end| end.to_le_bytes());
        [0; 4].into_iter().chain(ends).collect()
    }

    fn string(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    fn index_of(&mut self, text: &[u8]) -> u32 {
        if self.ends.len() * 2 >= self.places.len() {
            self.grow();
        }
        let mut hasher = self.seed.build_hasher();
        hasher.write(text);
        let hash = hasher.finish() as u32;
        let mut at = hash as usize & (self.places.len() - 1);
        loop {
            let place = self.places[at];
            match place.next_index.checked_sub(1) {
                Some(index) if place.hash == hash && self.string(index) == text => return index,
                Some(_) => at = (at + 1) & (self.places.len() - 1),
                None => break,
            }
        }
        let index = self.ends.len() as u32;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
        self.places[at] = Slot { hash, next_index: index + 1 };
        index
    }

    fn grow(&mut self) {
        let count = PLACES.max(self.places.len() * 2);
        let before = std::mem::replace(&mut self.places, vec![Slot::default(); count]);
        for place in before.into_iter().filter(|place| place.next_index > 0) {
            let mut at = place.hash as usize & (count - 1);
            while self.places[at].next_index > 0 {
                at = (at + 1) & (count - 1);
            }
            self.places[at] = place;
        }
    }
}
