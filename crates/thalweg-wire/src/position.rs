//! A subscriber's position in a stream.
//!
//! An offset alone is ambiguous: a server that lost its history and began again would take a returning subscriber's
//! offset 1000 for its own offset 1000, and silently skip or repeat events. The epoch tells the two streams apart.

use std::{fmt, num::NonZeroU64, str::FromStr};

use crate::limits::{NEWEST_MAX, OFFSET_MAX};

/// The prefix of a cursor that requests the newest events. No position has this prefix: an epoch consists of hexadecimal digits.
const NEWEST: &str = "newest.";

/// The prefix of a cursor that requests the events since a time.
pub const SINCE: &str = "since.";

/// An event's number in its stream, from 1; 0 means "before the first event".
pub type Offset = u64;

/// One incarnation of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(NonZeroU64);

/// A cursor: the subscriber has all events up to and including `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The stream's incarnation.
    pub epoch: Epoch,
    /// The last event that the subscriber has.
    pub offset: Offset,
}

/// The start of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartAt {
    /// Events published after the subscription.
    #[default]
    Latest,
    /// All retained events.
    Earliest,
    /// The newest retained events, at most this many.
    Newest(u32),
    /// Events published at this time or later, in ms since 1970. Only a server knows the times of events, so it replaces this start.
    Since(u64),
    /// All events after a position.
    After(Position),
    /// Like [`Self::After`], in the middle of a keyed topic's state. The number is the distance from the position to the least
    /// `until` of the pages that the reader has received. Written `9f.7~30`.
    Within(Position, u32),
}

/// A text that is neither a position nor, for [`StartAt`], one of its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not a cursor: write \"latest\", \"earliest\", \"newest.50\" for up to 10000 events, \"since.TIME\" with a time in \
     ms since 1970, or a position such as 9f3c21.1042"
)]
pub struct CursorError;

impl Epoch {
    /// Returns an epoch, or `None` for 0, which is no epoch.
    pub fn new(value: u64) -> Option<Self> {
        NonZeroU64::new(value).map(Self)
    }

    /// Returns the epoch's number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the number of digits in the epoch's text.
    pub fn text_len(self) -> usize {
        16 - self.0.leading_zeros() as usize / 4
    }

    /// Appends the epoch's text.
    pub fn write(self, out: &mut Vec<u8>) {
        let value = self.get();
        // All digits at once, because a vector checks its capacity in each push.
        let digits: [u8; 16] =
            std::array::from_fn(|at| b"0123456789abcdef"[(value >> (60 - 4 * at)) as usize & 15]);
        out.extend_from_slice(&digits[digits.len() - self.text_len()..]);
    }
}

impl FromStr for Epoch {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let lowercase_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if text.is_empty() || text.starts_with('0') || !text.bytes().all(lowercase_hex) {
            return Err(CursorError);
        }
        let value = u64::from_str_radix(text, 16).map_err(|_| CursorError)?;
        Self::new(value).ok_or(CursorError)
    }
}

impl FromStr for Position {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (epoch, offset) = text.split_once('.').ok_or(CursorError)?;
        let canonical = offset == "0" || !offset.starts_with('0');
        if !canonical || !offset.bytes().all(|b| b.is_ascii_digit()) {
            return Err(CursorError);
        }
        let offset: Offset = offset.parse().map_err(|_| CursorError)?;
        if offset > OFFSET_MAX {
            return Err(CursorError);
        }
        Ok(Self { epoch: epoch.parse()?, offset })
    }
}

impl Position {
    /// A position that no stream has. A client with a foreign position resumes as from another epoch.
    pub const ELSEWHERE: Self = Self { epoch: Epoch(NonZeroU64::MAX), offset: OFFSET_MAX };
}

/// Separates a position from the offset until which a reader may lack keys.
const UNTIL: u8 = b'~';

impl StartAt {
    /// Returns the start for a topic without keys.
    #[must_use]
    pub fn without_until(self) -> Self {
        match self {
            Self::Within(position, _) => Self::After(position),
            other => other,
        }
    }

    /// Returns the start after a position. `until`: the least `until` of the pages of a keyed topic, used if it is later.
    pub fn after(position: Position, until: Option<Offset>) -> Self {
        let ahead = until.and_then(|until| until.checked_sub(position.offset));
        match ahead.map(|ahead| u32::try_from(ahead).unwrap_or(u32::MAX)) {
            None | Some(0) => Self::After(position),
            Some(ahead) => Self::Within(position, ahead),
        }
    }

    /// Appends the text: a word or a position.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Latest => out.extend_from_slice(b"latest"),
            Self::Earliest => out.extend_from_slice(b"earliest"),
            Self::Newest(count) => {
                out.extend_from_slice(NEWEST.as_bytes());
                write_decimal(count.into(), out);
            }
            Self::Since(unix_ms) => {
                out.extend_from_slice(SINCE.as_bytes());
                write_decimal(unix_ms, out);
            }
            Self::After(Position { epoch, offset }) => write_position(epoch, offset, out),
            Self::Within(Position { epoch, offset }, ahead) => {
                write_position(epoch, offset, out);
                out.push(UNTIL);
                write_decimal(offset + Offset::from(ahead), out);
            }
        }
    }
}

impl FromStr for StartAt {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        match text {
            "latest" => Ok(Self::Latest),
            "earliest" => Ok(Self::Earliest),
            _ => {
                if let Some(count) = text.strip_prefix(NEWEST) {
                    return newest(count);
                }
                if let Some(unix_ms) = text.strip_prefix(SINCE) {
                    return since(unix_ms);
                }
                match text.split_once(char::from(UNTIL)) {
                    Some((position, until)) => within(position.parse()?, until),
                    None => text.parse().map(Self::After),
                }
            }
        }
    }
}

fn within(position: Position, until: &str) -> Result<StartAt, CursorError> {
    // The same form as an offset in a position.
    let until: Position = format!("{}.{until}", position.epoch).parse()?;
    let ahead = until.offset.checked_sub(position.offset).filter(|ahead| *ahead > 0);
    // An earlier offset is correct, too, but the reader may get the state again.
    let ahead = ahead.map(|ahead| u32::try_from(ahead).unwrap_or(u32::MAX));
    ahead.map(|ahead| StartAt::Within(position, ahead)).ok_or(CursorError)
}

fn newest(count: &str) -> Result<StartAt, CursorError> {
    let is_canonical = !count.starts_with('0') && count.bytes().all(|b| b.is_ascii_digit());
    let count = count.parse().ok().filter(|count| is_canonical && *count <= NEWEST_MAX);
    count.map(StartAt::Newest).ok_or(CursorError)
}

fn since(unix_ms: &str) -> Result<StartAt, CursorError> {
    let is_canonical = unix_ms == "0" || !unix_ms.starts_with('0');
    let are_digits = unix_ms.bytes().all(|b| b.is_ascii_digit());
    let unix_ms = unix_ms.parse().ok().filter(|_| is_canonical && are_digits);
    unix_ms.map(StartAt::Since).ok_or(CursorError)
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.offset)
    }
}

pub(crate) fn write_position(epoch: Epoch, offset: Offset, out: &mut Vec<u8>) {
    epoch.write(out);
    out.push(b'.');
    write_decimal(offset, out);
}

pub(crate) fn write_decimal(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}
