//! Settings as the server's configuration: what is not given is its default, and
//! what does not go together is refused.

use std::time::Duration;

use thalweg_core::stream::FeedKind;
use thalweg_server::config::{
    Config, Limits, QueryConfig, Secret, SignedBy, SourceConfig, StreamConfig, Tls,
};
use thalweg_token::{Expectations, Keys};

use super::{
    settings::Settings,
    values::{Token, TokenWithRights, TopicBounds, bytes_text},
};

/// What `--demo` adds: something to see, and what the lab page measures the browser
/// with, which costs nothing until somebody does (the published experiments A and B).
const DEMO_SOURCES: [&str; 10] = [
    "car_live_data=cars,cars=100,interval=100ms",
    "ticker=dummy,interval=1s",
    "lab/rows/1=constant,batch=1,interval=1ms,when=subscribed",
    "lab/rows/10=constant,batch=10,interval=1ms,when=subscribed",
    "lab/rows/100=constant,batch=100,interval=1ms,when=subscribed",
    "lab/rows/1000=constant,batch=1000,interval=1ms,when=subscribed",
    "lab/runner/0=runner",
    "lab/runner/1=runner",
    "lab/runner/2=runner",
    "lab/runner/3=runner",
];

/// A tick of the lab's sources is one message, however many rows it has.
const DEMO_BOUNDS: &str = "lab/rows/**,batch-bytes=1MiB";

/// The query of the published real-time chart (2022), as it was published.
const DEMO_QUERY: &str = "max-speed=SELECT window_start, max(speed_kmh) as speed_kmh \
     FROM tumble(car_live_data, INTERVAL 1 s) group by window_start";

/// The server's configuration.
///
/// # Errors
/// One sentence about what does not go together, or a token's file.
pub(super) fn config(settings: Settings) -> Result<Config, String> {
    let mut config = Config { tls: tls(&settings)?, ..Config::default() };
    set_limits(&mut config.limits, &settings);
    check_limits(&config.limits)?;

    config.access.publish_token = secret("publish-token", settings.publish_token.as_ref())?;
    config.access.subscribe_token = secret("subscribe-token", settings.subscribe_token.as_ref())?;
    config.access.inspect_token = secret("inspect-token", settings.inspect_token.as_ref())?;
    let tokens = settings.token.iter().map(TokenWithRights::named);
    config.access.tokens =
        tokens.collect::<Result<_, _>>().map_err(|error| format!("token: {error}"))?;
    config.access.everybody = settings.everybody.clone().map(Into::into);
    config.access.signed = signed(&settings)?;
    config.access.open = settings.open;
    config.access.origins = settings.allow_origin;
    config.access.hosts = settings.allow_host;
    config.access.trusted_proxies =
        settings.trusted_proxy.into_iter().map(|proxy| proxy.0).collect();

    set(&mut config.listen, settings.listen.map(|address| address.0));
    config.admin_listen = settings.admin_listen.map(|address| address.0);
    set(&mut config.shards, settings.shards);
    set(&mut config.heartbeat, settings.heartbeat);
    set(&mut config.query_lead, settings.query_lead);
    set(&mut config.drain_delay, settings.drain_delay);
    set(&mut config.drain, settings.drain);
    set(&mut config.subscribe, settings.subscribe);
    if !settings.websocket_protocol.is_empty() {
        let protocols = settings.websocket_protocol.into_iter();
        config.websocket_protocols = protocols.map(|protocol| protocol.0).collect();
    }
    config.compression = settings.compression;
    config.runs = settings.runs;
    config.echo_path = settings.echo_path;

    let defaults = &mut config.topic_defaults;
    set(&mut defaults.history.bytes_max, settings.history_bytes);
    set(&mut defaults.history.events_max, settings.history_events);
    set(&mut defaults.history.age_us_max, settings.history_age.map(micros));
    set(&mut defaults.batch.flush_us, settings.flush.map(micros));
    set(&mut defaults.batch.events_max, settings.batch_events);
    set(&mut defaults.batch.bytes_max, settings.batch_bytes);

    if settings.demo {
        for source in DEMO_SOURCES {
            config.sources.push(SourceConfig::parse(source)?);
        }
        config.queries.push(QueryConfig::parse(DEMO_QUERY)?);
    }
    config.sources.extend(settings.source.into_iter().map(|source| source.0));
    config.queries.extend(settings.query.into_iter().map(|query| query.0));
    for upstream in settings.upstream {
        let pattern = upstream.0.pattern.to_string();
        if config.upstreams.iter().any(|it| it.pattern.to_string() == pattern) {
            return Err(format!("upstream: {pattern} twice: a topic is fetched from one place"));
        }
        config.upstreams.push(upstream.0);
    }
    for stream in settings.stream {
        if config.streams.iter().any(|it| it.name == stream.0.name) {
            return Err(format!("stream: {:?} twice: each has a name of its own", stream.0.name));
        }
        config.streams.push(stream.0);
    }
    for named in settings.topic {
        named.add_to(&mut config)?;
    }
    for (name, table) in settings.topics {
        table.add_to(&name, &mut config)?;
    }
    if settings.demo {
        // Behind those of the user.
        DEMO_BOUNDS.parse::<TopicBounds>()?.add_to(&mut config)?;
    }
    check_streams(&config)?;
    if settings.connection_rates.is_some_and(|rates| rates.has_handshakes()) {
        return Err(
            "connection-rates: a connection makes no handshakes: say how many in subject-rates \
                    or address-rates"
                .into(),
        );
    }
    Ok(config)
}

/// A stream whose topics are no value topics has events, all of which count.
fn check_streams(config: &Config) -> Result<(), String> {
    for (pattern, _) in config.topics.iter().filter(|(_, it)| it.kind == FeedKind::Value) {
        let has_some = |stream: &&StreamConfig| {
            stream.kind == FeedKind::Log && stream.pattern.overlaps(pattern)
        };
        if let Some(stream) = config.streams.iter().find(has_some) {
            return Err(format!(
                "topic: {pattern} has kind=value, and stream {:?} has some of these topics and keeps \
                 events: give value topics a stream of their own, with kind=value",
                stream.name
            ));
        }
    }
    Ok(())
}

fn set_limits(limits: &mut Limits, settings: &Settings) {
    set(&mut limits.connections, settings.max_connections);
    limits.connections_per_address = settings.max_connections_per_address.map(Into::into);
    set(&mut limits.head_bytes, settings.max_head);
    set(&mut limits.head_wait, settings.head_wait);
    set(&mut limits.keep_alive, settings.keep_alive);
    set(&mut limits.body_wait, settings.body_wait);
    set(&mut limits.event_bytes, settings.max_event);
    set(&mut limits.topics, settings.max_topics);
    set(&mut limits.subscribed_topics, settings.max_subscribed_topics);
    set(&mut limits.subscribed_topics_per_address, settings.max_subscribed_topics_per_address);
    set(&mut limits.queries, settings.max_queries);
    set(&mut limits.queries_per_address, settings.max_queries_per_address);
    set(&mut limits.fetches, settings.max_fetches);
    set(&mut limits.new_fetched_per_address, settings.max_new_fetched_per_address);
    for (place, rates) in [
        (&mut limits.rates_of_connection, &settings.connection_rates),
        (&mut limits.rates_of_subject, &settings.subject_rates),
        (&mut limits.rates_of_address, &settings.address_rates),
    ] {
        *place = rates.as_ref().map_or(*place, |rates| rates.over(*place));
    }
    set(&mut limits.subscriptions, settings.max_subscriptions);
    set(&mut limits.history_bytes, settings.max_history);
    set(&mut limits.requests, settings.max_requests);
    set(&mut limits.unfinished_bytes, settings.max_unfinished);
    set(&mut limits.h2_streams, settings.max_streams);
    set(&mut limits.h2_resets, settings.max_resets);
    set(&mut limits.retry_keys, settings.retry_keys);
    set(&mut limits.retry_time, settings.retry_time);
    set(&mut limits.unsent_bytes, settings.unsent);
    limits.send_buffer_bytes = settings.send_buffer.map(Into::into);
    set(&mut limits.stream_buffer_bytes, settings.stream_buffer);
    set(&mut limits.control_bytes, settings.control_buffer);
    set(&mut limits.answer_bytes, settings.max_answers);
    set(&mut limits.pinned_bytes, settings.max_pinned);
    set(&mut limits.stall, settings.stall);
    set(&mut limits.peer_timeout, settings.peer_timeout);
    set(&mut limits.visit_bytes, settings.visit);
    set(&mut limits.walk_slice, settings.walk_slice);
    set(&mut limits.read_slice, settings.read_slice);
    set(&mut limits.mail, settings.mail);
    set(&mut limits.publishes, settings.publishes);
}

/// Each is within its own bounds already.
fn check_limits(limits: &Limits) -> Result<(), String> {
    let event_bytes = limits.event_bytes;
    let largest = bytes_text(event_bytes);
    if limits.history_bytes < event_bytes {
        return Err(format!("max-history: at least {largest}, or no event of max-event is kept"));
    }
    // A command has something around its event.
    if limits.unfinished_bytes <= event_bytes {
        return Err(format!(
            "max-unfinished: more than {largest}, or no event of max-event comes over a WebSocket"
        ));
    }
    Ok(())
}

fn tls(settings: &Settings) -> Result<Option<Tls>, String> {
    let Settings { tls_cert, tls_key, tls_self_signed, .. } = settings;
    match (tls_cert, tls_key, tls_self_signed) {
        (None, None, false) => Ok(None),
        (None, None, true) => Ok(Some(Tls::SelfSigned)),
        (Some(cert), Some(key), false) => {
            Ok(Some(Tls::Files { cert: cert.clone(), key: key.clone() }))
        }
        (_, _, true) => {
            Err("tls-self-signed makes its own certificate: leave it out, or tls-cert \
                             and tls-key"
                .into())
        }
        (Some(_), None, _) => Err("tls-cert needs tls-key, the certificate's key".into()),
        (None, Some(_), _) => Err("tls-key needs tls-cert, the key's certificate".into()),
    }
}

fn secret(name: &str, token: Option<&Token>) -> Result<Option<Secret>, String> {
    let secret = token.map(Token::secret).transpose();
    secret.map_err(|error| format!("{name}: {error}"))
}

/// Which signed tokens are taken.
///
/// # Errors
/// One sentence about a key, or about what is said of tokens without one.
fn signed(settings: &Settings) -> Result<Option<SignedBy>, String> {
    let Settings { jwt_key, jwt_secret, jwks_url, .. } = settings;
    let public = jwt_key.iter().map(|key| key.public().map_err(|why| format!("jwt-key: {why}")));
    let secret = jwt_secret.iter();
    let secret = secret.map(|key| key.secret().map_err(|why| format!("jwt-secret: {why}")));
    let keys = public.chain(secret).collect::<Result<Vec<_>, _>>()?;
    let Settings { jwt_issuer, jwt_audience, jwt_claim, jwt_leeway, .. } = settings;
    if keys.is_empty() && jwks_url.is_none() {
        let said = [("jwt-issuer", jwt_issuer.is_some()), ("jwt-audience", jwt_audience.is_some())];
        return match said.iter().find(|(_, is_said)| *is_said) {
            Some((name, _)) => Err(format!("{name} needs a key: jwt-key, jwt-secret or jwks-url")),
            None => Ok(None),
        };
    }
    let mut expected = Expectations {
        issuer: jwt_issuer.clone(),
        audience: jwt_audience.clone(),
        ..Expectations::default()
    };
    set(&mut expected.claim, jwt_claim.clone());
    expected.leeway_s =
        jwt_leeway.map_or(expected.leeway_s, |leeway| Duration::from(leeway).as_secs());
    let keys = Keys::new(keys).map_err(|error| format!("jwt-key: {error}"))?;
    let url = jwks_url.clone().map(|url| url.0);
    Ok(Some(SignedBy { keys, url, expected }))
}

fn set<T>(place: &mut T, given: Option<impl Into<T>>) {
    if let Some(given) = given {
        *place = given.into();
    }
}

fn micros(time: impl Into<std::time::Duration>) -> u64 {
    // What was read from a number of µs is one.
    time.into().as_micros() as u64
}
