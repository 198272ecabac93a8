//! The distinct values of a group, for `count(DISTINCT x)`.

use std::{collections::HashMap, hash::BuildHasher};

use thalweg_columns::Cell;

use crate::{
    limits::{ALLOCATION_BYTES, DISTINCT_MAX, GROUP_STEPS},
    meter::Meter,
    value::EXACT_MAX,
};

/// Distinct values. All of them share three allocations, so that it takes no longer to drop many of them than to drop one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distinct {
    /// The bytes of all values, one after another.
    bytes: Vec<u8>,
    values: Vec<Value>,
    /// The newest value of each hash.
    by_hash: HashMap<u64, u32>,
}

#[derive(Debug, Clone, Copy)]
struct Value {
    end: u32,
    /// An earlier value with the same hash.
    before: Option<u32>,
}

/// Memory of a value besides its bytes: its places in the list and in the table, both of which may be half empty.
const VALUE_BYTES: usize = 2 * (size_of::<Value>() + size_of::<(u64, u32)>() + 1);

/// Memory without values.
const OWN_BYTES: usize = size_of::<Distinct>() + 4 * ALLOCATION_BYTES;

/// Adds a value that is not NULL. Returns the growth of the memory in bytes; `None` if it exceeds `room`, or if the group has
/// too many values.
pub(crate) fn add(
    to: &mut Option<Box<Distinct>>,
    cell: &Cell<'_>,
    room: usize,
    meter: &Meter,
) -> Option<isize> {
    let own_bytes = if to.is_none() { OWN_BYTES } else { 0 };
    let room = room.checked_sub(own_bytes)?;
    let grown = to.get_or_insert_default().add(cell, room, meter);
    if grown.is_none() && own_bytes > 0 {
        // The caller has not counted its memory.
        *to = None;
    }
    Some(grown? + own_bytes as isize)
}

impl Distinct {
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the memory in bytes. It follows from the values alone, so that each run counts the same.
    pub(crate) fn memory_bytes(&self) -> usize {
        OWN_BYTES + self.values.len() * VALUE_BYTES + 2 * self.bytes.len()
    }

    fn add(&mut self, cell: &Cell<'_>, room: usize, meter: &Meter) -> Option<isize> {
        let number;
        let (tag, bytes) = match normal(cell) {
            Normal::Number(tag, bits) => {
                number = bits.to_be_bytes();
                (tag, &number[..])
            }
            Normal::Text(text) => (TEXT, text.as_bytes()),
        };
        // The bytes are hashed and compared.
        if !meter.spend(GROUP_STEPS) || !meter.scan(2 * bytes.len()) {
            return Some(0);
        }
        let hash = self.by_hash.hasher().hash_one((tag, bytes));
        let newest = self.by_hash.get(&hash).copied();
        let mut known = newest;
        while let Some(index) = known {
            if self.value(index) == Some((tag, bytes)) {
                return Some(0);
            }
            known = self.values.get(index as usize)?.before;
        }
        let grown = VALUE_BYTES + 2 * (1 + bytes.len());
        let end = u32::try_from(self.bytes.len() + 1 + bytes.len()).ok()?;
        if grown > room || self.values.len() >= DISTINCT_MAX {
            return None;
        }
        self.bytes.push(tag);
        self.bytes.extend_from_slice(bytes);
        self.by_hash.insert(hash, self.values.len() as u32);
        self.values.push(Value { end, before: newest });
        Some(grown as isize)
    }

    fn value(&self, index: u32) -> Option<(u8, &[u8])> {
        let index = index as usize;
        let begin = index.checked_sub(1).map_or(0, |before| self.values[before].end);
        let (tag, bytes) =
            self.bytes.get(begin as usize..self.values[index].end as usize)?.split_first()?;
        Some((*tag, bytes))
    }
}

const TEXT: u8 = 3;

enum Normal<'a> {
    Number(u8, u64),
    Text(&'a str),
}

/// Returns a form that is equal for equal values: a double without a fraction is an int, because a column of ints may
/// become one of doubles.
fn normal<'a>(cell: &'a Cell<'_>) -> Normal<'a> {
    match cell {
        Cell::Int(number) | Cell::Time(number) => Normal::Number(1, *number as u64),
        Cell::Double(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX as f64 => {
            Normal::Number(1, *number as i64 as u64)
        }
        Cell::Double(number) => Normal::Number(2, number.to_bits()),
        Cell::Bool(value) => Normal::Number(1, u64::from(*value)),
        Cell::String(text) | Cell::Json(text) => Normal::Text(text),
        Cell::Null => Normal::Number(0, 0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::limits::Bounds;

    #[test]
    fn values_are_distinct_even_if_all_hashes_are_equal() {
        let meter = Meter::new(&Bounds::default(), u64::MAX);
        let texts: Vec<String> = (0..300).map(|number| format!("{}", number % 170)).collect();
        let mut distinct = Distinct::default();
        for text in &texts {
            distinct.add(&Cell::String(text.into()), usize::MAX, &meter);
        }
        assert_eq!(distinct.count(), texts.iter().collect::<HashSet<_>>().len());
        // A list of values, as if each hash were the same.
        let chained = (0..distinct.values.len() as u32).map(|index| distinct.value(index));
        assert_eq!(chained.collect::<HashSet<_>>().len(), 170);
        for index in 1..distinct.values.len() {
            distinct.values[index].before = Some(index as u32 - 1);
        }
        let last = distinct.values.len() as u32 - 1;
        distinct.by_hash.values_mut().for_each(|newest| *newest = last);
        for text in &texts {
            assert_eq!(distinct.add(&Cell::String(text.into()), usize::MAX, &meter), Some(0));
        }
    }
}
