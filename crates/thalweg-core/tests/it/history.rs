//! Reads of history return any events from any offset, exactly as they were published.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*};
use thalweg_core::stream::{
    BatchBounds, Feed as _, HistoryBounds, Log, Memory as _, Offsets, Payloads, Sequencer, Slice,
};
use thalweg_wire::Epoch;

fn log_of(turns: &[Vec<usize>], batch: BatchBounds) -> (Log, Vec<String>) {
    let epoch = Epoch::new(1).expect("not 0");
    let bounds = HistoryBounds { events_max: 10_000, bytes_max: 1 << 20, age_us_max: 1 };
    let topic = "cars".parse().expect("a topic");
    let mut log = Log::new(topic, epoch, 1, Offsets::Consecutive, bounds);
    let mut sequencer = Sequencer::new(epoch, batch);
    let mut published = Vec::new();
    for lens in turns {
        let mut payloads = Payloads::default();
        for len in lens {
            let event = format!("[{},\"{}\"]", published.len() + 1, ",]".repeat(*len));
            let pushed: Result<(), ()> = payloads.push(|bytes| {
                bytes.extend_from_slice(event.as_bytes());
                Ok(())
            });
            assert_eq!(pushed, Ok(()));
            published.push(event);
        }
        sequencer.append(&mut payloads.clone(), 0);
        for batch in sequencer.seal(0) {
            log.push(Arc::new(batch), 0);
        }
    }
    (log, published)
}

/// Returns the result of a read of at most `limit` events from `from` on, in pieces of so many bytes.
fn read_in(log: &Log, from: u64, limit: usize, piece_bytes: usize) -> (u64, String) {
    let mut slice = Slice::new(log, from, limit, usize::MAX);
    let count = slice.end() - from.max(log.first_retained());
    let (bytes, mut events) = (slice.bytes(), Vec::new());
    while let Some(piece) = slice.next_piece(piece_bytes) {
        assert!((1..=piece_bytes).contains(&piece.len()), "{}", piece.len());
        events.extend_from_slice(&piece);
        assert_eq!(slice.bytes(), bytes - events.len());
    }
    assert_eq!(slice.bytes(), 0);
    (count, String::from_utf8(events).expect("UTF-8"))
}

fn read(log: &Log, from: u64, limit: usize) -> (u64, String) {
    read_in(log, from, limit, 16)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_read_gives_what_was_published(
        turns in vec(vec(0..20_usize, 0..6), 0..12),
        events_max in 1..5_usize,
        bytes_max in 1..100_usize,
        from in 0..60_u64,
        limit in prop_oneof![4 => 0..40_usize, 1 => Just(usize::MAX)],
        shed in prop_oneof![3 => Just(0_usize), 1 => 0..2000_usize],
        piece_bytes in 1..200_usize,
    ) {
        let bounds = BatchBounds { flush_us: 0, events_max, bytes_max };
        let (mut log, published) = log_of(&turns, bounds);
        let before = log.history_bytes();
        let freed = log.trim_bytes(shed);
        prop_assert_eq!(before - freed, log.history_bytes());
        prop_assert!(shed > 0 || freed == 0);
        prop_assert!(published.is_empty() || log.batches_from(0).next().is_some());
        let first = from.max(log.first_retained()).min(log.head()) as usize - 1;
        let expected = &published[first..];
        let expected = &expected[..expected.len().min(limit)];
        let read = read_in(&log, from, limit, piece_bytes);
        prop_assert_eq!(read, (expected.len() as u64, expected.join(",")));
    }

    #[test]
    fn pages_join_to_the_whole(
        turns in vec(vec(0..20_usize, 0..6), 1..12),
        events_max in 1..5_usize,
        limit in 1..8_usize,
    ) {
        let bounds = BatchBounds { flush_us: 0, events_max, bytes_max: 1000 };
        let (log, published) = log_of(&turns, bounds);
        let (mut from, mut pages) = (1, Vec::new());
        while from < log.head() {
            let (count, events) = read(&log, from, limit);
            prop_assert!(count > 0, "a page without events before the head");
            from += count;
            pages.push(events);
        }
        prop_assert_eq!(pages.join(","), published.join(","));
    }
}

fn pinned_bytes(slice: &Slice) -> usize {
    slice.pinned().map(|batch| batch.memory_bytes()).sum()
}

#[test]
fn a_slice_pins_what_no_history_retains() {
    let bounds = BatchBounds { flush_us: 0, events_max: 1, bytes_max: 1000 };
    let (mut log, _) = log_of(&vec![vec![100]; 10], bounds);
    let batch_bytes = log.history_bytes() / 10;
    let mut slice = Slice::new(&log, 1, 10, usize::MAX);
    assert_eq!(pinned_bytes(&slice), 0);
    let freed = log.trim_bytes(3 * batch_bytes);
    assert!(freed >= 3 * batch_bytes);
    assert_eq!(pinned_bytes(&slice), freed);
    let bytes = slice.bytes();
    while slice.bytes() > bytes / 2 {
        slice.next_piece(100);
    }
    assert_eq!(pinned_bytes(&slice), 0);
    drop(log);
    assert!(pinned_bytes(&slice) > 4 * batch_bytes, "all that is left");
}
