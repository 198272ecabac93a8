//! The settings of `thalweg serve`: a field is a key of the file and, unless it is skipped, a flag and an environment
//! variable of the same name. Help, example file and schema are generated from here.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Args};
use serde::Deserialize;

use super::{
    limits::{LimitTable, TuningTable},
    merge::over,
    signalr::SignalrTable,
    tables::{QueryTable, SourceTable, StoreTable, StreamTable, TopicTable, UpstreamTable},
    tokens::{TokenKey, TokenTable},
    values::{Address, Count, Level, LogFormat, Proxy, Size, Subprotocol, Time, Url},
};

/// The smallest limit of the data directory: its write-ahead log has half of that.
const DATA_BYTES_MIN: usize = 256 << 20;

const TOPICS: &str = "Topics";
const DATA: &str = "Data (topics that survive a restart)";
const CLUSTER: &str = "Cluster (servers that share topics through NATS JetStream)";
const ACCESS: &str = "Access";
const TLS: &str = "TLS";
const TIMEOUTS: &str = "Timeouts";
const LOGS: &str = "Logs";

/// Settings of `thalweg serve`. Each has a default that works, or is off.
// A test compares each `[default: X]` with `Config::default`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Settings {
    /// Listen on this address; port 0 takes a free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<Address>,
    /// Serve /metrics, the list of topics, and health without a token on this address
    ///
    /// Clients that connect to this address need no token, and may close connections of other clients. The
    /// address has no TLS. Use loopback, or an address behind a firewall. The Host of a request must be in
    /// --allow-host, or be a name or address of loopback. If this address is not loopback, Host may be any IP
    /// address, too.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) admin_listen: Option<Address>,
    /// Run this many threads; each serves a part of the connections and of the topics [default: number of
    /// cores]
    #[arg(long, value_name = "N")]
    pub(super) shards: Option<Count<1, 256>>,
    /// Add the topics of the demo: car_live_data, car-positions, max-speed, ticker, matchesfeed/…, demo/…, lab/…
    #[arg(long)]
    pub(super) demo: bool,
    /// Serve the reports of `thalweg-lab bench` in this folder at /runs, to clients that may subscribe to **
    #[arg(long, value_name = "DIR")]
    pub(super) runs: Option<PathBuf>,
    /// Compress messages for clients that ask for it, with permessage-deflate or gzip
    #[arg(long)]
    pub(super) compression: bool,
    /// Set a key that has no flag of its own: --set limits.event-bytes=4MiB
    ///
    /// docs/thalweg.toml lists all keys of the settings file.
    #[arg(long, value_name = "KEY=VALUE")]
    #[serde(skip)]
    pub(super) set: Vec<String>,
    /// Echo all messages at this path, for conformance tests of the WebSocket codec.
    #[arg(long, value_name = "PATH", hide = true)]
    #[serde(skip)]
    pub(super) echo_path: Option<String>,

    /// Set the kind, columns and limits of topics: PATTERN,kind=log,history-age=10m,…
    ///
    /// In a pattern * matches one segment, and ** at the end matches one or more. If several patterns match,
    /// the first one applies. The pattern ** sets the default
    /// limits of all topics (flush, batch-…, history-…). Keys: kind (log, value or keyed), columns (name:type,
    /// separated by spaces), flush (wait this long for more events of a batch), batch-events, batch-bytes,
    /// history-events, history-bytes, history-age; docs/reference/settings.md has the keys of kind=keyed and of presence.
    /// Types of columns: bool, int, double, time, time_s, time_us, time_ns, string, json.
    #[arg(long, value_name = "PATTERN,…", help_heading = TOPICS)]
    pub(super) topic: Vec<TopicTable>,
    /// Generate events: TOPIC=KIND,KEY=VALUE,…
    ///
    /// Kinds and their keys: cars (cars, seed), constant (batch, shape), dummy (size, seed), and runner (ack). cars,
    /// constant and dummy also have the keys interval (the time between two ticks), start (the time of the
    /// first tick) and when=subscribed (only while the topic has subscribers). runner sends its next event
    /// after an ack of the last one: an ack command of a client or, with ack=TOPIC, an event {"id":OFFSET} in
    /// TOPIC. Write an equals sign in the topic as %3D.
    #[arg(long, value_name = "TOPIC=KIND,…", help_heading = TOPICS)]
    pub(super) source: Vec<SourceTable>,
    /// Publish the rows of a query: TOPIC=SELECT …
    ///
    /// A query reads each event of one topic, in order: SELECT … FROM topic, or FROM tumble(topic, 1s) with GROUP BY
    /// window_start. docs/reference/sql.md describes the language. Write an equals sign in the topic as %3D.
    #[arg(long, value_name = "TOPIC=SELECT …", help_heading = TOPICS)]
    pub(super) query: Vec<QueryTable>,
    /// Fetch topics from an HTTP server while they have subscribers: PATTERN=URL,KEY=VALUE,…
    ///
    /// The server replaces {topic} in the URL with the topic. If several patterns match, the first one applies.
    /// Keys: max-age, min-interval, max-interval, timeout, in-flight, max-body, linger, remember;
    /// docs/how-to/upstreams.md describes them.
    #[arg(long, value_name = "PATTERN=URL,…", help_heading = TOPICS)]
    pub(super) upstream: Vec<UpstreamTable>,
    /// Reject subscriptions to topics that have neither events nor a source
    #[arg(skip)]
    pub(super) existing_topics_only: bool,

    /// Keep topics in this directory, so that they survive a crash and a restart
    ///
    /// The directory keeps the topics that match a --store. Without --store it keeps all topics, and at most
    /// 10 GiB of events. Only one server can use a directory at a time.
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub(super) data: Option<PathBuf>,
    /// Delete the oldest events of all stores while the directory is larger than this [default: unlimited]
    ///
    /// The newest value of a topic is never deleted. The size includes the write-ahead log, which takes 128
    /// MiB.
    #[arg(skip)]
    pub(super) data_bytes: Option<Size<DATA_BYTES_MIN>>,
    /// Set how --data keeps topics: PATTERN,kind=log,age=7d,bytes=10GiB,sync=always
    ///
    /// A topic belongs to the first store whose pattern matches. With sync=always the server answers a
    /// publish after its events are on disk. With sync=100ms (or another time) or sync=never it answers
    /// earlier, and a crash of the machine may lose events whose publish was answered. Keys: kind, age,
    /// bytes, sync.
    #[arg(long, value_name = "PATTERN,…", help_heading = DATA)]
    pub(super) store: Vec<StoreTable>,

    /// Connect to these NATS servers: nats://a:4222,tls://b:4222
    ///
    /// NATS stores the topics of each --stream. Servers with the same --stream settings share these topics: a
    /// client can resume at any of them with the same position.
    #[arg(long, value_name = "URL,…", value_delimiter = ',', help_heading = CLUSTER)]
    pub(super) nats: Vec<String>,
    /// Store topics in a NATS stream: NAME=PATTERN,replicas=3,age=1h,…
    ///
    /// The server creates a missing stream, and refuses to start if an existing one differs. The patterns of two
    /// streams must not match the same topic. Keys: kind, replicas, age, bytes.
    #[arg(long, value_name = "NAME=PATTERN,…", help_heading = CLUSTER)]
    pub(super) stream: Vec<StreamTable>,
    /// Name this server, for --source-node and --time-node
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub(super) node: Option<String>,
    /// Run the sources only on the server with this name
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub(super) source_node: Option<String>,
    /// Let the server with this name close time windows of queries when no events arrive
    ///
    /// Set the same name on all servers. Without this option, only a later event closes a window of a topic
    /// in NATS.
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub(super) time_node: Option<String>,
    /// Log in to NATS with this credentials file, as nsc writes it
    #[arg(skip)]
    pub(super) nats_credentials: Option<PathBuf>,
    /// Verify NATS servers with the authorities in this PEM file instead of the system's
    #[arg(skip)]
    pub(super) nats_ca: Option<PathBuf>,

    /// Accept a token: NAME=@FILE,subscribe=PATTERN …,publish=…,inspect=…,admin=true
    ///
    /// Other users of the machine can read a secret in a flag (NAME=SECRET): use @FILE, or the variable.
    /// Patterns have the form of --topic; separate several by spaces. inspect allows clients to see these
    /// topics in the list of topics; inspect=** also allows /metrics. admin allows closing connections of
    /// other clients. The token everybody has no secret: all clients have its rights, even without a token,
    /// as in --token everybody,subscribe=**. On loopback, a server without tokens lets all clients subscribe
    /// and publish.
    #[arg(long, value_name = "NAME=@FILE,…", help_heading = ACCESS)]
    pub(super) token: Vec<TokenTable>,
    /// Accept JSON Web Tokens that this public key verifies: @FILE or ID=@FILE, in PEM or as a JWK
    ///
    /// The key is RSA, EC or Ed25519. The claim thalweg of a token holds its rights. `thalweg token` creates and
    /// explains tokens.
    #[arg(long, value_name = "KEY", help_heading = ACCESS)]
    pub(super) jwt_key: Vec<TokenKey>,
    /// Accept JSON Web Tokens signed with HS256, HS384 or HS512 and the secret in this file: @FILE
    #[arg(long, value_name = "SECRET", help_heading = ACCESS)]
    pub(super) jwt_secret: Option<TokenKey>,
    /// Accept JSON Web Tokens that a key of the JWK set at this URL verifies
    #[arg(long, value_name = "URL", help_heading = ACCESS)]
    pub(super) jwks_url: Option<Url>,
    /// Reject JSON Web Tokens of other issuers (claim iss)
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub(super) jwt_issuer: Option<String>,
    /// Reject JSON Web Tokens for other audiences (claim aud)
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub(super) jwt_audience: Option<String>,
    /// Read the rights from this claim of a JSON Web Token [default: thalweg]
    #[arg(skip)]
    pub(super) jwt_claim: Option<String>,
    /// Tolerate this difference between the clocks of issuer and server [default: 30s]
    #[arg(skip)]
    pub(super) jwt_leeway: Option<Time<0, 300_000_000>>,
    /// Allow web pages of this origin: https://app.example; * allows all
    #[arg(long, value_name = "ORIGIN", help_heading = ACCESS)]
    pub(super) allow_origin: Vec<String>,
    /// Accept requests for this host name besides localhost, for a server behind a proxy
    ///
    /// A server that listens on loopback accepts only these names and those of loopback. On another address,
    /// a server without --allow-host accepts every name.
    #[arg(long, value_name = "NAME", help_heading = ACCESS)]
    pub(super) allow_host: Vec<String>,
    /// Trust X-Forwarded-For and Forwarded from this proxy (address or CIDR)
    ///
    /// Limits per address then apply to the address of the client, not to that of the proxy. The server
    /// ignores these headers from all other addresses.
    #[arg(long, value_name = "ADDRESS", help_heading = ACCESS)]
    pub(super) trusted_proxy: Vec<Proxy>,
    /// Accept the first of these WebSocket subprotocols that a client offers [default: thalweg.v1]
    ///
    /// Browsers close a connection if the server accepts none of the offered subprotocols.
    #[arg(skip)]
    pub(super) websocket_protocols: Vec<Subprotocol>,

    /// Serve over TLS with the certificate chain in this PEM file
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(super) tls_cert: Option<PathBuf>,
    /// Use the private key in this PEM file
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(super) tls_key: Option<PathBuf>,
    /// Serve over TLS with a self-signed certificate made at startup, for development
    #[arg(long, help_heading = TLS)]
    pub(super) tls_self_signed: bool,

    /// Send a heartbeat after this long without data [default: 25s]
    ///
    /// Many proxies and routers close a connection that is silent for 30 to 60 s.
    #[arg(long, value_name = "TIME", help_heading = TIMEOUTS)]
    pub(super) heartbeat: Option<Time<10_000>>,
    /// Close a connection whose request header or TLS handshake takes longer than this [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = TIMEOUTS)]
    pub(super) header_timeout: Option<Time>,
    /// Reject a request body, NDJSON line or WebSocket message that does not arrive completely in this time
    /// [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = TIMEOUTS)]
    pub(super) body_timeout: Option<Time>,
    /// Close a connection whose client reads less than a quarter of its pending data in this time [default:
    /// 30s]
    #[arg(long, value_name = "TIME", help_heading = TIMEOUTS)]
    pub(super) write_timeout: Option<Time>,
    /// After SIGTERM, keep serving for this long while /readyz answers 503 [default: 0]
    ///
    /// This gives load balancers time to notice. A second signal ends the delay.
    #[arg(long, value_name = "TIME", help_heading = TIMEOUTS)]
    pub(super) shutdown_delay: Option<Time<0>>,
    /// After the shutdown delay, let connections finish for at most this long, then exit [default: 5s]
    #[arg(long, value_name = "TIME", help_heading = TIMEOUTS)]
    pub(super) shutdown_timeout: Option<Time<0>>,

    /// Log this level and above: error, warn, info or debug [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = LOGS)]
    pub(super) log: Option<Level>,
    /// Log in this format: text or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = LOGS)]
    pub(super) log_format: Option<LogFormat>,

    #[arg(skip)]
    pub(super) signalr: SignalrTable,
    #[arg(skip)]
    pub(super) limits: LimitTable,
    #[arg(skip)]
    pub(super) tuning: TuningTable,
}

over!(Settings:
    listen admin_listen shards demo runs compression set echo_path
    topic source query upstream existing_topics_only data data_bytes store
    nats stream node source_node time_node nats_credentials nats_ca
    token jwt_key jwt_secret jwks_url jwt_issuer jwt_audience jwt_claim jwt_leeway
    allow_origin allow_host trusted_proxy websocket_protocols
    tls_cert tls_key tls_self_signed
    heartbeat header_timeout body_timeout write_timeout shutdown_delay shutdown_timeout
    log log_format signalr limits tuning
);

/// Returns the environment variable of a flag. That of `--token` differs, because `THALWEG_TOKEN` is the token that clients send.
pub(super) fn variable(flag: &str) -> String {
    let flag = if flag == "token" { "tokens" } else { flag };
    format!("THALWEG_{}", flag.to_uppercase().replace('-', "_"))
}

/// Gives a flag its environment variable, which the long help names.
///
/// A list in a variable has one value per line, except for values that may contain line breaks.
pub(super) fn with_variable(flag: Arg) -> Arg {
    let Some(name) = flag.get_long().filter(|name| *name != "help" && !flag.is_hide_set()) else {
        return flag;
    };
    let variable = variable(name);
    let help = flag.get_long_help().or(flag.get_help()).map(ToString::to_string);
    let help = format!("{}\n\n[env: {variable}]", help.unwrap_or_default());
    let is_list = matches!(flag.get_action(), ArgAction::Append);
    let has_lines = ["query", "jwt-key"].contains(&name);
    let delimiter = flag.get_value_delimiter().or((is_list && !has_lines).then_some('\n'));
    flag.env(variable).hide_env(true).long_help(help).value_delimiter(delimiter)
}
