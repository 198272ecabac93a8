//! Parses a whole event stream like a browser (WHATWG HTML §9.2.5 and §9.2.6).

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) data: String,
    pub(super) last_event_id: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) events: Vec<Event>,
    /// The last event id, which a reconnect would send.
    pub(super) last_event_id: String,
    pub(super) reconnection_ms: Option<u64>,
}

pub(super) fn read(stream: &[u8]) -> Read {
    let text = String::from_utf8_lossy(stream);
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut read = Read::default();
    let mut block = Block::default();
    while let Some(end) = rest.find(['\r', '\n']) {
        let line = &rest[..end];
        let ending_len = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + ending_len..];
        if line.is_empty() {
            read.last_event_id.clone_from(&block.id);
            read.events.extend(block.dispatch());
        } else {
            block.take_line(line, &mut read.reconnection_ms);
        }
    }
    // A browser drops a block without a final blank line.
    read
}

/// The standard's three buffers. The id's buffer outlives a block.
#[derive(Default)]
struct Block {
    kind: String,
    data: String,
    id: String,
}

impl Block {
    fn take_line(&mut self, line: &str, reconnection_ms: &mut Option<u64>) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.kind),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                *reconnection_ms = value.parse().ok();
            }
            // A comment (its name is empty), or a field that the standard does not know.
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        let kind = std::mem::take(&mut self.kind);
        let mut data = std::mem::take(&mut self.data);
        if data.is_empty() {
            return None;
        }
        data.pop();
        let kind = if kind.is_empty() { "message".to_owned() } else { kind };
        Some(Event { kind, data, last_event_id: self.id.clone() })
    }
}
