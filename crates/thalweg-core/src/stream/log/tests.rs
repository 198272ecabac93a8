use thalweg_wire::{ContextWindow, Position, StartAt};

use super::{
    super::{Frames as _, Next, Payloads, Start},
    *,
};

const FORMAT: Format = Format::NDJSON;

fn feed(offsets: Offsets) -> Log {
    let bounds = HistoryBounds { events_max: 9, bytes_max: 1 << 20, age_us_max: u64::MAX };
    let epoch = Epoch::new(1).unwrap();
    let mut feed = Log::new("cars".parse().unwrap(), epoch, 1, offsets, bounds);
    feed.open_tail(FORMAT);
    feed
}

fn payloads(events: Offset) -> Payloads {
    let mut payloads = Payloads::default();
    for event in 0..events {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(
                format!("\"an event that is like the others: {event}\"").as_bytes(),
            );
            Ok::<_, ()>(())
        };
        payloads.push(write).unwrap();
    }
    payloads
}

/// The batches of a backfill may differ from those that were pushed, and so may the text of its frames.
#[test]
fn a_reader_of_a_backfill_has_no_context() {
    let format = FORMAT.compressed_in_context(ContextWindow::Bits10).unwrap();
    let bounds = HistoryBounds { events_max: 2, bytes_max: 1 << 20, age_us_max: u64::MAX };
    let epoch = Epoch::new(1).unwrap();
    let mut feed = Log::new("cars".parse().unwrap(), epoch, 1, Offsets::Stored, bounds);
    feed.open_tail(format);
    for start in [1, 3, 5] {
        feed.push(Arc::new(Batch::seal(start, start, payloads(2), 1)), 1);
    }
    let next = |feed: &Log, cursor: &Cursor| {
        let mut scratch = Vec::new();
        match feed.frames(format.into()).next(cursor, true, &mut scratch) {
            Next::Hot(bytes, after) => (bytes.to_vec(), after),
            Next::Cold { events: &[], after, .. } => (scratch, after),
            other => panic!("{other:?}"),
        }
    };
    let newest = feed.history.find(5).unwrap();
    let mut alone = Vec::new();
    newest.write_frame(5, &feed.topic, feed.epoch, format.into(), &mut alone);
    let (shared, _) = next(&feed, &Cursor::before(5).with_context(Some(1)));
    assert!(shared.len() < alone.len() / 2, "{} of {} bytes", shared.len(), alone.len());

    let messages = vec![(1, payloads(4))];
    feed.backfill(
        Page {
            from: 1,
            messages,
            holes: Vec::new(),
            is_last_before: Some(5),
            stored_from: 1,
            compacted: 0,
            unix_ms: 0,
        },
        2,
    );
    let (_, after) = next(&feed, &Cursor::before(1));
    assert_eq!(after.next(), 5);
    assert_eq!(next(&feed, &after).0, alone);
}

/// Subscribers of several topics never have a context. They share frames as well.
#[test]
fn readers_without_a_context_share_frames_however_many_there_were() {
    let format = FORMAT.compressed_in_context(ContextWindow::Bits10).unwrap();
    let mut feed = feed(Offsets::Consecutive).with_tail_bytes(8 << 10);
    feed.open_tail(format);
    for start in 1..1_000 {
        feed.push(Arc::new(Batch::seal(start, start, payloads(1), 1)), 1);
        let kept = feed.frames(format.into()).kept(&Cursor::before(start), false);
        let (bytes, after) = kept.unwrap_or_else(|| panic!("frame {start} is not kept"));
        assert!(!bytes.is_empty() && after.next() == start + 1);
        assert!(feed.tail_bytes() < 64 << 10, "{} bytes", feed.tail_bytes());
    }
}

/// Pushes one event at `first` that follows the events before `start`.
fn push(feed: &mut Log, start: Offset, first: Offset) {
    let mut payloads = Payloads::default();
    let write = |out: &mut Vec<u8>| {
        out.push(b'1');
        Ok::<_, ()>(())
    };
    payloads.push(write).unwrap();
    feed.push(Arc::new(Batch::seal(start, first, payloads, 1)), 1);
}

fn hot<'a>(feed: &'a Log, cursor: &Cursor) -> (&'a str, Cursor) {
    match feed.frames(FORMAT.into()).next(cursor, false, &mut Vec::new()) {
        Next::Hot(bytes, after) => (str::from_utf8(bytes).unwrap(), after),
        other => panic!("no hot frame: {other:?}"),
    }
}

#[test]
fn events_lost_at_the_end_are_reported_as_lost() {
    let mut feed = feed(Offsets::Consecutive);
    push(&mut feed, 1, 1);
    let (_, after) = hot(&feed, &Cursor::before(1));
    feed.skip_to(5);
    for cursor in [after, Cursor::before(2)] {
        let next = feed.frames(FORMAT.into()).next(&cursor, false, &mut Vec::new());
        let Next::Lost(lost) = next else { panic!("{cursor:?} has lost nothing") };
        assert_eq!((lost.expected, lost.middle, lost.newest), (2, 5, 5));
        assert_eq!(lost.missed(lost.newest), Some(3));
    }
    feed.skip_to(3);
    assert_eq!(feed.head(), 5);
}

#[test]
fn readers_that_keep_up_read_hot_across_skipped_offsets() {
    let mut feed = feed(Offsets::Stored);
    push(&mut feed, 1, 256);
    let (_, after) = hot(&feed, &Cursor::before(1));
    push(&mut feed, 257, 1024);
    let (frame, after) = hot(&feed, &after);
    assert!(frame.contains(r#""first":1024,"after":256,"events":[1]"#), "{frame}");
    push(&mut feed, 1025, 1280);
    hot(&feed, &after);
    feed.skip_to(2000);
    let next = feed.frames(FORMAT.into()).next(&after, false, &mut Vec::new());
    assert!(matches!(next, Next::Cold { .. }), "{next:?}");
    let next = |feed: &Log| match feed.frames(FORMAT.into()).next(
        &Cursor::before(1281),
        false,
        &mut Vec::new(),
    ) {
        Next::Backfill(from) => Ok(from),
        Next::Lost(lost) => Err(lost.missed(lost.newest)),
        other => panic!("{other:?}"),
    };
    assert_eq!(next(&feed), Ok(1281), "a backfill can read it");
    let (messages, is_last_before) = (Vec::new(), Some(2000));
    feed.backfill(
        Page {
            from: 1536,
            messages,
            holes: Vec::new(),
            is_last_before,
            stored_from: 1536,
            compacted: 0,
            unix_ms: 0,
        },
        2,
    );
    assert_eq!(next(&feed), Err(None), "it is not stored any more");
}

#[test]
fn the_newest_events_are_counted_over_offsets_that_were_never_given() {
    let mut feed = feed(Offsets::Stored);
    let from = |feed: &Log, count| match feed.start(StartAt::Newest(count)) {
        Start::At(cursor) => cursor.next(),
        other => panic!("{other:?}"),
    };
    assert_eq!(from(&feed, 3), 1);
    for first in [256, 1024, 1280] {
        let start = feed.head();
        push(&mut feed, start, first);
    }
    let found = [1, 2, 3, 4, 10_000].map(|count| from(&feed, count));
    assert_eq!(found, [1280, 1024, 256, 256, 256]);
}

/// The broker has lost the oldest events, and some in the middle.
#[test]
fn a_reader_gets_one_gap_for_holes_that_follow_each_other() {
    let mut feed = feed(Offsets::Stored);
    feed.skip_to(2000);
    let page = || {
        let (from, stored_from, is_last_before) = (256, 256, Some(2000));
        let messages = vec![(600, payloads(2))];
        let holes = vec![256..300, 400..500, 700..800, 800..2000];
        Page { from, messages, holes, is_last_before, stored_from, compacted: 0, unix_ms: 0 }
    };
    assert_eq!(feed.start(StartAt::Earliest), Start::Backfill(0));
    for now_us in [1, 20_000_000] {
        feed.backfill(page(), now_us);
        assert_eq!(feed.start(StartAt::Earliest), Start::At(Cursor::before(256)));
        assert!(!feed.needs_backfill(0), "a reader from the beginning waits forever");
        let after = |offset| StartAt::After(Position { epoch: feed.epoch, offset });
        for (at, until) in [(256, 500), (299, 500), (450, 500), (602, 2000), (1999, 2000)] {
            let next = feed.frames(FORMAT.into()).next(&Cursor::before(at), false, &mut Vec::new());
            let Next::Lost(lost) = next else { panic!("{next:?}") };
            assert_eq!((lost.middle, lost.newest, lost.is_expired), (until, until, true), "{at}");
            assert_eq!(feed.start(after(at - 1)), Start::Lost(lost));
            assert!(!feed.needs_backfill(at));
        }
        for at in [500, 600, 601] {
            assert_eq!(feed.start(after(at - 1)), Start::At(Cursor::before(at)));
            assert!(!feed.needs_backfill(at), "{at} is here");
        }
        assert_eq!(feed.head(), 2000);
        feed.sweep(now_us + 15_000_000);
        assert!(feed.needs_backfill(0) && feed.needs_backfill(450), "a hole is forgotten, too");
    }
}
