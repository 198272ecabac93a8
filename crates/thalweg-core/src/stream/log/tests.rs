use thalweg_wire::StartAt;

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
    feed.backfill(Page { from: 1536, messages, is_last_before, stored_from: 1536 }, 2);
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
