//! Settings that cannot be measured, and remedies.

use super::{
    Answers, Drive, Payload, PeerDialect, Program, PublishTo, Request, Settings, TopicKind,
    Transport,
};
use thalweg_match_feed::Size;

/// Minimum size of a published event, which has `seq`, `due` and `crc` at full length.
const EVENT_BYTES_MIN: u32 = 96;
/// The wire's own limit.
pub(super) const EVENT_BYTES_MAX: u32 = 1 << 20;
/// A subscriber that reads faster is not slow.
const SLOW_BYTES_MAX: u32 = 1_000_000;
/// Minimum size of a dummy event.
const DUMMY_BYTES_MIN: u32 = 64;

/// Positions depend on this limit of events in a message of a stream.
const MESSAGE_EVENTS_MAX: u32 = 256;
/// A NATS server takes 1 MiB, some of it headers.
const MESSAGE_BYTES_MAX: u32 = 1_000_000;

/// Events per second and topic: as fast as one thread could write them.
pub(super) const RATE_MAX: u32 = 10_000_000;

/// Checks whether `program` can be measured with these settings; the error has the reason.
pub(super) fn check(settings: &Settings, drive: Drive, program: &Program) -> Result<(), String> {
    counts(settings)?;
    published(settings, drive, program)?;
    sizes(settings, drive)?;
    transport(settings, drive, program)?;
    http2(settings, program)?;
    conversation(settings, drive, program)?;
    stored(settings, drive, program)?;
    if drive == Drive::Publish && *program == Program::Limit {
        return Err("`limit` takes no part in the `publish` drive".to_owned());
    }
    if drive == Drive::GeneratedLoad && (settings.batch == 0 || settings.interval_us == 0) {
        return Err("a subject that generates its load needs a batch and an interval".to_owned());
    }
    connecting(settings, drive)?;
    if drive == Drive::Stampede && *program == Program::Limit {
        return Err("`limit` has no cursors to resume at: leave it out of a stampede".to_owned());
    }
    if drive.is_connecting() && settings.transport == Transport::LongPolling {
        return Err("long polling connects all the time: use another transport".to_owned());
    }
    if drive == Drive::Ceiling && settings.p99_us_max == 0 {
        return Err("a ceiling needs a p99_us_max, e.g. 50000".to_owned());
    }
    if drive.is_of_endpoints() {
        return Err("to listen to an endpoint, use `thalweg-lab bench --url`".to_owned());
    }
    if settings.compress && *program == Program::Limit {
        return Err("`limit` compresses nothing: leave it out, or compress".to_owned());
    }
    if settings.answers == Answers::Beside
        && !matches!(program.dialect(), PeerDialect::Thalweg | PeerDialect::Limit)
    {
        return Err("this subject's firehose is on every connection: no answers beside it".into());
    }
    if settings.rate > RATE_MAX {
        return Err(format!("a rate is up to {RATE_MAX}/s"));
    }
    Ok(())
}

/// Checks whether these events can be published to this program.
fn published(settings: &Settings, drive: Drive, program: &Program) -> Result<(), String> {
    let Settings { keys, topics, streams, connections, rate, every_ms, .. } = *settings;
    if keys == 0 || keys > connections || keys > 1 && (topics > 1 || streams > 0) {
        return Err("keys must be 1 to the number of connections, without topics and \
             streams"
            .to_owned());
    }
    if settings.lost_keys > keys {
        return Err(format!("{} of {keys} keys cannot be lost", settings.lost_keys));
    }
    if rate > 0 && every_ms > 0 {
        return Err("a rate and every_ms say the same: leave one of them out".to_owned());
    }
    if drive.is_connecting() && settings.events_per_s().is_none() {
        if keys > 1 || settings.payload != Payload::Padded || settings.late_us_max > 0 {
            return Err("this needs events that are published: set a rate or every_ms".to_owned());
        }
        return Ok(());
    }
    deltas(settings, program.dialect())?;
    let is_size = |size: &Size| size.bytes() == settings.event_bytes as usize;
    if settings.payload == Payload::Match && !Size::ALL.iter().any(is_size) {
        let sizes = Size::ALL.map(|size| size.bytes().to_string()).join(", ");
        return Err(format!("documents of matches have an event_bytes of {sizes}"));
    }
    Ok(())
}

/// Checks whether a subject has value topics, if they are needed, and deltas.
fn deltas(settings: &Settings, dialect: PeerDialect) -> Result<(), String> {
    let Settings { deltas, transport, .. } = *settings;
    let is_value = settings.kind == TopicKind::Value;
    let refusal = match dialect {
        PeerDialect::Thalweg if deltas && !is_value => {
            "only value topics have patches: set kind = \"value\""
        }
        PeerDialect::Thalweg => return Ok(()),
        _ if is_value => "this subject has no value topics: set kind of another",
        PeerDialect::Centrifugo if deltas && transport != Transport::Websocket => {
            "this subject has deltas over websocket only: set transport = \"websocket\""
        }
        _ if deltas && dialect != PeerDialect::Centrifugo => {
            "this subject has no deltas: set deltas of another"
        }
        _ => return Ok(()),
    };
    Err(refusal.to_owned())
}

/// Checks whether these events can be published to NATS.
fn stored(settings: &Settings, drive: Drive, program: &Program) -> Result<(), String> {
    let Settings { publish_to, message_events, event_bytes, window, .. } = *settings;
    let is_consumer = program.dialect() == PeerDialect::Consumer;
    let is_by_nats = publish_to == PublishTo::Nats || settings.request == Request::Single;
    if settings.chunk_events > 0 && is_by_nats {
        return Err(
            "chunk_events is about one long HTTP request: remove it, or set it to 0".to_owned()
        );
    }
    if drive != Drive::Stored && publish_to == PublishTo::Subject {
        if message_events != 1 {
            return Err(
                "message_events is for messages to NATS: set publish_to = \"nats\"".to_owned()
            );
        }
        if is_consumer {
            return Err("a consumer reads from NATS alone: set publish_to = \"nats\"".to_owned());
        }
        return Ok(());
    }
    if !matches!(program.dialect(), PeerDialect::Thalweg | PeerDialect::Consumer) {
        return Err("this subject reads from no stream of NATS".to_owned());
    }
    if settings.kind == TopicKind::Value {
        return Err("the lab publishes events to NATS, not versions: remove kind".to_owned());
    }
    if is_consumer && drive != Drive::Stored && settings.events_per_s().is_none() {
        return Err("a consumer has no window: set a rate".to_owned());
    }
    if is_consumer && settings.topics_in_all() > 1 {
        return Err("the lab publishes one topic to a consumer: remove topics and keys".to_owned());
    }
    if !(1..=MESSAGE_EVENTS_MAX).contains(&message_events)
        || message_events.saturating_mul(event_bytes) > MESSAGE_BYTES_MAX
    {
        return Err(format!(
            "a message has 1 to {MESSAGE_EVENTS_MAX} events, and {MESSAGE_BYTES_MAX} bytes at most"
        ));
    }
    if drive != Drive::Stored && settings.events_per_s().is_none() && window < message_events {
        return Err("a window is at least message_events: otherwise no message is ever full".into());
    }
    Ok(())
}

/// Checks whether connections can arrive like this.
pub(super) fn connecting(settings: &Settings, drive: Drive) -> Result<(), String> {
    let due = || settings.arrivals.schedule(settings.connections as usize).0;
    if drive == Drive::Ramp && settings.arrivals.are_at_once() {
        return Err("a ramp needs a rate of arrivals, e.g. arrivals = \"100/s\"".to_owned());
    }
    if drive == Drive::Ramp && due().is_empty() {
        return Err(format!("no connection arrives at {}: make it longer", settings.arrivals));
    }
    if drive == Drive::Churn && settings.stay_ms == 0 {
        return Err(
            "a connection that comes and goes stays for at least 1 ms: set stay_ms (--stay)"
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks whether slow subscribers are slow.
pub(super) fn slow(settings: &Settings) -> Result<(), String> {
    let Settings { slow, slow_bytes_per_s, .. } = *settings;
    match slow > 0 && !(1..=SLOW_BYTES_MAX).contains(&slow_bytes_per_s) {
        true => Err(format!("a slow subscriber reads 1 to {SLOW_BYTES_MAX} bytes a second")),
        false => Ok(()),
    }
}

fn counts(settings: &Settings) -> Result<(), String> {
    let Settings { connections, stopped, slow, topics, window, .. } = *settings;
    if connections == 0 || topics == 0 || window == 0 || settings.shards == 0 {
        return Err("connections, topics, window and shards must be at least 1".to_owned());
    }
    if stopped.saturating_add(slow) >= connections {
        return Err(format!(
            "of {connections} connections {stopped} stop and {slow} are slow: nobody is left to read"
        ));
    }
    Ok(())
}

fn sizes(settings: &Settings, drive: Drive) -> Result<(), String> {
    let Settings { event_bytes, dummy_bytes, .. } = *settings;
    let is_published = drive.is_published_load()
        || matches!(drive, Drive::Publish | Drive::Stored)
        || drive.is_connecting() && settings.events_per_s().is_some();
    if is_published && !(EVENT_BYTES_MIN..=EVENT_BYTES_MAX).contains(&event_bytes) {
        return Err(format!(
            "event_bytes is {EVENT_BYTES_MIN} to {EVENT_BYTES_MAX}, not {event_bytes}"
        ));
    }
    if dummy_bytes != 0 && !(DUMMY_BYTES_MIN..=EVENT_BYTES_MAX).contains(&dummy_bytes) {
        return Err(format!(
            "dummy_bytes is 0 or {DUMMY_BYTES_MIN} to {EVENT_BYTES_MAX}, not {dummy_bytes}"
        ));
    }
    Ok(())
}

/// Checks whether subscribers can use their transport.
fn transport(settings: &Settings, drive: Drive, program: &Program) -> Result<(), String> {
    let Settings { transport, stopped, slow, .. } = *settings;
    let comes_again = matches!(transport, Transport::ForeverFrame | Transport::LongPolling);
    if *program == Program::Limit && comes_again {
        return Err(format!("`limit` does not support {transport}: use other subjects"));
    }
    let echoes = matches!(drive, Drive::Echo | Drive::RoundTrip);
    if *program == Program::Limit && echoes && settings.tls {
        return Err("`limit` echoes without tls only: leave tls out for it".to_owned());
    }
    self::slow(settings)?;
    if stopped + slow > 0 && transport == Transport::LongPolling {
        return Err(
            "a client that stops polling has no connection: remove stopped and slow".to_owned()
        );
    }
    Ok(())
}

fn http2(settings: &Settings, program: &Program) -> Result<(), String> {
    let Settings { streams, connections, stopped, .. } = *settings;
    if streams == 0 {
        return Ok(());
    }
    if *program == Program::Limit {
        return Err("`limit` does not support HTTP/2: remove streams for it".to_owned());
    }
    if settings.transport == Transport::Websocket {
        return Err("a websocket needs HTTP/1.1: remove streams for it".to_owned());
    }
    if stopped + settings.slow > 0 || !connections.is_multiple_of(streams) {
        return Err(format!(
            "{connections} subscribers in connections of {streams} streams: make it a multiple, \
             and let none of them stop"
        ));
    }
    Ok(())
}

fn conversation(settings: &Settings, drive: Drive, program: &Program) -> Result<(), String> {
    let Settings { transport, connections, requests, .. } = *settings;
    if !matches!(drive, Drive::Echo | Drive::RoundTrip) {
        return Ok(());
    }
    if connections != 1 {
        return Err("this drive needs connections = 1".to_owned());
    }
    if drive == Drive::Echo {
        if transport != Transport::Websocket {
            return Err(format!("the echo drive needs a websocket, not {transport}"));
        }
        if settings.request_us == 0 || settings.interval_us == 0 {
            return Err("request_us and interval_us are at least 1".to_owned());
        }
        if requests == 0 && settings.dummy_bytes == 0 {
            return Err("neither requests nor a firehose: nothing would be sent".to_owned());
        }
        return Ok(());
    }
    if requests == 0 {
        return Err("the round-trip drive needs requests, e.g. 1000".to_owned());
    }
    if *program == Program::Limit && transport != Transport::Websocket {
        return Err(format!("`limit` has round trips over websocket only, not {transport}"));
    }
    Ok(())
}
