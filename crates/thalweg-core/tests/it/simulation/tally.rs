use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hasher},
};

use thalweg_wire::Offset;

/// What a simulation must reach: one that never does proves nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Situation {
    /// A subscription confirmed.
    Confirmation,
    /// An event heard.
    Event,
    /// A gap heard, by reason.
    Slow,
    /// A topic ended for one subscriber, whose policy allows no gap.
    Refused,
    Trimmed,
    OtherEpoch,
    Unknown,
    /// A connection closed in order.
    Closed,
    /// A visit to a cursor within a batch.
    MidBatch,
    /// Events after offsets that were never given; a subscription that begins at one of these.
    AfterHole,
    InHole,
    /// Events that had to be read back first; a page of them that came.
    Away,
    Recalled,
    /// A subscription that begins when what is stored was looked at.
    LooksFirst,
    /// A visit to a cursor ahead of the head.
    Ahead,
    /// All that was due sent at once; to a reader of several topics; a part of it.
    AtOnce,
    AtOnceOfSeveral,
    CutAtOnce,
    /// A frame that took more than one visit.
    Partial,
    /// A connection that ended within a frame.
    TornOff,
    /// A frame partly sent held memory beyond the history.
    Pinned,
    /// A batch did not reach another shard.
    Hole,
    /// A frame over 65,535 bytes.
    LongFrame,
    /// An `id` that named the cursors of several topics; a frame without one, because
    /// it was not due.
    Ids,
    WithoutId,
    /// A frame sent but for the connection's trailer of it.
    CutEnding,
    /// A document told to load again.
    Reload,
    /// A poll that was told something, and one that waited in vain.
    PollAnswered,
    PollInVain,
    /// Something was due, and the window did not admit it.
    WindowShut,
    /// A topic subscribed to, or left, in mid-stream; left in mid-frame; left and
    /// subscribed to again at once.
    Subscribed,
    Left,
    LeftInFrame,
    Resubscribed,
    /// Something to be told to a connection in mid-frame.
    ToldInFrame,
    /// History given up for memory.
    Shed,
    /// Resumed over another format.
    Changed,
    /// A topic read in three formats or more at once, on one shard.
    Mixed,
    /// A compressed frame heard; one that took more than one visit.
    Compressed,
    CutCompressed,
    /// Events that compressing would not have made smaller.
    NotSmaller,
    /// A frame that came as a chunk, or as two; one of them that took more than one visit;
    /// the last chunk of a response.
    Chunked,
    CutChunk,
    LastChunk,
    /// A version heard whole, and as a patch; one that took more than one visit; versions
    /// left out.
    Version,
    Patch,
    CutVersion,
    Conflated,
    /// A row heard; a stream of columns that ended because the rows changed, and because some were
    /// lost; one that came back to either.
    Columns,
    ColumnsChanged,
    ColumnsLost,
    ResumedChanged,
    ResumedLost,
    /// A frame of columns made; one that was made before and dropped; one that is too large to be kept. Rows
    /// that were heard before, in the same bytes. The rest of a frame whose batch has left the history.
    ColumnsMade,
    ColumnsMadeAgain,
    ColumnsTooLarge,
    ColumnsShared,
    ColumnsOutlived,
    /// The end of a topic heard; that of a one-way connection's last one.
    TopicEnd,
    LastTopicEnd,
}

impl Situation {
    pub(super) const ALL: [Self; 60] = [
        Self::Confirmation,
        Self::Event,
        Self::Slow,
        Self::Refused,
        Self::Trimmed,
        Self::OtherEpoch,
        Self::Unknown,
        Self::Closed,
        Self::MidBatch,
        Self::AfterHole,
        Self::InHole,
        Self::Away,
        Self::Recalled,
        Self::LooksFirst,
        Self::Ahead,
        Self::AtOnce,
        Self::AtOnceOfSeveral,
        Self::CutAtOnce,
        Self::Partial,
        Self::TornOff,
        Self::Pinned,
        Self::Hole,
        Self::LongFrame,
        Self::Ids,
        Self::WithoutId,
        Self::CutEnding,
        Self::Reload,
        Self::PollAnswered,
        Self::PollInVain,
        Self::WindowShut,
        Self::Subscribed,
        Self::Left,
        Self::LeftInFrame,
        Self::Resubscribed,
        Self::ToldInFrame,
        Self::Shed,
        Self::Changed,
        Self::Mixed,
        Self::Compressed,
        Self::CutCompressed,
        Self::NotSmaller,
        Self::Chunked,
        Self::CutChunk,
        Self::LastChunk,
        Self::Version,
        Self::Patch,
        Self::CutVersion,
        Self::Conflated,
        Self::Columns,
        Self::ColumnsChanged,
        Self::ColumnsLost,
        Self::ResumedChanged,
        Self::ResumedLost,
        Self::ColumnsMade,
        Self::ColumnsMadeAgain,
        Self::ColumnsTooLarge,
        Self::ColumnsShared,
        Self::ColumnsOutlived,
        Self::TopicEnd,
        Self::LastTopicEnd,
    ];
}

/// What happened in a world, or in many.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    counts: BTreeMap<Situation, u64>,
    /// Of everything that every socket took, in order.
    digest: u64,
    /// Batches of a topic whose frame of columns was made, by their ends.
    made_columns: BTreeSet<(usize, Offset)>,
    /// The bytes of rows, by topic, schema, first and last offset.
    rows: BTreeMap<(String, Vec<u8>, Offset, Offset), Vec<u8>>,
}

impl Tally {
    pub(super) fn count(&mut self, situation: Situation, times: u64) {
        *self.counts.entry(situation).or_default() += times;
    }

    pub(super) fn saw_if(&mut self, situation: Situation, is_so: bool) {
        self.count(situation, is_so.into());
    }

    pub(super) fn of(&self, situation: Situation) -> u64 {
        self.counts.get(&situation).copied().unwrap_or(0)
    }

    /// The frame of columns of a batch was made.
    pub(super) fn made_columns(&mut self, topic: usize, end: Offset) {
        let is_new = self.made_columns.insert((topic, end));
        self.saw_if(Situation::ColumnsMadeAgain, !is_new);
    }

    /// Rows were heard: whoever hears the same ones hears the same bytes.
    pub(super) fn heard_rows(
        &mut self,
        topic: &str,
        schema: &[u8],
        (first, last): (Offset, Offset),
        bytes: &[u8],
    ) {
        let key = (topic.to_owned(), schema.to_vec(), first, last);
        let is_known = self.rows.contains_key(&key);
        let known = self.rows.entry(key).or_insert_with(|| bytes.to_vec());
        assert!(*known == bytes, "{topic}: rows {first} to {last} differ from reader to reader");
        self.saw_if(Situation::ColumnsShared, is_known);
    }

    /// Takes in what a socket took: two runs are compared by one number.
    pub(super) fn digest(&mut self, bytes: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.digest);
        hasher.write(bytes);
        self.digest = hasher.finish();
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (situation, times) in &other.counts {
            self.count(*situation, *times);
        }
        self.digest(&other.digest.to_le_bytes());
    }
}
