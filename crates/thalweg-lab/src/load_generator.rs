//! A load generator opens sessions on a subject, and measures spans.
//!
//! [`crate::swarm::Swarm`] is the lab's own, in one thread; [`crate::browser::Chromium`] uses tabs of the system's browser.

use crate::measure::{
    Beside, BrowserUse, Counts, Held, Latency, Negotiated, Pacing, Pushed, Received, RoundTrips,
    Step, Traffic, WarmUp,
};
use crate::scenario::{Drive, Program, Settings};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

/// A source of load for a subject.
pub trait LoadGenerator: Sync {
    /// Opens all connections and warms the subject up. The error is [`Interrupted`] or says why there is nothing to measure.
    fn open<'a>(
        &'a self,
        load: &Load<'a>,
        observer: &'a mut dyn Observer,
    ) -> anyhow::Result<Box<dyn Session + 'a>>;
}

/// A subject under load, from its first connection to its last figure. Dropping it closes the connections.
pub trait Session {
    /// Measures a span. Resumes the load if it was paused.
    fn span(&mut self, time: Duration) -> anyhow::Result<Outcome>;

    /// Stops the load, until the next span.
    fn pause(&mut self) -> anyhow::Result<()>;

    /// Answers pings and other requests of the subject between spans; must be called every few seconds.
    fn attend(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Ends the load, and returns the ledger's counts since the last span.
    fn close(self: Box<Self>) -> anyhow::Result<Counts>;
}

/// Measures one span on its own connections. The ledger also covers the time before and after the span.
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

/// Returns `CLOCK_MONOTONIC` in µs. All processes of the machine share this clock, and schedules of subjects refer to it.
#[inline]
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Returns the CPU time of this process so far.
pub fn process_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// The load of a subject.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// Where the subject listens; for an external endpoint, its URL says so.
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
    /// Servers beside the subject.
    pub cluster: Cluster,
}

/// Servers beside a subject that the lab publishes to.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The NATS server that the lab publishes to.
    pub nats: Option<SocketAddr>,
    /// The other nodes.
    pub nodes: Vec<SocketAddr>,
}

/// An observer of the subject. It runs in the swarm's thread, which neither reads nor publishes meanwhile, so only looks before and
/// after the span may be long.
pub trait Observer {
    /// Called when a look is due.
    fn at(&mut self, _moment: Moment<'_>) {}
    /// Called about ten times a second; may end the sample.
    fn progress(&mut self, _figures: Figures<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Returns whether other programs may use the swarm's core. If so, the swarm sleeps instead of polling.
    fn shares_core(&self) -> bool {
        false
    }
    /// Called every few ms once the subject is warm. Returns whether the span may begin.
    fn may_begin(&mut self) -> bool {
        true
    }
    /// Called every few ms after the span. Returns whether the load must continue. `events` have been delivered since the end of the span.
    fn wants_more(&mut self, events: u64) -> bool {
        let _ = events;
        false
    }
}

/// A moment at which an observer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment<'a> {
    /// All subscriptions are confirmed. A long look.
    Open,
    /// The subject is warm. A long look; data that arrives meanwhile is read before the span begins.
    Warm,
    /// The span begins: a short look. The last of several spans counts, as in a search for a ceiling.
    Begin,
    /// The span ends: a short look. Events due in it may still be in flight.
    End,
    /// All events due in the span have arrived; the connections are still open. A long look.
    Over {
        /// Local ports of the subscribers that stopped reading.
        stopped_ports: &'a [u16],
    },
}

/// Live figures of a running sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures<'a> {
    /// Established connections.
    pub connections: usize,
    /// Events per second so far; 0 before the span.
    pub events_per_s: f64,
    /// Events so far; 0 before the span.
    pub events: u64,
    /// How late events so far were, if that is known before the end of the span.
    pub latency: Option<&'a Latency>,
    /// The longest time since the last report for which a subscriber lacked an event that was due; over an
    /// external endpoint's connections, for which one had no event.
    pub silence_us: u64,
    /// Mean of the round trips so far, if the client answers.
    pub round_trip_us: Option<f64>,
}

/// Outcome of a span.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Traffic in the span.
    pub traffic: Traffic,
    /// Latency of events due in the span; in a closed loop, of events received in it.
    pub latency: Latency,
    /// Set if the client answers.
    pub round_trips: Option<RoundTrips>,
    /// Set if the lab publishes while connections arrive.
    pub beside: Option<Beside>,
    /// Set if the subject pushes data beside its answers.
    pub pushed: Option<Pushed>,
    /// Set if a browser is the load.
    pub browser: Option<BrowserUse>,
    /// Received from an external endpoint.
    pub received: Option<Received>,
    /// The warm-up of the subject.
    pub warm_up: WarmUp,
    /// In a closed loop: the number outstanding by Little's law, divided by the actual number.
    pub littles_ratio: Option<f64>,
    /// In an open loop: how the swarm kept the schedule.
    pub pacing: Option<Pacing>,
    /// Whether the swarm limited the load.
    pub swarm_fell_short: bool,
    /// Connections that were dialed a second time, because the first attempt failed.
    pub redialed: u32,
    /// Why the figures do not count, if they do not.
    pub failure: Option<String>,
    /// Rates that were tried, or the seconds of a ramp with an objective.
    pub steps: Vec<Step>,
    /// Result of a ramp within an objective.
    pub held: Option<Held>,
    /// Negotiated and configured values of the first connection.
    pub negotiated: Negotiated,
    /// Over the whole sample.
    pub ledger: Counts,
    /// Time until all connections were established.
    pub open_us: u64,
    /// Length of the span.
    pub span_us: u64,
    /// CPU time of the swarm in the span, without polls that found no work.
    pub swarm_cpu_ns: u64,
    /// CPU time of the swarm in the span, as the kernel counts it, including these polls.
    pub swarm_cpu_all_ns: u64,
    /// The longest time between two looks of the swarm at its sockets.
    pub swarm_away_us: u64,
}

/// The observer ended the sample.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;
