//! Frames of columns: made when a reader needs them, once for all of them, and kept within bounds.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_server::stream::{
    Batch, ColumnCounts, Cursor, Encoding, Feed, Frames, HistoryBounds, Log, Next, Offsets,
    Payloads,
};
use thalweg_wire::{Epoch, Format, Offset};

const TAIL_BYTES: usize = 1 << 14;

/// A topic as one shard reads it, with so much history.
fn shard(history_bytes: usize, columns: &Arc<Columns>) -> Feed {
    let bounds =
        HistoryBounds { events_max: 10_000, bytes_max: history_bytes, age_us_max: u64::MAX };
    let (topic, epoch) = ("cars".parse().expect("a topic"), Epoch::new(1).expect("an epoch"));
    let log = Log::new(topic, epoch, 1, Offsets::Consecutive, bounds);
    let mut feed =
        Feed::Log(log.with_tail_bytes(TAIL_BYTES).with_columns(Some(Arc::clone(columns))));
    feed.open_tail(Format::ARROW);
    feed
}

fn declared(columns: &[&str]) -> Arc<Columns> {
    Arc::new(Columns::declared(columns.iter().copied()).expect("columns"))
}

/// Batches of so many rows each, from offset 1 on.
fn batches(count: u64, rows: u64, row: impl Fn(Offset) -> String) -> Vec<Arc<Batch>> {
    let batch = |number| {
        let (first, mut payloads) = (1 + number * rows, Payloads::default());
        for offset in first..first + rows {
            let write = |out: &mut Vec<u8>| {
                out.extend_from_slice(row(offset).as_bytes());
                Ok::<_, ()>(())
            };
            payloads.push(write).expect("JSON");
        }
        Arc::new(Batch::seal(first, first, payloads, 1))
    };
    (0..count).map(batch).collect()
}

fn row(offset: Offset) -> String {
    format!(r#"{{"id":{offset},"car":"c{offset}"}}"#)
}

/// A reader of columns: its cursor, what it was sent, and what was made for it.
struct Reader {
    format: Format,
    columns: Arc<Columns>,
    cursor: Cursor,
    sent: Vec<u8>,
    made: ColumnCounts,
}

impl Reader {
    fn new(format: Format, columns: &Arc<Columns>, from: Offset) -> Self {
        let (columns, cursor) = (Arc::clone(columns), Cursor::before(from));
        Self { format, columns, cursor, sent: Vec::new(), made: ColumnCounts::default() }
    }

    /// Takes at most so many bytes of what comes next. Returns whether something did, and whether it is
    /// shared.
    fn read(&mut self, feed: &mut Feed, bytes_max: usize) -> (bool, bool) {
        let encoding = Encoding::new(self.format, Some(&self.columns));
        let (mut next, mut scratch) = (self.cursor, Vec::new());
        let mut is_shared = true;
        let given = match Frames::of(feed, encoding).next(&self.cursor, true, &mut scratch) {
            Next::Unmade => None,
            Next::Nothing => return (false, true),
            Next::Hot(bytes, after) => {
                next = after;
                Some(bytes.to_vec())
            }
            Next::Cold { after, .. } => {
                (next, is_shared) = (after, false);
                Some(scratch)
            }
            other => panic!("{other:?}"),
        };
        let Some(given) = given else {
            self.made += feed.make_column_frames(&self.cursor, Some(&self.columns), 1);
            return self.read(feed, bytes_max);
        };
        if given.len() > bytes_max {
            next = Frames::of(feed, encoding).advance(&self.cursor, bytes_max);
        }
        self.sent.extend_from_slice(&given[..given.len().min(bytes_max)]);
        let before = std::mem::replace(&mut self.cursor, next);
        if next.in_frame() {
            feed.pin(&next);
        }
        if before.in_frame() {
            feed.unpin(&before);
        }
        (true, is_shared)
    }

    fn read_all(&mut self, feed: &mut Feed) -> &mut Self {
        while self.read(feed, usize::MAX).0 {}
        self
    }
}

#[test]
fn all_readers_of_all_shards_share_one_frame_of_each_batch() {
    let columns = declared(&["id:int", "car:string"]);
    let mut shards = [shard(1 << 20, &columns), shard(1 << 20, &columns)];
    let all = batches(6, 400, row);
    for batch in &all {
        shards.iter_mut().for_each(|shard| shard.push(Arc::clone(batch), 1));
    }
    assert!(!all.iter().any(|batch| batch.is_column_frame_kept()), "nobody has read it");
    let mut first = Reader::new(Format::ARROW, &columns, 1);
    first.read_all(&mut shards[0]);
    assert_eq!(first.made, ColumnCounts { frames: 6, unreadable: 0, changes: 0 });
    for (shard, from) in [(0, 1), (1, 1), (0, 801), (1, 2001)] {
        let mut other = Reader::new(Format::ARROW, &columns, from);
        while let (true, is_shared) = other.read(&mut shards[shard], 1000) {
            assert!(is_shared);
        }
        assert_eq!(other.made.frames, 0, "encoded again on shard {shard}, from {from}");
        assert!(first.sent.ends_with(&other.sent) && !other.sent.is_empty());
    }
    // In chunks it is the same.
    let mut chunked = Reader::new(Format::ARROW.chunked().unwrap(), &columns, 2001);
    chunked.read_all(&mut shards[1]);
    assert_eq!(chunked.made.frames, 0);
    let size = str::from_utf8(&chunked.sent).map_or_else(|it| it.valid_up_to(), str::len);
    let line = chunked.sent[..=size].windows(2).position(|it| it == b"\r\n").unwrap();
    let content = &chunked.sent[line + 2..chunked.sent.len() - 2];
    let digits = str::from_utf8(&chunked.sent[..line]).unwrap();
    assert_eq!(usize::from_str_radix(digits, 16), Ok(content.len()));
    assert!(first.sent.ends_with(content));
}

#[test]
fn a_frame_is_finished_with_the_same_bytes_whatever_was_dropped() {
    let columns = declared(&["id:int", "car:string"]);
    let mut feed = shard(1 << 20, &columns);
    for batch in batches(2, 400, row) {
        feed.push(batch, 1);
    }
    let mut whole = Reader::new(Format::ARROW, &columns, 1);
    whole.read_all(&mut feed);
    let mut reader = Reader::new(Format::ARROW, &columns, 1);
    reader.read(&mut feed, 100);
    // The batch leaves the history, and nobody reads for a while.
    feed.trim_all(usize::MAX, u64::MAX);
    feed.sweep(u64::MAX);
    assert!(feed.tail_bytes() > 0 && feed.first_retained() == 801);
    reader.read(&mut feed, 1000);
    assert_eq!(reader.made.frames, 0, "what is partly sent is kept");
    while reader.cursor.in_frame() {
        reader.read(&mut feed, 1000);
    }
    assert!(whole.sent.starts_with(&reader.sent));
    feed.sweep(u64::MAX);
    assert_eq!((feed.tail_bytes(), feed.pinned_bytes()), (0, 0));
}

#[test]
fn a_frame_that_is_too_large_is_tried_once_and_goes_out_in_parts() {
    let names: Vec<String> = (0..256).map(|number| format!("c{number}:double")).collect();
    let columns = declared(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut shards = [shard(1, &columns), shard(1, &columns)];
    let all = batches(1, 4000, |offset| if offset == 1 { "1".into() } else { "{}".into() });
    shards.iter_mut().for_each(|shard| shard.push(Arc::clone(&all[0]), 1));
    let mut first = Reader::new(Format::ARROW, &columns, 1);
    let mut parts = 0;
    while let (true, is_shared) = first.read(&mut shards[0], usize::MAX) {
        assert!(!is_shared);
        parts += 1;
    }
    assert!(parts > 1 && all[0].is_column_frame_too_large());
    assert_eq!(first.made, ColumnCounts { frames: 1, unreadable: 1, changes: 0 });
    let mut second = Reader::new(Format::ARROW, &columns, 1);
    while second.read(&mut shards[1], 50_000).0 {}
    assert_eq!(second.made, ColumnCounts::default());
    assert!(second.sent == first.sent);
    assert!(shards.iter().all(|shard| shard.tail_bytes() == 0));
}

#[test]
fn small_batches_have_their_frames_made_together_within_bounds() {
    let columns = declared(&["id:int", "car:string"]);
    let mut feed = shard(1 << 20, &columns);
    for batch in batches(2000, 1, row) {
        feed.push(batch, 1);
    }
    let mut reader = Reader::new(Format::ARROW, &columns, 1);
    reader.read(&mut feed, usize::MAX);
    assert!((2..100).contains(&reader.made.frames), "{:?}", reader.made);
    // Frames of columns take much more than such events: not all can be kept.
    let mut least = usize::MAX;
    while reader.read(&mut feed, usize::MAX).0 {
        assert!(feed.tail_bytes() <= (1 << 20) + TAIL_BYTES);
        least = if reader.cursor.next() > 1500 { least.min(feed.tail_bytes()) } else { least };
    }
    assert!((1 << 19..usize::MAX).contains(&least));
    assert_eq!(reader.made.frames, 2000);
}
