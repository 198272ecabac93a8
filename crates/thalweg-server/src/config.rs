//! The configuration of a server, with defaults that work.

mod described;
mod limits;
mod network;
mod options;
mod presence;
mod query;
mod rate;
mod shared_topics;
mod units;
mod upstream;

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use thalweg_columns::Columns;
use thalweg_core::stream::{BatchBounds, FeedKind, HistoryBounds};
use thalweg_query::{Bounds, limits::LEAD_MS};
use thalweg_token::{Expectations, Keys, Rights, Topics};
pub use thalweg_wire::KeyPointer;
use thalweg_wire::{Pattern, Topic};

use crate::pages::Pages;

pub(crate) use limits::{
    ADMIN_BODY_BYTES, ADMIN_CONNECTIONS, ALL_TICKETS_MAX, ARRIVAL_WAIT, BACKFILL_BYTES_MAX,
    BACKFILL_FEED_BYTES, BACKFILL_OFFSETS_MAX, COMMAND_SEARCH, CUT_OFF_AFTER_US, CUT_OFF_SPREAD_US,
    DEMANDS_MAX, DISCARDED_BODIES, DISCARDED_BODY_BYTES, DISCARDED_BODY_WAIT,
    DISCARDED_STREAM_WAIT, ECHO_BYTES, ENDED_SESSIONS_MAX, EXPIRIES_PER_TURN, FETCHED_MAX,
    FIGURES_PER_LOOKUP, FILTERS_BYTES_MAX, FILTERS_SHARE, FROM_BROKER_MAX, GATHERED_BYTES,
    GONE_MAX, GROUP_ROWS_SHARE, H2_CONNECTION_WINDOW_BYTES, H2_HEAD_PART, H2_INTERVAL_US,
    H2_STREAM_WINDOW_BYTES, HISTORY_PAGE_BYTES, IDLE_HISTORY_QUERY, KEY_LOADS_MAX, KEYS_BYTES_MAX,
    KEYS_GAP, KEYS_NAMED_MAX, KEYS_TIMEOUT, KEYS_WAIT, KEYS_WAITING_MAX, LEFT_MEMBERS_MAX,
    LISTS_IN_FLIGHT_MAX, LISTS_MAX, MEMBER_EVENTS_BYTES, MEMBER_EVENTS_MAX, MEMBERS_COMPARED_MAX,
    MEMBERS_MAX, MEMBERS_SHARE, NEGOTIATION_LIFE_US, PATCH_US_MAX, PAUSE_MS_MIN, PLANNING_BURST_US,
    PLANNING_PART, PLANNING_UNBROKEN_US, PLANNINGS_WAITING_MAX, PLANNINGS_WAITING_PER_ADDRESS,
    QUERIES_US, QUERY_BYTES, QUERY_DROPS_US, QUERY_EVENT_STEPS, QUERY_GRAIN_BYTES,
    QUERY_STEPS_PER_LOOK, QUERY_US_MIN, RANKED_MAX, RATED_MAX, READS_IN_FLIGHT_MAX, READS_MAX,
    READS_PER_SHARD, RECONNECT_SPACING_US, REDIRECTS_MAX, REJECTION_WAIT, REJECTIONS_MAX,
    REPLAY_OFFSETS_MAX, REPOLLS_MAX, RUN_FILE_BYTES, RUNS_LISTED, RUNS_LOOKED_AT, SAMPLE_PART,
    SAMPLE_US, SAMPLED_TOPICS_MAX, SAMPLES_KEPT_US, SEEN_TOKENS_MAX, SETTLED_BYTES,
    SETTLING_ROUNDS_MAX, SETTLING_TIME, SHOWN_SUBSCRIBERS_MAX, SIGNALR_KEEP_ALIVE,
    SIGNALR_POLL_LEAST, SIGNALR_POLL_WAIT, SIGNALR_TIMEOUT_US, SMALL_BODY_BYTES, SOCKET_READ_BYTES,
    SSE_RETRY_MS_MIN, SSE_RETRY_SPREAD_MS, STORES_IN_FLIGHT_MAX, STORES_MAX, SUBJECT_TICKETS_MAX,
    TICKET_WAIT, TICKETS_MAX, TICKETS_UNDER_WAY_MAX, TICKETS_WAITING_MAX, TRACE_LIFE,
    TRACE_LINES_MAX, TRACE_PIECE_BYTES, TRACES_MAX, UNANSWERED_MAX, UNSTORED_BYTES_MAX,
    UPSTREAM_BUFFER_BYTES, UPSTREAM_IDLE, WRONG_TOKEN_REQUESTS, has_read_enough, share_of_requests,
};
pub use limits::{EMPTY_TOPIC_BYTES, Limits};
pub use network::Network;
pub use options::{Options, closest, nearest};
pub(crate) use presence::{NODES_TOPIC, presence_topic, topic_of_members};
pub use presence::{Presence, PresenceOf};
pub use query::QueryConfig;
pub(crate) use query::{AD_HOC_STATES, AD_HOC_TOPICS};
pub use rate::{Rate, Rates};
pub use shared_topics::SharedTopics;
pub use units::{parse_bytes, parse_duration};
pub use upstream::{Pace, UpstreamConfig, UpstreamUrl};

/// All settings of `thalweg serve`.
#[derive(Debug, Clone)]
pub struct Config {
    /// The version of this build, for `/metrics`.
    pub version: &'static str,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where administrators connect without token and TLS, for the list of topics, `/metrics`, health, and closing connections.
    pub admin_listen: Option<SocketAddr>,
    /// The number of cores that shards run on: one shard each, pinned if there are several.
    pub shards: usize,
    /// Generators of events.
    pub sources: Vec<SourceConfig>,
    /// Whether this server runs the sources. Otherwise it only declares the columns of their topics.
    pub runs_sources: bool,
    /// Topics whose events are the rows of queries.
    pub queries: Vec<QueryConfig>,
    /// How far an event's time may be ahead of its publication. Windows of queries exclude events further ahead.
    pub query_lead: Duration,
    /// Topics that the server fetches over HTTP. The first matching pattern applies.
    pub upstreams: Vec<UpstreamConfig>,
    /// Whether this server tells the others when a topic of a stream has paused, so that windows of queries close.
    pub tells_time: bool,
    /// Settings of topics that no pattern of `topics` matches.
    pub topic_defaults: TopicSettings,
    /// Settings of topics that match a pattern. The first matching pattern applies.
    pub topics: Vec<(Pattern, TopicSettings)>,
    /// The topics that clients may subscribe to.
    pub subscribe: Subscribing,
    /// Limits of peers.
    pub limits: Limits,
    /// Rights of clients.
    pub access: Access,
    /// TLS instead of cleartext, with ALPN for HTTP/2 and HTTP/1.1.
    pub tls: Option<Tls>,
    /// Accepted subprotocols of WebSocket.
    pub websocket_protocols: Vec<String>,
    /// Whether clients that ask for permessage-deflate or gzip get it ([`Limits::compression_context_bytes`]).
    pub compression: bool,
    /// The pages for browsers.
    pub pages: Pages,
    /// A folder of the lab's runs, for clients that may subscribe.
    pub runs: Option<PathBuf>,
    /// For conformance tests of the WebSocket codec only: a path that sends back every message, binary ones included.
    pub echo_path: Option<String>,
    /// Paths of hubs for SignalR's clients.
    pub signalr_paths: Vec<String>,
    /// A heartbeat comes after half to all of this time without data, because proxies and routers forget idle connections after
    /// 30 to 60 s.
    pub heartbeat: Duration,
    /// How long the server keeps serving after SIGTERM while `/readyz` answers 503: load balancers need time to notice.
    pub shutdown_delay: Duration,
    /// How long a shutdown may take.
    pub shutdown_timeout: Duration,
}

/// The topics that clients may subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscribing {
    /// All topics: if nothing was published yet, events come later.
    Any,
    /// Only topics that have events or a source.
    Existing,
}

/// The kind of a topic, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// Events, or versions of a value.
    pub kind: FeedKind,
    /// The declared columns. Without them the server infers columns when a client requests them.
    pub columns: Option<Arc<Columns>>,
    /// Bounds of its history.
    pub history: HistoryBounds,
    /// When a batch is sealed.
    pub batch: BatchBounds,
    /// The keys of a keyed topic.
    pub keys: KeySettings,
    /// How its members are published, if they are.
    pub presence: Option<Presence>,
}

/// The keys of a keyed topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// The place of the key in an event. Without a pointer, publishers name the key.
    pub pointer: Option<KeyPointer>,
    /// The maximum number of keys.
    pub count_max: usize,
    /// How long a key stays after its newest event, in µs. `None`: until it is removed.
    pub ttl_us: Option<u64>,
}

/// `TOPIC=KIND,key=value,…`
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The topic it feeds.
    pub topic: Topic,
    /// The kind of generator.
    pub kind: String,
    /// Its settings, read by the source itself.
    pub options: Options,
}

/// The subprotocol of this wire: the messages of `docs/reference/messages.md` and the commands of `docs/reference/http.md`.
const WEBSOCKET_PROTOCOL: &str = "thalweg.v1";

/// Bytes of a batch. With its envelope, whose topic, positions and names take less than a kilobyte, a
/// message is below 64 KiB: common clients refuse larger ones (Go's `bufio.Scanner` lines from 64 KiB on,
/// Python's `websockets` messages above 1 MiB), and would get the same message after each reconnect.
const BATCH_BYTES: usize = 63 << 10;

/// The rights of clients. Without tokens all clients of a server on loopback may subscribe and publish; elsewhere a
/// server needs tokens, or rights of everybody.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Tokens of the configuration.
    pub tokens: Vec<NamedToken>,
    /// The signed tokens that the server accepts.
    pub signed: Option<SignedBy>,
    /// Rights of all clients, with or without a token. If unset, see [`Self::rights_of_all`].
    pub everybody: Option<Rights>,
    /// Origins, besides the server's own, whose web pages may use it: `https://app.example`, or `*` for all.
    pub origins: Vec<String>,
    /// Host names that the server accepts besides those of loopback. If empty, a server that is not on loopback accepts all.
    pub hosts: Vec<String>,
    /// Proxies whose `X-Forwarded-For` and `Forwarded` headers are trusted.
    pub trusted_proxies: Vec<Network>,
}

/// A token that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedToken {
    /// Its name, for logs and limits.
    pub name: String,
    /// The secret that clients present.
    pub secret: Secret,
    /// The rights of these clients.
    pub rights: Rights,
}

/// The signed tokens that the server accepts.
#[derive(Clone, Default)]
pub struct SignedBy {
    /// The keys of issuers.
    pub keys: Keys,
    /// The URL of more keys.
    pub url: Option<UpstreamUrl>,
    /// The claims that tokens must have.
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
    /// PEM files: the chain, which begins with the server's certificate, and its key.
    Files {
        /// The chain.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// A certificate for localhost, made at start, for development: browsers warn about it.
    SelfSigned,
}

impl Config {
    pub(crate) fn query_bounds(&self) -> Bounds {
        let lead_ms = i64::try_from(self.query_lead.as_millis()).unwrap_or(i64::MAX);
        Bounds { lead_ms, ..Bounds::default() }
    }

    /// Returns the longest time without data before a heartbeat. Clients of SignalR expect one within their timeout.
    pub(crate) fn heartbeat(&self) -> Duration {
        match self.signalr_paths.is_empty() {
            true => self.heartbeat,
            false => self.heartbeat.min(SIGNALR_KEEP_ALIVE),
        }
    }

    /// Returns how many bytes of answers a shard may hold: at least one largest answer, whose buffer may have twice its size.
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
            signalr_paths: Vec::new(),
            heartbeat: Duration::from_secs(25),
            shutdown_delay: Duration::ZERO,
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}

impl Default for TopicSettings {
    /// Returns a history of seconds of a fast topic, or minutes of a slow one: enough for a subscriber that reconnects.
    fn default() -> Self {
        Self {
            kind: FeedKind::default(),
            columns: None,
            history: HistoryBounds {
                events_max: 100_000,
                bytes_max: 8 << 20,
                age_us_max: 300_000_000,
            },
            batch: BatchBounds { flush_us: 0, events_max: 8192, bytes_max: BATCH_BYTES },
            keys: KeySettings { pointer: None, count_max: 100_000, ttl_us: None },
            presence: None,
        }
    }
}

impl Access {
    /// Returns whether clients may present a token.
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty() || self.signed.is_some()
    }

    /// Returns whether clients on other machines come through a proxy: a trusted one, or one that gives the server another name.
    pub fn is_behind_proxy(&self) -> bool {
        !self.hosts.is_empty() || !self.trusted_proxies.is_empty()
    }

    /// Returns whether tokens or `everybody` limit who may publish.
    pub fn limits_publishers(&self) -> bool {
        self.has_tokens() || self.everybody.is_some()
    }

    /// Returns the rights of all clients of a server that listens on `listen`. Without tokens and `everybody` they may
    /// subscribe and publish. They may also inspect on loopback, unless the server is behind a proxy.
    pub fn rights_of_all(&self, listen: SocketAddr) -> Rights {
        if let Some(everybody) = &self.everybody {
            return everybody.clone();
        }
        if self.has_tokens() {
            return Rights::default();
        }
        let is_loopback = listen.ip().to_canonical().is_loopback();
        let may_inspect = is_loopback && !self.is_behind_proxy();
        let inspect = if may_inspect { Topics::all() } else { Topics::default() };
        Rights { subscribe: Topics::all(), publish: Topics::all(), inspect, admin: false }
    }
}

impl NamedToken {
    /// Returns a token with this name.
    pub fn new(name: &str, secret: &str, rights: Rights) -> Self {
        Self { name: name.to_owned(), secret: Secret::new(secret), rights }
    }
}

impl Secret {
    /// Returns a secret with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the bytes, for comparisons.
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
    /// Returns the settings of a topic. A fetched topic is a value topic.
    pub fn topic(&self, topic: &Topic) -> TopicSettings {
        if self.is_presence(topic) {
            let kind = FeedKind::OF_MEMBERS;
            return TopicSettings { kind, columns: None, ..self.topic_defaults.clone() };
        }
        let settings = self.settings(topic).clone();
        match self.upstream(topic) {
            Some(_) => TopicSettings { kind: FeedKind::OF_DOCUMENTS, ..settings },
            None if self.has_state(topic) => {
                TopicSettings { kind: FeedKind::OF_GROUPS, ..settings }
            }
            // Rows of other queries have no keys.
            None if settings.kind.has_keys() && self.is_derived(topic) => {
                TopicSettings { kind: FeedKind::default(), ..settings }
            }
            None => settings,
        }
    }

    fn settings(&self, topic: &Topic) -> &TopicSettings {
        let named = self.topics.iter().find(|(pattern, _)| pattern.matches(topic));
        named.map_or(&self.topic_defaults, |(_, settings)| settings)
    }

    /// Returns the settings of a topic's keys. `None` if it is not keyed.
    pub(crate) fn keys(&self, topic: &Topic) -> Option<&KeySettings> {
        let settings = self.settings(topic);
        if self.is_presence(topic) || self.has_state(topic) {
            return Some(&self.topic_defaults.keys);
        }
        let is_keyed = settings.kind.has_keys() && self.upstream(topic).is_none();
        (is_keyed && !self.is_derived(topic)).then_some(&settings.keys)
    }

    /// Returns whether the events of a topic have keys.
    pub(crate) fn has_keys(&self, topic: &Topic) -> bool {
        self.topic(topic).kind.has_keys()
    }

    /// Returns whether any topic's members are published.
    pub fn has_presence(&self) -> bool {
        let named = self.topics.iter().map(|(_, settings)| settings);
        named.chain([&self.topic_defaults]).any(|settings| settings.presence.is_some())
    }

    /// Returns how the members of a topic are published. `None` if they are not.
    pub(crate) fn presence(&self, topic: &Topic) -> Option<Presence> {
        self.settings(topic).presence.filter(|_| topic_of_members(topic).is_none())
    }

    /// Returns whether only the server publishes to a topic: it lists the members of another one, or the servers that share such lists.
    pub(crate) fn is_presence(&self, topic: &Topic) -> bool {
        topic_of_members(topic).is_some_and(|of| self.presence(&of).is_some())
            || (topic.as_str() == NODES_TOPIC && self.has_presence())
    }

    /// Returns whether servers may share a topic that lists the members of another one. A number of members has no parts of servers.
    pub(crate) fn may_share_presence(&self, topic: &Topic) -> bool {
        let presence = topic_of_members(topic).and_then(|of| self.presence(&of));
        presence.is_none_or(|presence| presence.of != PresenceOf::Count)
    }

    /// Returns the patterns of keyed topics.
    pub fn keyed_patterns(&self) -> impl Iterator<Item = Pattern> {
        let all = (Pattern::all(), self.topic_defaults.kind);
        let named = self.topics.iter().map(|(pattern, settings)| (pattern.clone(), settings.kind));
        named.chain([all]).filter(|(_, kind)| kind.has_keys()).map(|(pattern, _)| pattern)
    }

    /// Declares the columns of a topic, unless they are declared already.
    pub(crate) fn declare(&mut self, topic: &Topic, columns: Columns) {
        let settings = self.topic(topic);
        if settings.columns.is_none() {
            let columns = Some(Arc::new(columns));
            self.topics.insert(0, (topic.clone().into(), TopicSettings { columns, ..settings }));
        }
    }

    /// Returns whether the events of a topic may be rows of columns.
    pub(crate) fn has_rows(&self, shared: &SharedTopics, topic: &Topic) -> bool {
        let kind = self.topic(topic).kind;
        let shared = shared.kind(topic, kind.has_keys());
        shared.unwrap_or(kind).has_rows()
    }

    /// Returns whether the events of a topic are the rows of a query.
    pub fn is_derived(&self, topic: &Topic) -> bool {
        let is_ad_hoc = topic.as_str().starts_with(AD_HOC_TOPICS);
        is_ad_hoc || self.queries.iter().any(|query| query.topic == *topic)
    }

    /// Returns whether the events of a topic are the state of a query: one row for each group.
    pub(crate) fn has_state(&self, topic: &Topic) -> bool {
        let is_its = |query: &QueryConfig| query.has_state() && query.topic == *topic;
        topic.as_str().starts_with(AD_HOC_STATES) || self.queries.iter().any(is_its)
    }

    /// Returns the patterns of topics that label `/metrics`. The last one matches all other topics.
    pub(crate) fn patterns(&self, shared: &SharedTopics) -> Vec<Pattern> {
        let of_topics = self.topics.iter().map(|(pattern, _)| pattern);
        let of_upstreams = self.upstreams.iter().map(|upstream| &upstream.pattern);
        let mut patterns = Vec::new();
        for pattern in
            of_topics.chain(shared.patterns()).chain(of_upstreams).chain([&Pattern::all()])
        {
            if !patterns.contains(pattern) {
                patterns.push(pattern.clone());
            }
        }
        patterns
    }

    /// Returns the index of the upstream that a topic is fetched from, if any.
    pub fn upstream(&self, topic: &Topic) -> Option<usize> {
        self.upstreams.iter().position(|upstream| upstream.pattern.matches(topic))
    }
}

impl TopicSettings {
    /// Declares columns, each `name:type`.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong with the columns.
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
    /// Reads `TOPIC=KIND,key=value,…`. The topic may be percent-encoded, as in a path, because it ends at the first `=`.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (topic, rest) = text
            .split_once('=')
            .ok_or("a source is TOPIC=KIND,key=value,…, for instance cars=cars,interval=100ms")?;
        let topic = Topic::from_path(topic).map_err(|error| format!("topic {topic:?}: {error}"))?;
        let (kind, options) = rest.split_once(',').unwrap_or((rest, ""));
        Ok(Self { topic, kind: kind.into(), options: Options::parse(options)? })
    }
}
