//! The finished frames of a group, in order. Each event is copied once, and every connection of the group gets the same bytes,
//! from its own cursor on. A cursor counts bytes from the very first frame.

use std::rc::Rc;

use crate::frame::{Envelope, Framing};

/// A log that grew larger than this, because a subscriber did not read, releases its memory later.
const CAPACITY_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Log {
    framing: Framing,
    bytes: Vec<u8>,
    /// The cursor at which `bytes` begins.
    begin: u64,
    open: Option<OpenFrame>,
    /// Ends of the frames that were closed since the last `take_ends`.
    ends: Vec<u64>,
    /// Bytes of events in the last frame: the next one is likely to be as long.
    events_bytes: usize,
    head: Vec<u8>,
}

/// The frame at the end of the log, which takes more events of its topic.
#[derive(Debug)]
struct OpenFrame {
    topic: Rc<str>,
    first: u64,
    last: u64,
    /// Where the frame begins in the log's bytes.
    start: usize,
    /// Where its events begin.
    events_at: usize,
}

impl Log {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            bytes: Vec::new(),
            begin: 0,
            open: None,
            ends: Vec::new(),
            events_bytes: 0,
            head: Vec::new(),
        }
    }

    /// Copies the topic's next event into the open frame if that is of this topic, otherwise into a new frame.
    pub(crate) fn append(&mut self, topic: &Rc<str>, offset: u64, event: &[u8]) {
        match &mut self.open {
            Some(open) if Rc::ptr_eq(&open.topic, topic) => {
                open.last = offset;
                self.bytes.push(b',');
            }
            _ => self.open(topic, offset),
        }
        self.bytes.extend_from_slice(event);
    }

    /// Opens a frame, with room for its head. The head's length is a guess: it contains the length and the end of the frame.
    fn open(&mut self, topic: &Rc<str>, first: u64) {
        self.close();
        let start = self.bytes.len();
        let guess = Envelope { topic, first, count: 1 };
        guess.push_head(self.framing, self.events_bytes, &mut self.bytes);
        let events_at = self.bytes.len();
        let topic = Rc::clone(topic);
        self.open = Some(OpenFrame { topic, first, last: first, start, events_at });
    }

    pub(crate) fn close(&mut self) {
        let Some(frame) = self.open.take() else {
            return;
        };
        let OpenFrame { topic, first, last, start, events_at } = frame;
        let envelope = Envelope { topic: &topic, first, count: last - first + 1 };
        self.events_bytes = self.bytes.len() - events_at;
        self.head.clear();
        envelope.push_head(self.framing, self.events_bytes, &mut self.head);
        if self.head.len() == events_at - start {
            self.bytes[start..events_at].copy_from_slice(&self.head);
        } else {
            // The events move. This is rare, because lengths and offsets rarely gain a digit.
            self.bytes.splice(start..events_at, self.head.iter().copied());
        }
        envelope.push_tail(self.framing, &mut self.bytes);
        self.ends.push(self.end());
    }

    pub(crate) fn end(&self) -> u64 {
        let closed = self.open.as_ref().map_or(self.bytes.len(), |open| open.start);
        self.begin + closed as u64
    }

    pub(crate) fn take_ends(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ends)
    }

    /// Returns the bytes between two cursors; none if the first is not before the second.
    pub(crate) fn between(&self, from: u64, to: u64) -> &[u8] {
        let at = |cursor: u64| (cursor - self.begin) as usize;
        if from < to { &self.bytes[at(from)..at(to)] } else { &[] }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the bytes before a cursor, but only if the rest is short, so that bytes do not move too often. No frame may be open.
    pub(crate) fn forget(&mut self, before: u64) {
        let forgotten = (before - self.begin) as usize;
        if forgotten == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(CAPACITY_BYTES_MAX);
        } else if forgotten > self.bytes.len() / 2 {
            self.bytes.drain(..forgotten);
        } else {
            return;
        }
        self.begin = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the log after these events, each with its topic and offset.
    fn written(framing: Framing, events: &[(&Rc<str>, u64, &str)]) -> Log {
        let mut log = Log::new(framing);
        for (topic, offset, event) in events {
            log.append(topic, *offset, event.as_bytes());
        }
        log.close();
        log
    }

    #[test]
    fn events_of_one_topic_share_a_frame() {
        let (cars, planes): (Rc<str>, Rc<str>) = ("cars".into(), "planes".into());
        let log = written(
            Framing::Ndjson,
            &[(&cars, 9, "1"), (&cars, 10, "22"), (&planes, 1, "3"), (&cars, 11, "4")],
        );
        let text = String::from_utf8(log.between(0, log.end()).to_vec()).unwrap();
        let parts: Vec<(&str, &str)> =
            text.lines().map(|line| line.split_once("\"first\"").unwrap()).collect();
        let behind: Vec<&str> = parts.iter().map(|(_, behind)| *behind).collect();
        assert_eq!(
            behind,
            [r#":9,"events":[1,22]}"#, r#":1,"events":[3]}"#, r#":11,"events":[4]}"#]
        );
        assert!(parts[0].0.ends_with(r#".10","#), "{text}");
    }

    #[test]
    fn a_head_that_was_guessed_wrong_is_as_if_guessed_right() {
        let topic: Rc<str> = "cars".into();
        for framing in [Framing::WebSocket, Framing::Sse, Framing::SseSeveral, Framing::Ndjson] {
            let mut log = Log::new(framing);
            let mut expected = Vec::new();
            for (index, length) in [1, 300, 1, 70_000, 300, 70_000, 1].into_iter().enumerate() {
                // Nine, ten: the position gains a digit within a frame.
                let first = 9 + 1_000 * index as u64;
                let events = ["1".repeat(length), "2".to_owned()];
                log.append(&topic, first, events[0].as_bytes());
                log.append(&topic, first + 1, events[1].as_bytes());
                log.close();
                let (events, envelope) =
                    (events.join(","), Envelope { topic: &topic, first, count: 2 });
                envelope.push_head(framing, events.len(), &mut expected);
                expected.extend_from_slice(events.as_bytes());
                envelope.push_tail(framing, &mut expected);
            }
            assert!(log.between(0, log.end()) == expected, "{framing:?}");
            assert_eq!(log.take_ends().len(), 7);
        }
    }

    #[test]
    fn cursors_stay_valid_when_the_log_forgets_bytes() {
        let topic: Rc<str> = "cars".into();
        let mut log = written(Framing::Ndjson, &[(&topic, 1, "1")]);
        let first = log.end();
        log.append(&topic, 2, b"2");
        assert_eq!(log.end(), first, "an open frame is not there yet");
        log.close();
        let (second, kept) = (log.end(), log.between(first, log.end()).to_vec());
        log.forget(first);
        assert_eq!(log.between(first, second), kept);
        log.append(&topic, 3, &[b'3'; 1000]);
        log.close();
        log.forget(second);
        assert!(log.len() > 1000 && log.between(second, log.end()).starts_with(b"{"));
        log.forget(log.end());
        assert_eq!((log.len(), log.between(log.end(), log.end())), (0, &b""[..]));
    }
}
