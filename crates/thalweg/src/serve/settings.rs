//! Everything that a user may set, once: the fields are the flags of
//! `thalweg serve`, the keys of its file, the properties of the file's schema; what
//! is said of each here is said everywhere.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use serde::Deserialize;

use super::values::{
    Address, Count, Level, LogFormat, Protocol, Proxy, QueryTopic, RatesOf, RightsOf, Size, Source,
    Stream, Subscribe, Time, Token, TokenKey, TokenWithRights, TopicBounds, TopicTable, Upstream,
    Url,
};

const TOPICS: &str = "Topics";
const CLUSTER: &str = "Several servers, which share topics through NATS JetStream";
const ACCESS: &str = "Access";
const LIMITS: &str = "Limits (what goes beyond is refused)";
const SUBSCRIBERS: &str = "Each subscriber";
const INNER: &str = "Inner workings";
const LOGS: &str = "Logs";

/// Settings of `thalweg serve`; those that are not given have defaults that work.
// `default: X` at the end of a first sentence is held to `Config::default` by a test.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Settings {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<Address>,
    /// Where to listen for administrators, without a token: /metrics, topics, health
    ///
    /// Whoever reaches it sees them, and may end connections of others, without TLS: choose loopback, or an
    /// address that a firewall guards. It answers to addresses, and to the names of --allow-host.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) admin_listen: Option<Address>,
    /// Threads that serve, each with its own sockets [default: the cores it may run on]
    #[arg(long, value_name = "N")]
    pub(super) shards: Option<Count<1, 256>>,
    /// Adds the demo's topics: car_live_data, max-speed, ticker, matchesfeed/…, and lab/… for the lab page
    #[arg(long)]
    pub(super) demo: bool,
    /// Shows the lab's runs in a folder, to whoever may subscribe: thalweg-runs
    #[arg(long, value_name = "DIR")]
    pub(super) runs: Option<PathBuf>,
    /// Sends a heartbeat to whom nothing else was sent for so long [default: 25s]
    ///
    /// Proxies and routers forget a connection that is silent for 30 to 60 s.
    #[arg(long, value_name = "TIME")]
    pub(super) heartbeat: Option<Time<10_000>>,
    /// Compresses for whoever asks: permessage-deflate, gzip
    #[arg(long)]
    pub(super) compression: bool,
    /// Grant this WebSocket subprotocol to clients that offer it [default: thalweg.v1]
    ///
    /// Of several the first that a client offers counts. Browsers fail a connection whose offer is not
    /// answered.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(super) websocket_protocol: Vec<Protocol>,
    /// How long it serves on when it is asked to end, /readyz saying 503: until a load
    /// balancer has looked [default: 0]
    ///
    /// A second signal ends it.
    #[arg(long, value_name = "TIME")]
    pub(super) drain_delay: Option<Time<0>>,
    /// How long a shutdown may take [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(super) drain: Option<Time<0>>,
    /// For conformance tests of the WebSocket codec: a path that says everything back
    #[arg(long, value_name = "PATH", hide = true)]
    #[serde(skip)]
    pub(super) echo_path: Option<String>,

    /// Adds a source: TOPIC=KIND,key=value,…
    ///
    /// An equals sign in the topic is written %3D.
    #[arg(long, value_name = "SOURCE", help_heading = TOPICS)]
    pub(super) source: Vec<Source>,
    /// Makes a topic of the rows of a query: TOPIC=SELECT …
    ///
    /// It reads each event of one topic, in order: SELECT … FROM topic, or FROM tumble(topic, 1s) with GROUP BY
    /// window_start. docs/queries.md has all that it may say. An equals sign in its own topic is written %3D.
    #[arg(long, value_name = "TOPIC=SELECT …", help_heading = TOPICS)]
    pub(super) query: Vec<QueryTopic>,
    /// Topics by their names, each with the query that makes its events, or with its columns, as name:type
    #[arg(skip)]
    pub(super) topics: BTreeMap<String, TopicTable>,
    /// Fetches topics from an HTTP server while somebody subscribes to them:
    /// PATTERN=URL,key=value,…
    ///
    /// {topic} in the URL is the topic. Keys: max-age (how often, if a response does not say),
    /// least, most, timeout, in-flight (of its host), max-body, linger (without subscribers),
    /// remember (that there is no such document). Of several patterns the first that fits counts.
    #[arg(long, value_name = "UPSTREAM", help_heading = TOPICS)]
    pub(super) upstream: Vec<Upstream>,
    /// Sets what topics are, and their bounds: PATTERN,kind=value,flush=…,batch-…=…,history-…=…
    ///
    /// In a pattern * is one segment, and ** at the end is all that follow; of several patterns
    /// the first that fits counts. Of a topic of kind=value the newest event replaces the others.
    /// columns=name:type name:type says what rows have (bool, int, double, time, string, json;
    /// time_s, time_us and time_ns are times whose numbers are seconds, microseconds or nanoseconds).
    #[arg(long, value_name = "PATTERN,…", help_heading = TOPICS)]
    pub(super) topic: Vec<TopicBounds>,
    /// To which topics one may subscribe: any, or existing, which have events or a source
    /// [default: any]
    #[arg(long, value_name = "WHICH", help_heading = TOPICS)]
    pub(super) subscribe: Option<Subscribe>,
    /// Memory of each topic's history [default: 8MiB]
    #[arg(long, value_name = "SIZE", help_heading = TOPICS)]
    pub(super) history_bytes: Option<Size<0>>,
    /// Events in each topic's history [default: 100000]
    #[arg(long, value_name = "N", help_heading = TOPICS)]
    pub(super) history_events: Option<Count<0>>,
    /// Age of each topic's history [default: 5m]
    #[arg(long, value_name = "TIME", help_heading = TOPICS)]
    pub(super) history_age: Option<Time<0, { u64::MAX }>>,
    /// How long events may wait for others to share a batch with [default: 0]
    #[arg(long, value_name = "TIME", help_heading = TOPICS)]
    pub(super) flush: Option<Time<0>>,
    /// Events in a batch [default: 8192]
    #[arg(long, value_name = "N", help_heading = TOPICS, hide_short_help = true)]
    pub(super) batch_events: Option<Count>,
    /// Bytes of a batch; a larger event is a batch by itself [default: 63KiB]
    ///
    /// A message is less than 1 KiB larger. Clients that refuse messages above 32 KiB need 31KiB.
    #[arg(long, value_name = "SIZE", help_heading = TOPICS, hide_short_help = true)]
    pub(super) batch_bytes: Option<Size<1, { 64 << 20 }>>,

    /// Servers of NATS: nats://a:4222, or tls://a:4222, with commas between
    ///
    /// Topics of a --stream are stored there: every server that names the same has the same
    /// events at the same positions.
    #[arg(long, value_name = "URLS", value_delimiter = ',', help_heading = CLUSTER)]
    pub(super) nats: Vec<String>,
    /// Shares topics: NAME=PATTERN,replicas=3,age=1h,bytes=…,kind=value
    ///
    /// The stream is created if there is none of this name, and must be as it is said here if there
    /// is one. Of several patterns the first that fits counts; no two may mean the same topic.
    #[arg(long, value_name = "STREAM", help_heading = CLUSTER)]
    pub(super) stream: Vec<Stream>,
    /// A credentials file of NATS, as nsc writes it
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub(super) nats_credentials: Option<PathBuf>,
    /// The authorities that the servers of NATS are checked by, in a PEM file, in place of the
    /// system's
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub(super) nats_ca: Option<PathBuf>,
    /// The name of this server among them
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    #[arg(env = "THALWEG_NODE")]
    pub(super) node: Option<String>,
    /// The name of the server that runs the sources, which are not to run on each
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub(super) source_node: Option<String>,
    /// The name of the server that tells when a shared topic has paused, so that windows of queries close
    ///
    /// Without one they close by events alone, for servers would not agree on the time.
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub(super) time_node: Option<String>,

    /// What publishers present; @FILE reads it from a file
    ///
    /// A command line shows in the list of processes: better is a file, or the
    /// variable.
    #[arg(long, value_name = "TOKEN", help_heading = ACCESS)]
    #[arg(env = "THALWEG_PUBLISH_TOKEN", hide_env_values = true)]
    pub(super) publish_token: Option<Token>,
    /// What subscribers present, if not everybody may subscribe; @FILE as above
    #[arg(long, value_name = "TOKEN", help_heading = ACCESS)]
    #[arg(env = "THALWEG_SUBSCRIBE_TOKEN", hide_env_values = true)]
    pub(super) subscribe_token: Option<Token>,
    /// What is presented for /metrics and the list of topics; the publish token will do, too
    ///
    /// On loopback they are everybody's, until there is such a token, a subscribe token, an
    /// --allow-host or a --trusted-proxy. Elsewhere they need it, or --admin-listen.
    #[arg(long, value_name = "TOKEN", help_heading = ACCESS)]
    #[arg(env = "THALWEG_INSPECT_TOKEN", hide_env_values = true)]
    pub(super) inspect_token: Option<Token>,
    /// A token with rights of its own: NAME=@FILE,subscribe=PATTERN …,publish=…,inspect=…
    ///
    /// In a pattern * is one segment, and ** at the end is all that follow; several have spaces
    /// between. With admin=true it may end connections of others.
    #[arg(long, value_name = "NAME=TOKEN,…", help_heading = ACCESS)]
    pub(super) token: Vec<TokenWithRights>,
    /// What those may do who present no token: subscribe=PATTERN …,publish=…,inspect=…
    ///
    /// Without it they may do what no token is given for.
    #[arg(long, value_name = "RIGHTS", help_heading = ACCESS)]
    pub(super) everybody: Option<RightsOf>,
    /// Takes JSON Web Tokens that are signed by this key: @FILE, in PEM or a JWK; ID=@FILE, if
    /// they name it (RSA, EC, Ed25519)
    ///
    /// The claim thalweg of a token has its rights. `thalweg token` makes one, and explains it.
    #[arg(long, value_name = "KEY", help_heading = ACCESS)]
    pub(super) jwt_key: Vec<TokenKey>,
    /// The same for a secret of at least 32 bytes, which whoever makes tokens has, too (HS256)
    #[arg(long, value_name = "SECRET", help_heading = ACCESS)]
    #[arg(env = "THALWEG_JWT_SECRET", hide_env_values = true)]
    pub(super) jwt_secret: Option<TokenKey>,
    /// Takes JSON Web Tokens that are signed by a key of this set, which is read again and again
    #[arg(long, value_name = "URL", help_heading = ACCESS)]
    pub(super) jwks_url: Option<Url>,
    /// Who must have made them: the claim iss
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub(super) jwt_issuer: Option<String>,
    /// For whom they must be: the claim aud
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub(super) jwt_audience: Option<String>,
    /// The claim that has the rights [default: thalweg]
    #[arg(long, value_name = "NAME", help_heading = ACCESS, hide_short_help = true)]
    pub(super) jwt_claim: Option<String>,
    /// How far the clocks of servers may be apart [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = ACCESS, hide_short_help = true)]
    pub(super) jwt_leeway: Option<Time<0, 300_000_000>>,
    /// Lets everybody who reaches the server publish, from other machines too
    ///
    /// Without it a server that listens elsewhere than on loopback needs a publish
    /// token. Tokens that are given hold all the same.
    #[arg(long, help_heading = ACCESS)]
    pub(super) open: bool,
    /// Lets web pages of another origin use it: https://app.example; * for all
    #[arg(long, value_name = "ORIGIN", help_heading = ACCESS)]
    pub(super) allow_origin: Vec<String>,
    /// A name that it is asked by besides localhost: behind a proxy
    ///
    /// On loopback it has no others. Elsewhere any name is right until one is given.
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub(super) allow_host: Vec<String>,
    /// A proxy that is believed whom it speaks for: 10.0.0.1, or 10.0.0.0/8
    ///
    /// It writes X-Forwarded-For or Forwarded, and its clients are counted one by one.
    /// Other clients' headers of that name mean nothing.
    #[arg(long, value_name = "ADDRESS", help_heading = ACCESS)]
    pub(super) trusted_proxy: Vec<Proxy>,
    /// Serves over TLS: the certificate's chain in a PEM file, the server's own first
    #[arg(long, value_name = "FILE", help_heading = ACCESS)]
    pub(super) tls_cert: Option<PathBuf>,
    /// The certificate's key in a PEM file
    #[arg(long, value_name = "FILE", help_heading = ACCESS)]
    pub(super) tls_key: Option<PathBuf>,
    /// Serves over TLS with a certificate made at start, for development
    #[arg(long, help_heading = ACCESS)]
    pub(super) tls_self_signed: bool,

    /// Connections in all [default: 100000]
    ///
    /// Each costs a descriptor and about a kilobyte.
    #[arg(long, value_name = "N", help_heading = LIMITS)]
    pub(super) max_connections: Option<Count>,
    /// Connections from one address [default: a tenth of all]
    ///
    /// At least 100. Of IPv6, from one /64. Loopback is not counted. Behind a proxy
    /// everybody has one address, unless it is a --trusted-proxy.
    #[arg(long, value_name = "N", help_heading = LIMITS)]
    pub(super) max_connections_per_address: Option<Count>,
    /// Bytes of an event as published [default: 1MiB]
    #[arg(long, value_name = "SIZE", help_heading = LIMITS)]
    pub(super) max_event: Option<Size<1, { 16 << 20 }>>,
    /// Memory of all topics' histories [default: 1GiB]
    ///
    /// Beyond it a topic that grows loses its oldest batches before its own bounds
    /// say so.
    #[arg(long, value_name = "SIZE", help_heading = LIMITS)]
    pub(super) max_history: Option<Size>,
    /// Topics at a time that have events or sources, on each shard [default: 100000]
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_topics: Option<Count>,
    /// Topics at a time that only subscribers hold, on each shard [default: 100000]
    ///
    /// They leave the other topics alone: whoever publishes to a new one is not refused
    /// because of them.
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_subscribed_topics: Option<Count>,
    /// How many of them those at one address make, of IPv6 at one /64 [default: 1000]
    ///
    /// Loopback is not counted.
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_subscribed_topics_per_address: Option<Count>,
    /// Leave an event out of the windows of queries if its time is this far ahead of when it was published [default: 1h]
    ///
    /// Servers that share topics need the same.
    #[arg(long, value_name = "TIME", help_heading = TOPICS, hide_short_help = true)]
    pub(super) query_lead: Option<Time<0, { u64::MAX }>>,
    /// Queries of clients that run at a time: each reads all events of a topic [default: 256]
    #[arg(long, value_name = "N", help_heading = TOPICS, hide_short_help = true)]
    pub(super) max_queries: Option<Count>,
    /// The same of clients of one address; loopback is not counted [default: 16]
    #[arg(long, value_name = "N", help_heading = TOPICS, hide_short_help = true)]
    pub(super) max_queries_per_address: Option<Count>,
    /// Fetches at a time, from all upstreams [default: 256]
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_fetches: Option<Count<1, 10_000>>,
    /// Topics to fetch that those at one address are the first to ask for, in a second, of IPv6
    /// at one /64 [default: 50]
    ///
    /// Loopback is not counted.
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_new_fetched_per_address: Option<Count>,
    /// How often one connection may do something, in a second: commands=1000,publishes=10000,bytes=16MiB
    ///
    /// Ten times as many at once. Of clients on loopback only those of signed tokens are counted;
    /// who presents a token of --token, or one of the three, is not.
    #[arg(long, value_name = "RATES", help_heading = LIMITS, hide_short_help = true)]
    pub(super) connection_rates: Option<RatesOf>,
    /// The same of one subject of signed tokens: handshakes=2000,commands=2000,publishes=20000,bytes=32MiB
    #[arg(long, value_name = "RATES", help_heading = LIMITS, hide_short_help = true)]
    pub(super) subject_rates: Option<RatesOf>,
    /// The same of one address, of IPv6 one /64:
    /// handshakes=10000,commands=20000,publishes=200000,bytes=256MiB
    #[arg(long, value_name = "RATES", help_heading = LIMITS, hide_short_help = true)]
    pub(super) address_rates: Option<RatesOf>,
    /// Subscriptions of one connection [default: 256]
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_subscriptions: Option<Count<1, 10_000>>,
    /// Bytes of a request's head; over HTTP/2 a quarter [default: 64KiB]
    #[arg(long, value_name = "SIZE", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_head: Option<Size<{ 8 << 10 }, { 1 << 20 }>>,
    /// How long a request's head may take to arrive, or a TLS handshake [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = LIMITS, hide_short_help = true)]
    pub(super) head_wait: Option<Time>,
    /// Keep a connection without a request for this long [default: 75s]
    ///
    /// Let it be longer than the proxy or balancer in front keeps its connections to the server.
    #[arg(long, value_name = "TIME", help_heading = LIMITS, hide_short_help = true)]
    pub(super) keep_alive: Option<Time>,
    /// How long one event's body, a line or a message may take to arrive [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = LIMITS, hide_short_help = true)]
    pub(super) body_wait: Option<Time>,
    /// Requests whose bodies are being read; besides, a quarter as many of clients who may
    /// not publish [default: 1024]
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_requests: Option<Count>,
    /// Memory of unfinished WebSocket messages, and as much of requests' bodies, on each shard
    /// [default: 64MiB]
    #[arg(long, value_name = "SIZE", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_unfinished: Option<Size>,
    /// Streams of one HTTP/2 connection at a time [default: 256]
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_streams: Option<Count<1, 65_536>>,
    /// Streams of one HTTP/2 connection reset before they were looked at [default: 20]
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) max_resets: Option<Count>,
    /// Idempotency keys remembered at a time, on each shard [default: 100000]
    #[arg(long, value_name = "N", help_heading = LIMITS, hide_short_help = true)]
    pub(super) retry_keys: Option<Count>,
    /// How long an idempotency key is remembered [default: 5m]
    #[arg(long, value_name = "TIME", help_heading = LIMITS, hide_short_help = true)]
    pub(super) retry_time: Option<Time>,

    /// Of a frame partly sent, or of an answer, a quarter must be taken within this time [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = SUBSCRIBERS, hide_short_help = true)]
    pub(super) stall: Option<Time>,
    /// Close a connection whose peer acknowledges nothing for this long [default: 45s]
    ///
    /// A peer that is gone without a word is noticed after this time and a heartbeat.
    #[arg(long, value_name = "TIME", help_heading = SUBSCRIBERS, hide_short_help = true)]
    pub(super) peer_timeout: Option<Time<1_000_000>>,
    /// Kernel memory for what is on its way to it [default: what the kernel finds right]
    #[arg(long, value_name = "SIZE", help_heading = SUBSCRIBERS, hide_short_help = true)]
    pub(super) send_buffer: Option<Size<1, { 1 << 30 }>>,
    /// How much of it may be unsent: what one that stops reading holds [default: 16KiB]
    #[arg(long, value_name = "SIZE", help_heading = SUBSCRIBERS, hide_short_help = true)]
    pub(super) unsent: Option<Size<1, { 1 << 30 }>>,
    /// Memory before an HTTP/2 stream or a long poll's answer [default: 32KiB]
    #[arg(long, value_name = "SIZE", help_heading = SUBSCRIBERS, hide_short_help = true)]
    pub(super) stream_buffer: Option<Size<1024, { 1 << 30 }>>,
    /// Its control messages waiting; beyond it its commands wait unread [default: 64KiB]
    #[arg(long, value_name = "SIZE", help_heading = SUBSCRIBERS, hide_short_help = true)]
    pub(super) control_buffer: Option<Size<1024, { 1 << 30 }>>,
    /// Memory of answers that clients do not take, on each shard, at least that of two largest
    /// commands' answers; beyond it connections of the address that takes nothing and holds
    /// most are ended [default: 8MiB]
    #[arg(long, value_name = "SIZE", help_heading = SUBSCRIBERS, hide_short_help = true)]
    pub(super) max_answers: Option<Size<{ 64 << 10 }, { 1 << 30 }>>,

    /// Memory for batches that only partly sent frames need, on each shard, and as much for
    /// those that only unread answers do [default: 8MiB]
    #[arg(long, value_name = "SIZE", help_heading = INNER, hide_short_help = true)]
    pub(super) max_pinned: Option<Size<0>>,
    /// Bytes to one socket in one visit of a walk [default: 1MiB]
    #[arg(long, value_name = "SIZE", help_heading = INNER, hide_short_help = true)]
    pub(super) visit: Option<Size<1024, { 1 << 30 }>>,
    /// Time of one slice of a walk, after which others get their turn [default: 1ms]
    #[arg(long, value_name = "TIME", help_heading = INNER, hide_short_help = true)]
    pub(super) walk_slice: Option<Time<1, 1_000_000>>,
    /// Time of hearing clients in one turn, after which others get theirs [default: 1ms]
    #[arg(long, value_name = "TIME", help_heading = INNER, hide_short_help = true)]
    pub(super) read_slice: Option<Time<1, 1_000_000>>,
    /// Messages on their way to a shard: batches and sockets [default: 1024]
    #[arg(long, value_name = "N", help_heading = INNER, hide_short_help = true)]
    pub(super) mail: Option<Count<1, 1_000_000>>,
    /// Publishes on their way to a shard [default: 64]
    #[arg(long, value_name = "N", help_heading = INNER, hide_short_help = true)]
    pub(super) publishes: Option<Count<1, 1_000_000>>,

    /// What is logged: error, warn, info or debug [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = LOGS)]
    pub(super) log: Option<Level>,
    /// How it is logged: text or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = LOGS)]
    pub(super) log_format: Option<LogFormat>,
}

/// A struct of these fields, each of the one above if it is given there.
macro_rules! over {
    ($above:ident, $below:ident: $($field:ident)*) => {
        Settings { $($field: $above.$field.over($below.$field),)* }
    };
}

impl Settings {
    /// These, and `below` where they say nothing. A list that says something says
    /// everything.
    pub(super) fn over(self, below: Self) -> Self {
        let above = self;
        over!(above, below:
            listen admin_listen shards demo runs heartbeat compression websocket_protocol drain_delay drain echo_path
            source query topics upstream topic subscribe history_bytes history_events history_age flush batch_events
            batch_bytes
            nats stream nats_credentials nats_ca node source_node time_node
            publish_token subscribe_token inspect_token token everybody jwt_key jwt_secret jwks_url
            jwt_issuer jwt_audience jwt_claim jwt_leeway open allow_origin allow_host trusted_proxy
            tls_cert tls_key tls_self_signed
            max_connections max_connections_per_address max_event max_history max_topics
            max_subscribed_topics max_subscribed_topics_per_address query_lead max_queries max_queries_per_address max_fetches
            max_new_fetched_per_address connection_rates subject_rates address_rates max_subscriptions max_head head_wait keep_alive body_wait max_requests max_unfinished
            max_streams max_resets retry_keys retry_time
            stall peer_timeout send_buffer unsent stream_buffer control_buffer max_answers
            max_pinned visit walk_slice read_slice mail publishes
            log log_format
        )
    }
}

trait Over {
    fn over(self, below: Self) -> Self;
}

impl<T> Over for Option<T> {
    fn over(self, below: Self) -> Self {
        self.or(below)
    }
}

impl<T> Over for Vec<T> {
    fn over(self, below: Self) -> Self {
        if self.is_empty() { below } else { self }
    }
}

impl<V> Over for BTreeMap<String, V> {
    fn over(self, below: Self) -> Self {
        if self.is_empty() { below } else { self }
    }
}

impl Over for bool {
    fn over(self, below: Self) -> Self {
        self || below
    }
}
