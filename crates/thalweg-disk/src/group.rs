//! Groups of records in a file of the write-ahead log: one write and one sync each. Pure.
//!
//! ```text
//! 0 magic            4 checksum of the rest   8 length of the records   12 number of records
//! 16 generation     24 first offset          32 end                    40 previous
//! 48 durable        56 time in ms since 1970  64 records, zeros up to a multiple of 64
//! ```
//!
//! `previous` is the end of the group before: offsets from there up to the first one belong to groups whose write or sync
//! failed, and are void. `durable` is the end of the last group that a sync had succeeded for when this one was written: if
//! a group before it is missing, the file is damaged. If one after it is missing, that had records of weak stores alone. A
//! file that is used again has old groups, of another generation.

use thalweg_wire::Offset;

use crate::record::{u32_at, u64_at};

const MAGIC: [u8; 4] = *b"TWg1";

/// Bytes before the records.
pub(crate) const GROUP_HEAD: usize = 64;

/// Groups begin at multiples of this. A scan behind damage looks for them there.
const ALIGNMENT: usize = 64;

/// The head of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupHead {
    /// The bytes of its records.
    pub(crate) length: usize,
    pub(crate) count: u32,
    pub(crate) generation: u64,
    pub(crate) first: Offset,
    pub(crate) end: Offset,
    pub(crate) previous: Offset,
    pub(crate) durable: Offset,
    pub(crate) time_ms: u64,
}

/// Returns the bytes that a group takes in a file.
pub(crate) fn group_bytes(records: usize) -> usize {
    (GROUP_HEAD + records).next_multiple_of(ALIGNMENT)
}

impl GroupHead {
    /// Completes a group: `bytes` has room for the head, and the records.
    pub(crate) fn finish(&self, bytes: &mut Vec<u8>) {
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        let numbers =
            [self.generation, self.first, self.end, self.previous, self.durable, self.time_ms];
        for (place, number) in bytes[16..GROUP_HEAD].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(group_bytes(self.length), 0);
    }

    /// Parses the group at the start of `bytes`; `None` if there is none, or if it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4)? != MAGIC {
            return None;
        }
        let length = u32_at(bytes, 8)? as usize;
        let whole = bytes.get(8..GROUP_HEAD + length)?;
        if u32_at(bytes, 4)? != crc32fast::hash(whole) {
            return None;
        }
        Some(Self {
            length,
            count: u32_at(bytes, 12)?,
            generation: u64_at(bytes, 16)?,
            first: u64_at(bytes, 24)?,
            end: u64_at(bytes, 32)?,
            previous: u64_at(bytes, 40)?,
            durable: u64_at(bytes, 48)?,
            time_ms: u64_at(bytes, 56)?,
        })
    }
}

/// Returns the whole groups of a file and their positions, in order, of any generation. It looks for groups behind
/// damage. Events are text without control characters, so no publisher can write one.
pub(crate) fn scan(file: &[u8]) -> Vec<(usize, GroupHead)> {
    let (mut groups, mut at) = (Vec::new(), 0);
    while let Some(rest) = file.get(at..).filter(|rest| rest.len() >= GROUP_HEAD) {
        match GroupHead::parse(rest) {
            Some(head) => {
                groups.push((at, head));
                at += group_bytes(head.length);
            }
            None => at += ALIGNMENT,
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(first: Offset, records: &[u8]) -> Vec<u8> {
        let mut bytes = [&[0; GROUP_HEAD], records].concat();
        let head = GroupHead {
            length: records.len(),
            count: 1,
            generation: 9,
            first,
            end: first + 1,
            previous: first,
            durable: first,
            time_ms: 5,
        };
        head.finish(&mut bytes);
        bytes
    }

    #[test]
    fn groups_behind_damage_are_found() {
        let mut file = [group(1, &[7; 200]), group(2, &[7]), group(3, b"")].concat();
        file.extend_from_slice(&[0; 256]);
        let firsts = |file: &[u8]| {
            let found = scan(file).into_iter();
            found.map(|(at, head)| (at, head.first)).collect::<Vec<_>>()
        };
        assert_eq!(firsts(&file), [(0, 1), (320, 2), (448, 3)]);
        for at in (0..264).chain(320..385) {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            let left = if at < 320 { [(320, 2), (448, 3)] } else { [(0, 1), (448, 3)] };
            assert_eq!(firsts(&damaged), left, "byte {at}");
        }
    }
}
