//! Frames of columns are made when a reader needs them, once for all readers, and kept within bounds.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_core::stream::{
    Backfill as _, Batch, ColumnCounts, ColumnMemory, ColumnRows as _, Cursor, Encoding, Feed as _,
    Frames as _, HistoryBounds, Log, Memory as _, Next, Offsets, Page, Payloads, Pinning as _,
};
use thalweg_wire::{Epoch, Format, Offset};

const TAIL_BYTES: usize = 1 << 14;

fn shard(history_bytes: usize, columns: &Arc<Columns>) -> Log {
    shard_with(history_bytes, Offsets::Consecutive, Some(columns), &ColumnMemory::default())
}

fn shard_with(
    history_bytes: usize,
    offsets: Offsets,
    columns: Option<&Arc<Columns>>,
    memory: &ColumnMemory,
) -> Log {
    let bounds =
        HistoryBounds { events_max: 10_000, bytes_max: history_bytes, age_us_max: u64::MAX };
    let (topic, epoch) = ("cars".parse().expect("a topic"), Epoch::new(1).expect("an epoch"));
    let log = Log::new(topic, epoch, 1, offsets, bounds).with_tail_bytes(TAIL_BYTES);
    let mut feed = log.with_columns(columns.cloned(), memory.clone());
    feed.open_tail(Format::ARROW);
    feed
}

fn declared(columns: &[&str]) -> Arc<Columns> {
    Arc::new(Columns::declared(columns.iter().copied()).expect("columns"))
}

/// Batches of so many rows each, from offset 1 on.
fn batches(count: u64, rows: u64, row: impl Fn(Offset) -> String) -> Vec<Arc<Batch>> {
    let batch = |number| {
        let first = 1 + number * rows;
        let payloads = payloads((first..first + rows).map(&row));
        Arc::new(Batch::seal(first, first, payloads, 1))
    };
    (0..count).map(batch).collect()
}

fn payloads(rows: impl IntoIterator<Item = String>) -> Payloads {
    let mut payloads = Payloads::default();
    for row in rows {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(row.as_bytes());
            Ok::<_, ()>(())
        };
        payloads.push(write).expect("JSON");
    }
    payloads
}

fn row(offset: Offset) -> String {
    format!(r#"{{"id":{offset},"car":"c{offset}"}}"#)
}

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

    /// Takes at most so many of the next bytes. Returns whether there were any, and whether they are shared.
    fn read(&mut self, feed: &mut Log, bytes_max: usize) -> (bool, bool) {
        let encoding = Encoding::new(self.format, Some(&self.columns));
        let (mut next, mut scratch) = (self.cursor, Vec::new());
        let mut is_shared = true;
        let given = match feed.frames(encoding).next(&self.cursor, true, &mut scratch) {
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
            self.made += feed.make_frames(
                &self.cursor,
                Encoding::new(Format::ARROW, Some(&self.columns)),
                1,
            );
            return self.read(feed, bytes_max);
        };
        if given.len() > bytes_max {
            next = feed.frames(encoding).advance(&self.cursor, bytes_max);
        }
        self.sent.extend_from_slice(&given[..given.len().min(bytes_max)]);
        let before = std::mem::replace(&mut self.cursor, next);
        if next.in_frame() {
            feed.pin(&next, Format::ARROW);
        }
        if before.in_frame() {
            feed.unpin(&before);
        }
        (true, is_shared)
    }

    fn read_all(&mut self, feed: &mut Log) -> &mut Self {
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
    // Chunks give the same result.
    let mut chunked = Reader::new(Format::ARROW.chunked().unwrap(), &columns, 2001);
    chunked.read_all(&mut shards[1]);
    assert_eq!(chunked.made.frames, 0);
    let size = str::from_utf8(&chunked.sent).map_or_else(|error| error.valid_up_to(), str::len);
    let line = chunked.sent[..=size].windows(2).position(|sent| sent == b"\r\n").unwrap();
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
    // The batch leaves the history, and no reader comes for a while.
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
fn a_frame_that_would_be_too_large_is_not_made_and_goes_out_in_parts() {
    let names: Vec<String> = (0..256).map(|number| format!("c{number}:double")).collect();
    let columns = declared(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut shards = [shard(1, &columns), shard(1, &columns)];
    let all = batches(1, 4000, |offset| if offset == 1 { "1".into() } else { "{}".into() });
    shards.iter_mut().for_each(|shard| shard.push(Arc::clone(&all[0]), 1));
    let mut first = Reader::new(Format::ARROW, &columns, 1);
    let (mut parts, mut bytes) = (0, 0);
    while let (true, is_shared) = first.read(&mut shards[0], usize::MAX) {
        assert!(!is_shared);
        // The events of a part have few bytes, its cells have many.
        assert!(first.sent.len() - bytes < TAIL_BYTES + 20_000, "{parts}");
        (parts, bytes) = (parts + 1, first.sent.len());
    }
    assert!(parts > 1 && all[0].is_column_frame_too_large());
    assert_eq!(first.made, ColumnCounts::default(), "it has 8 MB");
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
    // Frames of columns take much more than such events, so not all can be kept.
    let mut least = usize::MAX;
    while reader.read(&mut feed, usize::MAX).0 {
        assert!(feed.tail_bytes() <= (1 << 20) + TAIL_BYTES);
        least = if reader.cursor.next() > 1500 { least.min(feed.tail_bytes()) } else { least };
    }
    assert!((1 << 19..usize::MAX).contains(&least));
    assert_eq!(reader.made.frames, 2000);
}

#[test]
fn frames_of_all_topics_together_have_a_bound() {
    let columns = declared(&["id:int", "car:string"]);
    let memory = ColumnMemory::new(60_000);
    let mut topics: Vec<Log> = (0..4)
        .map(|_| shard_with(1 << 20, Offsets::Consecutive, Some(&columns), &memory))
        .collect();
    let kept = |topics: &[Log]| topics.iter().map(Log::tail_bytes).sum::<usize>();
    let mut alone = 0;
    for feed in &mut topics {
        batches(10, 400, row).into_iter().for_each(|batch| feed.push(batch, 1));
        Reader::new(Format::ARROW, &columns, 1).read_all(feed);
        alone = if alone == 0 { feed.tail_bytes() } else { alone };
    }
    // Each of them keeps at least the frame that it sent last.
    assert!(kept(&topics) < 60_000 + alone, "{} of {alone} at first", kept(&topics));
    // A partly sent frame stays, and counts as pinned.
    let mut reader = Reader::new(Format::ARROW, &columns, 401);
    reader.read(&mut topics[3], 100);
    assert!(topics[3].pinned_bytes() > 400 * 8 * 2);
    topics.iter_mut().for_each(|feed| feed.sweep(2));
    assert!(kept(&topics) <= 60_000);
    reader.read_all(&mut topics[3]);
    assert_eq!(topics[3].pinned_bytes(), 0);
    drop(topics);
    let mut last = shard_with(1 << 20, Offsets::Consecutive, Some(&columns), &memory);
    batches(2, 400, row).into_iter().for_each(|batch| last.push(batch, 1));
    Reader::new(Format::ARROW, &columns, 1).read_all(&mut last);
    last.sweep(2);
    assert!(last.tail_bytes() > 0, "what is gone does not count");
}

#[test]
fn backfilled_rows_have_the_schema_of_their_frame() {
    let mut feed = shard_with(1, Offsets::Stored, None, &ColumnMemory::default());
    let push = |feed: &mut Log, message: u64, row: &str| {
        let (first, payloads) = (message * 256, payloads([row.to_owned()]));
        feed.push(Arc::new(Batch::seal(first - 255, first, payloads, 1)), 1);
    };
    push(&mut feed, 1, r#"{"id":1}"#);
    feed.make_frames(&Cursor::before(256), Format::ARROW.into(), 1);
    let narrow = Arc::clone(feed.columns_at(&Cursor::before(256)).expect("columns"));
    // One reader is within the frame while the batch goes and a wider one comes.
    let mut reader = Reader::new(Format::ARROW, &narrow, 256);
    reader.read(&mut feed, 10);
    push(&mut feed, 2, r#"{"id":1,"car":"c"}"#);
    feed.make_frames(&Cursor::before(512), Format::ARROW.into(), 1);
    let messages = vec![(256, payloads([r#"{"id":1}"#.to_owned()]))];
    feed.backfill(
        Page {
            from: 1,
            messages,
            holes: Vec::new(),
            is_last_before: None,
            stored_from: 1,
            compacted: 0,
            unix_ms: 0,
        },
        1,
    );
    // Another reader comes, whose stream has the columns that the server gave it.
    let columns = Arc::clone(feed.columns_at(&Cursor::before(256)).expect("columns"));
    assert_eq!(columns, narrow);
    let mut other = Reader::new(Format::ARROW, &columns, 256);
    assert_eq!(other.read(&mut feed, usize::MAX), (true, true));
    reader.read(&mut feed, usize::MAX);
    assert!(!reader.sent.is_empty() && reader.sent == other.sent);
}

#[test]
fn a_schema_is_the_same_however_often_it_was_widened() {
    let mut shards: Vec<Log> = (0..2)
        .map(|_| shard_with(1 << 20, Offsets::Consecutive, None, &ColumnMemory::default()))
        .collect();
    let rows = [r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":2,"b":2}"#];
    let all = batches(3, 1, |offset| rows[offset as usize - 1].to_owned());
    all.iter().for_each(|batch| {
        shards.iter_mut().for_each(|shard| shard.push(Arc::clone(batch), 1));
    });
    // One shard has seen how the schema came to be, the other infers it.
    let mut counts = ColumnCounts::default();
    for offset in [1, 2] {
        counts += shards[0].make_frames(&Cursor::before(offset), Format::ARROW.into(), 1);
    }
    shards[1].make_frames(&Cursor::before(3), Format::ARROW.into(), 1);
    let columns =
        |feed: &Log, offset| Arc::clone(feed.columns_at(&Cursor::before(offset)).expect("columns"));
    let (widened, inferred) = (columns(&shards[0], 2), columns(&shards[1], 3));
    assert_eq!((widened.changes(), inferred.changes()), (1, 0));
    assert_eq!(widened, inferred);
    assert!(!shards[0].columns_change_at(&Cursor::before(3)));
    // The next change continues the count.
    shards[0].make_frames(&Cursor::before(3), Format::ARROW.into(), 1);
    assert_eq!(columns(&shards[0], 3).changes(), 1);
}

#[test]
fn columns_that_somebody_only_wants_to_know_are_inferred_once_a_second() {
    let bounds = HistoryBounds { events_max: 100, bytes_max: 1 << 20, age_us_max: u64::MAX };
    let (topic, epoch) = ("cars".parse().expect("a topic"), Epoch::new(1).expect("an epoch"));
    let mut feed = Log::new(topic, epoch, 1, Offsets::Consecutive, bounds);
    let told = |feed: &Log, now_us| {
        let columns = feed.columns_told(now_us);
        columns.map(|columns| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(told(&feed, 0), None);
    let rows = [r#"{"a":1}"#, r#"{"a":1,"b":2}"#];
    for batch in batches(2, 1, |offset| rows[offset as usize - 1].into()) {
        feed.push(batch, 1);
        assert_eq!(told(&feed, 1), Some(vec!["a".to_owned()]));
    }
    assert_eq!(told(&feed, 1_000_000), Some(vec!["a".to_owned()]));
    assert_eq!(told(&feed, 1_000_001), Some(vec!["a".to_owned(), "b".to_owned()]));
    // A query is planned over the columns as they are.
    assert_eq!(feed.columns().map(|columns| columns.iter().count()), Some(2));
}
