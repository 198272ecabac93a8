//! The load: subscribers and publishers, on one thread of its own core.
//!
//! ```text
//! load ─► session ─► workload ─► subscribers, publishers ─► carrier ─► link ─► socket
//!                       └─◄── receiver, ledger ◄──────────────────┘
//! ```
//!
//! - `session`: a subject under load: opened, measured in spans, closed
//! - `workload`: one way to load a subject, a file each, and the steps of a span
//! - `dialect`: what is said on top of a carrier, a file each
//! - `carrier`: one file per transport, bytes only
//! - `subscribers`: opened a few at a time, then read
//! - `protocol_session`: what is said on one connection, with `parser`: one answer
//!   (`body_stream`), answer after answer (`polls`), those that share an HTTP/2 connection
//!   (`streams`)
//! - `subscribe_request`, `handshake` and `resume_state`: what is asked, whether the response opens
//!   the transport, and where those go on whose answers have an end
//! - `receiver`: what arrives, entered in the ledger; `recorder`: the same of an external
//!   endpoint, where there is none; `exchange`: what it is sent and what comes back, with
//!   `template`, what the messages say
//! - `published`, `generated`: what must arrive under either load; `timetable`: when rows must
//! - `publisher`: a long-lived publish connection; `nats`: one to a NATS server; `pace`: when it publishes
//! - `conversation`: a subscriber that answers; `http_client` and `http_response`: HTTP's
//!   requests and responses
//! - `dialer`: how to get to a server; `link`: a connection's bytes, as they are or encrypted;
//!   `writer`: what a connection sends and the kernel has not taken; `read_buffer`: what all
//!   are read through
//! - `socket`: sockets, readiness, the clock

mod body_stream;
mod carrier;
mod conversation;
mod dialect;
mod dialer;
mod event;
mod exchange;
#[cfg(test)]
mod fed;
mod generated;
#[cfg(test)]
mod golden;
mod handshake;
mod http_client;
mod http_response;
mod link;
mod nats;
mod negotiated;
mod pace;
mod parser;
mod polls;
mod progress;
mod protocol_session;
mod published;
mod publisher;
mod read_buffer;
mod receiver;
mod recorder;
mod resume_state;
mod session;
mod socket;
mod span_statistics;
mod streams;
mod subscribe_request;
mod subscribers;
mod template;
mod timetable;
mod workload;
mod writer;

pub use dialer::addresses;
pub use session::{Session, run};
pub use socket::open_files_max;

use crate::measure::{
    Beside, Counts, Held, Latency, Negotiated, Pacing, Pushed, Received, RoundTrips, Step, Traffic,
    WarmUp,
};
use crate::scenario::{Drive, Program, Settings};
use socket::now_us;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

/// Under a published load, silence this long means that an event is lost.
const SILENCE_US_MAX: u64 = 2_000_000;
/// So long the swarm looks for work before it sleeps.
const SPIN_US: u64 = 50;
/// The same in a conversation: longer than a round trip, so that only the subject
/// has to be woken.
const SPIN_TALK_US: u64 = 2000;
/// After a long look, time to read what has come meanwhile.
const CALM: Duration = Duration::from_millis(20);
/// How often the observer is asked whether to go on.
const MOMENT: Duration = Duration::from_millis(5);
/// How often the observer hears of progress.
const PROGRESS_EVERY_US: u64 = 100_000;

/// What to do to a subject.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// Where it listens; an external endpoint says so itself.
    pub address: SocketAddr,
    /// What it is.
    pub program: &'a Program,
    /// The settings of the sample.
    pub settings: &'a Settings,
    /// Who makes the subject broadcast.
    pub drive: Drive,
    /// When a subject that generates its load begins, on the monotonic clock, µs.
    pub start_us: u64,
    /// Time at full load before the span.
    pub warm_up: Duration,
    /// The measured span.
    pub measured: Duration,
    /// Who is beside it.
    pub cluster: Cluster,
}

/// Who is beside a subject, where the lab publishes.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The NATS server that the lab publishes to.
    pub nats: Option<SocketAddr>,
    /// The other nodes.
    pub nodes: Vec<SocketAddr>,
}

/// Settings of a connection to whom encryption is not meant for.
fn tls_free(settings: &Settings) -> Settings {
    Settings { tls: false, receive_buffer_bytes: 0, ..settings.clone() }
}

/// Looks at the subject at the right moments, on the swarm's thread.
///
/// While it looks, nothing is read and nothing is published: only around the span is
/// there time for long looks.
pub trait Observer {
    /// It is time for a look.
    fn at(&mut self, moment: Moment<'_>);
    /// Called about ten times a second; may end the sample.
    fn progress(&mut self, figures: Figures) -> ControlFlow<()>;
    /// Called when the subject is warm, every few ms until it is true: whether the span
    /// may begin.
    fn may_begin(&mut self) -> bool {
        true
    }
    /// Called behind the span's end, every few ms: whether the load shall go on so
    /// that more can be counted. `events` have been delivered since the end.
    fn wants_more(&mut self, events: u64) -> bool {
        let _ = events;
        false
    }
}

/// When an observer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment<'a> {
    /// All subscriptions stand. A long look.
    Open,
    /// The subject is warm: the span is about to begin. A long look; what has become
    /// ready meanwhile is read before the span begins.
    Warm,
    /// The span begins: a short look. Of several spans, as in a search for a ceiling,
    /// the last counts.
    Begin,
    /// The span ends: a short look. What was due in it may still be under way.
    End,
    /// What was due in the span has come; the connections still stand. A long look.
    Over {
        /// Where the subscribers that stopped reading come from.
        stopped_ports: &'a [u16],
    },
}

/// How it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Connections that stand.
    pub connections: usize,
    /// Events per second so far; 0 before the span.
    pub events_per_s: f64,
    /// Events so far; 0 before the span.
    pub events: u64,
    /// 99 of 100 events so far were no later.
    pub p99_us: Option<u64>,
    /// Mean of the round trips so far, where the client answers.
    pub round_trip_us: Option<f64>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the span.
    pub traffic: Traffic,
    /// Of what was due in the span; in a closed loop, of what came in it.
    pub latency: Latency,
    /// Where the client answers.
    pub round_trips: Option<RoundTrips>,
    /// Where the lab publishes beside connections that come.
    pub beside: Option<Beside>,
    /// Where the subject pushes beside its answers.
    pub pushed: Option<Pushed>,
    /// Of an external endpoint.
    pub received: Option<Received>,
    /// How the subject got warm.
    pub warm_up: WarmUp,
    /// In a closed loop: what is outstanding by Little's law, to what was.
    pub littles_ratio: Option<f64>,
    /// In an open loop: how the swarm kept the schedule.
    pub pacing: Option<Pacing>,
    /// Whether the swarm is the reason why it is not more.
    pub swarm_fell_short: bool,
    /// Why the figures do not count, where they do not.
    pub failure: Option<String>,
    /// Rates tried; of a ramp within an objective, its seconds.
    pub steps: Vec<Step>,
    /// Of a ramp within an objective.
    pub held: Option<Held>,
    /// Of the first connection.
    pub negotiated: Negotiated,
    /// Over everything.
    pub ledger: Counts,
    /// Until all connections stood.
    pub open_us: u64,
    /// Length of the span.
    pub span_us: u64,
    /// CPU time of the swarm in the span, but for looking for work in vain.
    pub swarm_cpu_ns: u64,
    /// The longest time between two looks of the swarm at its sockets.
    pub swarm_away_us: u64,
}

/// The observer ended the sample.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// The time on the clock that subjects announce their schedules on, µs.
pub fn monotonic_us() -> u64 {
    now_us()
}
