/// A JSON Pointer (RFC 6901), as the text of a JSON string: where in a document one is.
#[derive(Debug, Default)]
pub(super) struct Path(Vec<u8>);

impl Path {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Does something at a member of the value that one is at.
    pub(super) fn at_name(&mut self, name: &str) -> usize {
        let before = self.0.len();
        self.0.push(b'/');
        // Quotes, backslashes and control characters are the string's; `~` and `/` are the
        // pointer's.
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

    /// The same at an element.
    pub(super) fn at_element(&mut self, index: usize) -> usize {
        let before = self.0.len();
        self.0.push(b'/');
        self.0.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
        before
    }

    /// Goes back to where it was that long.
    pub(super) fn back(&mut self, len: usize) {
        self.0.truncate(len);
    }
}
