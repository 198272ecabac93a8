use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hasher},
};

use thalweg_wire::Offset;

/// The situations that a simulation must reach. Without them it proves little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Situation {
    Confirmation,
    Event,
    /// A gap received, by reason.
    Slow,
    /// A topic ended for one subscriber, whose policy allows no gap.
    Refused,
    Trimmed,
    /// A gap where a broker has lost events between others.
    LostInBroker,
    OtherEpoch,
    Unknown,
    /// A connection closed in order.
    Closed,
    /// A visit to a cursor within a batch.
    MidBatch,
    /// Events after offsets that were never given; a subscription that begins at one of these.
    AfterHole,
    InHole,
    /// Events that needed a backfill; a page that came.
    Backfill,
    Backfilled,
    /// A subscription that begins after a backfill.
    LooksFirst,
    /// A visit to a cursor ahead of the head.
    Ahead,
    /// All due bytes sent at once; to a reader of several topics; a part of them.
    AtOnce,
    AtOnceOfSeveral,
    CutAtOnce,
    /// A frame that took more than one visit.
    Partial,
    /// A connection that ended within a frame.
    TornOff,
    /// A partly sent frame that held memory beyond the history.
    Pinned,
    /// A batch that did not reach another shard.
    Hole,
    /// A frame over 65,535 bytes.
    LongFrame,
    /// An `id` that named the cursors of several topics; a frame without one, because it was not due.
    Ids,
    WithoutId,
    /// A frame sent but for the connection's trailer.
    CutEnding,
    /// A document that the client was told to load again.
    Reload,
    /// A poll that was answered, and one that timed out.
    PollAnswered,
    PollUnanswered,
    /// Due bytes that the window did not admit.
    WindowShut,
    /// A topic subscribed to, or left, in mid-stream; left in mid-frame; left and subscribed to again at once.
    Subscribed,
    /// A subscription from the newest event on began after the newest event of its command.
    Settled,
    Left,
    LeftInFrame,
    Resubscribed,
    /// A control message for a connection in mid-frame.
    ToldInFrame,
    /// History dropped for memory.
    Shed,
    /// Resumed over another format.
    Changed,
    /// A topic read in three formats or more at once, on one shard.
    Mixed,
    /// A compressed frame received; one that took more than one visit; one that refers to earlier ones.
    Compressed,
    CutCompressed,
    InContext,
    /// Events that compressing would not have made smaller.
    NotSmaller,
    /// A frame that came as a chunk, or as two; one of them that took more than one visit; the last chunk of a response.
    Chunked,
    CutChunk,
    LastChunk,
    /// A version received whole, and as a patch; one that took more than one visit; versions left out.
    Version,
    Patch,
    CutVersion,
    Conflated,
    /// A row received; a stream of columns that ended because rows changed, or some were lost; one that resumed after either.
    Columns,
    ColumnsChanged,
    ColumnsLost,
    ResumedChanged,
    ResumedLost,
    /// A frame of columns made; one that was made again after a drop; one too large to be kept. Rows received
    /// before, in the same bytes. The rest of a frame whose batch has left the history.
    ColumnsMade,
    ColumnsMadeAgain,
    ColumnsTooLarge,
    ColumnsShared,
    ColumnsOutlived,
    /// The end of a topic received; that of a one-way connection's last one.
    TopicEnd,
    LastTopicEnd,
    /// A page of a keyed topic received; one that took more than one visit; one of those that was kept for
    /// this reader alone.
    Page,
    CutPage,
    PageOutlived,
    /// A page that is older than the one before it.
    OlderPage,
    /// A page to a reader who lacks removals of keys that it never had.
    PageSpared,
    /// Pages to a reader who got frames of the hot tail before and after them.
    PageBetweenTails,
    /// A subscription that went on with a state that is not whole.
    ResumedInPages,
    /// A gap because removals were forgotten.
    RemovalsForgotten,
    /// Events of keys that an interval left out.
    ConflatedKeys,
    /// A visit to a reader that awaits parts of the state on another shard.
    AwaitsState,
    /// A page without keys after a gap.
    NoKeys,
    /// A part of the state that another shard got; a batch after one that had its first events; a shard that
    /// was too late, and began again.
    StatePart,
    BatchInState,
    FollowerOutdated,
    /// A connection with events of two keyed topics; of a keyed topic and a log.
    SeveralKeyed,
    KeyedAndLog,
}

impl Situation {
    pub(super) const ALL: [Self; 79] = [
        Self::Confirmation,
        Self::Event,
        Self::Slow,
        Self::Refused,
        Self::Trimmed,
        Self::LostInBroker,
        Self::OtherEpoch,
        Self::Unknown,
        Self::Closed,
        Self::MidBatch,
        Self::AfterHole,
        Self::InHole,
        Self::Backfill,
        Self::Backfilled,
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
        Self::PollUnanswered,
        Self::WindowShut,
        Self::Subscribed,
        Self::Settled,
        Self::Left,
        Self::LeftInFrame,
        Self::Resubscribed,
        Self::ToldInFrame,
        Self::Shed,
        Self::Changed,
        Self::Mixed,
        Self::Compressed,
        Self::CutCompressed,
        Self::InContext,
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
        Self::Page,
        Self::CutPage,
        Self::PageOutlived,
        Self::OlderPage,
        Self::PageSpared,
        Self::PageBetweenTails,
        Self::ResumedInPages,
        Self::RemovalsForgotten,
        Self::ConflatedKeys,
        Self::StatePart,
        Self::BatchInState,
        Self::AwaitsState,
        Self::NoKeys,
        Self::FollowerOutdated,
        Self::SeveralKeyed,
        Self::KeyedAndLog,
    ];
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    counts: BTreeMap<Situation, u64>,
    /// A digest of the bytes that all sockets took, in order.
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

    pub(super) fn count_of(&self, situation: Situation) -> u64 {
        self.counts.get(&situation).copied().unwrap_or(0)
    }

    pub(super) fn made_columns(&mut self, topic: usize, end: Offset) {
        let is_new = self.made_columns.insert((topic, end));
        self.saw_if(Situation::ColumnsMadeAgain, !is_new);
    }

    /// Rows were received. All clients receive the same bytes for the same rows.
    pub(super) fn received_rows(
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

    /// Adds bytes that a socket took to the digest, by which two runs are compared.
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
