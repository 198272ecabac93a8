//! The contract of a broker.

use std::sync::Arc;

use thalweg_core::stream::FeedKind;
use thalweg_wire::{Epoch, Offset, Pattern};

use crate::{
    Append, AppendError, BoxFuture, BrokerCounts, Follower, NoCounts, ReadPage, ReadRange, Stored,
    Tickets, TopicIndex, Unreadable,
};

/// The lowest offset of a record. A query numbers rows by blocks of 256 source offsets; the first block
/// is "before everything".
pub const OFFSET_FIRST: Offset = 256;

/// A stream as a server finds it when it starts.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The pattern of its topics. If patterns of several streams match a topic, the first stream has it.
    pub pattern: Pattern,
    /// The kind of its topics. The broker keeps the newest record of a value topic until it ends, and the newest event of each key of a
    /// keyed topic.
    pub kind: FeedKind,
    /// The incarnation of the stream. The same offset in another epoch is another event. A stream that lost records
    /// that a server may have read gets a new epoch.
    pub epoch: Epoch,
    /// [`Broker::follow`] delivers all records from this offset on. [`Broker::read`] reads older records.
    pub from: Offset,
    /// Maximum number of events of a record, at least 1.
    pub events_max: usize,
    /// Maximum size of a record's events in bytes, with a separator between two.
    pub bytes_max: usize,
    /// Maximum number of appends with a key that are in flight for a topic, at least 1. Other appends to a topic are
    /// never in flight together: the server waits for each.
    pub in_flight_max: usize,
    /// Whether several servers append to its topics. A condition on a key of such a topic then needs [`CompareAndSet`].
    pub is_shared: bool,
}

impl Stream {
    /// Returns a stream of one server with bounds that suit any broker: 256 events, 1 MiB, and one append in flight.
    pub fn new(pattern: Pattern, kind: FeedKind, epoch: Epoch, from: Offset) -> Self {
        let (events_max, bytes_max, in_flight_max, is_shared) = (256, 1 << 20, 1, false);
        Self { pattern, kind, epoch, from, events_max, bytes_max, in_flight_max, is_shared }
    }
}

/// A system that orders and stores topics.
///
/// **Keyed topics** are an optional capability: a broker that has it has streams of the kind [`FeedKind::Keyed`]. Each
/// event in them has a key, and perhaps a time at which its key expires. The broker delivers and reads events with both, and never
/// removes the newest event of a key, unless that is a removal (`null`), before the topic ends. Other events may be missing from a
/// page. A removal may be missing after ten minutes, and [`ReadPage::compacted`] then says so. A page may have events from before an
/// end; [`ReadPage::stored_from`] of a later page of the same range is then after the end.
///
/// The server knows the newest event of each key, and checks the conditions of publishers itself. If the stream has one server
/// ([`Stream::is_shared`]), a record whose outcome is unknown is never delivered to the server that has the answer. Otherwise the
/// server appends an event with a condition only if the topic has no newer record than those that it knows ([`CompareAndSet`]).
///
/// A server opens a broker in a runtime of its own, calls [`Self::follow`] once, and all other methods at any time and
/// concurrently. A "crash" may be that of this server, of the broker, or of the connection between them. A future may
/// be dropped at any await, which is a crash of this server for that call.
pub trait Broker: Send + Sync + 'static {
    /// Returns the streams. Called once, before all other methods.
    fn streams(&self) -> Vec<Stream>;

    /// Returns the metrics, which `/metrics` shows. Called once.
    fn counts(&self) -> Arc<dyn BrokerCounts> {
        Arc::new(NoCounts)
    }

    /// Appends a record to its topic.
    ///
    /// - `Ok`: the record is stored as durably as the broker is configured, and survives a crash. All followers of the stream
    ///   get it exactly once, also if they start or reconnect later, at [`Stored::first`] and the following offsets, until it is
    ///   trimmed. A record appended after this answer has a larger offset.
    /// - [`AppendError::Unknown`]: the record may be stored, or may still be stored. With a key the caller may append it again.
    /// - Any other error: the record is not stored and never will be by this call.
    ///
    /// A crash before the answer has the same meaning as `Unknown`.
    ///
    /// **Events** of a record get consecutive offsets in order. All are stored, or none.
    ///
    /// **With a key** the record has one event. The broker remembers keys for at least five minutes, across crashes, for all
    /// servers. An append with the same key, topic and event is not stored a second time: the answer has the first offset and
    /// [`Stored::is_repetition`], even if the event was trimmed since. The same key with another event is
    /// [`AppendError::KeyReused`]. Two appends with the same key in flight at a time store one record.
    /// [`IdempotencyKeys`](crate::IdempotencyKeys) does this for a broker that reads its own records when it starts.
    ///
    /// **An end** ([`Content::End`](crate::Content::End)) makes earlier records of its topic unreadable at once; the broker may
    /// remove them. Records after the end belong to another topic of the same name.
    fn append(&self, append: Append) -> impl Future<Output = Result<Stored, AppendError>> + Send;

    /// Reads records of a topic, the oldest first, including those that were delivered.
    ///
    /// The page is a prefix of the range, and may be all of it ([`ReadPage::is_whole`]). A page that is not whole has at
    /// least one record or hole. Records that were answered by `Ok` or delivered before the call are in it, unless they are
    /// older than [`ReadPage::stored_from`], or lost by damage and in [`ReadPage::holes`]. The page of an empty range has no records, and says how
    /// far the stream is. [`PageBuilder`](crate::PageBuilder) makes such a page of records.
    ///
    /// # Errors
    /// [`Unreadable`] if that cannot be guaranteed now, for instance because the replica that answers lags behind, or
    /// the stream has another epoch. The caller tries again later. A crash changes nothing.
    fn read(&self, range: ReadRange) -> impl Future<Output = Result<ReadPage, Unreadable>> + Send;

    /// Reads the newest record of a value topic, as [`Self::read`] does; no record if it is older than `range.from`.
    /// `range.until` has no meaning. If a newer record may be lost, the page has no record, and [`ReadPage::stored_from`] is
    /// after the loss.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn newest(&self, range: ReadRange)
    -> impl Future<Output = Result<ReadPage, Unreadable>> + Send;

    /// Delivers the records of all streams to `follower`, from [`Stream::from`] on, in the order of their offsets, each
    /// once. It may skip a value topic's record if there is a newer record.
    ///
    /// The broker reconnects by itself and continues where it was. If it cannot, because records were lost or trimmed
    /// before delivery, or the stream was created again, it says so ([`Follower::restarted`]) before it
    /// delivers another record of that stream: a gap is never silent. It reports when it has caught up with all
    /// records, and when it is behind for some time or cannot know ([`Follower::set_ready`]).
    ///
    /// A slow follower slows the broker down: it delivers one record of a stream after the other, and holds a bounded
    /// number of records that it has read ahead.
    ///
    /// Runs until it cannot continue, and returns the reason in one sentence. The server ends then.
    fn follow<F: Follower>(&self, follower: F) -> impl Future<Output = String> + Send;

    /// Appends under a condition, if the broker can. Without this capability each server fetches documents for itself, and only
    /// events close windows of queries.
    fn compare_and_set(&self) -> Option<&dyn CompareAndSet> {
        None
    }

    /// Lists its topics, if the broker can. Without this capability a server lists those that it has read or got an event of since
    /// it started.
    fn topic_index(&self) -> Option<&dyn TopicIndex> {
        None
    }

    /// Keeps tickets, if the broker can and is configured to.
    fn tickets(&self) -> Option<&dyn Tickets> {
        None
    }
}

/// Appends that depend on the newest record of a topic.
pub trait CompareAndSet: Sync {
    /// Appends a record if the newest record of its topic, including an end or a pause, begins at `newest`. 0 means that the
    /// topic has no record.
    ///
    /// At most one of several concurrent calls with the same `newest`, on all servers, stores its record. After a crash before
    /// the answer the outcome is unknown, and the same call again is safe: it stores no record if the first call did.
    ///
    /// # Errors
    /// As [`Broker::append`], and [`AppendError::Outdated`].
    fn append_after(
        &self,
        append: Append,
        newest: Offset,
    ) -> BoxFuture<'_, Result<Stored, AppendError>>;
}
