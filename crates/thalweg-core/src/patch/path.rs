/// A JSON Pointer (RFC 6901), as the text of a JSON string.
#[derive(Debug, Default)]
pub(super) struct Path(Vec<u8>);

impl Path {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Descends to a member. Returns the length to go [back](Self::back) to.
    pub(super) fn at_name(&mut self, name: &str) -> usize {
        let before = self.0.len();
        self.0.push(b'/');
        // Quotes, backslashes and control characters are escaped for the string, `~` and `/` for the pointer.
        for character in name.chars() {
            match character {
                '~' => self.0.extend_from_slice(b"~0"),
                '/' => self.0.extend_from_slice(b"~1"),
                '"' => self.0.extend_from_slice(br#"\""#),
                '\\' => self.0.extend_from_slice(br"\\"),
                control if control < ' ' => {
                    let escaped = format!("\\u{:04x}", u32::from(control));
                    self.0.extend_from_slice(escaped.as_bytes());
                }
                other => {
                    self.0.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        before
    }

    pub(super) fn at_element(&mut self, index: usize) -> usize {
        let before = self.0.len();
        self.0.push(b'/');
        self.0.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
        before
    }

    pub(super) fn back(&mut self, len: usize) {
        self.0.truncate(len);
    }
}
