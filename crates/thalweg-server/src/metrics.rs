//! The server's counts, for `/metrics`.
//!
//! Each shard has its own numbers, which only its thread writes, and so has the fetching thread. Counting is therefore
//! a plain load and a plain store, and no cache line is shared until somebody reads the metrics.

mod metric;
mod query_costs;

use std::{
    collections::HashSet,
    fmt::{Display, Write},
    sync::Arc,
};

use thalweg_broker::{BrokerCounts, Family, FamilyValue};
use thalweg_wire::{EndCode, ErrorCode, Pattern, close};

use crate::{
    audit::{AuditLines, RequestOrigin, is_audited},
    process,
    refusal::Refusal,
};

use metric::Histogram;
pub(crate) use metric::Metric;
pub(crate) use query_costs::{QueryCost, QueryCosts};

/// The media type in Accept of a client that accepts [`ExpositionFormat::OpenMetrics`], such as Prometheus.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text";

/// The format of metrics. The two differ in the name of a counter's family, and in the last line.
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

            /// Returns the single numbers. The numbers by code, if any, follow them.
            fn singles(&self) -> [u64; Self::ALL.len()] {
                [$(self.$name.get(),)+]
            }
        }
    };
}

/// One value for each code.
#[derive(Debug)]
struct PerCode<T>([T; ErrorCode::ALL.len()]);

impl<T: Default> Default for PerCode<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

impl<T> PerCode<T> {
    fn at(&self, code: ErrorCode) -> &T {
        &self.0[code as usize]
    }
}

counts! {
    /// One shard's counts.
    Counts {
        /// Subscribers' connections.
        connections: Gauge,
        /// Topics with a log on this shard.
        topics: Gauge,
        /// Topics that only subscribers hold: without events, or before their owner shard has answered.
        subscribed_topics: Gauge,
        /// Memory of retained batches, in bytes.
        history_bytes: Gauge,
        /// Memory of hot tails and of frames of columns, in bytes.
        tail_bytes: Gauge,
        /// Memory of trimmed batches that partly sent frames still need, in bytes.
        pinned_bytes: Gauge,
        /// Memory of events backfilled for subscribers, in bytes.
        recalled_bytes: Gauge,
        /// Publishes that brokers have not answered, as messages.
        stores_in_flight: Gauge,
        /// Memory of events that brokers have not stored yet, in bytes.
        unstored_bytes: Gauge,
        /// Publishes to brokers that were abandoned with their topic.
        stores_abandoned: Counter,
        /// Subscribers whose socket is full.
        blocked_connections: Gauge,
        /// Sockets accepted.
        accepted: Counter,
        /// Connections whose peer vanished: it acknowledged nothing for `peer-timeout`.
        peers_vanished: Counter,
        /// Subscriptions' connections taken over.
        subscribed: Counter,
        /// Events appended by this shard as their topics' owner shard.
        events_published: Counter,
        /// Actions of subjects and addresses that rate limits did not count, because there were too many of these.
        rates_uncounted: Counter,
        /// Omitted log lines about refusals, because of too many in a second.
        audit_left_out: Counter,
        /// Topics that have ended: deleted, or gone upstream.
        topics_ended: Counter,
        /// Unread topics of streams that were evicted for others.
        topics_evicted: Counter,
        /// Batches sealed.
        batches_sealed: Counter,
        /// Turns that a shard took while input was still coming, because it had waited too long.
        turns_forced: Counter,
        /// Pages of older events backfilled for subscribers.
        cold_reads: Counter,
        /// Patches made of versions of value topics.
        patches_made: Counter,
        /// Patches given up: too slow, larger than the document, or of values that JSON parsers change.
        patches_given_up: Counter,
        /// Frames of columns made: one for each batch read as columns.
        columns_frames: Counter,
        /// Values that are not of their column's declared type: they are null.
        columns_unreadable: Counter,
        /// Changes of an inferred schema, which end the streams of its readers.
        columns_changed: Counter,
        /// Visits to connections.
        visits: Counter,
        /// Send system calls.
        sends: Counter,
        /// Bytes sent to subscribers.
        sent_bytes: Counter,
        /// Sends cut short by a full socket.
        full_sends: Counter,
        /// Gaps announced, or topics ended under `policy=close`, because a subscriber fell behind.
        gaps_slow: Counter,
        /// Gaps announced, or topics ended under `policy=close`, because a cursor was older than the history.
        gaps_trimmed: Counter,
        /// Gaps announced because a cursor had another epoch.
        gaps_epoch: Counter,
        /// Subscribers told that the newest version of a value topic is unknown.
        gaps_unknown: Counter,
        /// Most events that a subscriber with a full socket is behind.
        lag_events_max: Gauge,
        /// HTTP/2 streams and answers to long polls among the connections.
        piped_connections: Gauge,
        /// Connections that send by the answers to polls, with or without a poll that waits.
        polled_connections: Gauge,
        /// Requests whose bodies are being read.
        requests: Gauge,
        /// Memory of request bodies being read, in bytes.
        body_bytes: Gauge,
        /// Memory of unfinished WebSocket messages, in bytes.
        unfinished_bytes: Gauge,
        /// Memory of unread answers, in bytes.
        answer_bytes: Gauge,
        /// Memory of trimmed batches that only unread answers still need, in bytes.
        answer_pinned_bytes: Gauge,
        /// Connections closed for their unread answers: they held most above a limit, or read nothing while other
        /// histories waited.
        answers_cut: Counter,
        /// HTTP/2 streams refused because their connection had the maximum.
        h2_refused_streams: Counter,
        /// HTTP/2 connections closed for resetting streams or for other misuse.
        h2_misuses: Counter,
        /// TLS handshakes that failed or took too long.
        tls_failures: Counter,
        /// Tickets voided because their token got too many newer ones.
        tickets_replaced: Counter,
        /// Publishes answered from memory because of a known idempotency key.
        retries_replayed: Counter,
        /// Acks received as commands.
        acks: Counter,
        /// Heartbeats sent.
        heartbeats: Counter,
        /// Sources that are idle because nobody subscribes to their topics.
        sources_idle: Gauge,
        /// Queries whose rows are topics.
        queries: Gauge,
        /// Queries that cannot run over their events: the log has the reasons.
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
        /// Windows, events and rows lost because of a bound (groups, memory, open windows, the size of a row), and
        /// events over which a query cannot run.
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
        /// Windows not emitted because of lost events or a bound.
        query_windows_lost: Counter,
        /// Ticks of sources.
        source_ticks: Counter,
        /// Ticks of sources over 1 ms late.
        source_ticks_late: Counter,
        /// Largest lateness of a source's tick.
        source_lateness_seconds_max: Micros,
    }
    /// Refusals by code.
    refused: PerCode<Metric>,
    /// Closes by code.
    closed: [Metric; close::ALL.len()],
    /// Queries that exceeded a limit, by end code.
    overruns: [Metric; EndCode::ALL.len()],
    /// Log lines about refusals, by code.
    lines: PerCode<AuditLines>,
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
        /// Fetches seen waiting although there was room (sampled once a second): the share of their address, or of keys
        /// without any answer, is used up.
        upstream_held_back: Counter,
        /// Fetches begun.
        upstream_fetches: Counter,
        /// Fetches answered with 304: the document has not changed.
        upstream_not_modified: Counter,
        /// Fetches that returned the known document again.
        upstream_unchanged: Counter,
        /// Bytes of documents, as sent by the upstream.
        upstream_bytes: Counter,
        /// Fetches answered with: no such document.
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
        self.refused.at(code).add(1);
    }

    /// Counts a refusal, and logs it.
    pub(crate) fn refuse(&self, refusal: &Refusal, origin: RequestOrigin<'_>) {
        self.count_refused(refusal.code);
        if is_audited(refusal.code) && !self.lines.at(refusal.code).write(refusal, origin) {
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
    pub(crate) fn of_pattern(&self, pattern: usize) -> &PatternCounts {
        &self.by_pattern[pattern]
    }

    /// Counts a connection closed with a code.
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

/// By query.
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
    /// A gauge counted in µs and shown in seconds.
    Micros,
    /// A counter counted in µs and shown in seconds.
    MicrosTotal,
}

/// All counts.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    shards: Arc<[Arc<Counts>]>,
    /// By query.
    pub(crate) queries: Arc<QueryCosts>,
    /// The patterns of topics.
    patterns: Arc<[Pattern]>,
    /// By the pattern of the upstream.
    upstreams: Arc<[(Pattern, Arc<UpstreamCounts>)]>,
    /// Counts of the keys of signed tokens.
    pub(crate) keys: Arc<KeyCounts>,
    brokers: Vec<Arc<dyn BrokerCounts>>,
    /// The version of the build.
    version: &'static str,
}

impl Metrics {
    /// Returns the counts of this many shards, topics by these patterns, these upstreams, and these brokers.
    pub(crate) fn new<'a>(
        version: &'static str,
        shards: usize,
        patterns: Vec<Pattern>,
        upstreams: impl Iterator<Item = &'a Pattern>,
        brokers: Vec<Arc<dyn BrokerCounts>>,
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
            brokers,
            version,
        }
    }

    /// Returns a shard's counts. Only its thread may write them.
    pub(crate) fn shard_counts(&self, shard: usize) -> Arc<Counts> {
        Arc::clone(&self.shards[shard])
    }

    /// Returns the upstreams' counts, in order. Only the fetching thread may write them.
    pub(crate) fn of_upstreams(&self) -> Vec<Arc<UpstreamCounts>> {
        self.upstreams.iter().map(|(_, counts)| Arc::clone(counts)).collect()
    }

    /// Returns all counts as text.
    pub(crate) fn text(&self, form: ExpositionFormat) -> String {
        let mut out = String::new();
        let sum = |of: &dyn Fn(&Counts) -> u64| self.shards.iter().map(|counts| of(counts)).sum();
        let refused = |code: ErrorCode| sum(&|counts| counts.refused.at(code).get());
        let codes = ErrorCode::ALL.iter().map(|code| (code.name(), refused(*code)));
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
            singles
                .reduce(|sum, of_shard| std::array::from_fn(|index| sum[index] + of_shard[index]))
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
            value: histogram(&self.shards.iter().map(|it| &it.delivery).collect::<Vec<_>>()),
        };
        labelled_family(&mut out, form, &delivery, None);
        for (shard, counts) in self.shards.iter().enumerate() {
            let loop_delay = Family {
                name: "loop_delay_seconds",
                help: "Time that a timer of the shard's event loop fired late: what everything else waited for, too.",
                value: histogram(&[&counts.loop_delay]),
            };
            labelled_family(&mut out, form, &loop_delay, Some(("shard", shard)));
        }
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
            labelled_family(&mut out, form, &Family { name, help, value }, None);
        }
        brokers_families(&mut out, form, &self.brokers);
        out += &process::text(self.version, form == ExpositionFormat::OpenMetrics);
        if form == ExpositionFormat::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

/// Appends the families of brokers. Several brokers have a label with their numbers.
fn brokers_families(out: &mut String, form: ExpositionFormat, brokers: &[Arc<dyn BrokerCounts>]) {
    let families: Vec<_> = brokers.iter().map(|counts| counts.families()).collect();
    let mut seen = HashSet::new();
    for Family { name, .. } in families.iter().flatten() {
        if !seen.insert(name) {
            continue;
        }
        let its = |families: &[Family]| families.iter().position(|family| family.name == *name);
        let samples = families.iter().enumerate();
        let samples = samples.filter_map(|(broker, all)| Some((broker, &all[its(all)?])));
        for (nth, (broker, family)) in samples.enumerate() {
            if nth == 0 {
                head(out, form, family);
            }
            let label = (brokers.len() > 1).then_some(("broker", broker));
            sample(out, family, label);
        }
    }
}

/// Returns the sum of histograms.
fn histogram(parts: &[&Histogram]) -> FamilyValue {
    let count = |bucket: usize| parts.iter().map(|part| part.counts[bucket].get()).sum();
    FamilyValue::Histogram {
        bounds: Histogram::bounds(),
        counts: (0..Histogram::BUCKETS).map(count).collect(),
        sum: parts.iter().map(|part| part.sum_us.get()).sum::<u64>() as f64 / 1e6,
    }
}

/// Appends the first or only sample of a family, after its head; a label has a number. Further samples have none.
fn labelled_family(
    out: &mut String,
    form: ExpositionFormat,
    family: &Family,
    label: Option<(&str, usize)>,
) {
    if label.is_none_or(|(_, number)| number == 0) {
        head(out, form, family);
    }
    sample(out, family, label);
}

/// Returns the type of a family, and the suffix of its samples.
fn type_of(value: &FamilyValue) -> (&'static str, &'static str) {
    match value {
        FamilyValue::Counter(_) => ("counter", "_total"),
        FamilyValue::Gauge(_) => ("gauge", ""),
        FamilyValue::Histogram { .. } => ("histogram", ""),
    }
}

/// Appends the head of a family.
fn head(out: &mut String, form: ExpositionFormat, Family { name, help, value }: &Family) {
    let (type_name, suffix) = type_of(value);
    let of_family = if form == ExpositionFormat::Text { suffix } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP thalweg_{name}{of_family} {help}");
    let _ = writeln!(out, "# TYPE thalweg_{name}{of_family} {type_name}");
}

/// Appends a sample of a family.
fn sample(out: &mut String, Family { name, value, .. }: &Family, label: Option<(&str, usize)>) {
    let (_, suffix) = type_of(value);
    let label = label.map_or_else(String::new, |(label, number)| format!("{label}=\"{number}\""));
    let labels = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    let _ = match value {
        FamilyValue::Counter(count) => writeln!(out, "thalweg_{name}{suffix}{labels} {count}"),
        FamilyValue::Gauge(value) => writeln!(out, "thalweg_{name}{labels} {value}"),
        FamilyValue::Histogram { bounds, counts, sum } => {
            let (mut total, comma) = (0, if label.is_empty() { "" } else { "," });
            let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (bound, count) in bounds.zip(counts) {
                total += count;
                let _ =
                    writeln!(out, "thalweg_{name}_bucket{{{label}{comma}le=\"{bound}\"}} {total}");
            }
            writeln!(out, "thalweg_{name}_sum{labels} {sum}\nthalweg_{name}_count{labels} {total}")
        }
    };
}

/// Appends a family: label value and number of each sample. Names and labels are fixed words, or patterns, whose
/// grammar has no quotes: they need no escaping.
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
    // OpenMetrics names the family like its samples without their suffix.
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
