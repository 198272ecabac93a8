//! Drives: everything about them that is known before a run, one arm for each.
//!
//! A new workload is an arm here, one in `report/workload.rs`, and a file under `swarm/workload/`.

use super::quantity::bytes_label;
use super::settings::LABELS;
use super::{Answers, Figure, Request, Settings};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Estimates: a round trip, a connection that opens again, and the spans of a search for the highest rate.
const ROUND_TRIP_US: u64 = 100;
const OPENING_US: u64 = 150;
const CEILING_STEPS: u64 = 15;
const SUBSCRIBER: [&str; 2] = ["transport", "receive_buffer_bytes"];
/// Settings that every drive uses.
const OF_ALL: [&str; 4] = ["connections", "round", "subjects", "baseline"];
/// Settings of every subject that the lab starts.
const OF_SUBJECTS: [&str; 5] = ["shards", "mode", "tls", "send_buffer_bytes", "unsent_bytes"];
const PUBLISHED: [&str; 7] =
    ["keys", "payload", "event_bytes", "rate", "every_ms", "kind", "deltas"];

/// The drive, which makes the subject broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Drive {
    /// The lab publishes: event n + window as soon as all subscribers have n, or
    /// at a fixed rate whatever happens.
    #[serde(alias = "posted")]
    PublishedLoad,
    /// The subject broadcasts on a schedule announced once, at its start.
    #[serde(alias = "self-driven")]
    GeneratedLoad,
    /// Nobody publishes: the connections are idle.
    Idle,
    /// The lab publishes as fast as the subject takes it, nobody subscribes.
    Publish,
    /// The lab publishes to NATS, nobody subscribes; the subject reads the stream, and reports
    /// how much of it.
    Stored,
    /// Experiment C: requests on a schedule, answered beside a firehose on the
    /// same WebSocket.
    Echo,
    /// Experiment B: the subject sends the next event when the last is acked.
    RoundTrip,
    /// The lab publishes at rates that rise until the latency exceeds the objective. The result is the highest rate that met it.
    Ceiling,
    /// The operator of the endpoint decides what it sends; the lab only listens.
    Listen,
    /// Connections arrive at a stated rate, in stages, while the subject sends by
    /// itself.
    Ramp,
    /// Connections come and go: each stays for about a stated time, and another comes as
    /// it leaves.
    Churn,
    /// All connections are lost at once, reconnect and resume.
    Stampede,
    /// The lab listens to an endpoint, and sends messages to it at a fixed rate whatever
    /// happens.
    Send,
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(serde_json::to_string(self).unwrap_or_default().trim_matches('"'))
    }
}

/// A load that the subject sends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Batches of rows at an interval.
    Rows,
    /// Experiment C's firehose.
    Dummies,
    /// Experiment B's Runners, the next when the last is acked.
    Runners,
}

/// The particulars of a drive under some settings.
struct DriveKind {
    /// Settings that have an effect, beside those that every drive uses.
    keys: Vec<&'static str>,
    label: String,
    figure: Figure,
    can_pause: bool,
    scheduled_per_s: Option<f64>,
    source: Option<Source>,
    /// Length of a span that does not last for `measured_ms`.
    span_us: Option<u64>,
}

impl Drive {
    /// Returns whether the lab publishes what the subscribers get.
    pub fn is_published_load(self) -> bool {
        matches!(self, Drive::PublishedLoad | Drive::Ceiling)
    }

    /// Returns whether the drive opens connections, each of which counts as an event that is late from when it was due.
    pub fn is_connecting(self) -> bool {
        matches!(self, Drive::Ramp | Drive::Churn | Drive::Stampede)
    }

    /// Returns whether the drive is for a running endpoint, and not for a subject.
    pub fn is_of_endpoints(self) -> bool {
        matches!(self, Drive::Listen | Drive::Send)
    }

    pub(super) fn uses(self, key: &str) -> bool {
        let of_subjects = !self.is_of_endpoints() && OF_SUBJECTS.contains(&key);
        OF_ALL.contains(&key) || of_subjects || self.kind(&Settings::default()).keys.contains(&key)
    }

    /// Returns whether a sample lasts for `measured_ms`, and not for as long as its requests take.
    pub(crate) fn lasts_for_measured_time(self, settings: &Settings) -> bool {
        self.kind(settings).span_us.is_none()
    }

    /// Returns the approximate length of a span, µs.
    pub(super) fn span_us(self, settings: &Settings, measured_ms: u64) -> u64 {
        let spans = if self == Drive::Ceiling { CEILING_STEPS } else { 1 };
        self.kind(settings).span_us.unwrap_or(spans * measured_ms * 1000)
    }

    pub(super) fn figure(self, settings: &Settings) -> Figure {
        self.kind(settings).figure
    }

    /// Returns the load that the subject sends by itself.
    pub fn source(self, settings: &Settings) -> Option<Source> {
        self.kind(settings).source
    }

    fn kind(self, settings: &Settings) -> DriveKind {
        let Settings { transport, connections, batch, interval_us, .. } = *settings;
        let readers = f64::from(settings.readers());
        let subscribers = format!("{transport} {connections}");
        let bytes = bytes_label(settings.event_bytes);
        let rows = (interval_us > 0).then_some(Source::Rows);
        let keys = |own: &[&'static str]| [&SUBSCRIBER, own].concat();
        let beside = |own: &[&'static str]| [&SUBSCRIBER, &PUBLISHED[..], own].concat();
        let source = rows.filter(|_| settings.events_per_s().is_none());
        let pace = match (settings.every_ms, settings.rate) {
            (0, 0) => format!("W{}", settings.window),
            (0, per_s) => format!("{per_s}/s"),
            (every_ms, _) => format!("/ {}", interval_label(every_ms * 1000)),
        };
        let published = match settings.events_per_s() {
            Some(_) => format!(" × {bytes} {pace}"),
            None => String::new(),
        };
        let plain = DriveKind {
            keys: Vec::new(),
            label: String::new(),
            figure: Figure::Cpu,
            can_pause: false,
            scheduled_per_s: None,
            source: None,
            span_us: None,
        };
        match self {
            Drive::PublishedLoad => {
                let scheduled_per_s =
                    settings.events_per_s().map(|rate| rate * f64::from(settings.topics) * readers);
                // Where the rate is given, it is the same for everybody.
                let figure = if scheduled_per_s.is_some() { Figure::Latency } else { Figure::Cpu };
                DriveKind {
                    keys: beside(&[
                        "chunk_events",
                        "publish_to",
                        "message_events",
                        "streams",
                        "compress",
                        "topics",
                        "window",
                        "stopped",
                        "slow",
                        "slow_bytes_per_s",
                    ]),
                    label: format!("{subscribers} × {bytes} {pace}"),
                    figure,
                    // Some have stopped reading for good.
                    can_pause: settings.stopped + settings.slow == 0,
                    scheduled_per_s,
                    ..plain
                }
            }
            Drive::Ceiling => DriveKind {
                keys: keys(&["streams", "topics", "event_bytes", "rate", "p99_us_max"]),
                label: format!(
                    "{subscribers} × {bytes}, p99 ≤ {}",
                    interval_label(settings.p99_us_max)
                ),
                figure: Figure::Ceiling,
                ..plain
            },
            Drive::GeneratedLoad => {
                let rows_label =
                    if batch == 1 { "1 row".to_owned() } else { format!("{batch} rows") };
                let per_s = f64::from(batch) * readers * 1e6 / interval_us.max(1) as f64;
                DriveKind {
                    keys: keys(&[
                        "streams",
                        "batch",
                        "interval_us",
                        "tabs",
                        "devtools",
                        "throttle",
                        "consumer",
                        "worker",
                        "cores",
                    ]),
                    label: format!(
                        "{subscribers} × {rows_label} / {}",
                        interval_label(interval_us)
                    ),
                    scheduled_per_s: Some(per_s),
                    source: rows,
                    ..plain
                }
            }
            Drive::Idle => DriveKind {
                keys: keys(&["streams", "topics"]),
                label: format!("{subscribers} idle"),
                figure: Figure::Memory,
                ..plain
            },
            Drive::Publish => {
                let how = match settings.request {
                    Request::Ndjson => "ndjson",
                    Request::Single => "single posts",
                };
                DriveKind {
                    keys: vec!["event_bytes", "request", "chunk_events"],
                    label: format!("{how} {connections} × {bytes}"),
                    can_pause: true,
                    ..plain
                }
            }
            Drive::Stored => DriveKind {
                keys: vec!["event_bytes", "rate", "window", "message_events"],
                label: format!("stored {bytes} {pace}"),
                can_pause: true,
                scheduled_per_s: settings.events_per_s(),
                ..plain
            },
            Drive::Echo => {
                let has_firehose = settings.dummy_bytes > 0;
                let requests = u64::from(settings.requests);
                DriveKind {
                    keys: keys(&[
                        "interval_us",
                        "requests",
                        "request_us",
                        "answers",
                        "dummy_bytes",
                        "window_bytes",
                    ]),
                    label: echo_label(settings),
                    figure: Figure::RoundTrip,
                    can_pause: !has_firehose,
                    // The schedule of the firehose.
                    scheduled_per_s: has_firehose.then(|| 1e6 / interval_us.max(1) as f64),
                    source: has_firehose.then_some(Source::Dummies),
                    span_us: (requests > 0).then_some(requests * settings.request_us),
                }
            }
            Drive::RoundTrip => DriveKind {
                keys: keys(&["requests", "tabs", "devtools", "consumer", "worker", "cores"]),
                label: format!("{} round trips", settings.requests),
                figure: Figure::RoundTrip,
                can_pause: true,
                source: Some(Source::Runners),
                span_us: Some(u64::from(settings.requests) * ROUND_TRIP_US),
                ..plain
            },
            Drive::Listen => DriveKind {
                keys: vec!["slow", "slow_bytes_per_s"],
                label: format!("{connections} connections"),
                ..plain
            },
            Drive::Send => {
                let bytes = match settings.event_bytes {
                    0 => String::new(),
                    _ => format!(" × {bytes}"),
                };
                let arrive = match settings.arrivals.are_at_once() {
                    true => String::new(),
                    false => format!(" arrive at {}", settings.arrivals),
                };
                let rate = match settings.rate {
                    0 => "at random times".to_owned(),
                    rate => format!("{rate}/s"),
                };
                DriveKind {
                    keys: vec!["rate", "event_bytes", "slow", "slow_bytes_per_s"],
                    label: format!("{connections} connections{arrive}, {rate}{bytes} each"),
                    figure: Figure::RoundTrip,
                    ..plain
                }
            }
            Drive::Ramp => DriveKind {
                keys: beside(&["arrivals", "batch", "interval_us", "late_us_max"]),
                label: format!("{subscribers} arrive at {}{published}", settings.arrivals),
                figure: match settings.late_us_max {
                    0 => Figure::Latency,
                    _ => Figure::Held,
                },
                source,
                span_us: Some(settings.arrivals.schedule(connections as usize).1),
                ..plain
            },
            Drive::Churn => DriveKind {
                keys: beside(&["stay_ms", "batch", "interval_us"]),
                label: format!(
                    "{subscribers} stay {} each{published}",
                    interval_label(settings.stay_ms * 1000)
                ),
                figure: Figure::Latency,
                source,
                ..plain
            },
            Drive::Stampede => DriveKind {
                keys: beside(&["batch", "interval_us", "lost_keys"]),
                label: match settings.lost_keys {
                    0 => format!("{subscribers} reconnect at once{published}"),
                    lost => {
                        format!("{subscribers}, those of {lost} keys reconnect at once{published}")
                    }
                },
                figure: Figure::Latency,
                source,
                span_us: Some(u64::from(connections) * OPENING_US),
                ..plain
            },
        }
    }
}

impl Settings {
    /// Returns whether the load can pause. It cannot if the subject sends by itself, or if some have stopped reading for good.
    pub fn can_pause(&self, drive: Drive) -> bool {
        drive.kind(self).can_pause
    }

    /// Returns the events per second over all subscribers that the schedule offers, if any; with `echo`, those of the firehose.
    pub fn scheduled_events_per_s(&self, drive: Drive) -> Option<f64> {
        drive.kind(self).scheduled_per_s
    }

    /// Returns the name of a cell: the settings that matter under its drive.
    pub fn label(&self, drive: Drive) -> String {
        let parts = LABELS.iter().map(|part| part(self));
        drive.kind(self).label + &parts.collect::<String>()
    }
}

fn echo_label(settings: &Settings) -> String {
    let asks = match settings.requests {
        0 => "no echo".to_owned(),
        _ => format!("echo every {}", interval_label(settings.request_us)),
    };
    let place = match settings.answers {
        Answers::Same => "",
        Answers::Beside => ", on a connection of its own",
    };
    match settings.dummy_bytes {
        0 => format!("{asks}, no firehose{place}"),
        bytes => {
            let every = interval_label(settings.interval_us);
            format!("{asks} beside {} / {every}{place}", bytes_label(bytes))
        }
    }
}

fn interval_label(interval_us: u64) -> String {
    if interval_us.is_multiple_of(1000) {
        format!("{} ms", interval_us / 1000)
    } else {
        format!("{interval_us} µs")
    }
}
