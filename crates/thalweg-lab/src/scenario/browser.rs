//! Settings for which a browser cannot be the load, and remedies.

use super::{Consumer, Drive, PeerDialect, Program, Settings, Transport};

/// Connections of HTTP/1.1 that a browser opens to an origin, over all of its tabs. WebSockets do not count.
const HTTP_1_CONNECTIONS_MAX: u32 = 6;
/// Settings that only a browser has.
const OF_BROWSERS: [&str; 6] = ["tabs", "devtools", "throttle", "consumer", "worker", "cores"];
/// Maximum factor by which a tab is slowed down.
const THROTTLE_MAX: u32 = 100;

pub(super) fn is_of_browsers(key: &str) -> bool {
    OF_BROWSERS.contains(&key)
}

/// Checks whether `program` can be measured with these settings; the error has the reason.
pub(super) fn check(settings: &Settings, drive: Drive, program: &Program) -> Result<(), String> {
    let Settings { transport, connections, tabs, consumer, throttle, .. } = *settings;
    let is_conversation = match drive {
        Drive::GeneratedLoad => false,
        Drive::RoundTrip => true,
        _ => {
            return Err(
                "a browser is the load of scenarios whose subjects broadcast by themselves \
                        (a1 to a4, tab) or make round trips (b): leave --browser out"
                    .to_owned(),
            );
        }
    };
    if settings.streams > 0 {
        return Err(
            "a browser always shares one HTTP/2 connection: set tls, and remove streams".into()
        );
    }
    if tabs == 0 || tabs > connections {
        return Err(format!("{connections} connections are in 1 to {connections} tabs"));
    }
    if !(1..=THROTTLE_MAX).contains(&throttle) {
        return Err(format!(
            "throttle is 1, which is not at all, to {THROTTLE_MAX}, not {throttle}"
        ));
    }
    let comes_again = matches!(transport, Transport::ForeverFrame | Transport::LongPolling);
    if comes_again && !is_conversation {
        return Err(format!("in a browser {transport} is measured only in round trips: see b"));
    }
    if is_conversation && (settings.worker || settings.devtools || consumer != Consumer::Rows) {
        return Err("round trips are made by the page itself: remove worker, devtools and \
                    consumer"
            .to_owned());
    }
    if consumer.is_arrow() && transport != Transport::HttpStreaming {
        return Err(format!("Arrow comes over http-streaming, not {transport}"));
    }
    let can_consume = match (program.dialect(), consumer) {
        (PeerDialect::Thalweg, _) | (_, Consumer::Rows | Consumer::RowsEveryValue) => true,
        // Rows without an envelope must all be parsed before it is known which rows they are.
        (dialect, Consumer::Raw) => dialect == PeerDialect::Limit,
        _ => false,
    };
    if !can_consume {
        return Err(
            "subjects other than Thalweg send only JSON rows, and serve no scripts: remove consumer \
                    for them"
                .to_owned(),
        );
    }
    if consumer.is_page()
        && (transport != Transport::Websocket || connections != tabs || settings.worker)
    {
        return Err("a live page has one connection in each tab, a WebSocket at first: set connections to the number of \
                    tabs, and remove worker"
            .to_owned());
    }
    Ok(())
}

/// Returns why no browser can do this, although a scenario with many cells may include it.
pub(super) fn blank(settings: &Settings, program: &Program) -> Option<String> {
    let Settings { transport, connections, tls, .. } = *settings;
    let is_spoken = matches!(
        program.dialect(),
        PeerDialect::Thalweg | PeerDialect::Limit | PeerDialect::Raw | PeerDialect::Socketio
    );
    if !is_spoken {
        return Some("the lab's page does not speak its protocol".to_owned());
    }
    let is_http_2 = tls && *program != Program::Limit;
    let is_bound = transport != Transport::Websocket && !is_http_2;
    (is_bound && connections > HTTP_1_CONNECTIONS_MAX).then(|| {
        format!(
            "a browser opens {HTTP_1_CONNECTIONS_MAX} connections of HTTP/1.1 to an origin, not \
             {connections}"
        )
    })
}
