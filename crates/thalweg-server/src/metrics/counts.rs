//! The counts of a shard, of a pattern's topics, of an upstream, and of an issuer's keys.

use thalweg_wire::{EndCode, ErrorCode, close};

use super::{
    exposition::{Description, MetricKind},
    metric::{Histogram, Metric},
};
use crate::{
    audit::{AuditLines, RequestOrigin, is_audited},
    refusal::Refusal,
};

/// The transport of a subscriber's connection, as metrics name it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CountedTransport {
    WebSocket,
    Sse,
    HttpStreaming,
    ForeverFrame,
    LongPolling,
    /// HTTP streaming of columns.
    Arrow,
}

impl CountedTransport {
    pub(crate) const NAMES: [&str; 6] =
        ["websocket", "sse", "http-streaming", "forever-frame", "long-polling", "arrow"];
}

/// One entry for each code. The standard library has no `Default` for arrays of this length.
#[derive(Debug)]
pub(super) struct ByCode<T>(pub(super) [T; ErrorCode::ALL.len()]);

impl<T: Default> Default for ByCode<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

macro_rules! counts {
    (
        $(#[doc = $doc:literal])+ $table:ident {
            $($(#[doc = $help:literal])+ $name:ident: $kind:ident,)+
        }
        $($(#[doc = $more_help:literal])+ $more:ident: $type:ty,)*
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Default)]
        // Each shard writes its own: those of two shards must not share a line of a cache, or two that are fetched together.
        #[repr(align(128))]
        pub(crate) struct $table {
            $($(#[doc = $help])+ pub(crate) $name: Metric,)+
            $($(#[doc = $more_help])+ pub(super) $more: $type,)*
        }

        impl $table {
            pub(super) const ALL: &[Description] = &[$(Description {
                name: stringify!($name),
                help: concat!($($help),+).trim_ascii_start(),
                kind: MetricKind::$kind,
            },)+];

            /// Returns the single numbers. The numbers by code, if any, follow them.
            pub(super) fn singles(&self) -> [u64; Self::ALL.len()] {
                [$(self.$name.get(),)+]
            }
        }
    };
}

counts! {
    /// One shard's counts.
    Counts {
        /// Subscribers' connections.
        connections: Gauge,
        /// Topics with a log on this shard.
        topics: Gauge,
        /// Topics that have subscribers and no events, or whose owner shard has not answered yet.
        subscribed_topics: Gauge,
        /// Memory of histories, in bytes.
        history_bytes: Gauge,
        /// Keys of keyed topics.
        keys: Gauge,
        /// Keys that were removed because they expired.
        keys_expired: Counter,
        /// Removals of keys that were forgotten before ten minutes had passed, for want of room. Clients that were away since before that
        /// begin again.
        removals_forgotten: Counter,
        /// Subscriptions that were refused because the different filters of keys had no room.
        filters_refused: Counter,
        /// Members of topics with presence.
        members: Gauge,
        /// Members that are not listed, because their topic has as many as allowed, or the server has no room. A number of members without
        /// room counts once.
        members_refused: Counter,
        /// Times that too many members of a topic left while their events waited for a broker. The server compares all members of the
        /// topic afterwards.
        members_unnoted: Counter,
        /// Members whose events were compared with the servers that run.
        members_compared: Counter,
        /// Seconds in which a shard had more members to compare than it may. It compares the rest later.
        members_compared_later: Counter,
        /// Memory of the newest events of all keys, in bytes. It is a part of the histories.
        keyed_bytes: Gauge,
        /// Memory of the newest frames that subscribers share, and of frames of columns, in bytes.
        tail_bytes: Gauge,
        /// Memory of old batches that only partly sent frames need, in bytes.
        pinned_bytes: Gauge,
        /// Memory of older events that were read from the broker for subscribers, in bytes.
        recalled_bytes: Gauge,
        /// Appends that brokers have not answered.
        stores_in_flight: Gauge,
        /// Memory of events and keys that brokers have not stored yet, in bytes.
        unstored_bytes: Gauge,
        /// Publishes that were given up, because their topic was removed before a broker stored them.
        stores_abandoned: Counter,
        /// Subscribers whose socket is full.
        blocked_connections: Gauge,
        /// Sockets accepted.
        accepted: Counter,
        /// Connections whose peer vanished: it acknowledged nothing for `peer-timeout`.
        peers_vanished: Counter,
        /// Connections that became subscribers.
        subscribed: Counter,
        /// Events published to topics of this shard.
        events_published: Counter,
        /// Requests that the rate limits did not count, because the maximum number of subjects or addresses was
        /// already tracked.
        rates_uncounted: Counter,
        /// Log lines about refusals that were omitted, because there were too many in a second.
        audit_left_out: Counter,
        /// Traces of subjects that are open.
        traces: Gauge,
        /// Traces refused because too many were open, or the server was shutting down.
        traces_refused: Counter,
        /// Lines left out of traces whose viewer read too slowly.
        trace_lines_dropped: Counter,
        /// Topics that have ended: deleted, or gone upstream.
        topics_ended: Counter,
        /// Topics of NATS streams without readers that were removed from memory to make room.
        topics_evicted: Counter,
        /// Batches completed.
        batches_sealed: Counter,
        /// Times that a shard sent events before it had read all input, because subscribers would have waited
        /// too long.
        turns_forced: Counter,
        /// Pages of older events read from the broker for subscribers.
        cold_reads: Counter,
        /// Patches made from versions of value topics.
        patches_made: Counter,
        /// Patches not sent: too slow to make, larger than the document, or of values that JSON parsers
        /// change.
        patches_given_up: Counter,
        /// Frames of columns made: one for each batch read as columns.
        columns_frames: Counter,
        /// Frames whose compressor was primed with older text first, because more contexts than compressors are in use,
        /// or the frame before was compressed alone.
        contexts_primed: Counter,
        /// Values that are not of their column's declared type: they are null.
        columns_unreadable: Counter,
        /// Changes of an inferred schema, which end the streams of its readers.
        columns_changed: Counter,
        /// Times that a shard handled a connection with data to send.
        visits: Counter,
        /// Send system calls.
        sends: Counter,
        /// Bytes sent to subscribers.
        sent_bytes: Counter,
        /// Sends cut short by a full socket.
        full_sends: Counter,
        /// Gaps, or subscriptions ended under `policy=close`, because a subscriber fell behind.
        gaps_slow: Counter,
        /// Gaps, or subscriptions ended under `policy=close`, because a cursor was older than the stored
        /// events.
        gaps_trimmed: Counter,
        /// Gaps because a cursor had another epoch.
        gaps_epoch: Counter,
        /// Gaps because the server did not have the newest version of a value topic.
        gaps_unknown: Counter,
        /// Largest number of events by which a subscriber with a full socket is behind.
        lag_events_max: Gauge,
        /// Subscribers' connections that are HTTP/2 streams or long polls.
        piped_connections: Gauge,
        /// Subscribers' connections of SignalR long polling, whether or not a poll is waiting.
        polled_connections: Gauge,
        /// Requests whose bodies are being read.
        requests: Gauge,
        /// Memory of request bodies being read, in bytes.
        body_bytes: Gauge,
        /// Memory of unfinished WebSocket messages, in bytes.
        unfinished_bytes: Gauge,
        /// Memory of unread responses, in bytes.
        answer_bytes: Gauge,
        /// Memory of old batches that only unread responses need, in bytes.
        answer_pinned_bytes: Gauge,
        /// Connections closed because of unread responses: together these exceeded a limit, or the client
        /// read nothing while others waited.
        answers_cut: Counter,
        /// HTTP/2 streams refused because their connection had too many.
        h2_refused_streams: Counter,
        /// HTTP/2 connections closed for resetting streams or for other misuse.
        h2_misuses: Counter,
        /// TLS handshakes that failed or took too long.
        tls_failures: Counter,
        /// Tickets that became invalid because their token got too many newer ones.
        tickets_replaced: Counter,
        /// Publishes answered from memory because of a known idempotency key.
        retries_replayed: Counter,
        /// Searches in stored events for where a subscription begins.
        start_searches: Counter,
        /// Searches for a start that failed or took too long.
        start_searches_failed: Counter,
        /// Acks received as commands.
        acks: Counter,
        /// Heartbeats sent.
        heartbeats: Counter,
        /// Sources that are idle because nobody subscribes to their topics.
        sources_idle: Gauge,
        /// Queries that run.
        queries: Gauge,
        /// Queries that cannot process the events of their topic: the log has the reasons.
        queries_failed: Gauge,
        /// Queries of clients that were parsed or planned.
        queries_planned: Counter,
        /// Time of parsing and planning queries of clients.
        query_planning_seconds: MicrosTotal,
        /// Events read by queries.
        query_events: Counter,
        /// Rows made by queries.
        query_rows: Counter,
        /// Late events, once for each ended window that they belong to.
        query_late: Counter,
        /// Events whose time was too far ahead of their publication.
        query_ahead: Counter,
        /// Windows, events and rows that queries left out because of a limit (groups, memory, open windows,
        /// the size of a row), and events that a query cannot process.
        query_refused: Counter,
        /// Texts too long for an expression of a query to read or make. They are NULL there.
        query_oversized: Counter,
        /// Casts, operations, functions and sums of queries without a result, such as CAST('x' AS INT) and 1 / 0. They
        /// are NULL.
        query_without_result: Counter,
        /// Steps of queries.
        query_steps: Counter,
        /// Values that are not of their column's type. They are NULL.
        query_unreadable: Counter,
        /// Events without a time, which belong to no window.
        query_without_time: Counter,
        /// Changes of a query's inferred source columns by an event that did not fit.
        query_changes: Counter,
        /// Windows not emitted because of lost events or a limit.
        query_windows_lost: Counter,
        /// Ticks of sources.
        source_ticks: Counter,
        /// Ticks of sources over 1 ms late.
        source_ticks_late: Counter,
        /// Events of sources that a broker did not store, or that may not be stored.
        source_events_refused: Counter,
        /// Longest delay of a source's tick.
        source_lateness_seconds_max: Micros,
    }
    /// Subscribers' connections by transport.
    transports: [Metric; CountedTransport::NAMES.len()],
    /// Refusals by code.
    refused: ByCode<Metric>,
    /// Closes by code.
    closed: [Metric; close::ALL.len()],
    /// Queries that exceeded a limit, by end code.
    overruns: [Metric; EndCode::ALL.len()],
    /// Log lines about refusals, by code.
    lines: ByCode<AuditLines>,
    /// Time from publication to sending of events.
    delivery: Histogram,
    /// Delay of the event loop.
    loop_delay: Histogram,
    /// By the pattern of the topic, in the configured order.
    by_pattern: Box<[PatternCounts]>,
}

counts! {
    /// The counts of the topics of one pattern, on one shard.
    PatternCounts {
        /// Topics of a pattern, each on its owner shard.
        pattern_topics: Gauge,
        /// Subscriptions to topics of a pattern.
        pattern_subscriptions: Gauge,
        /// Events of topics of a pattern: published here, or delivered by the broker.
        pattern_events: Counter,
    }
}

counts! {
    /// The counts of an issuer's published keys. Only the thread that reads the keys writes them.
    KeyCounts {
        /// Keys at --jwks-url that verify tokens.
        jwks_keys: Gauge,
        /// Unusable keys at --jwks-url: the log has the reasons.
        jwks_keys_skipped: Gauge,
        /// Failed reads of the keys at --jwks-url. Earlier keys stay valid.
        jwks_errors: Counter,
    }
}

counts! {
    /// The counts of one upstream. Only the fetching thread writes them.
    UpstreamCounts {
        /// Topics that are fetched.
        upstream_topics: Gauge,
        /// Fetches in flight.
        upstream_in_flight: Gauge,
        /// Topics that are due and wait because of a limit of fetches.
        upstream_waiting: Gauge,
        /// Topics that waited although fetches were free (sampled once a second), because the share of their
        /// address, or of topics without any answer, was used up.
        upstream_held_back: Counter,
        /// Fetches begun.
        upstream_fetches: Counter,
        /// Fetches answered with 304: the document has not changed.
        upstream_not_modified: Counter,
        /// Fetches that returned the known document again.
        upstream_unchanged: Counter,
        /// Bytes of documents, as sent by the upstream.
        upstream_bytes: Counter,
        /// Fetches whose document does not exist.
        upstream_gone: Counter,
        /// Topics not fetched because the server remembers that the upstream has no such document.
        upstream_gone_remembered: Counter,
        /// Failed fetches.
        upstream_errors: Counter,
        /// Fetches that failed because they took too long.
        upstream_timeouts: Counter,
        /// Fetches that failed because the document exceeds the size limit.
        upstream_too_large: Counter,
        /// Fetches that failed because of a redirect to another host, or too many redirects.
        upstream_redirects_refused: Counter,
        /// Longest time since the last answer for a fetched topic.
        upstream_age_seconds_max: Micros,
    }
}

impl Counts {
    /// Counts a refusal.
    pub(crate) fn count_refused(&self, code: ErrorCode) {
        self.refused.0[code as usize].add(1);
    }

    /// Counts a refusal, and logs it.
    pub(crate) fn refuse(&self, refusal: &Refusal, origin: RequestOrigin<'_>) {
        self.count_refused(refusal.code);
        if is_audited(refusal.code) && !self.lines.0[refusal.code as usize].write(refusal, origin) {
            self.audit_left_out.add(1);
        }
    }

    /// Counts a query that exceeded the limit with this code.
    pub(crate) fn count_overrun(&self, code: EndCode) {
        if let Some(index) = EndCode::ALL.iter().position(|known| *known == code) {
            self.overruns[index].add(1);
        }
    }

    /// Counts a send whose oldest event has this age.
    pub(crate) fn count_sent(&self, age_us: u64) {
        self.delivery.add(age_us);
    }

    /// Counts a timer of the event loop that fired this late.
    pub(crate) fn count_loop_delay(&self, late_us: u64) {
        self.loop_delay.add(late_us);
    }

    /// Returns the counts of a pattern's topics.
    pub(crate) fn pattern_counts(&self, pattern: usize) -> &PatternCounts {
        &self.by_pattern[pattern]
    }

    /// Returns the number of connections of a transport.
    pub(crate) fn transport(&self, transport: CountedTransport) -> &Metric {
        &self.transports[transport as usize]
    }

    /// Returns the numbers of connections in the order of [`CountedTransport::NAMES`].
    pub(super) fn of_transports(&self) -> impl Iterator<Item = u64> {
        self.transports.iter().map(Metric::get)
    }

    /// Counts a connection closed with a code.
    pub(crate) fn count_closed(&self, code: u16) {
        if let Some(index) = close::ALL.iter().position(|close| close.code == code) {
            self.closed[index].add(1);
        }
    }
}
