//! Windows, tested through a subscriber whose peer acks at random, against a model that remembers every frame.

use std::{io::IoSlice, sync::Arc};

use proptest::{collection::vec, prelude::*};
use thalweg_core::{
    fanout::{
        Budget, ConnectionFraming, Delivered, FeedKey, Feeds, ResponseMode, Scratch, Sent, Sink,
        Subscribe, Subscriber, Terms,
    },
    stream::{
        BatchBounds, Cursor, Feed as _, Frames as _, HistoryBounds, Log, Memory as _, Next,
        Offsets, Payloads, Sequencer,
    },
};
use thalweg_wire::{Epoch, Format, Offset, Position, StartAt};

/// Acks may open a window later by this part of it.
const PART_MAX: u64 = 64;

const FORMAT: Format = Format::WEBSOCKET;

#[derive(Debug, Clone)]
enum Step {
    /// Batches of one event of so many characters.
    Push(Vec<usize>),
    /// The socket has room for so many bytes.
    Visit(usize),
    /// Acks everything up to so many events before the newest sent, perhaps in another epoch.
    Ack {
        back: u64,
        is_other: bool,
    },
    AckAhead(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => vec(0..60_usize, 1..10).prop_map(Step::Push),
        2 => vec(prop_oneof![0..20_usize, 0..600_usize], 1..4).prop_map(Step::Push),
        1 => vec(0..10_usize, 30..150).prop_map(Step::Push),
        5 => prop_oneof![Just(usize::MAX), Just(0), 0..400_usize].prop_map(Step::Visit),
        5 => (prop_oneof![Just(0), 0..90_u64], prop::bool::weighted(0.1))
            .prop_map(|(back, is_other)| Step::Ack { back, is_other }),
        1 => (0..20_u64).prop_map(Step::AckAhead),
    ]
}

struct One(Log);

impl Feeds for One {
    type Feed = Log;

    fn feed(&self, _: FeedKey) -> Option<&Log> {
        Some(&self.0)
    }

    fn feed_mut(&mut self, _: FeedKey) -> Option<&mut Log> {
        Some(&mut self.0)
    }
}

struct Room {
    bytes: usize,
    taken: usize,
}

impl Sink for Room {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let sent = offered.min(self.bytes - self.taken);
        self.taken += sent;
        Sent::Bytes(sent)
    }
}

struct Windowed {
    feeds: One,
    sequencer: Sequencer,
    subscriber: Subscriber,
    scratch: Scratch,
    window_bytes: u64,
    /// The bytes of every frame, from event 1 on.
    frame_bytes: Vec<u64>,
    /// All bytes taken, without the confirmation.
    taken: u64,
    acked: usize,
}

impl Windowed {
    fn new(window_bytes: u64, hot: bool) -> Self {
        let epoch = Epoch::new(7).expect("not 0");
        let bounds = HistoryBounds { events_max: 10_000, bytes_max: 1 << 24, age_us_max: 1 };
        let mut log =
            Log::new("cars".parse().expect("a topic"), epoch, 1, Offsets::Consecutive, bounds);
        if hot {
            log.open_tail(FORMAT);
        }
        let batch = BatchBounds { flush_us: 0, events_max: 1, bytes_max: 1 };
        let terms = Terms { window_bytes: Some(window_bytes), ..Terms::default() };
        let subscribe = Subscribe { feed: 0, start: StartAt::Earliest, terms };
        let mut windowed = Self {
            feeds: One(log),
            sequencer: Sequencer::new(epoch, batch),
            subscriber: Subscriber::new(
                FORMAT,
                b"",
                &[subscribe],
                ResponseMode::Endless,
                ConnectionFraming::new(FORMAT),
            ),
            scratch: Scratch::default(),
            window_bytes,
            frame_bytes: Vec::new(),
            taken: 0,
            acked: 0,
        };
        windowed.deliver(usize::MAX);
        windowed.taken = 0;
        windowed
    }

    fn deliver(&mut self, bytes: usize) -> Delivered {
        let mut room = Room { bytes, taken: 0 };
        let budget = Budget { socket_bytes: usize::MAX };
        let Self { subscriber, feeds, scratch, .. } = self;
        let delivered = subscriber.deliver(feeds, &mut room, 0, budget, scratch);
        self.taken += room.taken as u64;
        delivered
    }

    fn sent(&self) -> (usize, u64) {
        let mut left = self.taken;
        let mut whole = 0;
        while let Some(bytes) = self.frame_bytes.get(whole).filter(|bytes| **bytes <= left) {
            left -= bytes;
            whole += 1;
        }
        (whole, left)
    }

    /// Returns how many frames may be sent whole or begun, if acks counted for so many bytes less.
    fn admitted(&self, late_bytes: u64) -> usize {
        let (mut sent, _) = self.sent();
        let mut ahead: u64 = self.frame_bytes[self.acked.min(sent)..sent].iter().sum();
        if ahead > 0 {
            ahead += late_bytes;
        }
        while let Some(bytes) = self.frame_bytes.get(sent) {
            if ahead > 0 && ahead + bytes > self.window_bytes {
                break;
            }
            ahead += bytes;
            sent += 1;
        }
        sent
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Push(lens) => self.push(lens),
            Step::Visit(bytes) => self.visit(*bytes),
            Step::Ack { back, is_other } => {
                let offset = (self.sent().0 as Offset).saturating_sub(*back);
                self.ack(offset, *is_other);
            }
            Step::AckAhead(ahead) => self.ack(self.sent().0 as Offset + ahead, false),
        }
    }

    fn push(&mut self, lens: &[usize]) {
        let mut payloads = Payloads::default();
        for len in lens {
            let pushed: Result<(), ()> = payloads.push(|bytes| {
                bytes.extend(std::iter::repeat_n(b'7', 1 + len));
                Ok(())
            });
            assert_eq!(pushed, Ok(()));
        }
        self.sequencer.append(&mut payloads.clone(), 0);
        for batch in self.sequencer.seal(0) {
            let cursor = Cursor::before(batch.first());
            let log = &mut self.feeds.0;
            log.push(Arc::new(batch), 0);
            let mut cold = Vec::new();
            self.frame_bytes.push(match log.frames(FORMAT.into()).next(&cursor, true, &mut cold) {
                Next::Hot(bytes, _) => bytes.len() as u64,
                Next::Cold { events, .. } => (cold.len() + events.len()) as u64,
                other => panic!("{other:?} instead of a frame"),
            });
        }
    }

    fn visit(&mut self, bytes: usize) {
        let (before, part) = self.sent();
        // A begun frame is finished, whatever the window says.
        let begun_before = before + usize::from(part > 0);
        let admitted = self.admitted(0).max(begun_before);
        let delivered = self.deliver(bytes);
        let (whole, part) = self.sent();
        let begun = whole + usize::from(part > 0);
        assert!(begun <= admitted, "{begun} frames begun, {admitted} admitted");
        if delivered == Delivered::CaughtUp(None) {
            assert_eq!(part, 0);
            let part_bytes = self.window_bytes / PART_MAX;
            let is_exact = self.frame_bytes.iter().all(|bytes| *bytes >= part_bytes);
            let due = self.admitted(if is_exact { 0 } else { part_bytes });
            assert!(whole >= due, "{whole} frames, {due} due");
            assert!(whole == self.frame_bytes.len() || whole > self.acked, "shut for nothing");
        } else {
            assert_eq!(delivered, Delivered::Full);
        }
    }

    fn ack(&mut self, offset: Offset, is_other: bool) {
        let epoch = Epoch::new(if is_other { 8 } else { 7 }).expect("not 0");
        self.subscriber.ack(&self.feeds, 0, Position { epoch, offset });
        if !is_other {
            self.acked = self.acked.max(self.sent().0.min(offset as usize));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_window_admits_what_it_must_and_no_more(
        steps in vec(step(), 1..150),
        window_bytes in prop_oneof![0..300_u64, 0..3000_u64, 4000..12_000_u64, 0..100_000_u64],
        hot in any::<bool>(),
    ) {
        let mut windowed = Windowed::new(window_bytes, hot);
        for step in &steps {
            windowed.step(step);
        }
        for _ in 0..=windowed.frame_bytes.len() {
            windowed.visit(usize::MAX);
            windowed.step(&Step::Ack { back: 0, is_other: false });
        }
        prop_assert_eq!(windowed.sent().0, windowed.frame_bytes.len());
    }
}
