//! The screens at start and of `--check`.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use thalweg_server::config::{Access, Config, SignedBy, SourceConfig, Tls};

use super::{
    brokers::Brokers,
    values::{bytes_text, time_text},
};

/// The first screen: commands to copy, and the rights of clients. `address` is where the server listens, `admin` where
/// it listens for administrators.
pub(super) fn first_screen(
    (config, brokers): (&Config, &Brokers),
    address: SocketAddr,
    admin: Option<SocketAddr>,
) -> String {
    let url = url(config, address);
    let demo = ["car_live_data", "ticker"].map(|topic| has_source(&config.sources, topic));
    let topic = if demo[0] { "car_live_data" } else { "greetings" };
    let curl = if config.tls == Some(Tls::SelfSigned) { "curl -k" } else { "curl" };
    let all = config.access.rights_of_all(config.listen);
    let bearer = |is_open: bool| if is_open { "" } else { " -H \"Authorization: Bearer $TOKEN\"" };
    let publisher = bearer(all.publish.are_all());
    let subscriber = bearer(all.subscribe.are_all());
    let subscribe =
        |with: &str, topic: &str| format!("{curl} -N{subscriber} {with} {url}/v1/topics/{topic}");

    let mut rows = Rows::new();
    if has_demo(config) && !config.pages.is_empty() {
        rows.push(("demo", format!("{url}/demo")));
    }
    rows.push(("pages", pages(config, &url)));
    rows.extend(about(config, brokers));
    rows.extend([
        ("health", format!("{url}/healthz")),
        ("metrics", metrics(config, &url, admin)),
        ("", String::new()),
        ("SSE", subscribe("-H 'Accept: text/event-stream'", topic)),
        ("HTTP streaming", subscribe("-H 'Accept: application/x-ndjson'", topic)),
        ("WebSocket", subscribe(WEBSOCKET, if demo[1] { "ticker" } else { topic })),
        (
            "publish",
            format!("{curl}{publisher} -d '{{\"hello\":\"world\"}}' {url}/v1/topics/greetings"),
        ),
    ]);
    format!("\n{}\nCtrl-C stops the server.\n", aligned(&rows))
}

/// Sources that the screen names; it counts the others.
const SOURCES_SHOWN: usize = 4;

/// A handshake with some key (RFC 6455 §4.1).
const WEBSOCKET: &str = "--http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
     -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhhbHdlZyBzYXlzIGhpIQ==' --output -";

/// The screen of `--check`: what the server would do.
pub(super) fn check_screen(config: &Config, brokers: &Brokers) -> String {
    let Config {
        shards,
        topic_defaults,
        topics,
        limits,
        heartbeat,
        shutdown_delay,
        shutdown_timeout,
        ..
    } = config;
    let history = topic_defaults.history;
    let batch = topic_defaults.batch;
    let url = url(config, config.listen);
    let pages = pages(config, &url);
    // The address of the socket: `url` is one that a browser on this machine can open.
    let listen = format!("{}://{}, {shards} shards", scheme(config), config.listen);
    let mut rows = vec![("listen", listen), ("pages", pages)];
    rows.extend(about(config, brokers));
    rows.push(("metrics", metrics(config, &url, config.admin_listen)));
    rows.extend([
        (
            "history",
            format!(
                "{}, {} events and {} per topic; {} in all; {} patterns with other settings",
                bytes_text(history.bytes_max),
                history.events_max,
                time_text(Duration::from_micros(history.age_us_max)),
                bytes_text(limits.history_bytes),
                topics.len(),
            ),
        ),
        (
            "batches",
            format!(
                "sealed after {}, at {} events or {}",
                time_text(Duration::from_micros(batch.flush_us)),
                batch.events_max,
                bytes_text(batch.bytes_max),
            ),
        ),
        (
            "limits",
            format!(
                "{} connections, {} from one address; {} topics; {} an event",
                limits.connections,
                limits.connections_of_one_address(),
                limits.topics,
                bytes_text(limits.event_bytes),
            ),
        ),
        (
            "times",
            format!(
                "heartbeat {}, write-timeout {}, shutdown-delay {}, shutdown-timeout {}",
                time_text(*heartbeat),
                time_text(limits.write_timeout),
                time_text(*shutdown_delay),
                time_text(*shutdown_timeout),
            ),
        ),
        (
            "compression",
            if config.compression { "for clients that ask for it" } else { "none" }.into(),
        ),
    ]);
    aligned(&rows)
}

type Rows = Vec<(&'static str, String)>;

/// The URLs of the pages.
fn pages(config: &Config, url: &str) -> String {
    match config.pages.is_empty() {
        true => "none in this build: make run builds them".into(),
        false => {
            let others = ["live", "matches", "lab", "reports", "docs/"];
            let others: String = others.map(|page| format!(", {url}/{page}")).concat();
            format!("{url}/ (overview){others}")
        }
    }
}

/// The URL of the metrics, and who may see them.
fn metrics(config: &Config, url: &str, admin: Option<SocketAddr>) -> String {
    let access = &config.access;
    match admin {
        Some(admin) => format!("http://{admin}/metrics"),
        None if access.rights_of_all(config.listen).inspect.are_all() => format!("{url}/metrics"),
        None if access.has_tokens() => format!("{url}/metrics, with a token that has inspect=**"),
        None => "not available: set --admin-listen, or a --token with inspect=**".into(),
    }
}

fn about(config: &Config, brokers: &Brokers) -> Rows {
    let mut rows = Vec::new();
    if config.runs_sources && !config.sources.is_empty() {
        let shown = config.sources.iter().take(SOURCES_SHOWN);
        let mut sources: Vec<_> =
            shown.map(|source| format!("{} ({})", source.topic, source.kind)).collect();
        let more = config.sources.len().saturating_sub(SOURCES_SHOWN);
        sources.extend((more > 0).then(|| format!("{more} more")));
        rows.push(("sources", sources.join(", ")));
    }
    if !config.queries.is_empty() {
        let topics: Vec<&str> = config.queries.iter().map(|query| query.topic.as_str()).collect();
        rows.push(("queries", topics.join(", ")));
    }
    if !config.upstreams.is_empty() {
        let shown = config.upstreams.iter().take(SOURCES_SHOWN);
        let upstreams: Vec<_> =
            shown.map(|upstream| format!("{} ({})", upstream.pattern, upstream.url)).collect();
        rows.push(("upstreams", upstreams.join(", ")));
    }
    rows.extend(brokers.about());
    if let Some(runs) = &config.runs {
        let missing = if runs.exists() { "" } else { ", which does not exist yet" };
        rows.push(("runs", format!("{}{missing}, at /runs", runs.display())));
    }
    rows.push(("access", access(config)));
    let origins = &config.access.origins;
    if !origins.is_empty() {
        let all = origins.iter().any(|origin| origin == "*");
        rows.push(("web pages", if all { "of all origins".into() } else { origins.join(", ") }));
    }
    match &config.tls {
        Some(Tls::SelfSigned) => {
            rows.push(("TLS", "a self-signed certificate: browsers show a warning".into()));
        }
        Some(Tls::Files { cert, .. }) => {
            rows.push(("TLS", format!("{}: connect with one of its names", cert.display())));
        }
        None => {}
    }
    rows
}

/// The rights of clients.
fn access(config: &Config) -> String {
    let access = &config.access;
    let is_loopback = config.listen.ip().to_canonical().is_loopback();
    let everybody = match is_loopback && !access.is_behind_proxy() {
        true => "everybody on this machine",
        false => "everybody",
    };
    let all = access.rights_of_all(config.listen);
    let rights = [
        ("subscribe", "subscribe to some topics", &all.subscribe),
        ("publish", "publish to some topics", &all.publish),
        ("inspect", "inspect some topics", &all.inspect),
    ];
    // Without the token everybody, the row of the metrics says it.
    let shown = if access.everybody.is_some() { 3 } else { 2 };
    let shown = rights.into_iter().take(shown).filter(|(.., topics)| !topics.are_none());
    let may = shown.map(|(all, some, topics)| if topics.are_all() { all } else { some });
    let may: Vec<&str> = may.chain(all.admin.then_some("close connections")).collect();
    let open = (!may.is_empty()).then(|| format!("{everybody} may {}", may.join(" and ")));
    let parts: Vec<String> = open.into_iter().chain(tokens(access)).collect();
    if parts.is_empty() { "nobody: see --token".into() } else { parts.join("; ") }
}

/// The tokens that clients may present.
fn tokens(access: &Access) -> Vec<String> {
    let mut tokens: Vec<String> =
        access.tokens.iter().map(|token| format!("token {}", token.name)).collect();
    if let Some(SignedBy { keys, url, expected }) = &access.signed {
        let mut signed = "signed tokens".to_owned();
        if !keys.is_empty() {
            let several = if keys.len() == 1 { "key" } else { "keys" };
            signed += &format!(", {} {several}", keys.len());
        }
        if let Some(url) = url {
            signed += &format!(", keys of {url}");
        }
        for (claim, name) in [("iss", &expected.issuer), ("aud", &expected.audience)] {
            if let Some(name) = name {
                signed += &format!(", {claim} {name}");
            }
        }
        tokens.push(signed);
    }
    tokens
}

/// Returns whether the server has the topics of the demo page.
fn has_demo(config: &Config) -> bool {
    has_source(&config.sources, "demo/numbers")
}

fn has_source(sources: &[SourceConfig], topic: &str) -> bool {
    sources.iter().any(|source| source.topic.as_str() == topic)
}

/// The URL of the server on this machine.
pub(super) fn url(config: &Config, mut address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("{}://{address}", scheme(config))
}

pub(super) fn scheme(config: &Config) -> &'static str {
    if config.tls.is_some() { "https" } else { "http" }
}

fn aligned(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, value) in rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("{name:width$}{value}").trim_end());
    }
    text
}
