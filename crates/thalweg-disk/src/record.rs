//! Records as bytes, the same in the write-ahead log and in runs. Pure.
//!
//! A record names its topic and its offset, so that a reader notices bytes that belong to another record.
//!
//! ```text
//! 0 checksum of the rest   4 length        8 first offset    16 time in ms since 1970
//! 24 number of offsets    28 store        30 kind            31 flags
//! 32 length of the topic  34 of the key   36 of the extension
//! 40 topic, key, extension, payload
//! ```
//!
//! Numbers are little-endian. The extension has parts, each with a type (`u8`), a length (`u32`) and bytes. Unknown types are skipped.
//!
//! ```text
//! 1 the keys of events in a keyed topic, as JSON strings joined by commas
//! 2 when each key expires, in ms since 1970 (`i64`); 0 for a key that does not
//! ```

use thalweg_broker::Content;
use thalweg_core::stream::Payloads;
use thalweg_wire::{EndCode, Offset, Topic};

use crate::known_keys::event_digest;

/// The bytes of a record without topic, key and payload.
pub(crate) const RECORD_HEAD: usize = 40;

/// The types of parts of an extension.
const KEYS: u8 = 1;
const EXPIRIES: u8 = 2;

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
    pub(crate) extension: &'a [u8],
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
    /// Appends the bytes. The topic and the idempotency key have less than 64 KiB.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let key = self.key.unwrap_or_default();
        let length =
            RECORD_HEAD + self.topic.len() + key.len() + self.extension.len() + self.payload.len();
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
        out.extend_from_slice(&(self.extension.len() as u32).to_le_bytes());
        out.extend_from_slice(self.topic.as_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(self.extension);
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
        let (extension, payload) = rest.split_at_checked(extension)?;
        let record = Self {
            first: u64_at(bytes, 8)?,
            time_ms: u64_at(bytes, 16)?,
            offsets: u32_at(bytes, 24)?,
            store: u16_at(bytes, 28)?,
            kind: RecordKind::parse(bytes[30])?,
            topic: std::str::from_utf8(topic).ok()?,
            key: (bytes[31] & HAS_KEY != 0).then_some(key),
            extension,
            payload,
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
                let mut payloads = Payloads::from_lines(self.payload.to_vec())?;
                if let Some(keys) = self.part(KEYS) {
                    payloads = payloads.with_joined_keys(keys)?;
                }
                let expiries = self.part(EXPIRIES).unwrap_or_default().chunks_exact(8);
                for (at, expiry) in (0..payloads.count()).zip(expiries) {
                    payloads.set_expiry(at, i64::from_le_bytes(expiry.try_into().ok()?));
                }
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

    /// Returns the bytes of a part of the extension.
    fn part(&self, wanted: u8) -> Option<&'a [u8]> {
        let mut rest = self.extension;
        loop {
            let length = u32_at(rest, 1)? as usize;
            let (part, after) = rest.get(5..)?.split_at_checked(length)?;
            if rest[0] == wanted {
                return Some(part);
            }
            rest = after;
        }
    }

    /// Returns whether it has events with keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.part(KEYS).is_some()
    }

    /// Returns the bytes of records with some of its events, which have keys: one for each run of consecutive ones.
    pub(crate) fn with_events(
        &self,
        payloads: &Payloads,
        is_kept: impl Fn(usize) -> bool,
    ) -> Vec<Vec<u8>> {
        let events: Vec<(&[u8], &[u8])> = payloads.keyed_events().collect();
        let mut records = Vec::new();
        let mut from = 0;
        while let Some(start) = (from..events.len()).find(|at| is_kept(*at)) {
            let end = (start..events.len()).find(|at| !is_kept(*at)).unwrap_or(events.len());
            let kept = &events[start..end];
            let keys = kept.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(&b","[..]);
            let payload = kept.iter().map(|(_, event)| *event).collect::<Vec<_>>().join(&b"\n"[..]);
            let expiries = payloads.expiries().get(start..end).unwrap_or_default();
            let expiries = expiries.iter().flat_map(|expiry| expiry.to_le_bytes());
            let extension = extension(&keys, &expiries.collect::<Vec<u8>>());
            let mut bytes = Vec::new();
            Record {
                first: self.first + start as Offset,
                offsets: (end - start) as u32,
                extension: &extension,
                payload: &payload,
                ..*self
            }
            .write(&mut bytes);
            records.push(bytes);
            from = end;
        }
        records
    }

    /// Returns the digest of its event, if it is one or the idempotency key of one.
    pub(crate) fn digest(&self) -> Option<u64> {
        match self.kind {
            RecordKind::Events => {
                Some(digest_of(self.part(KEYS).unwrap_or_default(), self.payload))
            }
            RecordKind::Key => u64_at(self.payload, 0),
            _ => None,
        }
    }

    pub(crate) fn topic(&self) -> Option<Topic> {
        self.topic.parse().ok()
    }
}

/// Returns the digest of an event and its key. A time at which it expires does not count: it is another one when a publish is repeated.
pub(crate) fn digest_of(key: &[u8], event: &[u8]) -> u64 {
    match key {
        [] => event_digest(event),
        key => event_digest(&[key, b"\n", event].concat()),
    }
}

/// Returns the extension of a record with a content.
pub(crate) fn extension_of(content: &Content) -> Vec<u8> {
    let Content::Events(payloads) = content else { return Vec::new() };
    let expiries = payloads.expiries().iter().flat_map(|expiry| expiry.to_le_bytes());
    extension(payloads.joined_keys(), &expiries.collect::<Vec<u8>>())
}

fn extension(keys: &[u8], expiries: &[u8]) -> Vec<u8> {
    let mut extension = Vec::new();
    for (kind, part) in [(KEYS, keys), (EXPIRIES, expiries)] {
        if !part.is_empty() {
            extension.push(kind);
            extension.extend_from_slice(&(part.len() as u32).to_le_bytes());
            extension.extend_from_slice(part);
        }
    }
    extension
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
            extension: b"",
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
        Record { extension: b"later", ..record() }.write(&mut bytes);
        let (read, _) = Record::parse(&bytes).expect("whole");
        assert_eq!((read.payload, read.has_keys()), (&b"1\n2"[..], false));
        assert!(read.content().is_some());
    }

    #[test]
    fn events_have_the_keys_and_expiries_that_were_written() {
        let payloads = Payloads::from_lines(b"1\nnull".to_vec()).expect("events");
        let mut payloads = payloads.with_joined_keys(b"\"a\",\"b\"").expect("keys");
        payloads.set_expiry(0, 7_000_000_000_000);
        let content = Content::Events(payloads);
        let later = b"\xff\x02\0\0\0xx";
        for extension in [extension_of(&content), [&later[..], &extension_of(&content)].concat()] {
            let (mut bytes, payload) = (Vec::new(), payload_of(content.clone()));
            Record { extension: &extension, payload: &payload, ..record() }.write(&mut bytes);
            let (read, _) = Record::parse(&bytes).expect("whole");
            let Some(Content::Events(read)) = read.content() else { panic!("no events") };
            assert_eq!(read.joined_keys(), b"\"a\",\"b\"");
            assert_eq!(read.expiries(), [7_000_000_000_000, 0]);
        }
        assert_ne!(digest_of(b"\"a\"", b"1"), digest_of(b"\"b\"", b"1"));
    }

    #[test]
    fn a_record_without_keys_has_the_bytes_that_it_had_before() {
        let mut bytes = Vec::new();
        record().write(&mut bytes);
        assert_eq!((bytes.len(), &bytes[36..40]), (RECORD_HEAD + 6, &[0; 4][..]));
    }

    #[test]
    fn the_hash_is_part_of_the_format() {
        assert_eq!(topic_hash("orders/7"), 5_920_663_677_429_939_814);
    }
}
