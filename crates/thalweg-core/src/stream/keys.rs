use std::ops::Range;

/// The keys of events in order, one for each event: JSON strings joined by commas, as an envelope holds them.
#[derive(Debug, Default, Clone)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// The end of each key in `bytes`, before its comma.
    ends: Vec<u32>,
}

impl Keys {
    /// Appends the key `text`, which must have no control characters, as a JSON string.
    pub(super) fn push(&mut self, text: &str) {
        if !self.ends.is_empty() {
            self.bytes.push(b',');
        }
        self.bytes.push(b'"');
        for character in text.chars() {
            if let '"' | '\\' = character {
                self.bytes.push(b'\\');
            }
            let mut utf8 = [0; 4];
            self.bytes.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
        }
        self.bytes.push(b'"');
        self.ends.push(self.bytes.len() as u32);
    }

    /// Appends the keys of `other` in `range`, which is not empty.
    pub(super) fn extend(&mut self, other: &Self, range: Range<usize>) {
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
