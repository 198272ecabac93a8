//! Records that a broker appends and delivers.

use std::time::Duration;

use thalweg_core::stream::Payloads;
use thalweg_wire::{EndCode, Epoch, Offset, Topic};

/// The content of a record.
#[derive(Debug, Clone)]
pub enum Content {
    /// At least one event, within the stream's bounds. Each is one JSON value without insignificant whitespace.
    /// Delivered events say when they were stored ([`Self::stored_at`]).
    Events(Payloads),
    /// The topic has had no events for at least this many ms, by the clock of the server that reports pauses. Only
    /// queries use it.
    Paused(u64),
    /// The topic has ended.
    End(EndCode),
}

impl Content {
    /// Sets the time of storing, by the broker's clock, in ns since 1970.
    #[must_use]
    pub fn stored_at(self, time_ns: u64) -> Self {
        match self {
            Self::Events(payloads) => {
                Self::Events(payloads.published_at((time_ns / 1_000_000) as i64))
            }
            Self::Paused(_) | Self::End(_) => self,
        }
    }

    /// Returns the number of offsets that a record takes.
    pub fn offsets(&self) -> u64 {
        match self {
            Self::Events(payloads) => payloads.count() as u64,
            Self::Paused(_) | Self::End(_) => 1,
        }
    }

    /// Returns the bytes of the events, including one separator between two events.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Events(payloads) => payloads.joined().len(),
            Self::Paused(_) | Self::End(_) => 0,
        }
    }

    /// Returns the content as one line of text without a line feed, for a broker that stores bytes: `events`, the time of storing
    /// in ms since 1970, and each event; `keyed`, the time, the keys and when they expire, and each event; `paused` and the ms; or `ended` and
    /// the code. Tabs separate them.
    pub fn to_line(&self) -> Vec<u8> {
        match self {
            Self::Events(payloads) => {
                let time = payloads.published_ms().map(|ms| ms.to_string()).unwrap_or_default();
                let mut line = match payloads.has_keys() {
                    false => format!("events\t{time}").into_bytes(),
                    true => {
                        let expiries: Vec<_> =
                            payloads.expiries().iter().map(i64::to_string).collect();
                        let mut line = format!("keyed\t{time}\t").into_bytes();
                        line.extend_from_slice(payloads.joined_keys());
                        line.extend_from_slice(format!("\t{}", expiries.join(",")).as_bytes());
                        line
                    }
                };
                for event in payloads.iter() {
                    line.push(b'\t');
                    line.extend_from_slice(event);
                }
                line
            }
            Self::Paused(ms) => format!("paused\t{ms}").into_bytes(),
            Self::End(code) => format!("ended\t{}", code.name()).into_bytes(),
        }
    }

    /// Parses a line that [`Self::to_line`] made; `None` for any other.
    pub fn from_line(line: &[u8]) -> Option<Self> {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        let (kind, value) = (parts.next()?, std::str::from_utf8(parts.next()?).ok()?);
        match (kind, parts.next()) {
            (b"events" | b"keyed", Some(mut events)) => {
                let mut keys = None;
                if kind == b"keyed" {
                    let mut parts = events.splitn(3, |byte| *byte == b'\t');
                    keys = Some((parts.next()?, std::str::from_utf8(parts.next()?).ok()?));
                    events = parts.next()?;
                }
                // Events are JSON without whitespace between tokens, and have no tab.
                let tab_to_line = |byte: &u8| if *byte == b'\t' { b'\n' } else { *byte };
                let mut payloads = Payloads::from_lines(events.iter().map(tab_to_line).collect())?;
                if let Some((keys, expiries)) = keys {
                    payloads = payloads.with_joined_keys(keys)?;
                    let expiries = expiries.split(',').filter(|expiry| !expiry.is_empty());
                    for (at, expiry) in (0..payloads.count()).zip(expiries) {
                        payloads.set_expiry(at, expiry.parse().ok()?);
                    }
                }
                let time = (!value.is_empty()).then(|| value.parse().ok());
                Some(Self::Events(match time {
                    Some(ms) => payloads.published_at(ms?),
                    None => payloads,
                }))
            }
            (b"paused", None) => value.parse().ok().map(Self::Paused),
            (b"ended", None) => {
                EndCode::ALL.into_iter().find(|code| code.name() == value).map(Self::End)
            }
            _ => None,
        }
    }
}

/// A record to append.
#[derive(Debug, Clone)]
pub struct Append {
    /// The index of the topic's stream.
    pub stream: usize,
    /// The topic of the record.
    pub topic: Topic,
    /// The content of the record.
    pub content: Content,
    /// The idempotency key, unique among the publishes to the topic. A record with a key has one event.
    pub key: Option<Vec<u8>>,
    /// How long the first publisher has waited already. A broker retries for a limited time, which it
    /// chooses. It subtracts `waited` from this time, and then answers `Unavailable` or `Unknown`.
    pub waited: Duration,
}

impl Append {
    /// Returns the record as one line of text without a line feed: stream, topic, key in hex digits, and
    /// [content](Content::to_line), separated by tabs.
    pub fn to_line(&self) -> Vec<u8> {
        let key: String = self.key.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
        let (stream, topic) = (self.stream, self.topic.as_str());
        let key = if self.key.is_some() { format!("k{key}") } else { key };
        [format!("{stream}\t{topic}\t{key}\t").as_bytes(), &self.content.to_line()].concat()
    }

    /// Parses a line that [`Self::to_line`] made; `None` for any other.
    pub fn from_line(line: &[u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b'\t');
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let (stream, topic, key) = (text()?.parse().ok()?, text()?.parse().ok()?, text()?);
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let key = match key.strip_prefix('k') {
            Some(digits) => Some(digits.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?),
            None if key.is_empty() => None,
            None => return None,
        };
        let content = Content::from_line(parts.next()?)?;
        Some(Self { stream, topic, content, key, waited: Duration::ZERO })
    }
}

/// The place of a stored record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The incarnation of the stream.
    pub epoch: Epoch,
    /// The offset of the first event.
    pub first: Offset,
    /// Whether an earlier append with the same key stored it.
    pub is_repetition: bool,
}

/// The reason why a record is not stored, or why the broker does not know whether it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// The record is not stored, and the same append is unlikely to succeed at once.
    Unavailable,
    /// The outcome is unknown: the record may be stored, or may still be stored.
    Unknown,
    /// An earlier append had the same key and another event.
    KeyReused,
    /// The record is not stored, because the topic's newest record is not the expected one. Holds the first
    /// offset of the newest record, if known, or 0 if the topic has no record.
    Outdated(Option<Offset>),
    /// The record is not stored, because the broker's disk is full.
    Full,
    /// The record is not stored and never will be; the reason is one sentence.
    Refused(String),
}

/// A record that a broker delivers.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The index of the stream.
    pub stream: usize,
    /// The offset of the first event.
    pub first: Offset,
    /// The topic of the record.
    pub topic: Topic,
    /// The content of the record.
    pub content: Content,
}

impl Delivery {
    /// Returns the offset after the last event.
    pub fn end(&self) -> Offset {
        self.first + self.content.offsets()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let payloads = Payloads::from_lines(b"{\"a\":\"b c\"}\n[1,2]\n3".to_vec()).expect("events");
        let mut keyed = payloads.clone().with_joined_keys(b"\"a\",\"b,\\\"\",\"c\"").expect("keys");
        let plain = keyed.clone();
        keyed.set_expiry(1, 7);
        let lines = [
            (
                Content::Events(plain),
                "keyed\t\t\"a\",\"b,\\\"\",\"c\"\t\t{\"a\":\"b c\"}\t[1,2]\t3",
            ),
            (
                Content::Events(keyed.published_at(5)),
                "keyed\t5\t\"a\",\"b,\\\"\",\"c\"\t0,7,0\t{\"a\":\"b c\"}\t[1,2]\t3",
            ),
            (Content::Events(payloads.clone()), "events\t\t{\"a\":\"b c\"}\t[1,2]\t3"),
            (Content::Events(payloads.published_at(-5)), "events\t-5\t{\"a\":\"b c\"}\t[1,2]\t3"),
            (Content::Paused(300), "paused\t300"),
            (Content::End(EndCode::Gone), "ended\tgone"),
        ];
        for (content, line) in lines {
            assert_eq!(String::from_utf8(content.to_line()).unwrap(), line);
            let read = Content::from_line(line.as_bytes()).expect(line);
            assert_eq!(format!("{read:?}"), format!("{content:?}"));
        }
        for bad in
            ["", "events", "events\t1", "events\tx\t1", "events\t1\t", "paused\tx", "ended\tx"]
        {
            assert!(Content::from_line(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_append_is_read_as_it_was_written() {
        for (key, line) in [
            (None, "3\ta/b\t\tpaused\t300"),
            (Some(vec![]), "3\ta/b\tk\tpaused\t300"),
            (Some(vec![0, 0xab, b'\t']), "3\ta/b\tk00ab09\tpaused\t300"),
        ] {
            let (topic, content) = ("a/b".parse().unwrap(), Content::Paused(300));
            let append = Append { stream: 3, topic, content, key, waited: Duration::ZERO };
            assert_eq!(String::from_utf8(append.to_line()).unwrap(), line);
            let read = Append::from_line(line.as_bytes()).expect(line);
            assert_eq!(format!("{read:?}"), format!("{append:?}"));
        }
        for bad in ["", "3\ta", "3\ta\tx\tpaused\t1", "3\ta\tkx\tpaused\t1", "x\ta\t\tpaused\t1"] {
            assert!(Append::from_line(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
