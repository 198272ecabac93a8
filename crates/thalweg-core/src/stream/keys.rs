use std::ops::Range;

use thalweg_wire::key::push_key;

/// The keys of events in order, one for each event: JSON strings joined by commas, as an envelope holds them. Those that a broker stores
/// may expire.
#[derive(Debug, Default, Clone)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// The end of each key in `bytes`, before its comma.
    ends: Vec<u32>,
    /// When each key expires, in ms since 1970; 0: never. Empty if none does.
    expiries: Vec<i64>,
}

/// Returns the end of the JSON string that begins at `at`, if it has only the escapes that [`Keys::push`] writes.
fn string_end(joined: &[u8], at: usize) -> Option<usize> {
    let mut rest = joined.get(at..)?.strip_prefix(b"\"")?.iter();
    let mut end = at + 1;
    loop {
        end += 1;
        match rest.next()? {
            b'"' => return (end > at + 2).then_some(end),
            b'\\' if matches!(rest.next()?, b'"' | b'\\') => end += 1,
            b'\\' | ..0x20 => return None,
            _ => {}
        }
    }
}

impl Keys {
    /// Appends the key `text`, which must have no control characters, as a JSON string.
    pub(super) fn push(&mut self, text: &str) {
        if !self.ends.is_empty() {
            self.bytes.push(b',');
        }
        push_key(text, &mut self.bytes);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Parses the keys of `count` events, joined; `None` if they are no such keys.
    pub(super) fn from_joined(joined: &[u8], count: usize) -> Option<Self> {
        std::str::from_utf8(joined).ok()?;
        let mut ends = Vec::with_capacity(count);
        let mut at = 0;
        while ends.len() < count {
            let end = string_end(joined, at)?;
            ends.push(u32::try_from(end).ok()?);
            if ends.len() < count && joined.get(end) != Some(&b',') {
                return None;
            }
            at = end + 1;
        }
        let is_whole = ends.last().is_some_and(|end| *end as usize == joined.len());
        is_whole.then(|| Self { bytes: joined.to_vec(), ends, expiries: Vec::new() })
    }

    pub(super) fn set_expiry(&mut self, index: usize, unix_ms: i64) {
        self.expiries.resize(self.ends.len(), 0);
        self.expiries[index] = unix_ms;
    }

    /// Returns when the keys expire, in ms since 1970, 0 for those that do not. Empty if none does.
    pub(super) fn expiries(&self) -> &[i64] {
        &self.expiries
    }

    /// Appends the keys of `other` in `range`, which is not empty.
    pub(super) fn extend(&mut self, other: &Self, range: Range<usize>) {
        if !(self.expiries.is_empty() && other.expiries.is_empty()) {
            self.expiries.resize(self.ends.len(), 0);
            match other.expiries.get(range.clone()) {
                Some(expiries) => self.expiries.extend_from_slice(expiries),
                None => self.expiries.resize(self.ends.len() + range.len(), 0),
            }
        }
        let bytes = other.range_of(range.clone());
        if !self.ends.is_empty() {
            self.bytes.push(b',');
        }
        let (base, start) = (self.bytes.len() as u32, bytes.start as u32);
        self.bytes.extend_from_slice(&other.bytes[bytes]);
        self.ends.extend(other.ends[range].iter().map(|end| end - start + base));
    }

    pub(super) fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.expiries.truncate(count);
        self.bytes.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    /// Returns where these keys, at least one, are in [`Self::joined`].
    pub(super) fn range_of(&self, range: Range<usize>) -> Range<usize> {
        self.start_of(range.start)..self.ends[range.end - 1] as usize
    }

    pub(super) fn joined(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a key as a JSON string.
    pub(super) fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.range_of(index..index + 1)]
    }

    /// Returns how many bytes the keys from `from` on have up to the end of key `last`.
    pub(super) fn bytes_until(&self, from: usize, last: usize) -> usize {
        self.ends[last] as usize - self.start_of(from)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(texts: &[&str]) -> Keys {
        let mut keys = Keys::default();
        texts.iter().for_each(|text| keys.push(text));
        keys
    }

    #[test]
    fn joined_keys_are_read_as_they_were_written() {
        for texts in [&["a"][..], &["a,b", "\"", "\\", "\\\"", "\u{e9}", "\",\""]] {
            let keys = keys(texts);
            let read = Keys::from_joined(keys.joined(), texts.len()).expect("keys");
            assert_eq!((read.bytes, read.ends), (keys.bytes.clone(), keys.ends.clone()));
            assert!(Keys::from_joined(keys.joined(), texts.len() + 1).is_none());
            let end = keys.bytes.len() - 1;
            assert!(Keys::from_joined(&keys.bytes[..end], texts.len()).is_none());
        }
        for bad in ["", "\"\"", "a", "\"a", "\"a\"x", "\"\\n\"", "\"\u{1}\"", "\"a\",", "\"a\" "] {
            assert!(Keys::from_joined(bad.as_bytes(), 1).is_none(), "{bad:?}");
        }
        assert!(Keys::from_joined(b"\"a\";\"b\"", 2).is_none());
    }

    #[test]
    fn expiries_stay_with_their_keys() {
        let mut one = keys(&["a", "b"]);
        one.set_expiry(1, 7);
        let mut all = keys(&["c"]);
        all.extend(&one, 1..2);
        all.extend(&keys(&["d", "e"]), 0..2);
        assert_eq!(all.expiries(), [0, 7, 0, 0]);
        all.truncate(2);
        assert_eq!(all.expiries(), [0, 7]);
        all.extend(&one, 0..2);
        assert_eq!(all.expiries(), [0, 7, 0, 7]);
        let mut none = keys(&["c"]);
        none.extend(&keys(&["d"]), 0..1);
        assert!(none.expiries().is_empty());
    }
}
