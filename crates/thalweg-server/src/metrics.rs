//! The server's counts, for `/metrics`.
//!
//! Each shard has its own numbers, which only its thread writes, and so has the fetching thread. Counting is therefore
//! a plain load and a plain store, and no cache line is shared until somebody reads the metrics.
//!
//! - `metric`: a number, and a histogram
//! - `counts`: all numbers, and their descriptions
//! - `query_costs`: the numbers of each query
//! - `exposition`: numbers as text

mod counts;
mod exposition;
mod metric;
mod query_costs;

use std::sync::Arc;

use thalweg_broker::{BrokerCounts, Family, FamilyValue};
use thalweg_wire::{EndCode, ErrorCode, Pattern, close};

use crate::process;

use counts::PatternCounts;
pub(crate) use counts::{CountedTransport, Counts, KeyCounts, UpstreamCounts};
use exposition::{Description, MetricKind, brokers_families, family, histogram, labelled_family};
pub(crate) use exposition::{ExpositionFormat, OPEN_METRICS};
pub(crate) use metric::Metric;
pub(crate) use query_costs::{QueryCost, QueryCosts};

const REFUSED: Description = Description {
    name: "refused",
    help: "Requests and commands refused.",
    kind: MetricKind::Counter,
};

const TRANSPORTS: Description = Description {
    name: "transport_connections",
    help: "Subscribers' connections by transport.",
    kind: MetricKind::Gauge,
};

const CLOSED: Description =
    Description { name: "closed", help: "Connections closed.", kind: MetricKind::Counter };

const OVERRUNS: Description = Description {
    name: "query_limits",
    help: "Times that a query exceeded a cost limit, and ended or skipped an event.",
    kind: MetricKind::Counter,
};

/// By query.
const QUERY_COSTS: [Description; 4] = [
    Description {
        name: "query_cost_steps",
        help: "Steps that a query took.",
        kind: MetricKind::Counter,
    },
    Description {
        name: "query_cost_seconds",
        help: "Time that a query took.",
        kind: MetricKind::MicrosTotal,
    },
    Description {
        name: "query_memory_bytes",
        help: "Memory that a query holds, in bytes.",
        kind: MetricKind::Gauge,
    },
    Description {
        name: "query_null_results",
        help: "Casts, operations, functions and sums of a query that had no result, and are NULL.",
        kind: MetricKind::Counter,
    },
];

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

    /// Returns the patterns of topics. The last one matches all other topics.
    pub(crate) fn patterns(&self) -> Arc<[Pattern]> {
        Arc::clone(&self.patterns)
    }

    /// Returns a shard's counts. Only its thread may write them.
    pub(crate) fn shard_counts(&self, shard: usize) -> Arc<Counts> {
        Arc::clone(&self.shards[shard])
    }

    /// Returns the upstreams' counts, in order. Only the fetching thread may write them.
    pub(crate) fn upstream_counts(&self) -> Vec<Arc<UpstreamCounts>> {
        self.upstreams.iter().map(|(_, counts)| Arc::clone(counts)).collect()
    }

    /// Returns all counts as text.
    pub(crate) fn text(&self, form: ExpositionFormat) -> String {
        let mut out = String::new();
        let sum = |of: &dyn Fn(&Counts) -> u64| self.shards.iter().map(|counts| of(counts)).sum();
        let refused = |index: usize| sum(&|counts| counts.refused.0[index].get());
        let codes = ErrorCode::ALL.iter().map(|code| code.name()).zip((0..).map(refused));
        family(&mut out, form, &REFUSED, "code", codes);
        let closed = |index: usize| sum(&|counts| counts.closed[index].get());
        let codes = close::ALL.iter().map(|close| close.code).zip((0..).map(closed));
        family(&mut out, form, &CLOSED, "code", codes);
        let open = |index: usize| sum(&|counts| counts.of_transports().nth(index).unwrap_or(0));
        let transports = CountedTransport::NAMES.iter().zip((0..).map(open));
        family(&mut out, form, &TRANSPORTS, "transport", transports);
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
            help: "Time from the publish of the oldest event of a send until the kernel accepted the send, for subscribers that were up to date.",
            value: histogram(&self.shards.iter().map(|shard| &shard.delivery).collect::<Vec<_>>()),
        };
        labelled_family(&mut out, form, &delivery, None);
        for (shard, counts) in self.shards.iter().enumerate() {
            let loop_delay = Family {
                name: "loop_delay_seconds",
                help: "Delay of the shard's event loop, which delayed everything else on the shard, too.",
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
                MetricKind::Counter | MetricKind::MicrosTotal => FamilyValue::Counter(count),
                MetricKind::Gauge | MetricKind::Micros => FamilyValue::Gauge(count as f64),
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
