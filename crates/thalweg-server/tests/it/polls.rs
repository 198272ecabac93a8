//! A long poll at bounds that the simulation's worlds seldom reach.

use std::{io::IoSlice, sync::Arc};

use thalweg_server::{
    fanout::{
        Budget, Delivered, FeedKey, Feeds, Life, Scratch, Sent, Sink, Subscribe, Subscriber, Terms,
    },
    stream::{BatchBounds, HistoryBounds, Log, Payloads, Sequencer},
};
use thalweg_wire::{Epoch, Framing, StartAt};

struct Logs(Vec<Log>);

impl Feeds for Logs {
    fn feed(&self, key: FeedKey) -> Option<&Log> {
        self.0.get(key as usize)
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut Log> {
        self.0.get_mut(key as usize)
    }
}

struct Everything;

impl Sink for Everything {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        Sent::Bytes(slices.iter().map(|slice| slice.len()).sum())
    }
}

/// A log with one event of `bytes`, or none.
fn log(bytes: usize) -> Log {
    let epoch = Epoch::new(1).expect("not 0");
    let bounds = HistoryBounds { events_max: 10, bytes_max: 1 << 20, age_us_max: 1 };
    let mut log = Log::new("cars".parse().expect("a topic"), epoch, 1, bounds);
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
    sequencer.append(&payloads, 0);
    for batch in sequencer.seal(0) {
        log.push(Arc::new(batch), 0);
    }
    log
}

/// A poll of topics with one event each of so many bytes ends in one visit.
fn check(bytes: &[usize]) {
    let mut logs = Logs(bytes.iter().map(|bytes| log(*bytes)).collect());
    let subscribe = |feed| Subscribe { feed, start: StartAt::Earliest, terms: Terms::default() };
    let subscribe: Vec<_> = (0..bytes.len() as FeedKey).map(subscribe).collect();
    let mut poll = Subscriber::new(Framing::Ndjson, b"", &subscribe, Life::Once);
    let budget = Budget { socket_bytes: usize::MAX };
    let delivered = poll.deliver(&mut logs, &mut Everything, 0, budget, &mut Scratch::default());
    assert_eq!(delivered, Delivered::Closed, "{bytes:?}");
}

#[test]
fn a_poll_that_was_told_all_at_the_bound_of_a_send_ends() {
    check(&[1]);
    check(&[100_000]);
    // As many cold bytes as a send may have, and then a topic without events.
    check(&[100_000, 0]);
    // As many slices: the confirmations are one.
    let mut many = vec![1; 63];
    many.push(0);
    check(&many);
}
