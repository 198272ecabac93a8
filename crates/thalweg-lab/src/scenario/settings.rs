//! Everything that may differ between two samples.

use super::{Answers, Arrivals, Drive, Mode, Request, Transport};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Events of a topic in a span, at least.
const SLOW_SPAN_EVENTS: u32 = 5;

/// Everything that may differ between two samples of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How subscribers are connected.
    pub transport: Transport,
    /// Subscribers, each with a connection of its own unless `streams` says
    /// otherwise; with the `publish` drive, publishers.
    pub connections: u32,
    /// Subscribers that share an HTTP/2 connection; 0 is HTTP/1.1.
    pub streams: u32,
    /// Whether connections are encrypted (TLS 1.3).
    pub tls: bool,
    /// Topics each connection subscribes to.
    pub topics: u32,
    /// Exact size of a posted event.
    pub event_bytes: u32,
    /// Posted events outstanding per topic.
    pub window: u32,
    /// Posted events per second and topic, on a schedule set in advance; 0 posts
    /// as fast as the window allows. With the `ceiling` drive the first rate tried.
    pub rate: u32,
    /// The latency objective of the `ceiling` drive, for 99 of 100 events.
    pub p99_us_max: u64,
    /// Rows in a self-driven batch.
    pub batch: u32,
    /// Time between two self-driven batches.
    pub interval_us: u64,
    /// Subscribers that stop reading once warm-up is over.
    pub stopped: u32,
    /// Subscribers that read at a trickle from then on.
    pub slow: u32,
    /// How much each of these reads a second.
    pub slow_bytes_per_s: u32,
    /// At which rate connections arrive.
    pub arrivals: Arrivals,
    /// How long a connection stays, on average.
    pub stay_ms: u64,
    /// Threads of `thalweg serve`.
    pub shards: u32,
    /// How `limit` sends.
    pub mode: Mode,
    /// How the `publish` drive hands events in.
    pub request: Request,
    /// Requests, or round trips; without requests the firehose runs alone.
    pub requests: u32,
    /// From request to request.
    pub request_us: u64,
    /// Which connection carries the answers.
    pub answers: Answers,
    /// Size of the firehose's event; 0 is no firehose.
    pub dummy_bytes: u32,
    /// Bytes that may be under way and not acked; 0 is no window.
    pub window_bytes: u32,
    /// `SO_RCVBUF` of a subscriber; 0 leaves it to the kernel.
    pub receive_buffer_bytes: u32,
    /// `--send-buffer` of `thalweg serve`; 0 is its default.
    pub send_buffer_bytes: u32,
    /// `--unsent` of `thalweg serve`; 0 is its default.
    pub unsent_bytes: u32,
    /// Changes nothing: cells that differ in it are measured one by one, where equal
    /// ones would be one.
    pub round: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            transport: Transport::Websocket,
            connections: 100,
            streams: 0,
            tls: false,
            topics: 1,
            event_bytes: 128,
            window: 4,
            rate: 0,
            p99_us_max: 50_000,
            batch: 1,
            interval_us: 1000,
            stopped: 0,
            slow: 0,
            slow_bytes_per_s: 1000,
            arrivals: Arrivals::default(),
            stay_ms: 10_000,
            shards: 1,
            mode: Mode::Coalesced,
            request: Request::Ndjson,
            answers: Answers::Same,
            requests: 1000,
            request_us: 1000,
            dummy_bytes: 0,
            window_bytes: 0,
            receive_buffer_bytes: 0,
            send_buffer_bytes: 0,
            unsent_bytes: 0,
            round: 0,
        }
    }
}

impl Settings {
    /// Subscribers that read to the end, and so move the window on.
    pub fn readers(&self) -> u32 {
        self.connections - self.stopped - self.slow
    }

    /// Whether the load can be stopped, and go on later on the same connections: not where
    /// the subject sends by itself, or where some have stopped reading for good.
    pub fn can_pause(&self, drive: Drive) -> bool {
        match drive {
            Drive::Posted | Drive::Publish | Drive::RoundTrip => self.stopped + self.slow == 0,
            Drive::Echo => self.dummy_bytes == 0,
            Drive::SelfDriven
            | Drive::Idle
            | Drive::Ceiling
            | Drive::Listen
            | Drive::Send
            | Drive::Ramp
            | Drive::Churn
            | Drive::Stampede => false,
        }
    }

    /// The shortest span at a slow rate: one of fewer events would measure little else than
    /// when it began.
    pub fn slow_span(&self) -> Duration {
        match self.rate {
            0 => Duration::ZERO,
            rate => SLOW_SPAN_EVENTS * Duration::from_secs(1) / rate,
        }
    }

    /// Events per second, over all subscribers, that the schedule offers, where
    /// there is one; of the `echo` drive, what the firehose is to push.
    pub fn scheduled_events_per_s(&self, drive: Drive) -> Option<f64> {
        let readers = f64::from(self.readers());
        match drive {
            Drive::SelfDriven => {
                Some(f64::from(self.batch) * readers * 1e6 / self.interval_us.max(1) as f64)
            }
            Drive::Posted if self.rate > 0 => {
                Some(f64::from(self.rate) * f64::from(self.topics) * readers)
            }
            Drive::Echo if self.dummy_bytes > 0 => Some(1e6 / self.interval_us.max(1) as f64),
            _ => None,
        }
    }

    /// What a cell is called: the settings that matter under its drive.
    pub fn label(&self, drive: Drive) -> String {
        let connections = self.connections;
        let mut label = match drive {
            Drive::Posted => {
                let pace = match self.rate {
                    0 => format!("W{}", self.window),
                    rate => format!("{rate}/s"),
                };
                let bytes = bytes_label(self.event_bytes);
                format!("{} {connections} × {bytes} {pace}", self.transport)
            }
            Drive::Ceiling => format!(
                "{} {connections} × {}, p99 ≤ {}",
                self.transport,
                bytes_label(self.event_bytes),
                interval_label(self.p99_us_max)
            ),
            Drive::SelfDriven => format!(
                "{} {connections} × {} / {}",
                self.transport,
                if self.batch == 1 { "1 row".to_owned() } else { format!("{} rows", self.batch) },
                interval_label(self.interval_us)
            ),
            Drive::Idle => format!("{} {connections} idle", self.transport),
            Drive::Publish => format!(
                "{} {connections} × {}",
                match self.request {
                    Request::Ndjson => "ndjson",
                    Request::Single => "single posts",
                },
                bytes_label(self.event_bytes)
            ),
            Drive::Echo => self.echo_label(),
            Drive::RoundTrip => format!("{} round trips", self.requests),
            Drive::Listen => format!("{connections} connections"),
            Drive::Ramp => format!("{} {connections} arrive at {}", self.transport, self.arrivals),
            Drive::Churn => {
                let stay = interval_label(self.stay_ms * 1000);
                format!("{} {connections} stay {stay} each", self.transport)
            }
            Drive::Stampede => format!("{} {connections} reconnect at once", self.transport),
            Drive::Send => {
                let bytes = match self.event_bytes {
                    0 => String::new(),
                    bytes => format!(" × {}", bytes_label(bytes)),
                };
                format!("{connections} connections, {}/s{bytes} each", self.rate)
            }
        };
        if self.streams > 0 {
            label += &format!(" × {} streams", self.streams);
        }
        if self.tls {
            label += " TLS";
        }
        if self.topics > 1 {
            label += &format!(" × {} topics", self.topics);
        }
        if self.stopped > 0 {
            label += &format!(", {} stop", self.stopped);
        }
        if self.slow > 0 {
            let rate = bytes_label(self.slow_bytes_per_s);
            label += &format!(", {} read {rate}/s", self.slow);
        }
        if self.shards > 1 {
            label += &format!(", {} shards", self.shards);
        }
        if self.round > 0 {
            label += &format!(", round {}", self.round);
        }
        label
    }

    fn echo_label(&self) -> String {
        let asks = match self.requests {
            0 => "no echo".to_owned(),
            _ => format!("echo every {}", interval_label(self.request_us)),
        };
        let place = match self.answers {
            Answers::Same => "",
            Answers::Beside => ", on a connection of its own",
        };
        match self.dummy_bytes {
            0 => format!("{asks}, no firehose{place}"),
            bytes => {
                let every = interval_label(self.interval_us);
                format!("{asks} beside {} / {every}{place}", bytes_label(bytes))
            }
        }
    }
}

fn bytes_label(bytes: u32) -> String {
    if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else if bytes >= 1_000_000 && bytes.is_multiple_of(1_000_000) {
        format!("{} MB", bytes / 1_000_000)
    } else if bytes >= 1000 && bytes.is_multiple_of(1000) {
        format!("{} kB", bytes / 1000)
    } else {
        format!("{bytes} B")
    }
}

fn interval_label(interval_us: u64) -> String {
    if interval_us.is_multiple_of(1000) {
        format!("{} ms", interval_us / 1000)
    } else {
        format!("{interval_us} µs")
    }
}
