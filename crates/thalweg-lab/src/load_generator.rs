//! A load generator opens sessions on a subject, and measures spans.
//!
//! [`crate::swarm::Swarm`] is the lab's own, on one thread; [`crate::browser::Chromium`] are tabs of the system's browser.

use crate::measure::{
    Beside, BrowserUse, Counts, Held, Latency, Negotiated, Pacing, Pushed, Received, RoundTrips,
    Step, Traffic, WarmUp,
};
use crate::scenario::{Drive, Program, Settings};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

/// Makes the load.
pub trait LoadGenerator: Sync {
    /// Opens all connections and warms the subject up. The error is [`Interrupted`] or says why there is nothing to measure.
    fn open<'a>(
        &'a self,
        load: &Load<'a>,
        observer: &'a mut dyn Observer,
    ) -> anyhow::Result<Box<dyn Session + 'a>>;
}

/// A subject under load, from its first connection to the last figure. Dropped, its connections are closed.
pub trait Session {
    /// Measures a span, with the load if it was paused.
    fn span(&mut self, time: Duration) -> anyhow::Result<Outcome>;

    /// Stops the load, until the next span.
    fn pause(&mut self) -> anyhow::Result<()>;

    /// Answers what a subject asks meanwhile, such as pings; to be called every few seconds.
    fn attend(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Ends it; says what the ledger has found since the last span.
    fn close(self: Box<Self>) -> anyhow::Result<Counts>;
}

/// Measures one span on connections of its own; the ledger is that of all of it.
pub fn run(
    generator: &dyn LoadGenerator,
    load: &Load<'_>,
    observer: &mut dyn Observer,
) -> anyhow::Result<Outcome> {
    let mut session = generator.open(load, observer)?;
    let outcome = session.span(load.measured)?;
    let ledger = outcome.ledger.and(&session.close()?);
    Ok(Outcome { ledger, ..outcome })
}

/// `CLOCK_MONOTONIC` in µs, which every process of the machine shares, and subjects announce their schedules on.
#[inline]
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// CPU time of this process so far.
pub fn process_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// The load of a subject.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// Where it listens; an external endpoint says so itself.
    pub address: SocketAddr,
    /// The subject's program.
    pub program: &'a Program,
    /// The settings of the sample.
    pub settings: &'a Settings,
    /// The drive, which makes the subject broadcast.
    pub drive: Drive,
    /// When a subject that generates its load begins, on the monotonic clock, µs.
    pub start_us: u64,
    /// Time at full load before the span.
    pub warm_up: Duration,
    /// The measured span.
    pub measured: Duration,
    /// Servers beside it.
    pub cluster: Cluster,
}

/// Servers beside a subject, where the lab publishes.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The NATS server that the lab publishes to.
    pub nats: Option<SocketAddr>,
    /// The other nodes.
    pub nodes: Vec<SocketAddr>,
}

/// Looks at the subject at the right moments, on the swarm's thread. Meanwhile the swarm neither reads nor publishes, so only
/// looks around the span may be long.
pub trait Observer {
    /// Called when a look is due.
    fn at(&mut self, moment: Moment<'_>);
    /// Called about ten times a second; may end the sample.
    fn progress(&mut self, figures: Figures) -> ControlFlow<()>;
    /// Returns whether other programs may use the swarm's core: then the swarm sleeps instead of polling.
    fn shares_core(&self) -> bool {
        false
    }
    /// Called when the subject is warm, every few ms until it is true: whether the span may begin.
    fn may_begin(&mut self) -> bool {
        true
    }
    /// Called after the span's end, every few ms: whether the load shall go on. `events` have been delivered since the end.
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
    /// The subject is warm. A long look; what has become ready meanwhile is read before the span begins.
    Warm,
    /// The span begins: a short look. The last of several spans counts, as in a search for a ceiling.
    Begin,
    /// The span ends: a short look. Events due in it may still be under way.
    End,
    /// Events due in the span have come; the connections still stand. A long look.
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

/// Outcome of a span.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the span.
    pub traffic: Traffic,
    /// Latency of events due in the span; in a closed loop, of events that came in it.
    pub latency: Latency,
    /// Where the client answers.
    pub round_trips: Option<RoundTrips>,
    /// Where the lab publishes beside connections that come.
    pub beside: Option<Beside>,
    /// Where the subject pushes beside its answers.
    pub pushed: Option<Pushed>,
    /// Where the load is in a browser.
    pub browser: Option<BrowserUse>,
    /// Received from an external endpoint.
    pub received: Option<Received>,
    /// How the subject got warm.
    pub warm_up: WarmUp,
    /// In a closed loop: what is outstanding by Little's law, to what was.
    pub littles_ratio: Option<f64>,
    /// In an open loop: how the swarm kept the schedule.
    pub pacing: Option<Pacing>,
    /// Whether the swarm is the reason why it is not more.
    pub swarm_fell_short: bool,
    /// Connections that were dialed a second time, because the first attempt failed.
    pub redialed: u32,
    /// Why the figures do not count, where they do not.
    pub failure: Option<String>,
    /// Rates tried; of a ramp within an objective, its seconds.
    pub steps: Vec<Step>,
    /// Result of a ramp within an objective.
    pub held: Option<Held>,
    /// Agreed and set values of the first connection.
    pub negotiated: Negotiated,
    /// Over everything.
    pub ledger: Counts,
    /// Until all connections stood.
    pub open_us: u64,
    /// Length of the span.
    pub span_us: u64,
    /// CPU time of the swarm in the span, without polls that found no work.
    pub swarm_cpu_ns: u64,
    /// CPU time of the swarm in the span, as the kernel counts it: with these polls.
    pub swarm_cpu_all_ns: u64,
    /// The longest time between two looks of the swarm at its sockets.
    pub swarm_away_us: u64,
}

/// The observer ended the sample.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;
