//! The tables `[[topic]]`, `[[source]]`, `[[query]]`, `[[upstream]]`, `[[stream]]` and `[[store]]`, and their short
//! forms.

use std::{str::FromStr, time::Duration};

use serde::Deserialize;
use thalweg_core::stream::FeedKind;
use thalweg_server::config::{
    Config, Options, Pace, Presence, QueryConfig, SourceConfig, TopicSettings, UpstreamConfig,
};

use thalweg_token::Pattern;

use super::{
    merge::set,
    short,
    store::StoreConfig,
    stream::StreamConfig,
    values::{
        Count, Kind, Listed, Number, Pointer, Size, Time, TopicName, TopicPattern, UpstreamAddress,
    },
};

/// How long a member stays listed after its last connection, in µs.
const PRESENCE_GRACE_US: u64 = 10_000_000;

/// The kind, columns and limits of the topics that match a pattern. The first matching pattern applies.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct TopicTable {
    /// Pattern of the topics: * matches one segment, ** at the end one or more. The table of the pattern **
    /// sets the default limits of the others
    pattern: TopicPattern,
    /// Keep a log of events, the newest value only, or the newest event of each key (keyed) [default: log]
    kind: Option<Kind>,
    /// Place of the key in an event of kind keyed, as a JSON Pointer such as /id; without it, publishers send a key
    key: Option<Pointer>,
    /// Maximum number of keys of a topic of kind keyed [default: 100000]
    keys: Option<Count>,
    /// Remove a key this long after its newest event, unless its publish has a ttl of its own [default: never]
    ttl: Option<Time>,
    /// List the subscribers of a topic as the keys of presence/TOPIC: users (or true), connections, or only their
    /// count. none turns it off
    presence: Option<Listed>,
    /// Keep a member listed for this long after its last connection [default: 10s]
    presence_grace: Option<Time<0>>,
    /// Columns of the rows, each as name:type
    columns: Option<Vec<String>>,
    /// Wait this long for more events before sending a batch [default: 0]
    flush: Option<Time<0>>,
    /// Maximum number of events in a batch [default: 8192]
    batch_events: Option<Count<1, 1_048_576>>,
    /// Maximum size of a batch; a larger event is sent in its own batch [default: 63KiB]
    ///
    /// A message is less than 1 KiB larger. Use 31KiB for clients that reject messages above 32 KiB.
    batch_bytes: Option<Size<1, { 64 << 20 }>>,
    /// Maximum size of a topic's history in memory [default: 8MiB]
    history_bytes: Option<Size<0>>,
    /// Maximum number of events in a topic's history [default: 100000]
    history_events: Option<Count<0>>,
    /// Maximum age of an event in a topic's history [default: 5m]
    history_age: Option<Time<0, { u64::MAX }>>,
}

/// A generator of events. Each kind has some of the keys.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SourceTable {
    /// Topic of the events
    topic: TopicName,
    /// cars, constant, dummy or runner
    kind: String,
    /// Time between two ticks (all kinds but runner) [default: 100ms for cars, else 1ms]
    interval: Option<Time<1>>,
    /// When to generate events: always, or only while the topic has subscribers (subscribed) [default:
    /// always]
    when: Option<String>,
    /// Time of the first tick, in µs of the system's monotonic clock; for measurements [default: at once]
    start: Option<Number>,
    /// Seed of random numbers (kinds cars and dummy) [default: 1]
    seed: Option<Number>,
    /// Number of cars (kind cars) [default: 100]
    cars: Option<Count>,
    /// Rows of each tick (kind constant) [default: 1]
    batch: Option<Count>,
    /// Shape of an event: rows or columns (kind constant) [default: rows]
    shape: Option<String>,
    /// Size of an event (kind dummy) [default: 100]
    size: Option<Size<0>>,
    /// Topic whose events acknowledge those of this source (kind runner): {"id":7} acknowledges the event
    /// with the offset 7
    ack: Option<TopicName>,
}

/// A topic whose events are the rows of a query.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct QueryTable {
    /// Topic of the rows
    topic: TopicName,
    /// The query: SELECT … FROM topic
    sql: String,
}

/// Topics that the server fetches over HTTP while they have subscribers. The first matching pattern applies.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct UpstreamTable {
    /// Topics
    pattern: TopicPattern,
    /// URL of the documents; the server replaces {topic} with the topic
    url: UpstreamAddress,
    /// Fetch again after this time if a response does not state its max-age [default: 5s]
    max_age: Option<Time>,
    /// Fetch again after this time at the earliest [default: 250ms]
    min_interval: Option<Time>,
    /// Fetch again after this time at the latest [default: 5m]
    max_interval: Option<Time>,
    /// Abort a fetch after this time [default: 10s]
    timeout: Option<Time>,
    /// Maximum number of fetches from this host at a time [default: 64]
    in_flight: Option<Count<1, 10_000>>,
    /// Maximum size of a document after decoding [default: 1MiB]
    max_body: Option<Size<0>>,
    /// Keep fetching for this long after the last subscriber has left [default: 5s]
    linger: Option<Time<0>>,
    /// Remember for this long that a document does not exist [default: 1m]
    remember: Option<Time>,
}

/// A NATS stream that stores the topics of a pattern.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StreamTable {
    /// Name of the stream
    name: String,
    /// Topics; no topic may match the patterns of two streams
    pattern: TopicPattern,
    /// Store a log of events, the newest value only, or the newest event of each key (keyed) [default: log]
    kind: Option<Kind>,
    /// Number of NATS servers that store each event: 1, 3 or 5 [default: 3]
    replicas: Option<Count>,
    /// Delete events after this time (kind log) [default: 1h]
    age: Option<Time<0, { u64::MAX }>>,
    /// Maximum size of the stream on each NATS server [default: unlimited]
    bytes: Option<Size>,
}

/// Topics that the data directory keeps. A topic belongs to the first store whose pattern matches.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StoreTable {
    /// Pattern of the topics: * matches one segment, ** at the end one or more
    topics: TopicPattern,
    /// Store a log of events, or the newest value only [default: log]
    kind: Option<Kind>,
    /// Delete events after this time (kind log) [default: never]
    age: Option<Time<300_000_000, { u64::MAX }>>,
    /// Delete the oldest events above this size (kind log) [default: 10GiB]
    bytes: Option<Size>,
    /// When to sync events to disk: always (before a publish is answered), at an interval such as 100ms, or
    /// never [default: always]
    sync: Option<String>,
}

/// Splits a short form at its first comma: `cars,interval=50ms` into `cars` and `interval=50ms`.
fn head(text: &str) -> (&str, &str) {
    text.split_once(',').unwrap_or((text, ""))
}

impl FromStr for TopicTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pattern, options) = head(text);
        let table: Self = short::read("topic", &[("pattern", pattern)], options)?;
        table.apply(TopicSettings::default()).map(|_| table)
    }
}

impl FromStr for SourceTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (topic, rest) = text
            .split_once('=')
            .ok_or("write TOPIC=KIND,key=value,…, for instance cars=cars,interval=100ms")?;
        let (kind, options) = head(rest);
        let topic = TopicName::from_path(topic)?;
        short::read("source", &[("topic", topic.0.as_str()), ("kind", kind)], options)
    }
}

impl FromStr for QueryTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (topic, sql) = text.split_once('=').ok_or(
            "write TOPIC=SELECT …, for instance \
             max-speed=SELECT window_start, max(speed) FROM tumble(cars, 1s) GROUP BY window_start",
        )?;
        Ok(Self { topic: TopicName::from_path(topic.trim())?, sql: sql.trim().to_owned() })
    }
}

impl FromStr for UpstreamTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A topic may contain `=` but not `//`, so the first `=http://` or `=https://` ends the pattern.
        let begins = ["=http://", "=https://"].into_iter().filter_map(|scheme| text.find(scheme));
        let (pattern, rest) = match begins.min() {
            Some(at) => Some((&text[..at], &text[at + 1..])),
            None => text.split_once('='),
        }
        .ok_or(
            "write PATTERN=URL,key=value,…, for instance matchesfeed/**=http://127.0.0.1:9000/{topic}",
        )?;
        let (url, options) = head(rest);
        let table: Self = short::read("upstream", &[("pattern", pattern), ("url", url)], options)?;
        table.upstream().map(|_| table)
    }
}

impl FromStr for StreamTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text
            .split_once('=')
            .ok_or("write NAME=PATTERN,key=value,…, for instance live=live/**,replicas=3,age=1h")?;
        let (pattern, options) = head(rest);
        let table: Self = short::read("stream", &[("name", name), ("pattern", pattern)], options)?;
        table.stream().map(|_| table)
    }
}

impl FromStr for StoreTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (topics, options) = head(text);
        let table: Self = short::read("store", &[("topics", topics)], options)?;
        table.store().map(|_| table)
    }
}

impl TopicTable {
    /// Returns the pattern of the topics, and their kind.
    pub(super) fn kind(&self) -> (Pattern, FeedKind) {
        let mut kind = FeedKind::default();
        set(&mut kind, self.kind);
        (self.pattern.0.clone(), kind)
    }

    /// Adds the settings of these topics. The table `**` sets the default limits of the others.
    ///
    /// # Errors
    /// Returns a sentence about columns, or a pattern that occurs twice.
    pub(super) fn add_all(tables: Vec<Self>, config: &mut Config) -> Result<(), String> {
        let (all, others): (Vec<_>, Vec<_>) =
            tables.into_iter().partition(|table| table.pattern.0.is_all());
        if all.len() > 1 {
            return Err("topic: the pattern ** occurs twice: write one table".to_owned());
        }
        for table in all {
            config.topic_defaults = table.apply(config.topic_defaults.clone())?;
        }
        for table in others {
            table.add_to(config)?;
        }
        Ok(())
    }

    /// Appends the settings of its topics to `config`.
    ///
    /// # Errors
    /// Returns a sentence about columns.
    pub(super) fn add_to(&self, config: &mut Config) -> Result<(), String> {
        let bounds = TopicSettings {
            kind: FeedKind::default(),
            columns: None,
            ..config.topic_defaults.clone()
        };
        config.topics.push((self.pattern.0.clone(), self.apply(bounds)?));
        Ok(())
    }

    /// Returns the setting of this table: `Some(None)` turns presence off.
    fn presence(&self) -> Result<Option<Option<Presence>>, String> {
        let grace_us = self.presence_grace.map(micros);
        match (self.presence, grace_us) {
            (Some(Listed(Some(of))), grace_us) => {
                let grace_us = grace_us.unwrap_or(PRESENCE_GRACE_US);
                Ok(Some(Some(Presence { of, grace_us })))
            }
            (None | Some(Listed(None)), Some(_)) => {
                let pattern = &self.pattern.0;
                Err(format!(
                    "topic {pattern}: presence-grace needs presence: set presence=users, for instance"
                ))
            }
            (Some(Listed(None)), None) => Ok(Some(None)),
            (None, None) => Ok(None),
        }
    }

    fn apply(&self, mut settings: TopicSettings) -> Result<TopicSettings, String> {
        let wrong = |error| format!("topic {}: {error}", self.pattern.0);
        set(&mut settings.kind, self.kind);
        if let Some(columns) = &self.columns {
            settings = settings.with_columns(columns).map_err(wrong)?;
        }
        if !settings.kind.has_rows() && settings.columns.is_some() {
            return Err(wrong("only topics of kind=log have rows: remove columns".to_owned()));
        }
        let keyed = [
            ("key", self.key.is_some()),
            ("keys", self.keys.is_some()),
            ("ttl", self.ttl.is_some()),
        ];
        if let Some((name, _)) = keyed.into_iter().find(|(_, is_set)| *is_set)
            && !settings.kind.has_keys()
        {
            return Err(wrong(format!(
                "{name} is for topics of kind=keyed: remove it, or set kind=keyed"
            )));
        }
        if let Some(pointer) = &self.key {
            settings.keys.pointer = Some(pointer.0.clone());
        }
        set(&mut settings.keys.count_max, self.keys);
        settings.keys.ttl_us = self.ttl.map(micros).or(settings.keys.ttl_us);
        set(&mut settings.presence, self.presence()?);
        set(&mut settings.batch.flush_us, self.flush.map(micros));
        set(&mut settings.batch.events_max, self.batch_events);
        set(&mut settings.batch.bytes_max, self.batch_bytes);
        set(&mut settings.history.events_max, self.history_events);
        set(&mut settings.history.bytes_max, self.history_bytes);
        set(&mut settings.history.age_us_max, self.history_age.map(micros));
        Ok(settings)
    }
}

impl From<SourceTable> for SourceConfig {
    fn from(table: SourceTable) -> Self {
        let SourceTable { topic, kind, interval, when, start, seed, cars, batch, shape, size, ack } =
            table;
        let count = |count: Option<Count>| count.map(|count| u32::from(count).to_string());
        let options = [
            ("interval", interval.map(|time| format!("{}us", micros(time)))),
            ("when", when),
            ("start", start.map(|start| start.0.to_string())),
            ("seed", seed.map(|seed| seed.0.to_string())),
            ("cars", count(cars)),
            ("batch", count(batch)),
            ("shape", shape),
            ("size", size.map(|size| usize::from(size).to_string())),
            ("ack", ack.map(|ack| ack.0.to_string())),
        ];
        let options = options.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Self { topic: topic.0, kind, options: Options::from_pairs(options) }
    }
}

impl From<QueryTable> for QueryConfig {
    fn from(QueryTable { topic, sql }: QueryTable) -> Self {
        Self::new(topic.0, sql)
    }
}

impl UpstreamTable {
    /// Returns the upstream.
    ///
    /// # Errors
    /// One sentence about values that contradict each other.
    pub(super) fn upstream(&self) -> Result<UpstreamConfig, String> {
        let mut upstream = UpstreamConfig::new(self.pattern.0.clone(), self.url.0.clone())?;
        let Pace { default, least, most } = &mut upstream.pace;
        set(default, self.max_age);
        set(least, self.min_interval);
        set(most, self.max_interval);
        if most < least {
            return Err(
                "max-interval is shorter than min-interval: raise it, or lower min-interval"
                    .to_owned(),
            );
        }
        set(&mut upstream.timeout, self.timeout);
        set(&mut upstream.in_flight, self.in_flight);
        set(&mut upstream.body_bytes, self.max_body);
        set(&mut upstream.linger, self.linger);
        set(&mut upstream.remember, self.remember);
        Ok(upstream)
    }
}

impl StreamTable {
    /// Returns the stream.
    ///
    /// # Errors
    /// Returns a sentence about the replicas or the age.
    pub(super) fn stream(&self) -> Result<StreamConfig, String> {
        let mut stream = StreamConfig::new(self.name.clone(), self.pattern.0.clone());
        set(&mut stream.kind, self.kind);
        set(&mut stream.replicas, self.replicas);
        if ![1, 3, 5].contains(&stream.replicas) {
            return Err(format!("replicas is {}: write 1, 3 or 5", stream.replicas));
        }
        if stream.kind.is_state() && self.age.is_some() {
            return Err(format!(
                "age: with kind={} an event stays until the next one replaces it: remove age",
                stream.kind.name()
            ));
        }
        set(&mut stream.age, self.age);
        stream.bytes = self.bytes.map(|bytes| usize::from(bytes) as u64);
        Ok(stream)
    }
}

impl StoreTable {
    /// Returns the store.
    ///
    /// # Errors
    /// One sentence about values that contradict each other.
    pub(super) fn store(&self) -> Result<StoreConfig, String> {
        let mut store = StoreConfig::new(self.topics.0.clone(), FeedKind::default());
        set(&mut store.kind, self.kind);
        if store.kind.is_state() {
            if self.age.is_some() || self.bytes.is_some() {
                return Err(format!(
                    "age, bytes: with kind={} an event stays until the next one: remove them",
                    store.kind.name()
                ));
            }
            store.bytes = None;
        }
        store.age = self.age.map(Into::into);
        store.bytes = self.bytes.map(|bytes| usize::from(bytes) as u64).or(store.bytes);
        if let Some(sync) = &self.sync {
            store.sync = sync.parse().map_err(|error| format!("sync: {error}"))?;
        }
        Ok(store)
    }
}

fn micros(time: impl Into<Duration>) -> u64 {
    // The settings limit a time to a number of µs that fits.
    time.into().as_micros() as u64
}
