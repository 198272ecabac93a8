//! What a user may set, with defaults that work, and the reasons for them.

mod limits;
mod network;
mod options;
mod query;
mod rate;
mod stream;
mod units;
mod upstream;

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use thalweg_columns::Columns;
use thalweg_query::{Bounds, limits::LEAD_MS};
use thalweg_token::{Expectations, Keys, Rights};
use thalweg_wire::{Pattern, Topic};

use crate::pages::Pages;
use thalweg_core::stream::{BatchBounds, FeedKind, HistoryBounds};

pub(crate) use limits::{
    ADMIN_BODY_BYTES, ADMIN_CONNECTIONS, ALL_TICKETS_MAX, CUT_OFF_AFTER_US, CUT_OFF_SPREAD_US,
    DEMANDS_MAX, DISCARDED_BODIES, DISCARDED_BODY_BYTES, DISCARDED_BODY_WAIT,
    DISCARDED_STREAM_WAIT, ECHO_BYTES, FETCHED_MAX, FROM_BACKEND_MAX, GATHERED_BYTES, GONE_MAX,
    GOODBYE_US, H2_CONNECTION_WINDOW_BYTES, H2_HEAD_PART, H2_INTERVAL_US, H2_STREAM_WINDOW_BYTES,
    HISTORY_PAGE_BYTES, IDLE_HISTORY_QUERY, KEYS_BYTES_MAX, KEYS_GAP, KEYS_NAMED_MAX, KEYS_TIMEOUT,
    KEYS_WAIT, KEYS_WAITING_MAX, PATCH_US_MAX, PAUSE_MS_MIN, PLANNING_BURST_US, PLANNING_PART,
    PLANNING_UNBROKEN_US, PLANNINGS_WAITING_MAX, PLANNINGS_WAITING_PER_ADDRESS, QUERIES_US,
    QUERY_BYTES, QUERY_DROPS_US, QUERY_EVENT_STEPS, QUERY_GRAIN_BYTES, QUERY_STEPS_PER_LOOK,
    QUERY_US_MIN, RATED_MAX, READS_MAX, READS_PER_SHARD, RECALL_OFFSETS_MAX, RECALLED_BYTES_MAX,
    REDIRECTS_MAX, REJECTION_WAIT, REJECTIONS_MAX, REPLAY_OFFSETS_MAX, REPOLLS_MAX, RUN_FILE_BYTES,
    RUNS_LISTED, RUNS_LOOKED_AT, SEEN_TOKENS_MAX, SETTLED_BYTES, SETTLING_ROUNDS_MAX,
    SETTLING_TIME, SMALL_BODY_BYTES, SOCKET_READ_BYTES, SSE_RETRY_MS_MIN, SSE_RETRY_SPREAD_MS,
    STORES_MAX, SUBJECT_TICKETS_MAX, TICKET_WAIT, TICKETS_MAX, TICKETS_UNDER_WAY_MAX,
    TICKETS_WAITING_MAX, UNANSWERED_MAX, UNSTORED_BYTES_MAX, UPSTREAM_BUFFER_BYTES, UPSTREAM_IDLE,
    WRONG_TOKEN_REQUESTS, has_read_enough, share_of_requests,
};
pub use limits::{EMPTY_TOPIC_BYTES, Limits};
pub use network::Network;
pub use options::{Options, closest, nearest};
pub(crate) use query::ASKED_TOPICS;
pub use query::QueryConfig;
pub use rate::{Rate, Rates};
pub use stream::StreamConfig;
pub use units::{parse_bytes, parse_duration};
pub use upstream::{Pace, UpstreamConfig, UpstreamUrl};

/// All settings of `thalweg serve`.
#[derive(Debug, Clone)]
pub struct Config {
    /// What was built, for `/metrics`.
    pub version: &'static str,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to listen for administrators: the list of topics, `/metrics`, health, and ending connections,
    /// without a token and without TLS.
    pub admin_listen: Option<SocketAddr>,
    /// The number of cores that shards run on: one shard each, pinned if there are several.
    pub shards: usize,
    /// What feeds topics besides publishers.
    pub sources: Vec<SourceConfig>,
    /// Whether they run here. Otherwise another server runs them, and only the columns of their topics are known from them.
    pub runs_sources: bool,
    /// Topics whose events are the rows of queries.
    pub queries: Vec<QueryConfig>,
    /// How far an event's time may be ahead of when it was published: if it is further, windows of queries leave it out.
    pub query_lead: Duration,
    /// Topics that are fetched from elsewhere; of several patterns the first counts.
    pub upstreams: Vec<UpstreamConfig>,
    /// Streams that the backend has; of several patterns the first counts.
    pub streams: Vec<StreamConfig>,
    /// Whether this server tells the others when a topic of a stream has paused, so that windows of queries close.
    pub tells_time: bool,
    /// For every topic that `topics` does not name.
    pub topic_defaults: TopicSettings,
    /// For topics that a pattern means; of several patterns the first counts.
    pub topics: Vec<(Pattern, TopicSettings)>,
    /// The topics that clients may subscribe to.
    pub subscribe: Subscribing,
    /// What peers may use.
    pub limits: Limits,
    /// Who may do what.
    pub access: Access,
    /// TLS instead of cleartext, with ALPN for HTTP/2 and HTTP/1.1.
    pub tls: Option<Tls>,
    /// Subprotocols that a WebSocket is granted, the first of them that its client offers.
    pub websocket_protocols: Vec<String>,
    /// Whether clients that ask for permessage-deflate or gzip get it.
    pub compression: bool,
    /// The pages for browsers.
    pub pages: Pages,
    /// A folder of the lab's runs, for clients that may subscribe.
    pub runs: Option<PathBuf>,
    /// For conformance tests of the WebSocket codec only: a path at which a WebSocket sends
    /// back every message, binary ones included.
    pub echo_path: Option<String>,
    /// A connection to which nothing was sent for between half of this and this time gets a
    /// heartbeat. It is shorter than the 30 to 60 s after which proxies and routers forget a
    /// connection.
    pub heartbeat: Duration,
    /// How long it still serves after it is asked to end, while `/readyz` says that it is not
    /// ready. In this time load balancers can notice.
    pub drain_delay: Duration,
    /// How long a shutdown may take.
    pub drain: Duration,
}

/// The topics that clients may subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscribing {
    /// All topics: if nothing was published yet, events come later.
    Any,
    /// Only topics that somebody publishes to or a source feeds.
    Existing,
}

/// What a topic is, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// What its subscribers read.
    pub kind: FeedKind,
    /// Its columns, if they are declared: otherwise they are inferred when somebody asks for columns.
    pub columns: Option<Arc<Columns>>,
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

/// The subprotocol of this wire: the messages and commands of `docs/wire.md`.
const WEBSOCKET_PROTOCOL: &str = "thalweg.v1";

/// Bytes of a batch. With its envelope, whose topic, positions and names take less than a kilobyte, a
/// message is below 64 KiB: common clients refuse larger ones (Go's `bufio.Scanner` lines from 64 KiB on,
/// Python's `websockets` messages above 1 MiB), and would come back to the same one forever.
const BATCH_BYTES: usize = 63 << 10;

/// Largest batch that can be configured: a frame is never larger than a browser can receive in
/// one piece.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// Who may do what. On loopback everybody has all rights unless there are tokens; elsewhere a
/// server needs a publish token or to be open.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// What publishers present.
    pub publish_token: Option<Secret>,
    /// What subscribers present, if not everybody may subscribe.
    pub subscribe_token: Option<Secret>,
    /// What clients present to see the list of topics and `/metrics`. Without it publishers may
    /// see them, and on loopback everybody, unless there is a subscribe token, a name in
    /// `hosts` or a trusted proxy.
    pub inspect_token: Option<Secret>,
    /// Tokens with rights of their own.
    pub tokens: Vec<NamedToken>,
    /// Which tokens that somebody else signs are taken.
    pub signed: Option<SignedBy>,
    /// What those may do who present no token. Without it: subscribe, if there is neither a
    /// subscribe token nor one with rights of its own; publish, if there is none for that; and
    /// inspect as [`Self::lets_everybody_inspect`] has it.
    pub everybody: Option<Rights>,
    /// Everybody who can reach it may publish and subscribe.
    pub open: bool,
    /// Origins whose web pages may use it besides its own: `https://app.example`,
    /// or `*` for all.
    pub origins: Vec<String>,
    /// Names of the server besides loopback's own. On loopback it has no others. Elsewhere it
    /// has all names if this is empty.
    pub hosts: Vec<String>,
    /// Proxies whose `X-Forwarded-For` and `Forwarded` headers are trusted.
    pub trusted_proxies: Vec<Network>,
}

/// A token that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedToken {
    /// Its name, for logs and limits.
    pub name: String,
    /// What is presented.
    pub secret: Secret,
    /// What it gives.
    pub rights: Rights,
}

/// Which signed tokens are taken.
#[derive(Clone, Default)]
pub struct SignedBy {
    /// The keys that they may be signed by.
    pub keys: Keys,
    /// Where more keys are published.
    pub url: Option<UpstreamUrl>,
    /// What they must say.
    pub expected: Expectations,
}

impl fmt::Debug for SignedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, url, expected } = self;
        write!(f, "{} keys, {url:?}, {expected:?}", keys.len())
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// PEM files: the chain, the server's first, and its key.
    Files {
        /// The chain.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// Made at start for localhost, for development: browsers warn of it.
    SelfSigned,
}

impl Config {
    /// The bounds of a running query.
    pub(crate) fn query_bounds(&self) -> Bounds {
        let lead_ms = i64::try_from(self.query_lead.as_millis()).unwrap_or(i64::MAX);
        Bounds { lead_ms, ..Bounds::default() }
    }

    /// Bytes of answers that each shard may hold. It is at least the memory of one largest
    /// answer, whose buffer may have grown to twice its size.
    pub(crate) fn answers_max(&self) -> usize {
        let largest = self.echo_path.as_ref().map_or(self.limits.command_bytes(), |_| ECHO_BYTES);
        self.limits.answer_bytes.max(2 * largest)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: None,
            shards: std::thread::available_parallelism().map_or(1, usize::from),
            sources: Vec::new(),
            runs_sources: true,
            queries: Vec::new(),
            query_lead: Duration::from_millis(LEAD_MS as u64),
            upstreams: Vec::new(),
            streams: Vec::new(),
            tells_time: false,
            topic_defaults: TopicSettings::default(),
            topics: Vec::new(),
            subscribe: Subscribing::Any,
            limits: Limits::default(),
            access: Access::default(),
            tls: None,
            websocket_protocols: vec![WEBSOCKET_PROTOCOL.into()],
            compression: false,
            pages: Pages::default(),
            runs: None,
            echo_path: None,
            heartbeat: Duration::from_secs(25),
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(5),
        }
    }
}

impl Default for TopicSettings {
    /// A few seconds of a fast topic, a few minutes of a slow one: enough for a
    /// subscriber that reconnects.
    fn default() -> Self {
        Self {
            kind: FeedKind::Log,
            columns: None,
            history: HistoryBounds {
                events_max: 100_000,
                bytes_max: 8 << 20,
                age_us_max: 300_000_000,
            },
            batch: BatchBounds { flush_us: 0, events_max: 8192, bytes_max: BATCH_BYTES },
        }
    }
}

impl Access {
    /// Whether there is a token, without which some rights are not given.
    pub fn has_tokens(&self) -> bool {
        let of_all = [&self.publish_token, &self.subscribe_token, &self.inspect_token];
        of_all.iter().any(|token| token.is_some()) || self.has_own_rights()
    }

    /// Whether there are tokens whose rights are their own.
    pub fn has_own_rights(&self) -> bool {
        !self.tokens.is_empty() || self.signed.is_some()
    }

    /// Whether it is said who may publish: otherwise everybody may.
    pub fn says_who_publishes(&self) -> bool {
        self.publish_token.is_some() || self.has_own_rights() || self.everybody.is_some()
    }

    /// Whether everybody may see the list of topics and `/metrics` of a server that listens on
    /// `listen`. Only on loopback, and not if others reach it through a proxy (a trusted one,
    /// or one that gives it another name), or if there is an inspect token or a subscribe
    /// token.
    pub fn lets_everybody_inspect(&self, listen: SocketAddr) -> bool {
        let is_loopback = listen.ip().to_canonical().is_loopback();
        let has_tokens =
            self.inspect_token.is_some() || self.subscribe_token.is_some() || self.has_own_rights();
        let is_behind_proxy = !self.hosts.is_empty() || !self.trusted_proxies.is_empty();
        is_loopback && !is_behind_proxy && !has_tokens
    }
}

impl Secret {
    /// Takes a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its bytes, to compare with.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Config {
    /// The settings of a topic. One that is fetched is a value topic by that.
    pub fn topic(&self, topic: &Topic) -> TopicSettings {
        let named = self.topics.iter().find(|(pattern, _)| pattern.matches(topic));
        let settings = named.map_or(&self.topic_defaults, |(_, settings)| settings).clone();
        match self.upstream(topic) {
            Some(_) => TopicSettings { kind: FeedKind::Value, ..settings },
            None => settings,
        }
    }

    /// Declares the columns of a topic, unless they are declared already.
    pub(crate) fn declare(&mut self, topic: &Topic, columns: Columns) {
        let settings = self.topic(topic);
        if settings.columns.is_none() {
            let columns = Some(Arc::new(columns));
            self.topics.insert(0, (topic.clone().into(), TopicSettings { columns, ..settings }));
        }
    }

    /// Whether it is a value topic.
    pub(crate) fn has_values(&self, topic: &Topic) -> bool {
        let stream = self.streams.iter().find(|stream| stream.pattern.matches(topic));
        stream.map_or_else(|| self.topic(topic).kind, |stream| stream.kind) == FeedKind::Value
    }

    /// Whether its events are the rows of a query.
    pub fn is_derived(&self, topic: &Topic) -> bool {
        let is_asked = topic.as_str().starts_with(ASKED_TOPICS);
        is_asked || self.queries.iter().any(|query| query.topic == *topic)
    }

    /// The patterns of topics that it names, as `/metrics` has them; the last means all others.
    pub fn patterns(&self) -> Vec<Pattern> {
        let of_topics = self.topics.iter().map(|(pattern, _)| pattern);
        let of_streams = self.streams.iter().map(|stream| &stream.pattern);
        let of_upstreams = self.upstreams.iter().map(|upstream| &upstream.pattern);
        let mut patterns = Vec::new();
        for pattern in of_topics.chain(of_streams).chain(of_upstreams).chain([&Pattern::all()]) {
            if !patterns.contains(pattern) {
                patterns.push(pattern.clone());
            }
        }
        patterns
    }

    /// Where a topic is fetched from, if it is: the index of an upstream.
    pub fn upstream(&self, topic: &Topic) -> Option<usize> {
        self.upstreams.iter().position(|upstream| upstream.pattern.matches(topic))
    }
}

impl TopicSettings {
    /// Sets what `options` name; keys as on the command line.
    ///
    /// # Errors
    /// One sentence naming the wrong key or value.
    pub fn apply(mut self, options: &Options) -> Result<Self, String> {
        options.check_keys(&[
            "kind",
            "columns",
            "flush",
            "batch-events",
            "batch-bytes",
            "history-events",
            "history-bytes",
            "history-age",
        ])?;
        self.kind = options.kind()?.unwrap_or(self.kind);
        if let Some(columns) = options.text("columns") {
            self = self.with_columns(columns.split_whitespace())?;
        }
        if self.kind == FeedKind::Value && self.columns.is_some() {
            return Err("columns: a topic of kind=value has documents, not rows".into());
        }
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

impl TopicSettings {
    /// The same with these columns, each `name:type`.
    ///
    /// # Errors
    /// One sentence saying what is wrong with them.
    pub fn with_columns(
        self,
        columns: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, String> {
        let columns: Vec<_> = columns.into_iter().collect();
        let columns = Columns::declared(columns.iter().map(AsRef::as_ref));
        let columns = columns.map_err(|error| format!("columns: {error}"))?;
        Ok(Self { columns: Some(Arc::new(columns)), ..self })
    }
}

impl SourceConfig {
    /// Reads `TOPIC=KIND,key=value,…`. The topic may be percent-encoded, as in a path: it ends at the first `=`.
    ///
    /// # Errors
    /// One sentence saying what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (topic, rest) = text
            .split_once('=')
            .ok_or("a source is TOPIC=KIND,key=value,…, for instance cars=cars,interval=100ms")?;
        let topic = Topic::from_path(topic).map_err(|error| format!("topic {topic:?}: {error}"))?;
        let (kind, options) = rest.split_once(',').unwrap_or((rest, ""));
        Ok(Self { topic, kind: kind.into(), options: Options::parse(options)? })
    }
}
