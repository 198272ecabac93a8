use std::{convert::Infallible, ops::Range};

use super::keys::Keys;

/// Events' JSON joined by commas, as an envelope holds them, with an index. The caller has checked the events: each is one JSON
/// value without insignificant whitespace, and within the size limit.
#[derive(Debug, Default, Clone)]
pub struct Payloads {
    bytes: Vec<u8>,
    /// The end of each event in `bytes`, before its comma.
    ends: Vec<u32>,
    /// When the events were published, according to a broker, in ms since 1970.
    published_ms: Option<i64>,
    /// The key of each event, if the topic is keyed.
    keys: Option<Box<Keys>>,
}

impl Payloads {
    /// Sets when the events were published, in ms since 1970. It must be the same on all servers.
    pub fn published_at(self, unix_ms: i64) -> Self {
        Self { published_ms: Some(unix_ms), ..self }
    }

    /// Returns when the events were published, in ms since 1970, if known.
    pub fn published_ms(&self) -> Option<i64> {
        self.published_ms
    }

    /// Appends one event, whose JSON `write` appends to the bytes.
    ///
    /// # Errors
    /// The errors of `write`. On an error the events do not change.
    pub fn push<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let before = self.bytes.len();
        if before > 0 {
            self.bytes.push(b',');
        }
        match write(&mut self.bytes) {
            Ok(()) => {
                self.ends.push(self.bytes.len() as u32);
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(before);
                Err(error)
            }
        }
    }

    /// Sets the key of the event that was appended last. A key has no control characters. All events of keyed topics have one.
    pub fn push_key(&mut self, text: &str) {
        self.keys.get_or_insert_default().push(text);
    }

    /// Appends one event and its key, as [`Self::push_key`] takes it.
    pub fn push_keyed(&mut self, key: &str, event: &[u8]) {
        let Ok(()) = self.push(|out| {
            out.extend_from_slice(event);
            Ok::<_, Infallible>(())
        });
        self.push_key(key);
    }

    /// Returns whether the events have keys.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Sets the keys of all events, as [`Self::joined_keys`] returns them. Returns `None` unless there is one for each event.
    #[must_use]
    pub fn with_joined_keys(self, joined: &[u8]) -> Option<Self> {
        let keys = Keys::from_joined(joined, self.count())?;
        Some(Self { keys: Some(Box::new(keys)), ..self })
    }

    /// Sets when the key of an event expires, in ms since 1970, by the clock of the server that publishes it.
    pub fn set_expiry(&mut self, index: usize, unix_ms: i64) {
        self.keys.iter_mut().for_each(|keys| keys.set_expiry(index, unix_ms));
    }

    /// Returns when the keys of events expire, in ms since 1970, or 0 for keys that do not. Empty if no key expires.
    pub fn expiries(&self) -> &[i64] {
        self.keys.as_ref().map_or(&[], |keys| keys.expiries())
    }

    /// Returns the event that was appended last, or no bytes if there is none.
    pub fn last_event(&self) -> &[u8] {
        let last = self.ends.len().saturating_sub(1);
        &self.bytes[self.start_of(last).min(self.bytes.len())..]
    }

    /// Returns all keys, as JSON strings, joined by commas. Empty if the events have no keys.
    pub fn joined_keys(&self) -> &[u8] {
        self.keys.as_ref().map_or(&[], |keys| keys.joined())
    }

    /// Returns each event's key, as a JSON string, and its bytes. Empty if the events have no keys.
    pub fn keyed_events(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let keys = self.keys.iter().flat_map(|keys| (0..self.count()).map(|at| keys.get(at)));
        keys.zip(self.iter())
    }

    /// Appends the events of `other` in `range`. Their bytes are copied together.
    pub(super) fn extend(&mut self, other: &Self, range: Range<usize>) {
        let Some(last) = range.clone().next_back() else { return };
        let start = other.start_of(range.start);
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        let base = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes[start..other.ends[last] as usize]);
        let start = start as u32;
        self.ends.extend(other.ends[range.clone()].iter().map(|end| end - start + base));
        if let Some(keys) = &other.keys {
            self.keys.get_or_insert_default().extend(keys, range);
        }
    }

    /// Returns how many events from `from` on fit into `bytes` when joined, with their keys.
    pub(super) fn fitting(&self, from: usize, bytes: usize) -> usize {
        let end_max = self.start_of(from) + bytes;
        let fitting = self.ends[from..].partition_point(|end| *end as usize <= end_max);
        let Some(keys) = &self.keys else { return fitting };
        let bytes_until = |last: usize| {
            self.ends[last] as usize - self.start_of(from) + keys.bytes_until(from, last) + 1
        };
        (0..fitting).take_while(|at| bytes_until(from + at) <= bytes).count()
    }

    /// Returns the bytes of the events and their keys, commas included.
    pub fn joined_bytes(&self) -> usize {
        self.bytes.len() + self.keys.as_ref().map_or(0, |keys| keys.joined().len())
    }

    fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize + 1)
    }

    /// Returns the number of events.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns all events, joined by commas.
    pub fn joined(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of the events and their keys, without commas: those of two parts add up.
    pub(super) fn parts_bytes(&self) -> usize {
        let commas = self.ends.len().saturating_sub(1);
        self.joined_bytes() - if self.has_keys() { 2 * commas } else { commas }
    }

    /// Returns the events as lines, separated by line feeds, which no event contains.
    pub fn into_lines(self) -> Vec<u8> {
        let Self { mut bytes, ends, .. } = self;
        let between = ends.len().saturating_sub(1);
        ends[..between].iter().for_each(|end| bytes[*end as usize] = b'\n');
        bytes
    }

    /// Parses the result of [`Self::into_lines`]. Each line is an event, unchecked. `None` if a line is empty, or
    /// if the lines are too long together.
    pub fn from_lines(mut bytes: Vec<u8>) -> Option<Self> {
        u32::try_from(bytes.len()).ok()?;
        // Counting is cheaper than a vector that grows and must be trimmed.
        let mut ends = Vec::with_capacity(memchr::memchr_iter(b'\n', &bytes).count() + 1);
        ends.extend(memchr::memchr_iter(b'\n', &bytes).map(|end| end as u32));
        ends.iter().for_each(|end| bytes[*end as usize] = b',');
        ends.push(bytes.len() as u32);
        let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
        starts.zip(&ends).all(|(start, end)| start < *end).then_some(Self {
            bytes,
            ends,
            published_ms: None,
            keys: None,
        })
    }

    /// Keeps the first `count` events.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.bytes.truncate(self.ends.last().map_or(0, |end| *end as usize));
        self.keys.iter_mut().for_each(|keys| keys.truncate(count));
    }

    /// Removes all events and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.keys = None;
    }

    /// Returns the bytes of each event.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start as usize..*end as usize])
    }

    /// Reserves memory for `bytes` bytes, commas included, of `events` events.
    pub fn reserve(&mut self, bytes: usize, events: usize) {
        self.bytes.reserve(bytes);
        self.ends.reserve(events);
    }

    /// Returns the events, their ends and their keys, in no more memory than they need.
    #[expect(clippy::type_complexity, reason = "three parts of one batch")]
    pub(super) fn into_parts(self) -> (Box<[u8]>, Box<[u32]>, Option<Box<Keys>>) {
        let mut keys = self.keys;
        keys.iter_mut().for_each(|keys| keys.shrink());
        (self.bytes.into_boxed_slice(), self.ends.into_boxed_slice(), keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(events: &[&str]) -> Payloads {
        let mut payloads = Payloads::default();
        events.iter().for_each(|event| push(&mut payloads, event));
        payloads
    }

    fn push(payloads: &mut Payloads, event: &str) {
        let pushed = payloads.push(|out| {
            out.extend_from_slice(event.as_bytes());
            Ok::<_, ()>(())
        });
        pushed.unwrap();
    }

    #[test]
    fn truncate_keeps_the_first_events_and_more_can_follow() {
        let mut cut = payloads(&["1", "[2]", "3"]);
        cut.truncate(4);
        assert_eq!(cut.joined(), b"1,[2],3");
        cut.truncate(2);
        assert_eq!((cut.joined(), cut.count()), (&b"1,[2]"[..], 2));
        push(&mut cut, "4");
        assert!(cut.iter().eq([&b"1"[..], b"[2]", b"4"]));
        cut.truncate(0);
        assert!(cut.is_empty() && cut.joined().is_empty());
    }
}
