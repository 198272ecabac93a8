//! The load: subscribers and publishers, on one thread of its own core.
//!
//! - `socket`: sockets, readiness, the clock
//! - `link`: a connection's bytes, as they are or encrypted
//! - `read_buffer`: the one buffer all connections are read through
//! - `carrier`: one file per transport, bytes only
//! - `subscribers`: opened a few at a time, then read
//! - `streams`: those that share an HTTP/2 connection
//! - `polls`: long polling over HTTP/1.1; `subscribe_request` and `cursors`: what those ask with
//!   whose answers have an end, and where they go on
//! - `opening`: until all connections stand
//! - `inbox`: what arrives, taken apart and entered in the ledger
//! - `publisher`: a long-lived publish connection
//! - `posted`, `rows`: what must arrive under either drive; `timetable`: when rows must
//! - `span`: the measured span, and what was due in it and comes later
//! - `offer`: publishing, as the window moves or on the schedule of `pace`
//! - `search`: the highest rate within an objective; `ceiling`: tried on a subject
//! - `writer`: what a connection sends and the kernel has not taken
//! - `conversation`: a subscriber that talks back, and for that
//!   `echo`: experiment C and its `firehose`, `round_trip`: experiment B, `http_client` and `http_response`: HTTP's requests and answers
//! - `external`: an endpoint that somebody else runs
//! - `warm_up`: until figures have stopped drifting, and what follows the span
//! - `facts`: what connections really agreed on
//! - `progress`: how it goes
//! - `posting`: publishing for its own sake, without subscribers

mod carrier;
mod ceiling;
mod chunked_stream;
mod conversation;
mod cursors;
mod echo;
mod event;
pub mod external;
mod facts;
mod firehose;
mod http_client;
mod http_response;
mod inbox;
mod link;
mod offer;
mod opening;
mod pace;
mod polls;
mod posted;
mod posting;
mod progress;
mod publisher;
mod read_buffer;
mod round_trip;
mod rows;
mod search;
mod socket;
mod span;
mod streams;
mod subscribe_request;
mod subscribers;
mod tally;
mod timetable;
mod warm_up;
mod writer;

use crate::measure::{
    Counts, Latency, Negotiated, Pacing, Pushed, RoundTrips, Step, Traffic, WarmUp,
};
use crate::scenario::{Dialect, Drive, Settings};
use crate::subject::dialect;
use anyhow::bail;
use link::Dialer;
use offer::{Behind, Posting};
use pace::Schedule;
use progress::Progress;
use publisher::Publisher;
use socket::{Poller, allow_open_files, now_us};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;
use subscribers::Subscribers;

/// Under the posted drive, silence this long means that an event is lost.
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
/// Publishers' keys for the poller begin here; connections' are their numbers.
const PUBLISHER_KEYS: u64 = 1 << 32;

/// What to do to a subject.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it says on top of a transport.
    pub dialect: Dialect,
    /// Where its WebSocket is, if not where topics are.
    pub path: Option<&'a str>,
    /// The settings of the sample.
    pub settings: &'a Settings,
    /// Who makes the subject broadcast.
    pub drive: Drive,
    /// When a self-driven subject begins, on the monotonic clock, µs.
    pub start_us: u64,
    /// Time at full load before the span.
    pub warm_up: Duration,
    /// The measured span.
    pub measured: Duration,
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
    /// Mean of the round trips so far, where the client talks back.
    pub round_trip_us: Option<f64>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the span.
    pub traffic: Traffic,
    /// Of what was due in the span; in a closed loop, of what came in it.
    pub latency: Latency,
    /// Where the client talks back.
    pub round_trips: Option<RoundTrips>,
    /// Where the subject pushes beside its answers.
    pub pushed: Option<Pushed>,
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
    /// Rates tried.
    pub steps: Vec<Step>,
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

/// Runs the workload. The error is [`Interrupted`] or says why the sample is
/// invalid.
pub fn run(workload: &Workload<'_>, observer: &mut dyn Observer) -> anyhow::Result<Outcome> {
    allow_open_files(workload.settings.connections)?;
    match workload.drive {
        Drive::Publish => posting::run(workload, observer),
        Drive::Echo => echo::run(workload, observer),
        Drive::RoundTrip => round_trip::run(workload, observer),
        Drive::Ceiling => Swarm::new(workload, observer)?.find_ceiling(),
        _ => Swarm::new(workload, observer)?.run(),
    }
}

/// The time on the clock that subjects announce their schedules on, µs.
pub fn monotonic_us() -> u64 {
    now_us()
}

struct Swarm<'a> {
    workload: &'a Workload<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    subscribers: Subscribers,
    /// Of publishers.
    dialer: Dialer,
    /// One per topic.
    publishers: Vec<Publisher>,
    posting: Posting,
    /// Of an open loop.
    schedule: Schedule,
    /// Why the schedule was given up.
    behind: Option<Behind>,
    /// Whether publish requests are being ended.
    is_finishing: bool,
    /// Scratch for the events that are due.
    lines: Vec<u8>,
    /// When the span began; 0 before.
    begun_us: u64,
    progress: Progress,
}

impl<'a> Swarm<'a> {
    fn new(workload: &'a Workload<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        let Workload { address, settings, .. } = *workload;
        let dialer = Dialer::new(address, settings, dialect::HTTP_1)?;
        let subscribers = match settings.streams {
            0 => dialer.clone(),
            _ => Dialer::new(address, settings, dialect::HTTP_2)?,
        };
        Ok(Swarm {
            workload,
            observer,
            poller: Poller::new()?,
            subscribers: Subscribers::new(subscribers, workload)?,
            dialer,
            publishers: Vec::new(),
            posting: Posting::Nothing,
            schedule: Schedule::default(),
            behind: None,
            is_finishing: false,
            lines: Vec::new(),
            begun_us: 0,
            progress: Progress::default(),
        })
    }

    fn run(mut self) -> anyhow::Result<Outcome> {
        let open_us = self.open()?;
        self.subscribers.inbox().stand(now_us());
        // Before the kernel makes the buffers larger.
        let negotiated = self.subscribers.negotiated();
        self.observer.at(Moment::Open);
        self.start_posting(f64::from(self.workload.settings.rate))?;
        if self.workload.drive == Drive::SelfDriven {
            let silent_us = self.workload.start_us.saturating_sub(now_us());
            self.run_for(Duration::from_micros(silent_us))?;
        }
        let warm_up = self.get_warm()?;
        while !self.observer.may_begin() {
            self.run_for(MOMENT)?;
        }

        let stopped_ports = self.subscribers.stop_readers(&self.poller)?;
        self.observer.at(Moment::Warm);
        self.catch_up()?;
        let span = self.span(self.workload.measured)?;
        let latency = self.latency_of_span(self.begun_us + span.span_us)?;
        self.observer.at(Moment::Over { stopped_ports: &stopped_ports });
        self.go_on_while_wanted()?;
        self.settle()?;
        Ok(Outcome {
            warm_up,
            negotiated,
            latency,
            failure: self.subscribers.inbox().broken_schedule(),
            ledger: self.subscribers.close_ledger(),
            open_us,
            swarm_fell_short: span.pacing.as_ref().is_some_and(Pacing::is_short),
            ..span
        })
    }

    fn run_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let begun_us = now_us();
        let until_us = begun_us + time.as_micros() as u64;
        loop {
            let now_us = now_us();
            if now_us >= until_us {
                return Ok(());
            }
            self.turn((until_us - now_us).min(PROGRESS_EVERY_US))?;
            if let Some(behind) = self.behind.take() {
                return Err(behind.into());
            }
            let heard_us = self.subscribers.inbox().heard_us.max(begun_us);
            if now_us.saturating_sub(heard_us) > SILENCE_US_MAX && self.is_silent(now_us) {
                let counts = self.subscribers.close_ledger();
                bail!("the subject has been silent for 2 s: {counts}");
            }
        }
    }

    /// Waits once and handles everyone who is ready.
    fn turn(&mut self, timeout_us: u64) -> anyhow::Result<()> {
        let timeout_us = match self.posting {
            Posting::Schedule => self.post_on_schedule(timeout_us)?,
            _ => timeout_us,
        };
        let count = self.poller.wait_awake(timeout_us, SPIN_US)?;
        for index in 0..count {
            let ready = self.poller.ready(index);
            if ready.key >= PUBLISHER_KEYS {
                self.on_publisher((ready.key - PUBLISHER_KEYS) as usize, ready.readable)?;
                continue;
            }
            self.subscribers.on_ready(ready, &self.poller)?;
            match self.posting {
                // At once: the window's latency begins with this read.
                Posting::Window => self.post_what_is_due()?,
                Posting::Schedule if self.schedule.is_due(self.subscribers.inbox().heard_us) => {
                    self.post_on_schedule(0)?;
                }
                _ => {}
            }
        }
        let Swarm { progress, observer, subscribers, begun_us, .. } = self;
        progress.tell(*observer, |now_us| {
            let connections = subscribers.standing();
            Figures::of_span(connections, &subscribers.inbox().tally, *begun_us, now_us)
        })
    }
}
