//! The groups of one window, by their keys.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use smallvec::SmallVec;
use thalweg_columns::Cell;

use crate::{
    aggregate::{Accumulator, Aggregate},
    expr::{Expr, Row},
    group::{Group, Keyed, fixed_bytes},
    limits::ALLOCATION_BYTES,
    remains::Remains,
    value::{borrowed, owned},
};

#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_key: HashMap<Box<[u8]>, Group>,
    /// The only group of a query without keys, which needs no hash.
    only: Option<Group>,
    is_lost: bool,
    /// The share of these groups in the memory of all groups of the query.
    own: Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Groups,
    State,
}

/// The groups of an ended window, ordered by their keys. Groups are taken from a heap one by one, because sorting
/// thousands at once would take too long.
#[derive(Debug)]
pub(crate) struct OrderedGroups {
    by_key: BinaryHeap<Reverse<Keyed>>,
    own: Held,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) groups: usize,
    /// Bytes of keys and of aggregated values with their texts.
    pub(crate) bytes: usize,
}

impl Held {
    fn take_off(&mut self, other: Self) {
        self.groups -= other.groups;
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    #[inline]
    pub(crate) fn grow(&mut self, bytes: isize) {
        self.bytes = self.bytes.saturating_add_signed(bytes);
    }
}

/// Memory of a window besides its groups, in bytes: its entry in a tree of windows, and a table with room for four groups.
pub(crate) const WINDOW_BYTES: usize =
    2 * size_of::<(i64, Groups)>() + 4 * size_of::<(Box<[u8]>, Group)>() + 2 * ALLOCATION_BYTES;

impl Groups {
    /// Adds a row to the group of `keys`; `key` has the keys' bytes. Fails if the group or its texts exceed a bound: the caller
    /// must then [discard](Self::discard) the window.
    pub(crate) fn take(
        &mut self,
        key: &[u8],
        keys: &[Cell<'_>],
        row: &Row<'_>,
        aggregates: &[Aggregate],
        held: &mut Held,
        most: Held,
    ) -> Result<(), Full> {
        let known = if key.is_empty() { self.only.as_mut() } else { self.by_key.get_mut(key) };
        if let Some(group) = known {
            let (grown, is_whole) =
                group.take(row, aggregates, most.bytes.saturating_sub(held.bytes));
            if grown != 0 {
                held.grow(grown);
                self.own.grow(grown);
            }
            return if is_whole { Ok(()) } else { Err(Full::State) };
        }
        let fixed = fixed_bytes(key, keys.len(), aggregates.len());
        let bytes = held.bytes + fixed;
        if held.groups >= most.groups {
            return Err(Full::Groups);
        }
        if bytes >= most.bytes {
            return Err(Full::State);
        }
        let keys = keys.iter().map(|cell| owned(borrowed(cell))).collect();
        let mut group = Group { keys, values: aggregates.iter().map(Aggregate::begin).collect() };
        let (texts, is_whole) = group.take(row, aggregates, most.bytes - bytes);
        for held in [held, &mut self.own] {
            held.groups += 1;
            held.bytes += fixed;
            held.grow(texts);
        }
        if key.is_empty() {
            self.only = Some(group);
        } else {
            self.by_key.insert(key.into(), group);
        }
        if is_whole { Ok(()) } else { Err(Full::State) }
    }

    /// Discards the window: its groups release their memory budget at once, and are dropped later.
    pub(crate) fn discard(&mut self, held: &mut Held, remains: &mut Remains) {
        std::mem::take(self).release(held, remains);
        self.is_lost = true;
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Changes each group; `change` returns the bytes of its keys, whose length must not change. `None` if a change
    /// failed; the groups are then unusable.
    pub(crate) fn change(
        &mut self,
        mut change: impl FnMut(&mut [Cell<'static>], &mut [Accumulator]) -> Option<Box<[u8]>>,
    ) -> Option<()> {
        if let Some(only) = &mut self.only {
            change(&mut only.keys, &mut only.values)?;
        }
        let mut changed = HashMap::with_capacity(self.by_key.len());
        let unchanged = std::mem::take(&mut self.by_key);
        let mut is_done = true;
        for (key, mut group) in unchanged {
            // The remaining groups stay, to be dropped with the others.
            let new_key = if is_done { change(&mut group.keys, &mut group.values) } else { None };
            is_done &= new_key.is_some();
            changed.insert(new_key.unwrap_or(key), group);
        }
        self.by_key = changed;
        is_done.then_some(())
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len() + usize::from(self.only.is_some())
    }

    /// Subtracts the groups' memory from `held`, and moves them to `remains`.
    pub(crate) fn release(self, held: &mut Held, remains: &mut Remains) {
        held.take_off(self.own);
        self.leave(remains);
    }

    pub(crate) fn leave(self, remains: &mut Remains) {
        remains.add(self.only, self.by_key.into_iter());
    }

    /// Returns the groups in order; their memory still counts.
    pub(crate) fn into_ordered(self) -> OrderedGroups {
        let keyed = |(key, group)| Reverse(Keyed { key, group });
        let only = self.only.map(|group| (Box::default(), group));
        let keyed: Vec<Reverse<Keyed>> = self.by_key.into_iter().chain(only).map(keyed).collect();
        OrderedGroups { by_key: keyed.into(), own: self.own }
    }
}

impl OrderedGroups {
    /// Returns the next group. Subtracts its memory from `held`.
    pub(crate) fn next(&mut self, held: &mut Held) -> Option<Group> {
        let Reverse(Keyed { key, group }) = self.by_key.pop()?;
        let one = Held { groups: 1, bytes: group.bytes(&key) };
        held.take_off(one);
        self.own.take_off(one);
        Some(group)
    }

    pub(crate) fn release(self, held: &mut Held, remains: &mut Remains) {
        held.take_off(self.own);
        self.leave(remains);
    }

    pub(crate) fn leave(self, remains: &mut Remains) {
        remains.add_ordered(self.by_key.into_vec());
    }
}

/// Evaluates the keys of a row's group, and gives them to `take`, as bytes and as values; afterwards `key` has these bytes. Returns
/// `None` if they cost too much.
#[inline]
pub(crate) fn with_keys<R>(
    keys: &[Expr],
    row: &Row<'_>,
    key: &mut Vec<u8>,
    take: impl FnOnce(&[u8], &[Cell<'_>]) -> R,
) -> Option<R> {
    let (one, several);
    let values = match keys {
        [] => &[],
        [only] => {
            one = [only.eval(row)];
            &one[..]
        }
        keys => {
            several = keys.iter().map(|key| key.eval(row)).collect::<SmallVec<[_; 4]>>();
            &several[..]
        }
    };
    key.clear();
    for value in values {
        let before = key.len();
        write_key(value, key);
        // Check the budget before each key, because a query may have hundreds.
        if !row.meter.scan(key.len() - before) {
            return None;
        }
    }
    Some(take(key, values))
}

/// Appends a value in a form whose bytes compare like the values, NULL first.
pub(crate) fn write_key(cell: &Cell<'_>, key: &mut Vec<u8>) {
    let mut word = |tag: u8, bits: u64| {
        key.push(tag);
        key.extend_from_slice(&bits.to_be_bytes());
    };
    const SIGN: u64 = 1 << 63;
    match cell {
        Cell::Null => key.push(0),
        Cell::Bool(value) => word(1, (*value).into()),
        Cell::Int(number) | Cell::Time(number) => word(2, *number as u64 ^ SIGN),
        Cell::Double(number) => {
            // -0.0 and 0.0 are one group.
            let bits = (number + 0.0).to_bits();
            word(3, if bits & SIGN == 0 { bits | SIGN } else { !bits });
        }
        Cell::String(text) | Cell::Json(text) => {
            key.push(4);
            if text.as_bytes().contains(&0) {
                // Zero bytes are escaped, so that a text comes before longer texts that begin with it.
                for part in text.as_bytes().split_inclusive(|byte| *byte == 0) {
                    key.extend_from_slice(part);
                    if part.ends_with(&[0]) {
                        key.push(1);
                    }
                }
            } else {
                key.extend_from_slice(text.as_bytes());
            }
            key.extend_from_slice(&[0, 0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::compare;

    #[test]
    fn keys_are_ordered_as_their_values() {
        let text = |text: &str| Cell::String(text.to_owned().into());
        let ordered = [
            vec![Cell::Null, Cell::Bool(false), Cell::Bool(true)],
            vec![Cell::Int(i64::MIN), Cell::Int(-1), Cell::Int(0), Cell::Int(i64::MAX)],
            vec![-1e300, -1.5, -1e-300, 0.0, 1e-300, 1.5, 1e300]
                .into_iter()
                .map(Cell::Double)
                .collect(),
            vec![
                text(""),
                text("\0"),
                text("\0\0"),
                text("\u{1}"),
                text("a"),
                text("a\0"),
                text("ab"),
                text("b"),
            ],
        ];
        let bytes = |cell: &Cell<'_>| {
            let mut key = Vec::new();
            write_key(cell, &mut key);
            write_key(&Cell::Int(7), &mut key);
            key
        };
        for cells in &ordered {
            for pair in cells.windows(2) {
                assert!(bytes(&pair[0]) < bytes(&pair[1]), "{pair:?}");
                assert!(compare(&pair[0], &pair[1]).is_none_or(|order| order.is_lt()));
            }
        }
        assert_eq!(bytes(&Cell::Double(0.0)), bytes(&Cell::Double(-0.0)));
    }
}
