//! One cursor reads a log in every possible way: a closer look at cursors, hot tails and pins than the simulation's.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*};
use thalweg_core::stream::{
    Batch, BatchBounds, Cursor, Feed as _, Frames as _, HistoryBounds, Log, LogFrames, Memory as _,
    Next, Offsets, Payloads, Pinning as _, Sequencer,
};
use thalweg_wire::{Epoch, Format, Offset, Topic, incoming::Incoming, incoming::Kind};

const FORMAT: Format = Format::NDJSON;

#[derive(Debug, Clone)]
enum Step {
    /// Pushes a batch of so many events, or loses it.
    Push {
        events: u64,
        arrives: bool,
    },
    /// Sends the next bytes: all of them, or so many 256ths.
    Read {
        one_frame: bool,
        portion: Option<u8>,
    },
    /// A long pause releases the hot tails.
    Idle,
    /// The history is dropped, too.
    Expire,
    OpenTail,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..4_u64, prop::bool::weighted(0.95))
            .prop_map(|(events, arrives)| Step::Push { events, arrives }),
        9 => (any::<bool>(), any::<Option<u8>>())
            .prop_map(|(one_frame, portion)| Step::Read { one_frame, portion }),
        1 => Just(Step::Idle),
        1 => Just(Step::Expire),
        1 => Just(Step::OpenTail),
    ]
}

fn topic() -> Topic {
    "cars".parse().expect("a topic")
}

struct Reading {
    sequencer: Sequencer,
    log: Log,
    now_us: u64,
    cursor: Cursor,
    next: Offset,
    /// The beginning of a frame.
    partial: Vec<u8>,
}

impl Reading {
    fn new(tail_bytes: usize, events_max: usize) -> Self {
        let epoch = Epoch::new(7).expect("not 0");
        let batch = BatchBounds { flush_us: 0, events_max: 100, bytes_max: 1000 };
        let history = HistoryBounds { events_max, bytes_max: 100_000, age_us_max: 60_000_000 };
        Self {
            sequencer: Sequencer::new(epoch, batch),
            log: Log::new(topic(), epoch, 1, Offsets::Consecutive, history)
                .with_tail_bytes(tail_bytes),
            now_us: 0,
            cursor: Cursor::before(1),
            next: 1,
            partial: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push { events, arrives } => self.push(events, arrives),
            Step::Read { one_frame, portion } => self.read(one_frame, portion),
            Step::Idle => self.wait(3_000_000),
            Step::Expire => self.wait(90_000_000),
            Step::OpenTail => self.log.open_tail(FORMAT),
        }
    }

    fn frames(&self) -> LogFrames<'_, '_> {
        self.log.frames(FORMAT.into())
    }

    fn wait(&mut self, us: u64) {
        self.now_us += us;
        self.log.sweep(self.now_us);
    }

    fn push(&mut self, events: u64, arrives: bool) {
        let mut payloads = Payloads::default();
        for _ in 0..events {
            let pushed: Result<(), ()> = payloads.push(|bytes| {
                bytes.extend_from_slice(b"[0,1]");
                Ok(())
            });
            assert_eq!(pushed, Ok(()));
        }
        self.sequencer.append(&mut payloads.clone(), self.now_us);
        let batches: Vec<Batch> = self.sequencer.seal(self.now_us);
        for batch in batches.into_iter().filter(|_| arrives) {
            self.log.push(Arc::new(batch), self.now_us);
        }
    }

    fn read(&mut self, one_frame: bool, portion: Option<u8>) {
        let mut cold = Vec::new();
        let (bytes, after) = match self.frames().next(&self.cursor, one_frame, &mut cold) {
            Next::Hot(bytes, after) => (bytes.to_vec(), after),
            Next::Cold { before, events, after } => {
                ([&cold[..before], events, &cold[before..]].concat(), after)
            }
            Next::OtherColumns | Next::Unmade | Next::Skipped(_) => panic!("it is of JSON"),
            Next::Lost(lost) => {
                assert!(!self.cursor.in_frame(), "lost within a frame");
                assert_eq!(lost.expected, self.next);
                let lost_until = self.log.batches_from(self.next).next().map(|b| b.first());
                assert!(lost_until.is_none_or(|first| first > self.next), "not lost at all");
                assert!(lost.expected < lost.middle && lost.middle <= lost.newest);
                self.cursor = Cursor::before(lost.middle);
                self.next = lost.middle;
                return;
            }
            Next::Backfill(_) | Next::Unknown(_) => unreachable!("nothing is stored elsewhere"),
            Next::Nothing => {
                assert!(!self.cursor.in_frame(), "nothing within a frame");
                assert_eq!(self.next, self.log.head());
                return;
            }
        };
        assert!(!one_frame || bytes.iter().filter(|byte| **byte == b'\n').count() == 1);
        let taken = portion.map_or(bytes.len(), |portion| bytes.len() * usize::from(portion) / 256);
        if taken == 0 {
            return;
        }
        let before = self.cursor;
        let whole = taken == bytes.len();
        self.cursor = if whole { after } else { self.frames().advance(&before, taken) };
        if self.cursor.in_frame() {
            self.log.pin(&self.cursor, Format::NDJSON);
        }
        if before.in_frame() {
            self.log.unpin(&before);
        }
        self.receive(&bytes[..taken]);
        assert_eq!(self.cursor.in_frame(), !self.partial.is_empty());
        assert_eq!(self.cursor.next(), self.next);
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let line = str::from_utf8(&line).expect("UTF-8");
            let Kind::Events(events) = Incoming::parse(line).expect("a message").kind() else {
                panic!("no envelope: {line}");
            };
            for (offset, event) in events {
                assert_eq!((offset, event), (self.next, "[0,1]"));
                self.next += 1;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_of_reading_gives_every_event(
        steps in vec(step(), 1..120),
        tail_bytes in 1..600_usize,
        events_max in 1..30_usize,
    ) {
        let mut reading = Reading::new(tail_bytes, events_max);
        for step in &steps {
            reading.step(step);
        }
        for _ in 0..=2 * steps.len() {
            reading.read(false, None);
        }
        prop_assert_eq!(reading.next, reading.log.head());
        reading.wait(90_000_000);
        prop_assert_eq!((reading.log.pinned_bytes(), reading.log.history_bytes()), (0, 0));
    }
}
