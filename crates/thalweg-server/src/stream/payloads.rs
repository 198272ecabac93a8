/// Events' JSON joined by commas, as an envelope holds them, with an index.
#[derive(Debug, Default, Clone)]
pub struct Payloads {
    bytes: Vec<u8>,
    /// Where each event ends in `bytes`; the comma comes after it.
    ends: Vec<u32>,
}

impl Payloads {
    /// Appends one event, whose JSON `write` appends to the bytes it is given.
    ///
    /// # Errors
    /// Those of `write`; nothing is appended then.
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

    /// How many events.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All events, joined.
    pub fn joined(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all events, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Each event's bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start as usize..*end as usize])
    }

    pub(super) fn ends(&self) -> &[u32] {
        &self.ends
    }
}
