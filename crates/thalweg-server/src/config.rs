//! What a user may set, with defaults that work, and why they are what they are.

mod options;
mod units;

use std::{net::SocketAddr, time::Duration};

use thalweg_wire::Topic;

use crate::stream::{BatchBounds, HistoryBounds};

pub use options::{Options, nearest};
pub use units::{parse_bytes, parse_duration};

/// Everything `thalweg serve` can be told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The cores that shards run on: one shard each, pinned where there are
    /// several.
    pub shards: usize,
    /// What feeds topics besides publishers.
    pub sources: Vec<SourceConfig>,
    /// For every topic that `topics` does not name.
    pub topic_defaults: TopicSettings,
    /// For single topics.
    pub topics: Vec<(Topic, TopicSettings)>,
    /// What connections may use.
    pub limits: Limits,
    /// A connection that was sent nothing for between half of this and this is
    /// sent a heartbeat: under the 30 to 60 s after which proxies and routers forget it.
    pub heartbeat: Duration,
    /// How long a shutdown may take.
    pub drain: Duration,
}

/// A topic's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSettings {
    /// What is retained.
    pub history: HistoryBounds,
    /// When a batch is sealed.
    pub batch: BatchBounds,
}

/// `TOPIC=KIND,key=value,…`
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The topic it feeds.
    pub topic: Topic,
    /// What it is.
    pub kind: String,
    /// Its settings, read by the source itself.
    pub options: Options,
}

/// Largest batch that can be asked for: a frame is never larger than a browser
/// can take in one piece.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// What peers may use, in one place.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that the kernel may hold for one subscriber and has not sent: small,
    /// so that a stopped reader holds little (`TCP_NOTSENT_LOWAT`).
    pub unsent_bytes: usize,
    /// Bytes that it may hold in all, sent ones that wait to be acknowledged
    /// included: what one subscriber on a long line may have under way. The
    /// kernel doubles it for its bookkeeping (socket(7)).
    pub send_buffer_bytes: usize,
    /// Memory for a request's head, and for what is read of its body at a time.
    pub request_buffer_bytes: usize,
    /// Time for a request's head to arrive: a slow head is no use to anyone.
    pub head_wait: Duration,
    /// Topics that exist at a time, on each shard.
    pub topics_max: usize,
    /// A subscriber's own frames waiting; beyond it its commands wait unread.
    pub own_bytes_max: usize,
    /// Memory per shard for batches that only partly sent frames still need.
    pub pinned_bytes_max: usize,
    /// A frame partly sent must move on within this time.
    pub stall: Duration,
    /// Bytes to one socket in one visit of a walk.
    pub visit_bytes: usize,
    /// Time of one slice of a walk, after which others get their turn.
    pub walk_slice: Duration,
    /// Letters on their way to a shard, from all others: batches and sockets.
    pub mail_max: usize,
    /// Publishes on their way to a shard, each of one read or one event. Apart
    /// from the other mail, so that a flood of them delays only publishers.
    pub publishes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            shards: std::thread::available_parallelism().map_or(1, usize::from),
            sources: Vec::new(),
            topic_defaults: TopicSettings::default(),
            topics: Vec::new(),
            limits: Limits::default(),
            heartbeat: Duration::from_secs(25),
            drain: Duration::from_secs(5),
        }
    }
}

impl Default for TopicSettings {
    /// A few seconds of a fast topic, a few minutes of a slow one: enough for a
    /// subscriber that reconnects.
    fn default() -> Self {
        Self {
            history: HistoryBounds {
                events_max: 100_000,
                bytes_max: 8 << 20,
                age_us_max: 300_000_000,
            },
            batch: BatchBounds { flush_us: 0, events_max: 8192, bytes_max: 1 << 20 },
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unsent_bytes: 16 << 10,
            send_buffer_bytes: 512 << 10,
            request_buffer_bytes: 64 << 10,
            head_wait: Duration::from_secs(10),
            topics_max: 100_000,
            own_bytes_max: 64 << 10,
            pinned_bytes_max: 8 << 20,
            stall: Duration::from_secs(30),
            visit_bytes: 1 << 20,
            walk_slice: Duration::from_millis(1),
            mail_max: 1024,
            publishes_max: 64,
        }
    }
}

impl Config {
    /// The settings of a topic.
    pub fn topic(&self, topic: &Topic) -> TopicSettings {
        let named = self.topics.iter().find(|(name, _)| name == topic);
        named.map_or(self.topic_defaults, |(_, settings)| *settings)
    }
}

impl TopicSettings {
    /// Sets what `options` name; keys as on the command line.
    ///
    /// # Errors
    /// One sentence naming the wrong key or value.
    pub fn apply(mut self, options: &Options) -> Result<Self, String> {
        options.check_keys(&[
            "flush",
            "batch-events",
            "batch-bytes",
            "history-events",
            "history-bytes",
            "history-age",
        ])?;
        if let Some(flush) = options.duration("flush")? {
            self.batch.flush_us = flush.as_micros() as u64;
        }
        if let Some(events) = options.number("batch-events")? {
            self.batch.events_max = events.max(1) as usize;
        }
        if let Some(bytes) = options.bytes("batch-bytes")? {
            if bytes > BATCH_BYTES_MAX {
                return Err("batch-bytes: at most 64MiB".into());
            }
            self.batch.bytes_max = bytes;
        }
        if let Some(events) = options.number("history-events")? {
            self.history.events_max = events as usize;
        }
        if let Some(bytes) = options.bytes("history-bytes")? {
            self.history.bytes_max = bytes;
        }
        if let Some(age) = options.duration("history-age")? {
            self.history.age_us_max = age.as_micros() as u64;
        }
        Ok(self)
    }
}

impl SourceConfig {
    /// Reads `TOPIC=KIND,key=value,…`.
    ///
    /// # Errors
    /// One sentence saying what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (topic, rest) = text
            .split_once('=')
            .ok_or("a source is TOPIC=KIND,key=value,…, for instance cars=cars,interval=100ms")?;
        let topic = topic.parse().map_err(|error| format!("topic {topic:?}: {error}"))?;
        let (kind, options) = rest.split_once(',').unwrap_or((rest, ""));
        Ok(Self { topic, kind: kind.into(), options: Options::parse(options)? })
    }
}
