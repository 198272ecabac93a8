//! The answer of the overview: topics in the order of a figure, and the sums over all topics. Pure.

use std::cmp::Ordering;

use serde::Serialize;
use thalweg_token::Topics;
use thalweg_wire::Topic;

use super::topic_samples::{Published, Sample, SampledRates};
use crate::{
    access::{Right, Wanted},
    config::{Config, UNSTORED_BYTES_MAX},
};

/// A request for the most active topics, or another order.
#[derive(Debug)]
pub(crate) struct Ranking {
    /// A part of the name, in any case.
    pub(crate) search: String,
    pub(crate) order: TopicOrder,
    pub(crate) descends: bool,
    pub(crate) limit: usize,
    /// The topics that the reader may see.
    pub(crate) shown: Topics,
}

/// The figure that orders the topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TopicOrder {
    Name,
    Kind,
    EventsPerS,
    BytesPerS,
    Subscribers,
    Retained,
    MemoryBytes,
    Age,
    Gaps,
}

impl TopicOrder {
    /// The members of an answer's topics that may order it.
    pub(crate) const NAMES: [&str; 9] = [
        "topic",
        "kind",
        "events_per_s",
        "bytes_per_s",
        "subscribers",
        "events",
        "memory_bytes",
        "age_ms",
        "gaps",
    ];

    const ALL: [Self; 9] = [
        Self::Name,
        Self::Kind,
        Self::EventsPerS,
        Self::BytesPerS,
        Self::Subscribers,
        Self::Retained,
        Self::MemoryBytes,
        Self::Age,
        Self::Gaps,
    ];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|index| Self::ALL[index])
    }
}

impl Wanted for Ranking {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewTopics].into_iter()
    }
}

#[derive(Serialize)]
struct RankedTopics<'a> {
    topics: Vec<RankedTopic<'a>>,
    /// The number of topics that match the search.
    matching: usize,
    /// Whether a shard has more topics than the server takes figures of.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    all: Totals,
    limits: OverviewLimits,
}

/// The topics that match a ranking, and the sums over all topics.
pub(super) struct MatchingTopics<'a> {
    ranking: &'a Ranking,
    /// In lower case.
    search: String,
    found: Vec<(&'a Topic, &'a Sample)>,
    all: Totals,
}

/// The limits that the overview compares with metrics of the same names, each the sum over all shards.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct OverviewLimits {
    connections: usize,
    pattern_topics: usize,
    subscribed_topics: usize,
    queries: usize,
    history_bytes: usize,
    answer_bytes: usize,
    pinned_bytes: usize,
    body_bytes: usize,
    unfinished_bytes: usize,
    unstored_bytes: usize,
}

impl OverviewLimits {
    /// Returns the limits of a server. That of its connections may have changed since the start.
    pub(crate) fn new(config: &Config, connections_max: usize) -> Self {
        let (shards, limits) = (config.shards, &config.limits);
        Self {
            connections: connections_max,
            pattern_topics: limits.topics * shards,
            subscribed_topics: limits.subscribed_topics * shards,
            queries: limits.queries,
            history_bytes: limits.history_bytes,
            answer_bytes: config.answers_max() * shards,
            pinned_bytes: limits.pinned_bytes * shards,
            body_bytes: limits.unfinished_bytes * shards,
            unfinished_bytes: limits.unfinished_bytes * shards,
            unstored_bytes: UNSTORED_BYTES_MAX * shards,
        }
    }
}

#[derive(Serialize)]
struct RankedTopic<'a> {
    topic: &'a str,
    kind: Option<&'static str>,
    events_per_s: Option<f64>,
    bytes_per_s: Option<f64>,
    subscribers: u64,
    events: u64,
    memory_bytes: u64,
    age_ms: Option<u64>,
    gaps: u64,
    trend: &'a [f32],
}

/// The sums over all topics that the reader may see.
#[derive(Serialize, Default)]
struct Totals {
    topics: usize,
    subscribers: u64,
    gaps: u64,
    /// `null` until there are two samples.
    events_per_s: Option<f64>,
    bytes_per_s: Option<f64>,
    /// Events per second, each once for each subscriber of its topic.
    due_events_per_s: Option<f64>,
}

impl<'a> MatchingTopics<'a> {
    pub(super) fn new(ranking: &'a Ranking) -> Self {
        let search = ranking.search.to_ascii_lowercase();
        Self { ranking, search, found: Vec::new(), all: Totals::default() }
    }

    /// Adds a topic if the reader may see it.
    pub(super) fn add(&mut self, topic: &'a Topic, sample: &'a Sample) {
        if !self.ranking.shown.contain(topic) {
            return;
        }
        self.all.add(sample);
        if self.search.is_empty() || topic.as_str().to_ascii_lowercase().contains(&self.search) {
            self.found.push((topic, sample));
        }
    }

    /// Returns the first topics of the ranking, and the totals, as the JSON of docs/reference/http.md, "Pages and
    /// runs". `more`: whether some topics could not be added.
    pub(super) fn answer(mut self, more: bool, limits: OverviewLimits, now_us: u64) -> Vec<u8> {
        let Ranking { order, descends, limit, .. } = self.ranking;
        let matching = self.found.len();
        let compare = |a: &(&Topic, &Sample), b: &(&Topic, &Sample)| {
            let by_figure = order.compare(a.1, b.1);
            let by_name = || a.0.cmp(b.0);
            match (order, descends) {
                (TopicOrder::Name, false) => by_name(),
                (TopicOrder::Name, true) => by_name().reverse(),
                (_, false) => by_figure.then_with(by_name),
                (_, true) => by_figure.reverse().then_with(by_name),
            }
        };
        if *limit < matching {
            self.found.select_nth_unstable_by(*limit, compare);
            self.found.truncate(*limit);
        }
        self.found.sort_unstable_by(compare);
        let ranked =
            self.found.iter().map(|(topic, sample)| RankedTopic::new(topic, sample, now_us));
        let answer =
            RankedTopics { topics: ranked.collect(), matching, more, all: self.all, limits };
        // JSON can represent all of it.
        serde_json::to_vec(&answer).unwrap_or_default()
    }
}

impl<'a> RankedTopic<'a> {
    fn new(topic: &'a Topic, sample: &'a Sample, now_us: u64) -> Self {
        let newest_us = sample.published.and_then(|published| published.newest_us);
        Self {
            topic: topic.as_str(),
            kind: sample.published.map(|published| published.kind.name()),
            events_per_s: sample.rates.map(|rates| rates.events_per_s),
            bytes_per_s: sample.rates.map(|rates| rates.bytes_per_s),
            subscribers: sample.subscribers,
            events: sample.published.map_or(0, |published| published.retained),
            memory_bytes: sample.published.map_or(0, |published| published.memory_bytes),
            age_ms: newest_us.map(|newest_us| now_us.saturating_sub(newest_us) / 1000),
            gaps: sample.gaps,
            trend: &sample.trend,
        }
    }
}

impl TopicOrder {
    /// Compares two topics. A topic without a rate or a kind comes before others, and one without an event counts as the oldest.
    fn compare(self, a: &Sample, b: &Sample) -> Ordering {
        let rate = |of: fn(&SampledRates) -> f64| {
            let [a, b] = [a, b].map(|sample| sample.rates.as_ref().map_or(-1.0, of));
            a.total_cmp(&b)
        };
        let published = |of: fn(&Published) -> u64| {
            let [a, b] = [a, b].map(|sample| sample.published.as_ref().map_or(0, of));
            a.cmp(&b)
        };
        match self {
            Self::Name => Ordering::Equal,
            Self::Kind => {
                let [a, b] =
                    [a, b].map(|sample| sample.published.map(|published| published.kind.name()));
                a.cmp(&b)
            }
            Self::EventsPerS => rate(|rates| rates.events_per_s),
            Self::BytesPerS => rate(|rates| rates.bytes_per_s),
            Self::Subscribers => a.subscribers.cmp(&b.subscribers),
            Self::Retained => published(|published| published.retained),
            Self::MemoryBytes => published(|published| published.memory_bytes),
            // The newest event is the youngest.
            Self::Age => {
                let newest_us = |published: Published| published.newest_us;
                let [a, b] = [a, b].map(|sample| sample.published.and_then(newest_us));
                b.unwrap_or(0).cmp(&a.unwrap_or(0))
            }
            Self::Gaps => a.gaps.cmp(&b.gaps),
        }
    }
}

impl Totals {
    fn add(&mut self, sample: &Sample) {
        self.topics += 1;
        self.subscribers += sample.subscribers;
        self.gaps += sample.gaps;
        if let Some(SampledRates { events_per_s, bytes_per_s }) = sample.rates {
            *self.events_per_s.get_or_insert(0.0) += events_per_s;
            *self.bytes_per_s.get_or_insert(0.0) += bytes_per_s;
            *self.due_events_per_s.get_or_insert(0.0) += events_per_s * sample.subscribers as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use thalweg_core::stream::FeedKind;

    use super::*;

    const NOW_US: u64 = 1_000_000_000;

    fn sample(events: u64, events_per_s: f64, subscribers: u64) -> Sample {
        let published = Published {
            kind: FeedKind::Log,
            events,
            bytes: events * 10,
            newest_us: Some(NOW_US - 2_500_000),
            retained: events,
            memory_bytes: events * 20,
        };
        let rates = SampledRates { events_per_s, bytes_per_s: 10.0 * events_per_s };
        let (published, rates) = (Some(published), Some(rates));
        Sample { published, subscribers, rates, trend: vec![3.0], ..Sample::default() }
    }

    /// Returns the answer about three topics to a ranking.
    fn answer(sort: &str, search: &str, limit: usize, shown: &str) -> Value {
        let name = sort.trim_start_matches('-');
        let ranking = Ranking {
            search: search.to_owned(),
            order: TopicOrder::parse(name).unwrap(),
            descends: name != sort,
            limit,
            shown: [shown.parse().unwrap()].into_iter().collect(),
        };
        let samples =
            [("a", sample(25, 10.0, 1)), ("b", sample(102, 1.0, 0)), ("A/new", sample(4, 2.0, 0))];
        let samples = samples.map(|(name, sample)| (name.parse::<Topic>().unwrap(), sample));
        let limits = OverviewLimits::new(&Config::default(), 7);
        let mut matching = MatchingTopics::new(&ranking);
        samples.iter().for_each(|(topic, sample)| matching.add(topic, sample));
        serde_json::from_slice(&matching.answer(false, limits, NOW_US)).unwrap()
    }

    fn names(answer: &Value) -> Vec<&str> {
        let topics = answer["topics"].as_array().unwrap();
        topics.iter().map(|topic| topic["topic"].as_str().unwrap()).collect()
    }

    #[test]
    fn topics_are_ordered_by_each_figure() {
        let check = |sort: &str, expected: &[&str]| {
            assert_eq!(names(&answer(sort, "", 9, "**")), expected, "{sort}");
        };
        check("topic", &["A/new", "a", "b"]);
        check("-topic", &["b", "a", "A/new"]);
        check("-events_per_s", &["a", "A/new", "b"]);
        check("events", &["A/new", "a", "b"]);
        check("-memory_bytes", &["b", "a", "A/new"]);
        check("-subscribers", &["a", "A/new", "b"]);
        check("age_ms", &["A/new", "a", "b"]);
    }

    #[test]
    fn an_answer_has_the_first_topics_that_match_and_that_its_reader_may_see() {
        assert_eq!(names(&answer("-events_per_s", "", 1, "**")), ["a"]);
        let found = answer("-events_per_s", "A", 1, "**");
        assert_eq!(
            (found["matching"].as_u64(), found["all"]["topics"].as_u64()),
            (Some(2), Some(3))
        );
        let shown = answer("topic", "", 9, "A/*");
        assert_eq!((names(&shown), shown["all"]["topics"].as_u64()), (vec!["A/new"], Some(1)));
    }

    #[test]
    fn sums_are_those_of_all_topics() {
        let answer = answer("topic", "b", 9, "**");
        assert_eq!(answer["topics"][0]["age_ms"], 2500);
        assert_eq!(answer["topics"][0]["trend"][0], 3.0);
        assert_eq!(answer["all"]["events_per_s"], 13.0);
        assert_eq!(answer["all"]["due_events_per_s"], 10.0);
        assert_eq!(answer["limits"]["connections"], 7);
    }
}
