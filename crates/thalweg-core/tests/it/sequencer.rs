//! Offsets and batch bounds.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*};
use thalweg_core::stream::{
    Appended, Batch, BatchBounds, Cursor, Feed as _, Frames as _, HistoryBounds, Log, Next,
    Offsets, Payloads, Sequencer,
};
use thalweg_wire::{Epoch, Format, Topic, incoming::Incoming, incoming::Kind};

/// A JSON number of so many digits for each event.
fn payloads(lens: &[usize]) -> Payloads {
    let mut payloads = Payloads::default();
    for len in lens {
        let pushed: Result<(), ()> = payloads.push(|bytes| {
            bytes.extend(std::iter::repeat_n(b'7', *len));
            Ok(())
        });
        assert_eq!(pushed, Ok(()));
    }
    payloads
}

fn lens(batch: &Arc<Batch>) -> Vec<usize> {
    let topic: Topic = "cars".parse().expect("a topic");
    let epoch = Epoch::new(1).expect("not 0");
    let bounds = HistoryBounds { events_max: 1, bytes_max: 1, age_us_max: 1 };
    let mut log = Log::new(topic, epoch, batch.first(), Offsets::Consecutive, bounds);
    log.push(Arc::clone(batch), 0);
    let mut line = Vec::new();
    let frames = log.frames(Format::NDJSON.into());
    let next = frames.next(&Cursor::before(batch.first()), true, &mut line);
    assert!(matches!(next, Next::Cold { .. }), "a log without a hot tail");
    let line = str::from_utf8(&line).expect("UTF-8");
    match Incoming::parse(line).expect("a message").kind() {
        Kind::Events(events) => events.iter().map(|(_, event)| event.len()).collect(),
        other => panic!("{other:?} is no envelope"),
    }
}

fn joined(lens: &[usize]) -> usize {
    lens.iter().sum::<usize>() + lens.len().saturating_sub(1)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_are_full_or_due_and_never_too_large(
        turns in vec((vec(1..40_usize, 0..12), 0..2000_u64), 1..10),
        flush_us in prop_oneof![Just(0), 1..3000_u64],
        events_max in 1..8_usize,
        bytes_max in 1..100_usize,
    ) {
        let bounds = BatchBounds { flush_us, events_max, bytes_max };
        let mut sequencer = Sequencer::new(Epoch::new(1).expect("not 0"), bounds);
        let mut now_us = 0;
        let mut published = Vec::new();
        let mut sealed = Vec::new();
        for (events, wait_us) in turns {
            let first = published.len() as u64 + 1;
            published.extend_from_slice(&events);
            let appended = sequencer.append(&mut payloads(&events), now_us);
            prop_assert_eq!(appended, Appended { first, end: published.len() as u64 + 1 });
            // Exactly when promised, then some time later.
            for at_us in [sequencer.due_us().unwrap_or(now_us), now_us + wait_us] {
                now_us = now_us.max(at_us);
                sealed.extend(sequencer.seal(now_us).into_iter().map(Arc::new));
                prop_assert!(sequencer.due_us().is_none_or(|due_us| due_us > now_us));
                prop_assert!(sequencer.due_us().is_none_or(|due_us| due_us <= now_us + flush_us));
            }
        }
        now_us += flush_us;
        sealed.extend(sequencer.seal(now_us).into_iter().map(Arc::new));

        let mut next = 1;
        let mut received = Vec::new();
        for batch in &sealed {
            let lens = lens(batch);
            prop_assert_eq!((batch.first(), batch.count()), (next, lens.len()));
            prop_assert!(lens.len() <= events_max);
            prop_assert!(lens.len() == 1 || joined(&lens) <= bytes_max);
            next = batch.end();
            received.extend(lens);
        }
        prop_assert_eq!(received, published);
    }

    #[test]
    fn simultaneous_events_make_the_fewest_batches_that_fit(
        events in vec(1..40_usize, 1..40),
        events_max in 1..8_usize,
        bytes_max in 1..100_usize,
    ) {
        let bounds = BatchBounds { flush_us: 0, events_max, bytes_max };
        let mut sequencer = Sequencer::new(Epoch::new(1).expect("not 0"), bounds);
        sequencer.append(&mut payloads(&events), 0);
        let mut expected: Vec<Vec<usize>> = Vec::new();
        for len in events {
            match expected.last_mut() {
                Some(batch) if batch.len() < events_max && joined(batch) + 1 + len <= bytes_max => {
                    batch.push(len);
                }
                _ => expected.push(vec![len]),
            }
        }
        let sealed: Vec<_> = sequencer.seal(0).into_iter().map(Arc::new).collect();
        prop_assert_eq!(sealed.iter().map(lens).collect::<Vec<_>>(), expected);
        prop_assert_eq!(sequencer.due_us(), None);
    }
}

#[test]
fn an_event_that_cannot_be_written_leaves_no_trace() {
    let mut payloads = payloads(&[1, 2]);
    let failed = payloads.push(|bytes| {
        bytes.extend_from_slice(b"half of");
        Err("broken")
    });
    assert_eq!(failed, Err("broken"));
    assert_eq!(payloads.joined(), b"7,77");
    assert_eq!(payloads.iter().collect::<Vec<_>>(), [b"7".as_slice(), b"77"]);
}

#[test]
fn a_large_event_is_not_copied() {
    let bounds = BatchBounds { flush_us: 0, events_max: 100, bytes_max: 63 << 10 };
    let mut sequencer = Sequencer::new(Epoch::new(1).expect("not 0"), bounds);
    for len in [64 << 10, 165_000, 164_000, 1 << 20] {
        let mut event = Payloads::default();
        event.reserve(len, 1);
        let pushed: Result<(), ()> = event.push(|bytes| {
            bytes.resize(len, b'7');
            Ok(())
        });
        assert_eq!(pushed, Ok(()));
        let written_at = event.joined().as_ptr();
        sequencer.append(&mut event, 0);
        assert!(event.is_empty());
        let sealed = sequencer.seal(0);
        let [batch] = &sealed[..] else { panic!("{} batches", sealed.len()) };
        assert_eq!((batch.count(), batch.last_event().len()), (1, len));
        assert_eq!(batch.last_event().as_ptr(), written_at, "{len}");
    }
}
