//! Cases that the simulation's worlds rarely reach, named by their failures.

use std::{io::IoSlice, sync::Arc};

use thalweg_core::{
    fanout::{
        Budget, ConnectionFraming, Delivered, FeedKey, Feeds, ResponseMode, Scratch, Sent, Sink,
        Subscribe, Subscriber, Terms,
    },
    stream::{
        AnyFeed, Batch, BatchBounds, Feed as _, HistoryBounds, Log, Memory as _, Offsets, Payloads,
        Pinning as _, Sequencer, Value,
    },
};
use thalweg_wire::{Epoch, Format, StartAt};

struct Logs(Vec<AnyFeed>);

impl Feeds for Logs {
    type Feed = AnyFeed;

    fn feed(&self, key: FeedKey) -> Option<&AnyFeed> {
        self.0.get(key as usize)
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut AnyFeed> {
        self.0.get_mut(key as usize)
    }
}

/// Takes all but the last bytes of a send.
#[derive(Default)]
struct Socket {
    left: usize,
    taken: Vec<u8>,
}

impl Sink for Socket {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let offered: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let taken = offered.len().saturating_sub(self.left);
        self.taken.extend_from_slice(&offered[..taken]);
        Sent::Bytes(taken)
    }
}

const BUDGET: Budget = Budget { socket_bytes: usize::MAX };

fn subscribe(feed: FeedKey) -> Subscribe {
    Subscribe { feed, start: StartAt::Earliest, terms: Terms::default() }
}

fn log(bytes: usize) -> AnyFeed {
    let epoch = Epoch::new(1).expect("not 0");
    let bounds = HistoryBounds { events_max: 10, bytes_max: 1 << 20, age_us_max: 1 };
    let mut log =
        Log::new("cars".parse().expect("a topic"), epoch, 1, Offsets::Consecutive, bounds);
    let batch = BatchBounds { flush_us: 0, events_max: 1, bytes_max: 1 };
    let mut sequencer = Sequencer::new(epoch, batch);
    let mut payloads = Payloads::default();
    if bytes > 0 {
        let pushed: Result<(), ()> = payloads.push(|out| {
            out.resize(bytes, b'7');
            Ok(())
        });
        assert_eq!(pushed, Ok(()));
    }
    sequencer.append(&mut payloads.clone(), 0);
    for batch in sequencer.seal(0) {
        log.push(Arc::new(batch), 0);
    }
    AnyFeed::Log(log)
}

/// A poll of topics with one event each of so many bytes ends in one visit.
fn check(bytes: &[usize]) {
    let mut logs = Logs(bytes.iter().map(|bytes| log(*bytes)).collect());
    let subscribe: Vec<_> = (0..bytes.len() as FeedKey).map(subscribe).collect();
    let mut poll = Subscriber::new(
        Format::NDJSON,
        b"",
        &subscribe,
        ResponseMode::Once,
        ConnectionFraming::new(Format::NDJSON),
    );
    let mut scratch = Scratch::default();
    let delivered = poll.deliver(&mut logs, &mut Socket::default(), 0, BUDGET, &mut scratch);
    assert_eq!(delivered, Delivered::Closed, "{bytes:?}");
}

#[test]
fn a_poll_that_was_told_all_at_the_bound_of_a_send_ends() {
    check(&[1]);
    check(&[100_000]);
    // As many cold bytes as a send may have, and then a topic without events.
    check(&[100_000, 0]);
    // As many slices as a send may have. The confirmations are one slice.
    let mut many = vec![1; 63];
    many.push(0);
    check(&many);
}

#[test]
fn the_same_frame_again_behind_its_rest_is_finished() {
    let mut logs = Logs(vec![log(100)]);
    let mut subscriber = Subscriber::new(
        Format::NDJSON,
        b"",
        &[subscribe(0)],
        ResponseMode::Endless,
        ConnectionFraming::new(Format::NDJSON),
    );
    let mut socket = Socket { left: 3, ..Socket::default() };
    let mut scratch = Scratch::default();
    let mut deliver = |subscriber: &mut Subscriber, logs: &mut Logs, left| {
        socket.left = left;
        subscriber.deliver(logs, &mut socket, 0, BUDGET, &mut scratch)
    };
    assert_eq!(deliver(&mut subscriber, &mut logs, 3), Delivered::Full);
    subscriber.unsubscribe(0);
    subscriber.subscribe(subscribe(0));
    assert_eq!(deliver(&mut subscriber, &mut logs, usize::MAX), Delivered::Full);
    // Only the partly sent frame still holds the event.
    logs.0[0].sweep(u64::MAX);
    assert_eq!(deliver(&mut subscriber, &mut logs, 3), Delivered::Full);
    assert!(subscriber.is_in_frame());
    assert_eq!(deliver(&mut subscriber, &mut logs, 0), Delivered::CaughtUp(None));
    let (first, again) = socket.taken.split_at(socket.taken.len() / 2);
    assert_eq!(String::from_utf8_lossy(first), String::from_utf8_lossy(again));
    assert_eq!(logs.0[0].pinned_bytes(), 0);
}

fn versions(epoch: Epoch, count: usize) -> Vec<Arc<Batch>> {
    let mut sequencer =
        Sequencer::new(epoch, BatchBounds { flush_us: 0, events_max: 1, bytes_max: 1 });
    let version = |index: usize| {
        let mut payloads = Payloads::default();
        let document = format!(r#"{{"version":{index},"same":"{}"}}"#, "x".repeat(100));
        let pushed: Result<(), ()> = payloads.push(|out| {
            out.extend_from_slice(document.as_bytes());
            Ok(())
        });
        assert_eq!(pushed, Ok(()));
        sequencer.append(&mut payloads, 0);
        sequencer.seal(0).into_iter().next().map(Arc::new).expect("a batch")
    };
    (0..count).map(version).collect()
}

#[test]
fn a_patch_whose_turn_is_over_is_not_tried_and_is_no_failure() {
    let epoch = Epoch::new(1).expect("not 0");
    let mut value = Value::new("cars".parse().expect("a topic"), epoch, 1, Offsets::Consecutive);
    value.open_tail(Format::NDJSON.with_patches());
    let versions = versions(epoch, 5);
    let mut push = |version: usize, is_over: &mut dyn FnMut() -> bool| {
        let is_made = value.make_patch(&versions[version], is_over);
        value.push(Arc::clone(&versions[version]), 0);
        is_made
    };
    assert_eq!(push(0, &mut || false), None, "there is nothing before it");
    assert_eq!(push(1, &mut || true), None);
    assert_eq!(push(2, &mut || false), Some(true));
    // A patch that ran out of time is a failure, and the next one is not tried.
    let mut asked = 0;
    let mut over_at_last = || {
        asked += 1;
        asked > 1
    };
    assert_eq!(push(3, &mut over_at_last), Some(false));
    assert_eq!(push(4, &mut || panic!("not asked")), None);
}
