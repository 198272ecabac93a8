//! What the server says of itself: at start, and to `--check`.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use thalweg_server::config::{Access, Config, SignedBy, SourceConfig, Tls};

use super::values::{bytes_text, time_text};

/// Lines to paste, and who may use them. `address` is where it listens, `admin` where it
/// does for whoever looks after it.
pub(super) fn first_screen(
    config: &Config,
    address: SocketAddr,
    admin: Option<SocketAddr>,
) -> String {
    let url = url(config, address);
    let demo = ["car_live_data", "ticker"].map(|topic| has_source(&config.sources, topic));
    let topic = if demo[0] { "car_live_data" } else { "greetings" };
    let curl = if config.tls == Some(Tls::SelfSigned) { "curl -k" } else { "curl" };
    let Access { publish_token, subscribe_token, .. } = &config.access;
    let bearer = |name: &str| format!(" -H \"Authorization: Bearer ${name}\"");
    let access = &config.access;
    // Who has tokens with rights of their own has one that will do.
    let any = access.has_own_rights().then(|| bearer("TOKEN"));
    let publisher = publish_token.as_ref().map(|_| bearer("THALWEG_PUBLISH_TOKEN"));
    let publisher = publisher.or(any.clone()).unwrap_or_default();
    let subscriber = subscribe_token.as_ref().map(|_| bearer("THALWEG_SUBSCRIBE_TOKEN"));
    let subscriber = subscriber.or(any).unwrap_or_default();
    let subscribe =
        |with: &str, topic: &str| format!("{curl} -N{subscriber} {with} {url}/v1/topics/{topic}");

    let mut rows = vec![("pages", pages(config, &url))];
    rows.extend(about(config));
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
    format!("\n{}\nCtrl-C ends it.\n", aligned(&rows))
}

/// Sources that are named; the rest is counted.
const SOURCES_SHOWN: usize = 4;

/// A handshake, and a key as good as any (RFC 6455 §4.1).
const WEBSOCKET: &str = "--http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
     -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhhbHdlZyBzYXlzIGhpIQ==' --output -";

/// What would be served.
pub(super) fn check_screen(config: &Config) -> String {
    let Config { shards, topic_defaults, topics, limits, heartbeat, drain_delay, drain, .. } =
        config;
    let history = topic_defaults.history;
    let batch = topic_defaults.batch;
    let url = url(config, config.listen);
    let pages = pages(config, &url);
    let mut rows = vec![("listen", format!("{url}, {shards} shards")), ("pages", pages)];
    rows.extend(about(config));
    rows.push(("metrics", metrics(config, &url, config.admin_listen)));
    rows.extend([
        (
            "history",
            format!(
                "of each topic {}, {} events, {}; of all {}; other bounds for {} topics",
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
                limits.of_one_address(),
                limits.topics,
                bytes_text(limits.event_bytes),
            ),
        ),
        (
            "times",
            format!(
                "heartbeat {}, stall {}, drain-delay {}, drain {}",
                time_text(*heartbeat),
                time_text(limits.stall),
                time_text(*drain_delay),
                time_text(*drain),
            ),
        ),
        ("compression", if config.compression { "for whoever asks" } else { "none" }.into()),
    ]);
    aligned(&rows)
}

type Rows = Vec<(&'static str, String)>;

/// Where a browser finds what.
fn pages(config: &Config, url: &str) -> String {
    match config.pages.is_empty() {
        true => "none in this build: make run builds them".into(),
        false => format!("{url}/ (live), {url}/matches, {url}/lab, {url}/reports"),
    }
}

/// Where metrics are, and for whom.
fn metrics(config: &Config, url: &str, admin: Option<SocketAddr>) -> String {
    let access = &config.access;
    let has_token = access.has_tokens();
    match admin {
        Some(admin) => format!("http://{admin}/metrics"),
        None if access.lets_everybody_inspect(config.listen) => format!("{url}/metrics"),
        None if access.has_own_rights() => {
            format!("{url}/metrics, with a token that may inspect **")
        }
        None if has_token => format!("{url}/metrics, with the inspect or the publish token"),
        None => "for nobody: see --inspect-token and --admin-listen".into(),
    }
}

fn about(config: &Config) -> Rows {
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
        let upstreams: Vec<_> = shown.map(|it| format!("{} ({})", it.pattern, it.url)).collect();
        rows.push(("upstreams", upstreams.join(", ")));
    }
    if !config.streams.is_empty() {
        let shown = config.streams.iter().take(SOURCES_SHOWN);
        let streams: Vec<_> = shown.map(|it| format!("{} ({})", it.name, it.pattern)).collect();
        rows.push(("streams", format!("{}, shared through NATS", streams.join(", "))));
    }
    if let Some(runs) = &config.runs {
        let yet = if runs.exists() { "" } else { ", which is not there yet" };
        rows.push(("runs", format!("of {}{yet}, at /runs", runs.display())));
    }
    rows.push(("access", access(config)));
    let origins = &config.access.origins;
    if !origins.is_empty() {
        let all = origins.iter().any(|origin| origin == "*");
        rows.push(("web pages", if all { "of all origins".into() } else { origins.join(", ") }));
    }
    match &config.tls {
        Some(Tls::SelfSigned) => {
            rows.push(("TLS", "a certificate made at start: browsers warn of it".into()));
        }
        Some(Tls::Files { cert, .. }) => {
            rows.push(("TLS", format!("{}: ask by a name that it holds", cert.display())));
        }
        None => {}
    }
    rows
}

fn access(config: &Config) -> String {
    let Access { publish_token, subscribe_token, .. } = &config.access;
    let everybody = match config.listen.ip().to_canonical().is_loopback() {
        true => "everybody on this machine",
        false => "everybody who reaches it",
    };
    if config.access.has_own_rights() {
        return own_rights(&config.access);
    }
    match (publish_token, subscribe_token) {
        (Some(_), Some(_)) => "publishing needs the publish token, subscribing either one".into(),
        (Some(_), None) => format!("publishing needs the token; {everybody} may subscribe"),
        _ => format!("{everybody} may publish and subscribe"),
    }
}

/// Which tokens have rights of their own.
fn own_rights(access: &Access) -> String {
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
    format!("by rights of {}", tokens.join("; "))
}

fn has_source(sources: &[SourceConfig], topic: &str) -> bool {
    sources.iter().any(|source| source.topic.as_str() == topic)
}

/// Where it is asked from this machine.
fn url(config: &Config, mut address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("{}://{address}", scheme(config))
}

/// How it is asked.
pub(super) fn scheme(config: &Config) -> &'static str {
    if config.tls.is_some() { "https" } else { "http" }
}

fn aligned(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, what) in rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("{name:width$}{what}").trim_end());
    }
    text
}
