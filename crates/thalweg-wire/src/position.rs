//! Where a subscriber is in a stream.
//!
//! An offset alone is not enough: a server that lost its history and began
//! again would take a returning subscriber's offset 1000 for its own 1000, and
//! silently skip or repeat. The epoch tells the two streams apart.

use std::{fmt, num::NonZeroU64, str::FromStr};

use crate::limits::{NEWEST_MAX, OFFSET_MAX};

/// The beginning of a cursor that asks for the newest events. No position begins so: an epoch has
/// hexadecimal digits alone.
const NEWEST: &str = "newest.";

/// An event's number in its stream, from 1; 0 is "before the first event".
pub type Offset = u64;

/// One incarnation of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(NonZeroU64);

/// Everything up to and including `offset` has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The stream's incarnation.
    pub epoch: Epoch,
    /// The last event seen.
    pub offset: Offset,
}

/// Where a subscription asks to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartAt {
    /// With the events published after the subscription.
    #[default]
    Latest,
    /// With everything still retained.
    Earliest,
    /// With the newest events that are still retained, this many at most.
    Newest(u32),
    /// With everything after a position.
    After(Position),
}

/// A text that is neither a position nor, for [`StartAt`], one of its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cursor is \"latest\", \"earliest\", \"newest.50\" for up to 10000 events, or a position such as \
     9f3c21.1042"
)]
pub struct CursorError;

impl Epoch {
    /// `None` for 0, which is no epoch.
    pub fn new(value: u64) -> Option<Self> {
        NonZeroU64::new(value).map(Self)
    }

    /// Its number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// How many digits its text has.
    pub fn text_len(self) -> usize {
        16 - self.0.leading_zeros() as usize / 4
    }

    /// Appends its text.
    pub fn write(self, out: &mut Vec<u8>) {
        let value = self.get();
        for digit in (0..self.text_len()).rev() {
            out.push(b"0123456789abcdef"[(value >> (4 * digit)) as usize & 15]);
        }
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
    /// A position that no stream has: a client that names something else than a position of this server
    /// resumes as from another epoch.
    pub const ELSEWHERE: Self = Self { epoch: Epoch(NonZeroU64::MAX), offset: OFFSET_MAX };
}

impl StartAt {
    /// Appends its text: a word or a position.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Latest => out.extend_from_slice(b"latest"),
            Self::Earliest => out.extend_from_slice(b"earliest"),
            Self::Newest(count) => {
                out.extend_from_slice(NEWEST.as_bytes());
                write_decimal(count.into(), out);
            }
            Self::After(Position { epoch, offset }) => write_position(epoch, offset, out),
        }
    }
}

impl FromStr for StartAt {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        match text {
            "latest" => Ok(Self::Latest),
            "earliest" => Ok(Self::Earliest),
            _ => match text.strip_prefix(NEWEST) {
                Some(count) => newest(count),
                None => text.parse().map(Self::After),
            },
        }
    }
}

/// The newest events, as many as `count` says in digits.
fn newest(count: &str) -> Result<StartAt, CursorError> {
    let is_canonical = !count.starts_with('0') && count.bytes().all(|b| b.is_ascii_digit());
    let count = count.parse().ok().filter(|count| is_canonical && *count <= NEWEST_MAX);
    count.map(StartAt::Newest).ok_or(CursorError)
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
