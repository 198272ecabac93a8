//! Records as bytes, the same in the write-ahead log and in runs. Pure.
//!
//! A record names its topic and its offset, so that a reader notices bytes that belong to another record.
//!
//! ```text
//! 0 checksum of the rest   4 length        8 first offset    16 time in ms since 1970
//! 24 number of offsets    28 store        30 kind            31 flags
//! 32 length of the topic  34 of the key   36 of an extension, which this version skips
//! 40 topic, key, extension, payload
//! ```
//!
//! Numbers are little-endian. Keys and headers of single events can become extensions.

use thalweg_broker::Content;
use thalweg_core::stream::Payloads;
use thalweg_wire::{EndCode, Offset, Topic};

use crate::known_keys::event_digest;

/// The bytes of a record without topic, key and payload.
pub(crate) const RECORD_HEAD: usize = 40;

/// Set if the record has a key, which may be empty.
const HAS_KEY: u8 = 1;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Events = 1,
    Paused = 2,
    End = 3,
    /// A ticket was issued. The key is its digest, the payload its holder.
    Ticket = 4,
    /// A ticket was redeemed.
    Redeemed = 5,
    /// A record with a key was stored. The payload is the digest of its event.
    Key = 6,
}

impl RecordKind {
    pub(crate) fn of_content(content: &Content) -> Self {
        match content {
            Content::Events(_) => Self::Events,
            Content::Paused(_) => Self::Paused,
            Content::End(_) => Self::End,
        }
    }

    fn parse(byte: u8) -> Option<Self> {
        let all = [Self::Events, Self::Paused, Self::End, Self::Ticket, Self::Redeemed, Self::Key];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A record in a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) first: Offset,
    pub(crate) time_ms: u64,
    pub(crate) offsets: u32,
    pub(crate) store: u16,
    pub(crate) kind: RecordKind,
    pub(crate) topic: &'a str,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) payload: &'a [u8],
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

impl<'a> Record<'a> {
    /// Appends the bytes. The topic and the key have less than 64 KiB.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let key = self.key.unwrap_or_default();
        let length = RECORD_HEAD + self.topic.len() + key.len() + self.payload.len();
        out.reserve(length);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.time_ms.to_le_bytes());
        out.extend_from_slice(&self.offsets.to_le_bytes());
        out.extend_from_slice(&self.store.to_le_bytes());
        out.extend_from_slice(&[self.kind as u8, if self.key.is_some() { HAS_KEY } else { 0 }]);
        out.extend_from_slice(&(self.topic.len() as u16).to_le_bytes());
        out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        out.extend_from_slice(&0_u32.to_le_bytes());
        out.extend_from_slice(self.topic.as_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(self.payload);
        let checksum = crc32fast::hash(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Parses the record at the start of `bytes`. Returns it with its length; `None` if it is damaged.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let length = u32_at(bytes, 4)? as usize;
        let bytes = bytes.get(..length).filter(|bytes| bytes.len() >= RECORD_HEAD)?;
        if u32_at(bytes, 0)? != crc32fast::hash(&bytes[4..]) {
            return None;
        }
        let [topic, key] = [u16_at(bytes, 32)?, u16_at(bytes, 34)?].map(usize::from);
        let extension = u32_at(bytes, 36)? as usize;
        let (topic, rest) = bytes[RECORD_HEAD..].split_at_checked(topic)?;
        let (key, rest) = rest.split_at_checked(key)?;
        let record = Self {
            first: u64_at(bytes, 8)?,
            time_ms: u64_at(bytes, 16)?,
            offsets: u32_at(bytes, 24)?,
            store: u16_at(bytes, 28)?,
            kind: RecordKind::parse(bytes[30])?,
            topic: std::str::from_utf8(topic).ok()?,
            key: (bytes[31] & HAS_KEY != 0).then_some(key),
            payload: rest.get(extension..)?,
        };
        Some((record, length))
    }

    /// Returns the offset after its last one.
    pub(crate) fn end(&self) -> Offset {
        self.first + u64::from(self.offsets)
    }

    /// Returns the content, as a broker delivers it; `None` for tickets and keys, and if this version does not know it.
    pub(crate) fn content(&self) -> Option<Content> {
        match self.kind {
            RecordKind::Events => {
                let payloads = Payloads::from_lines(self.payload.to_vec())?;
                (payloads.count() == self.offsets as usize)
                    .then(|| Content::Events(payloads.published_at(self.time_ms as i64)))
            }
            RecordKind::Paused => u64_at(self.payload, 0).map(Content::Paused),
            RecordKind::End => {
                let mut codes = EndCode::ALL.into_iter();
                codes.find(|code| code.name().as_bytes() == self.payload).map(Content::End)
            }
            RecordKind::Ticket | RecordKind::Redeemed | RecordKind::Key => None,
        }
    }

    /// Returns the digest of its event, if it is one or the key of one.
    pub(crate) fn digest(&self) -> Option<u64> {
        match self.kind {
            RecordKind::Events => Some(event_digest(self.payload)),
            RecordKind::Key => u64_at(self.payload, 0),
            _ => None,
        }
    }

    pub(crate) fn topic(&self) -> Option<Topic> {
        self.topic.parse().ok()
    }
}

/// Returns the bytes of a record's content.
pub(crate) fn payload_of(content: Content) -> Vec<u8> {
    match content {
        Content::Events(payloads) => payloads.into_lines(),
        Content::Paused(ms) => ms.to_le_bytes().to_vec(),
        Content::End(code) => code.name().as_bytes().to_vec(),
    }
}

/// Returns the hash that orders topics in a run. It is part of the format.
pub(crate) fn topic_hash(topic: &str) -> u64 {
    let hash = topic.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The upper bits of short names hardly differ before.
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record<'static> {
        Record {
            first: 300,
            time_ms: 7,
            offsets: 2,
            store: 3,
            kind: RecordKind::Events,
            topic: "a/b",
            key: Some(b""),
            payload: b"1\n2",
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_any_other_byte_is_noticed() {
        let mut bytes = Vec::new();
        record().write(&mut bytes);
        bytes.extend_from_slice(b"more");
        let (read, length) = Record::parse(&bytes).expect("whole");
        assert_eq!(format!("{read:?}"), format!("{:?}", record()));
        assert_eq!((length, read.end()), (bytes.len() - 4, 302));
        for at in 0..length {
            let mut other = bytes.clone();
            other[at] ^= 0x10;
            assert!(Record::parse(&other).is_none(), "byte {at}");
        }
        assert!(Record::parse(&bytes[..length - 1]).is_none());
    }

    #[test]
    fn an_extension_of_a_later_version_is_skipped() {
        let mut bytes = Vec::new();
        Record { payload: b"later1\n2", ..record() }.write(&mut bytes);
        bytes[36] = 5;
        let checksum = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Record::parse(&bytes).expect("whole").0.payload, b"1\n2");
    }

    #[test]
    fn the_hash_is_part_of_the_format() {
        assert_eq!(topic_hash("orders/7"), 5_920_663_677_429_939_814);
    }
}
