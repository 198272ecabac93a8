//! Makes the server's configuration of settings and defaults, and refuses settings that contradict each other.

use std::time::Duration;

use thalweg_server::config::{Config, SignedBy, Subscribing, Tls};
use thalweg_token::{Expectations, Keys};

use super::{
    brokers::Brokers,
    merge::set,
    settings::Settings,
    tables::{QueryTable, SourceTable, TopicTable},
};

/// Sources of `--demo`: topics to look at, and topics that the lab page measures the browser with (the published
/// experiments A and B), which are idle without subscribers.
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

/// Numbers with which the demo page counts lost events.
const DEMO_NUMBERS: &str = "demo/numbers=dummy,size=64,interval=100ms";

/// A tick of the lab's sources is one message, even with a thousand rows. Visitors make topics of the demo, so each is small: an
/// answer has about 6 KiB.
const DEMO_BOUNDS: [&str; 2] = ["lab/rows/**,batch-bytes=1MiB", "demo/**,history-bytes=64KiB"];

/// The query of the published real-time chart (2022), as it was published, and each car's position once a second, which is a
/// twentieth of the bytes of all rows.
const DEMO_QUERIES: [&str; 2] = [
    "max-speed=SELECT window_start, max(speed_kmh) as speed_kmh \
     FROM tumble(car_live_data, INTERVAL 1 s) group by window_start",
    "car-positions=SELECT window_start, car, last(longitude) AS longitude, last(latitude) AS latitude, \
     last(speed_kmh) AS speed_kmh FROM tumble(car_live_data, INTERVAL 1 s) GROUP BY window_start, car",
];

/// The paths of the server's own, which also has all paths below them.
const OWN_PATHS: [&str; 4] = ["/v1", "/healthz", "/readyz", "/metrics"];

/// Checks the path of another protocol, which also has all paths below it.
fn mount_path(setting: &str, example: &str, path: String) -> Result<String, String> {
    let is_below = |own: &str| {
        path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_own = OWN_PATHS.iter().any(|own| is_below(own));
    if is_own || path.len() < 2 || !path.starts_with('/') || path.ends_with('/') {
        return Err(format!(
            "{setting}: {path:?} is not a path, or the server uses it already: use one like {example}"
        ));
    }
    Ok(path)
}

/// Refuses a path that two protocols have. The first mount would get all requests.
fn check_mounts(config: &Config) -> Result<(), String> {
    let echo = config.echo_path.iter().map(|path| ("echo-path", path));
    let hubs = config.signalr_paths.iter().map(|path| ("signalr.paths", path));
    let mut seen: Vec<&String> = Vec::new();
    for (setting, path) in echo.chain(hubs) {
        if seen.contains(&path) {
            return Err(format!("{setting}: {path} occurs twice: remove one"));
        }
        seen.push(path);
    }
    Ok(())
}

/// The server's configuration, and its brokers.
///
/// # Errors
/// One sentence about settings that contradict each other, or about a file that cannot be read.
pub(super) fn config(settings: Settings) -> Result<(Config, Brokers), String> {
    let brokers = Brokers::new(&settings)?;
    let mut config = Config { tls: tls(&settings)?, ..Config::default() };
    let limits = &mut config.limits;
    settings.limits.set_limits(limits)?;
    settings.tuning.set_limits(limits)?;
    set(&mut limits.header_timeout, settings.header_timeout);
    set(&mut limits.body_timeout, settings.body_timeout);
    set(&mut limits.write_timeout, settings.write_timeout);
    set(&mut config.query_lead, settings.limits.query_lead());

    config.access.signed = signed(&settings)?;
    for token in settings.token {
        token.add_to(&mut config.access).map_err(|error| format!("token: {error}"))?;
    }
    config.access.origins = settings.allow_origin;
    config.access.hosts = settings.allow_host;
    config.access.trusted_proxies =
        settings.trusted_proxy.into_iter().map(|proxy| proxy.0).collect();

    set(&mut config.listen, settings.listen.map(|address| address.0));
    config.admin_listen = settings.admin_listen.map(|address| address.0);
    set(&mut config.shards, settings.shards);
    set(&mut config.heartbeat, settings.heartbeat);
    set(&mut config.shutdown_delay, settings.shutdown_delay);
    set(&mut config.shutdown_timeout, settings.shutdown_timeout);
    if settings.existing_topics_only {
        config.subscribe = Subscribing::Existing;
    }
    if !settings.websocket_protocols.is_empty() {
        let protocols = settings.websocket_protocols.into_iter();
        config.websocket_protocols = protocols.map(|protocol| protocol.0).collect();
    }
    config.compression = settings.compression;
    config.runs = settings.runs;
    let echo = settings.echo_path.map(|path| mount_path("echo-path", "/echo", path));
    config.echo_path = echo.transpose()?;
    let hubs = settings.signalr.paths.into_iter();
    let hubs = hubs.map(|path| mount_path("signalr.paths", "/hub", path));
    config.signalr_paths = hubs.collect::<Result<_, _>>()?;
    check_mounts(&config)?;

    if settings.demo {
        for source in DEMO_SOURCES {
            config.sources.push(source.parse::<SourceTable>()?.into());
        }
        // A server does not know the subscribers of the other servers of a cluster.
        let when = if settings.nats.is_empty() { ",when=subscribed" } else { "" };
        let numbers = format!("{DEMO_NUMBERS}{when}");
        config.sources.push(numbers.parse::<SourceTable>()?.into());
        for query in DEMO_QUERIES {
            config.queries.push(query.parse::<QueryTable>()?.into());
        }
    }
    config.sources.extend(settings.source.into_iter().map(Into::into));
    config.queries.extend(settings.query.into_iter().map(Into::into));
    TopicTable::add_all(settings.topic, &mut config)?;
    if settings.demo {
        // The user's settings come first.
        for bounds in DEMO_BOUNDS {
            bounds.parse::<TopicTable>()?.add_to(&mut config)?;
        }
    }
    for table in settings.upstream {
        let upstream = table.upstream().map_err(|error| format!("upstream: {error}"))?;
        let pattern = upstream.pattern.to_string();
        if config.upstreams.iter().any(|other| other.pattern.to_string() == pattern) {
            return Err(format!("upstream: the pattern {pattern} occurs twice: remove one"));
        }
        config.upstreams.push(upstream);
    }
    check_keyed(&config)?;
    brokers.settle(&mut config)?;
    Ok((config, brokers))
}

/// Refuses keyed topics whose events come from a source, because those have no keys.
fn check_keyed(config: &Config) -> Result<(), String> {
    let topics = config.sources.iter().map(|source| &source.topic);
    match topics.into_iter().find(|topic| config.topic(topic).kind.has_keys()) {
        Some(topic) => Err(format!(
            "topic: {topic} has kind=keyed, and a source feeds it, whose events have no keys: give it kind=log"
        )),
        None => Ok(()),
    }
}

fn tls(settings: &Settings) -> Result<Option<Tls>, String> {
    let Settings { tls_cert, tls_key, tls_self_signed, .. } = settings;
    match (tls_cert, tls_key, tls_self_signed) {
        (None, None, false) => Ok(None),
        (None, None, true) => Ok(Some(Tls::SelfSigned)),
        (Some(cert), Some(key), false) => {
            Ok(Some(Tls::Files { cert: cert.clone(), key: key.clone() }))
        }
        (_, _, true) => Err(
            "tls-self-signed makes its own certificate: remove it, or remove tls-cert and tls-key"
                .into(),
        ),
        (Some(_), None, _) => {
            Err("tls-cert needs tls-key: set it to the file of the certificate's key".into())
        }
        (None, Some(_), _) => {
            Err("tls-key needs tls-cert: set it to the file of the key's certificate".into())
        }
    }
}

/// The signed tokens that the server accepts. The error is one sentence about a key, or about settings that need one.
fn signed(settings: &Settings) -> Result<Option<SignedBy>, String> {
    let Settings { jwt_key, jwt_secret, jwks_url, .. } = settings;
    let public =
        jwt_key.iter().map(|key| key.public().map_err(|error| format!("jwt-key: {error}")));
    let secret = jwt_secret.iter();
    let secret = secret.map(|key| key.secret().map_err(|error| format!("jwt-secret: {error}")));
    let keys = public.chain(secret).collect::<Result<Vec<_>, _>>()?;
    let Settings { jwt_issuer, jwt_audience, jwt_claim, jwt_leeway, .. } = settings;
    if keys.is_empty() && jwks_url.is_none() {
        let set = [("jwt-issuer", jwt_issuer.is_some()), ("jwt-audience", jwt_audience.is_some())];
        return match set.iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => {
                Err(format!("{name} needs a key: set jwt-key, jwt-secret or jwks-url"))
            }
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
