//! What the server counts, for `/metrics`.
//!
//! Each shard counts in numbers of its own, and only its thread writes them; so does the thread that
//! fetches. So counting is a
//! plain load and a plain store, and no cache line is shared until somebody asks for the metrics.

mod metric;
mod query_costs;

use std::{
    fmt::{Display, Write},
    sync::Arc,
};

use thalweg_wire::{EndCode, ErrorCode, Pattern, close};

use crate::{
    audit::{Asker, Lines, is_audited},
    backend::{BackendCounts, Family, FamilyValue},
    process,
    refusal::Refusal,
};

use metric::Histogram;
pub(crate) use metric::Metric;
pub(crate) use query_costs::{QueryCost, QueryCosts};

/// The media type in Accept of a client that wants [`ExpositionFormat::OpenMetrics`], as
/// Prometheus does.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text";

/// How metrics are written. The two differ in the name of a counter's family, and in the last
/// line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpositionFormat {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4, which all its tools read.
    Text,
}

impl ExpositionFormat {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
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
        pub(crate) struct $table {
            $($(#[doc = $help])+ pub(crate) $name: Metric,)+
            $($(#[doc = $more_help])+ $more: $type,)*
        }

        impl $table {
            const ALL: &[Description] = &[$(Description {
                name: stringify!($name),
                help: concat!($($help),+).trim_ascii_start(),
                kind: Kind::$kind,
            },)+];

            /// The single numbers. The numbers by code, if there are some, follow them.
            fn singles(&self) -> [u64; Self::ALL.len()] {
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
        /// Topics that only subscribers hold: without events, or whose home has not answered.
        subscribed_topics: Gauge,
        /// Memory of retained batches, in bytes.
        history_bytes: Gauge,
        /// Memory of hot tails and of frames of columns, in bytes.
        tail_bytes: Gauge,
        /// Memory of trimmed batches that partly sent frames still need, in bytes.
        pinned_bytes: Gauge,
        /// Memory of events that were read back for subscribers, in bytes.
        recalled_bytes: Gauge,
        /// Subscribers whose socket is full.
        blocked_connections: Gauge,
        /// Sockets accepted.
        accepted: Counter,
        /// Connections whose peer was gone without a word: it acknowledged nothing for `peer-timeout`.
        peers_vanished: Counter,
        /// Subscriptions' connections taken over.
        subscribed: Counter,
        /// Events appended by this shard as their topics' home.
        events_published: Counter,
        /// Acts of subjects and addresses whose rates were not counted, because there were too many of these.
        rates_uncounted: Counter,
        /// Lines of the log about refusals that were left out, because there were too many in a second.
        audit_left_out: Counter,
        /// Topics that have ended: deleted, or gone upstream.
        topics_ended: Counter,
        /// Topics of streams that nobody read, and that gave way to others.
        topics_evicted: Counter,
        /// Batches sealed.
        batches_sealed: Counter,
        /// Turns that a shard took although more was coming in, because it had waited for that for too long.
        turns_forced: Counter,
        /// Pages of older events that were read back for subscribers.
        cold_reads: Counter,
        /// Patches made of versions of value topics.
        patches_made: Counter,
        /// Patches given up: too slow, larger than the document, or of what JSON readers change.
        patches_given_up: Counter,
        /// Frames of columns made: one for each batch that is read as columns.
        columns_frames: Counter,
        /// Values that could not be read as their columns are declared: they are null.
        columns_unreadable: Counter,
        /// Changes of an inferred schema, which end the streams of its readers.
        columns_changed: Counter,
        /// Visits to connections.
        visits: Counter,
        /// Send system calls.
        sends: Counter,
        /// Bytes sent to subscribers.
        sent_bytes: Counter,
        /// Sends that a full socket cut short.
        full_sends: Counter,
        /// Gaps announced, or topics ended under `policy=close`, because a subscriber fell behind.
        gaps_slow: Counter,
        /// Gaps announced, or topics ended under `policy=close`, because a cursor was older than the history.
        gaps_trimmed: Counter,
        /// Gaps announced because a cursor was of another epoch.
        gaps_epoch: Counter,
        /// Subscribers told that the newest version of a value topic is unknown.
        gaps_unknown: Counter,
        /// Most events that a subscriber whose socket is full is behind.
        lag_events_max: Gauge,
        /// HTTP/2 streams and answers to long polls among the connections.
        piped_connections: Gauge,
        /// Requests whose bodies are being read.
        requests: Gauge,
        /// Memory of requests' bodies that are being read, in bytes.
        body_bytes: Gauge,
        /// Memory of unfinished WebSocket messages, in bytes.
        unfinished_bytes: Gauge,
        /// Memory of answers that clients have not taken, in bytes.
        answer_bytes: Gauge,
        /// Memory of trimmed batches that only unread answers still need, in bytes.
        answer_pinned_bytes: Gauge,
        /// Connections ended because they held most of either when it was too much.
        answers_cut: Counter,
        /// HTTP/2 streams refused because their connection had as many as it may.
        h2_refused_streams: Counter,
        /// HTTP/2 connections ended for resetting streams or for other misuse.
        h2_misuses: Counter,
        /// TLS handshakes that failed or took too long.
        tls_failures: Counter,
        /// Tickets that are void because their token was given too many newer ones.
        tickets_replaced: Counter,
        /// Publishes answered from memory, their idempotency keys being known.
        retries_replayed: Counter,
        /// Acks received as commands.
        acks: Counter,
        /// Heartbeats sent.
        heartbeats: Counter,
        /// Sources that do not tick because nobody subscribes to their topics.
        sources_idle: Gauge,
        /// Queries whose rows are topics.
        queries: Gauge,
        /// Those that cannot run over the events that there are: the log says why.
        queries_failed: Gauge,
        /// Queries of clients that were read or planned.
        queries_planned: Counter,
        /// Time that this took.
        query_planning_seconds: MicrosTotal,
        /// Events that queries have read.
        query_events: Counter,
        /// Rows that queries have made.
        query_rows: Counter,
        /// Events whose window was over when they came, each once for each window.
        query_late: Counter,
        /// Events whose time was further ahead of when they were published than it may be.
        query_ahead: Counter,
        /// Windows, events and rows that are lost because of a bound (groups, memory, open windows, the size of a row), and
        /// events over which a query cannot run.
        query_refused: Counter,
        /// Texts that were longer than an expression of a query may read or make. They are NULL there.
        query_oversized: Counter,
        /// Casts, operations, functions and sums of queries that had no result, such as CAST('x' AS INT) and 1 / 0. They are
        /// NULL.
        query_without_result: Counter,
        /// Steps that queries took.
        query_steps: Counter,
        /// Values that could not be read as their columns' types. They are NULL.
        query_unreadable: Counter,
        /// Events without a time, which are in no window.
        query_without_time: Counter,
        /// How often columns of a query's source became wider, because an event did not fit them.
        query_changes: Counter,
        /// Windows that were not emitted, because events that were in them are lost, or a bound was reached.
        query_windows_lost: Counter,
        /// Ticks of sources.
        source_ticks: Counter,
        /// Ticks of sources that were over 1 ms late.
        source_ticks_late: Counter,
        /// Largest lateness of a source's tick.
        source_lateness_seconds_max: Micros,
    }
    /// Refusals by code.
    refused: [Metric; ErrorCode::ALL.len()],
    /// Closes by code.
    closed: [Metric; close::ALL.len()],
    /// Queries that exceeded a limit, by the code with which they end.
    overruns: [Metric; EndCode::ALL.len()],
    /// Lines of the log about refusals, by code.
    lines: [Lines; ErrorCode::ALL.len()],
    /// How long events took to be sent.
    delivery: Histogram,
    /// By the pattern of the topic, in the order in which they were given.
    by_pattern: Box<[PatternCounts]>,
}

counts! {
    /// The counts of the topics of one pattern, on one shard.
    PatternCounts {
        /// Topics of a pattern, each on its home shard.
        pattern_topics: Gauge,
        /// Subscriptions to topics of a pattern.
        pattern_subscriptions: Gauge,
        /// Events of topics of a pattern: published here, or brought by the backend.
        pattern_events: Counter,
    }
}

counts! {
    /// The counts of the keys at the URL of an issuer. Only the thread that reads them counts in them.
    KeyCounts {
        /// Keys at --jwks-url by which tokens are verified.
        jwks_keys: Gauge,
        /// Keys at --jwks-url that are not used: the log says why.
        jwks_keys_skipped: Gauge,
        /// Times that the keys at --jwks-url could not be read. Those from before stay.
        jwks_errors: Counter,
    }
}

counts! {
    /// The counts of one upstream. Only the thread that fetches counts in them.
    UpstreamCounts {
        /// Topics that are fetched.
        upstream_topics: Gauge,
        /// Fetches under way.
        upstream_in_flight: Gauge,
        /// Topics that are due and wait because of a limit of fetches.
        upstream_waiting: Gauge,
        /// Fetches that were seen to wait although there was room (once a second): their address, or keys that were never answered, have their part of it.
        upstream_held_back: Counter,
        /// Fetches begun.
        upstream_fetches: Counter,
        /// Fetches answered with 304: the document was the known one.
        upstream_not_modified: Counter,
        /// Fetches that brought the known document again.
        upstream_unchanged: Counter,
        /// Bytes of documents, as they were sent.
        upstream_bytes: Counter,
        /// Fetches answered with: there is no such document.
        upstream_gone: Counter,
        /// Topics that were not fetched because it was remembered that there is no such document.
        upstream_gone_remembered: Counter,
        /// Fetches that failed.
        upstream_errors: Counter,
        /// Fetches that failed because they took too long.
        upstream_timeouts: Counter,
        /// Fetches that failed because the document is larger than it may be.
        upstream_too_large: Counter,
        /// Fetches that failed because of a redirect to another host, or too many of them.
        upstream_redirects_refused: Counter,
        /// Longest time since a topic that is fetched was answered.
        upstream_age_seconds_max: Micros,
    }
}

impl Counts {
    /// One more refusal.
    pub(crate) fn count_refused(&self, code: ErrorCode) {
        self.refused[code as usize].add(1);
    }

    /// Counts a refusal, and writes a line about it.
    pub(crate) fn refuse(&self, refusal: &Refusal, asker: Asker<'_>) {
        self.count_refused(refusal.code);
        if is_audited(refusal.code) && !self.lines[refusal.code as usize].write(refusal, asker) {
            self.audit_left_out.add(1);
        }
    }

    /// A query has exceeded the limit with this code.
    pub(crate) fn count_overrun(&self, code: EndCode) {
        if let Some(index) = EndCode::ALL.iter().position(|known| *known == code) {
            self.overruns[index].add(1);
        }
    }

    /// A send was taken whose oldest event was published so long ago.
    pub(crate) fn count_sent(&self, age_us: u64) {
        self.delivery.add(age_us);
    }

    /// The counts of a pattern's topics.
    pub(crate) fn of_pattern(&self, pattern: usize) -> &PatternCounts {
        &self.by_pattern[pattern]
    }

    /// One more connection closed with a code.
    pub(crate) fn count_closed(&self, code: u16) {
        if let Some(index) = close::ALL.iter().position(|close| close.code == code) {
            self.closed[index].add(1);
        }
    }
}

struct Description {
    name: &'static str,
    help: &'static str,
    kind: Kind,
}

const REFUSED: Description =
    Description { name: "refused", help: "Requests and commands refused.", kind: Kind::Counter };

const CLOSED: Description =
    Description { name: "closed", help: "Connections closed.", kind: Kind::Counter };

const OVERRUNS: Description = Description {
    name: "query_limits",
    help: "Times that a query exceeded a limit of its cost, and ended or lost an event.",
    kind: Kind::Counter,
};

/// Of each query.
const QUERY_COSTS: [Description; 4] = [
    Description { name: "query_cost_steps", help: "Steps that a query took.", kind: Kind::Counter },
    Description {
        name: "query_cost_seconds",
        help: "Time that a query took.",
        kind: Kind::MicrosTotal,
    },
    Description {
        name: "query_memory_bytes",
        help: "Memory that a query holds, in bytes.",
        kind: Kind::Gauge,
    },
    Description {
        name: "query_null_results",
        help: "Casts, operations, functions and sums of a query that had no result, and are NULL.",
        kind: Kind::Counter,
    },
];

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    /// A gauge that is counted in µs and shown in seconds.
    Micros,
    /// A counter of this kind.
    MicrosTotal,
}

/// All counts.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    shards: Arc<[Arc<Counts>]>,
    /// Of each query.
    pub(crate) queries: Arc<QueryCosts>,
    /// Of topics.
    patterns: Arc<[Pattern]>,
    /// By the pattern of the upstream.
    upstreams: Arc<[(Pattern, Arc<UpstreamCounts>)]>,
    /// Counts of the keys of signed tokens.
    pub(crate) keys: Arc<KeyCounts>,
    backend: Option<Arc<dyn BackendCounts>>,
    /// What was built.
    version: &'static str,
}

impl Metrics {
    /// For this many shards, topics by these patterns, these upstreams, and a backend.
    pub(crate) fn new<'a>(
        version: &'static str,
        shards: usize,
        patterns: Vec<Pattern>,
        upstreams: impl Iterator<Item = &'a Pattern>,
        backend: Option<Arc<dyn BackendCounts>>,
    ) -> Self {
        let counts = |_| {
            let by_pattern = patterns.iter().map(|_| PatternCounts::default()).collect();
            Arc::new(Counts { by_pattern, ..Counts::default() })
        };
        Self {
            shards: (0..shards).map(counts).collect(),
            queries: Arc::default(),
            upstreams: upstreams.map(|pattern| (pattern.clone(), Arc::default())).collect(),
            patterns: patterns.into(),
            keys: Arc::default(),
            backend,
            version,
        }
    }

    /// A shard's counts. Only its thread may count in them.
    pub(crate) fn of(&self, shard: usize) -> Arc<Counts> {
        Arc::clone(&self.shards[shard])
    }

    /// The upstreams' counts, in their order. Only the thread that fetches may count in them.
    pub(crate) fn of_upstreams(&self) -> Vec<Arc<UpstreamCounts>> {
        self.upstreams.iter().map(|(_, counts)| Arc::clone(counts)).collect()
    }

    /// All counts.
    pub(crate) fn text(&self, form: ExpositionFormat) -> String {
        let mut out = String::new();
        let sum = |of: &dyn Fn(&Counts) -> u64| self.shards.iter().map(|counts| of(counts)).sum();
        let refused = |index: usize| sum(&|counts| counts.refused[index].get());
        let codes = ErrorCode::ALL.iter().map(|code| code.name()).zip((0..).map(refused));
        family(&mut out, form, &REFUSED, "code", codes);
        let closed = |index: usize| sum(&|counts| counts.closed[index].get());
        let codes = close::ALL.iter().map(|close| close.code).zip((0..).map(closed));
        family(&mut out, form, &CLOSED, "code", codes);
        let overrun = |index: usize| sum(&|counts| counts.overruns[index].get());
        let codes = EndCode::ALL.iter().map(|code| code.name()).zip((0..).map(overrun));
        let codes = codes.filter(|(code, _)| code.starts_with("query_"));
        family(&mut out, form, &OVERRUNS, "limit", codes);
        let costs = self.queries.all();
        for (index, description) in QUERY_COSTS.iter().enumerate() {
            let of_queries = costs.iter().map(|(topic, cost)| (topic, cost[index]));
            if !costs.is_empty() {
                family(&mut out, form, description, "query", of_queries);
            }
        }
        let singles: Vec<_> = self.shards.iter().map(|counts| counts.singles()).collect();
        for (index, description) in Counts::ALL.iter().enumerate() {
            let of_shards = singles.iter().map(|values| values[index]).enumerate();
            family(&mut out, form, description, "shard", of_shards);
        }
        let of_pattern = |pattern: usize| {
            let singles = self.shards.iter().map(|counts| counts.by_pattern[pattern].singles());
            singles.reduce(|sum, of_shard| std::array::from_fn(|it| sum[it] + of_shard[it]))
        };
        let singles: Vec<_> = (0..self.patterns.len()).filter_map(of_pattern).collect();
        for (index, description) in PatternCounts::ALL.iter().enumerate() {
            let of_patterns = self.patterns.iter().zip(singles.iter().map(|values| values[index]));
            family(&mut out, form, description, "pattern", of_patterns);
        }
        let delivery = Family {
            name: "delivery_seconds",
            help: "Time from when the oldest event of a send was published until the kernel had \
                   taken the send, of subscribers that had everything before.",
            value: FamilyValue::Histogram {
                bounds: Histogram::bounds(),
                counts: (0..Histogram::BUCKETS)
                    .map(|bucket| sum(&|counts| counts.delivery.counts[bucket].get()))
                    .collect(),
                sum: sum(&|counts| counts.delivery.sum_us.get()) as f64 / 1e6,
            },
        };
        backend_family(&mut out, form, &delivery);
        let singles: Vec<_> =
            self.upstreams.iter().map(|(pattern, counts)| (pattern, counts.singles())).collect();
        for (index, description) in UpstreamCounts::ALL.iter().enumerate() {
            let of_upstreams = singles.iter().map(|(pattern, values)| (pattern, values[index]));
            if !singles.is_empty() {
                family(&mut out, form, description, "upstream", of_upstreams);
            }
        }
        for (&Description { name, help, kind }, count) in
            KeyCounts::ALL.iter().zip(self.keys.singles())
        {
            let value = match kind {
                Kind::Counter | Kind::MicrosTotal => FamilyValue::Counter(count),
                Kind::Gauge | Kind::Micros => FamilyValue::Gauge(count as f64),
            };
            backend_family(&mut out, form, &Family { name, help, value });
        }
        for of_backend in self.backend.iter().flat_map(|counts| counts.families()) {
            backend_family(&mut out, form, &of_backend);
        }
        out += &process::text(self.version, form == ExpositionFormat::OpenMetrics);
        if form == ExpositionFormat::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

/// Appends a family of a backend.
fn backend_family(out: &mut String, form: ExpositionFormat, family: &Family) {
    let Family { name, help, value } = family;
    let (type_name, suffix) = match value {
        FamilyValue::Counter(_) => ("counter", "_total"),
        FamilyValue::Gauge(_) => ("gauge", ""),
        FamilyValue::Histogram { .. } => ("histogram", ""),
    };
    let of_family = if form == ExpositionFormat::Text { suffix } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP thalweg_{name}{of_family} {help}");
    let _ = writeln!(out, "# TYPE thalweg_{name}{of_family} {type_name}");
    let _ = match value {
        FamilyValue::Counter(count) => writeln!(out, "thalweg_{name}{suffix} {count}"),
        FamilyValue::Gauge(value) => writeln!(out, "thalweg_{name} {value}"),
        FamilyValue::Histogram { bounds, counts, sum } => {
            let mut total = 0;
            for (bound, count) in bounds.iter().map(f64::to_string).zip(counts) {
                total += count;
                let _ = writeln!(out, "thalweg_{name}_bucket{{le=\"{bound}\"}} {total}");
            }
            total = counts.iter().sum();
            let _ = writeln!(out, "thalweg_{name}_bucket{{le=\"+Inf\"}} {total}");
            writeln!(out, "thalweg_{name}_sum {sum}\nthalweg_{name}_count {total}")
        }
    };
}

/// Appends a family: for each sample its label's value, and its number. Names and labels are
/// our own words, or patterns, whose grammar has no quotes: nothing needs escaping.
fn family<L: Display>(
    out: &mut String,
    form: ExpositionFormat,
    &Description { name, help, kind }: &Description,
    label: &str,
    samples: impl Iterator<Item = (L, u64)>,
) {
    let (type_name, suffix) = match kind {
        Kind::Counter | Kind::MicrosTotal => ("counter", "_total"),
        Kind::Gauge | Kind::Micros => ("gauge", ""),
    };
    // OpenMetrics calls the family as its samples without their suffix.
    let of_family = if form == ExpositionFormat::Text { suffix } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP thalweg_{name}{of_family} {help}");
    let _ = writeln!(out, "# TYPE thalweg_{name}{of_family} {type_name}");
    for (labelled, value) in samples {
        let _ = write!(out, "thalweg_{name}{suffix}{{{label}=\"{labelled}\"}} ");
        let _ = match kind {
            Kind::Counter | Kind::Gauge => writeln!(out, "{value}"),
            Kind::Micros | Kind::MicrosTotal => writeln!(out, "{}", value as f64 / 1e6),
        };
    }
}
