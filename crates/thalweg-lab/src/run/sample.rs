//! One sample: a fresh subject, the swarm, and observations of both.

use super::RunContext;
use super::progress::Progress;
use super::start_barrier::StartBarrier;
use super::watch::{Observations, Watch, WatchOptions, Watched};
use crate::load_generator::{
    self, Cluster, Interrupted, Load, LoadGenerator, Outcome, monotonic_us,
};
use crate::measure::{
    Activity, BrowserEvidence, Evidence, Point, Resources, Room, Sample, Verdict,
};
use crate::scenario::{CoreUse, Drive, Endpoint, Plan, Program, Role, Settings, Slot, Subject};
use crate::subject::{Cores, Launch, Listener, LoopMeter, NotSeen, Place, Running};
use crate::swarm;
use anyhow::Context;
use std::cell::RefCell;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A subject that generates its load begins this long after its start: by then it listens.
const START_AFTER_US: u64 = 300_000;

/// Common values of all samples of a run.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) context: &'a RunContext,
    pub(super) place: &'a Place,
    pub(super) cores: &'a Cores,
    pub(super) generator: &'a dyn LoadGenerator,
    pub(super) log: File,
    pub(super) interrupted: &'a AtomicBool,
    /// A remark for the reader of the report, from a sample.
    pub(super) remark: Mutex<Option<String>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) slot: Slot,
    /// Spans in each start of the cell.
    pub(super) rounds: u32,
    /// The round, from 0.
    pub(super) round: usize,
}

pub(super) struct Launched<'a> {
    pub(super) slot: Slot,
    pub(super) load: Load<'a>,
    pub(super) watch: Watch<'a>,
    /// `None` for a server that the lab does not start.
    running: Option<Running>,
    /// The file for the output of the subject and the processes beside it.
    log: &'a File,
}

impl Launched<'_> {
    pub(super) fn stop(self) {
        if let Some(running) = self.running {
            running.stop(self.log);
        }
    }
}

impl Span {
    fn alone(slot: Slot) -> Span {
        Span { slot, rounds: 1, round: 0 }
    }

    /// Returns the sample of a subject that failed; `None` if it was interrupted.
    pub(super) fn failed(self, error: &anyhow::Error) -> Option<Sample> {
        if error.is::<Interrupted>() {
            return None;
        }
        let why = format!("{error:#}");
        Some(Sample { verdict: Verdict::Invalid(why.clone()), why, ..self.blank() })
    }

    /// Returns an empty sample. Rounds are numbered through all starts of a cell.
    fn blank(self) -> Sample {
        let Slot { part, cell, subject, repeat: start } = self.slot;
        let repeat = start * self.rounds + self.round as u32;
        Sample { part, cell, subject, repeat, start: Some(start), ..Sample::default() }
    }
}

impl Bench<'_> {
    /// Returns options for a subject whose live figures `progress` shows.
    pub(super) fn watch_options<'a>(
        &'a self,
        progress: Option<&'a RefCell<Progress>>,
        barrier: StartBarrier,
    ) -> WatchOptions<'a> {
        let (place, interrupted) = (self.place, self.interrupted);
        let system_calls = self.context.system_calls;
        let (is_keyed, loop_meter) = (false, None);
        WatchOptions { place, interrupted, system_calls, progress, barrier, is_keyed, loop_meter }
    }

    /// Takes one sample of a newly started subject, valid or not; `None` if interrupted.
    pub(super) fn take_one(&self, slot: Slot, options: WatchOptions<'_>) -> Option<Sample> {
        let measure = || {
            let mut subject = self.launch(slot, options)?;
            let outcome = load_generator::run(self.generator, &subject.load, &mut subject.watch)?;
            let observations = subject.watch.observations();
            subject.stop();
            Ok(self.judge(Span::alone(slot), outcome, observations))
        };
        measure().map_or_else(|error| Span::alone(slot).failed(&error), Some)
    }

    /// Starts a subject, or finds the endpoint; returns its load, and watches it.
    pub(super) fn launch<'a>(
        &'a self,
        slot: Slot,
        options: WatchOptions<'a>,
    ) -> anyhow::Result<Launched<'a>> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        let (part, subject) = (self.plan.part(slot), self.plan.subject(slot));
        let start_us = monotonic_us() + START_AFTER_US;
        let (running, watched) = match &subject.program {
            Program::Url(endpoint) => (None, self.found(endpoint)?),
            _ => {
                let running = self.run(slot, start_us)?;
                let watched = self.watched(&running, &subject.settings);
                (Some(running), watched)
            }
        };
        let cluster = running.as_ref().map(cluster_of).unwrap_or_default();
        let load = Load {
            cluster,
            address: watched.address,
            program: &subject.program,
            settings: &subject.settings,
            drive: part.drive,
            start_us,
            warm_up: Duration::from_millis(part.warm_up_ms),
            measured: Duration::from_millis(part.measured_ms),
        };
        let is_keyed = subject.settings.keys > 1;
        let loop_meter = (is_keyed && part.drive == Drive::PublishedLoad)
            .then(|| LoopMeter::new(&subject.program, &subject.settings))
            .flatten();
        let options = WatchOptions { is_keyed, loop_meter, ..options };
        let watch = Watch::new(watched, options)?;
        Ok(Launched { slot, load, watch, running, log: &self.log })
    }

    fn run(&self, slot: Slot, start_us: u64) -> anyhow::Result<Running> {
        let Subject { program, settings, arguments, processes, .. } = self.plan.subject(slot);
        let drive = self.plan.part(slot).drive;
        let launch = Launch { program, settings, drive, start_us, arguments, processes };
        Running::start(&self.context.programs, &launch, self.place, self.cores, &self.log)
    }

    fn watched(&self, running: &Running, settings: &Settings) -> Watched {
        let shards = settings.shards;
        let cores = self.cores.subject_cores(settings).to_vec();
        let swarm_core = self.cores.swarm_core(shards);
        let beside: Vec<(String, u32)> =
            running.pids_beside().map(|(name, pid)| (name.to_owned(), pid)).collect();
        let is_beside = !beside.is_empty() && self.cores.cores_beside(shards).contains(&swarm_core);
        Watched {
            pids: vec![running.pid()],
            beside,
            shares_swarm_core: is_beside || cores.contains(&swarm_core),
            address: running.address(),
            room: match settings.cores {
                CoreUse::Apart => Room::Own,
                CoreUse::Shared => Room::WithBrowser(shards as usize),
            },
            cores,
            swarm_core,
        }
    }

    /// Returns what the lab sees of a server that it did not start.
    fn found(&self, endpoint: &Endpoint) -> anyhow::Result<Watched> {
        let addresses = swarm::addresses(endpoint)?;
        let (pids, is_elsewhere) = match Listener::find(&addresses) {
            Ok(listener) => (listener.pids, false),
            Err(not_seen) => {
                self.remark(Some(not_seen.to_string()));
                (Vec::new(), matches!(not_seen, NotSeen::Elsewhere(_)))
            }
        };
        let address = *addresses.first().context("the endpoint has no address")?;
        // Unlike a subject, an endpoint is not pinned to a core.
        let cores = Cores::used_by(&Resources::tree(&pids));
        let room = match cores.len() {
            0 => Room::Unseen,
            count => Room::Shared(count),
        };
        let (beside, swarm_core) = (Vec::new(), self.cores.swarm_core(1));
        // A server on this machine that is not seen may use any core.
        let is_hidden = pids.is_empty() && !is_elsewhere;
        let shares_swarm_core = is_hidden || cores.contains(&swarm_core);
        Ok(Watched { pids, beside, address, room, cores, swarm_core, shares_swarm_core })
    }

    /// Keeps a remark for the reader of the report.
    fn remark(&self, remark: Option<String>) {
        if let (Some(_), Ok(mut last)) = (&remark, self.remark.lock()) {
            *last = remark;
        }
    }

    pub(super) fn judge(
        &self,
        span: Span,
        mut outcome: Outcome,
        mut observations: Observations,
    ) -> Sample {
        self.remark(observations.remark.take());
        if let (Room::WithBrowser(_), Some(used)) = (observations.room, &mut outcome.browser) {
            used.leave_out(observations.between(|observation| observation.resources.cpu_ns));
        }
        let mut evidence = self.evidence(&outcome, &observations);
        let program = &self.plan.subject(span.slot).program;
        evidence.may_drop = matches!(program, Program::Peer(peer) if peer.drops.is_some());
        evidence.is_search =
            matches!(self.plan.part(span.slot).drive, Drive::Ramp | Drive::Ceiling);
        evidence.browser = self.browser_evidence(span.slot, &outcome);
        let (verdict, why) = evidence.judge(&outcome.ledger);
        let mut negotiated = outcome.negotiated;
        negotiated.facts.append(&mut observations.negotiated);
        let subject_cpu_ns = observations.between(|observation| observation.resources.cpu_ns);
        let end = Point {
            at_us: observations.between(|observation| observation.at_us),
            events: outcome.traffic.events,
            cpu_ns: subject_cpu_ns,
            rss_bytes: observations.memory.rss_end_bytes,
            ..Point::default()
        };
        Sample {
            verdict,
            why,
            span_us: outcome.span_us,
            traffic: outcome.traffic,
            ledger: outcome.ledger,
            subject_cpu_ns,
            subject_busy: evidence.subject_busy,
            swarm_busy: evidence.swarm_busy,
            swarm_cpu: (outcome.swarm_cpu_all_ns > 0)
                .then(|| outcome.swarm_cpu_all_ns as f64 / (outcome.span_us.max(1) * 1000) as f64),
            disturbed: evidence.disturbed(),
            swarm_waited: evidence.swarm_waited,
            swarm_away_us: evidence.swarm_away_us,
            dropped_packets: evidence.dropped_packets,
            redialed: outcome.redialed,
            open_us: outcome.open_us,
            memory: observations.memory,
            processes: std::mem::take(&mut observations.processes),
            resources: observations.end.resources,
            kernel: observations.kernel,
            browser: outcome.browser,
            round_trips: outcome.round_trips,
            beside: outcome.beside,
            pushed: outcome.pushed,
            warm_up: outcome.warm_up,
            littles_ratio: outcome.littles_ratio,
            pacing: outcome.pacing,
            steps: outcome.steps,
            held: outcome.held,
            activity: Activity {
                switches_voluntary: observations
                    .between(|observation| observation.resources.switches_voluntary),
                switches_forced: observations
                    .between(|observation| observation.resources.switches_forced),
                system_calls: observations.system_calls,
            },
            loop_delay_us: observations.loop_delay_us,
            sockets: observations.sockets,
            timeline: std::mem::take(&mut observations.timeline).into_points(end, &outcome.latency),
            negotiated,
            latency: outcome.latency.percentiles(),
            received: outcome.received,
            ..span.blank()
        }
    }

    fn browser_evidence(&self, slot: Slot, outcome: &Outcome) -> Option<BrowserEvidence> {
        let used = outcome.browser.as_ref()?;
        let settings = &self.plan.subject(slot).settings;
        let scheduled = settings.scheduled_events_per_s(self.plan.part(slot).drive);
        let per_s = outcome.traffic.events as f64 * 1e6 / outcome.span_us.max(1) as f64;
        Some(BrowserEvidence {
            cores: used.cores,
            busy: used.cpu_in_all() / used.cores.max(1) as f64,
            busiest: used.busiest(),
            others: used.others_share,
            came: scheduled.map(|scheduled| per_s / scheduled),
        })
    }

    fn evidence(&self, outcome: &Outcome, observations: &Observations) -> Evidence {
        let span_ns = observations.between(|observation| observation.at_us).max(1) as f64 * 1000.0;
        let cpu_ns = observations.between(|observation| observation.resources.cpu_ns) as f64;
        // Threads of one subject wait for each other, too, so others count for no more than the other work of its cores. A browser
        // that shares them is the load, and the lab reads its messages: neither counts as others.
        let others_s =
            observations.end.subject_cores.busy_s - observations.begin.subject_cores.busy_s;
        let browser_ns = match (observations.room, &outcome.browser) {
            (Room::WithBrowser(_), Some(used)) => (used.cpu_ns() + used.lab_cpu_ns) as f64,
            _ => 0.0,
        };
        let others_ns = (others_s * 1e9 - cpu_ns - browser_ns).max(0.0);
        let waited_ns = (observations.between(|observation| observation.resources.waited_ns)
            as f64)
            .min(others_ns);
        let stolen_s = observations.end.stolen_s - observations.begin.stolen_s;
        Evidence {
            room: observations.room,
            subject_busy: cpu_ns / span_ns / observations.cores.max(1) as f64,
            swarm_busy: outcome.swarm_cpu_ns as f64 / (outcome.span_us.max(1) * 1000) as f64,
            subject_waited: waited_ns / span_ns,
            swarm_waited: observations.between(|observation| observation.swarm_waited_ns) as f64
                / span_ns,
            stolen: stolen_s.max(0.0) * 1e9 / span_ns,
            dropped_packets: observations.between(|observation| observation.dropped_packets),
            swarm_away_us: outcome.swarm_away_us,
            span_us: outcome.span_us,
            latency_us_max: outcome.latency.quantile_us(1.0).unwrap_or(0),
            littles_ratio: outcome.littles_ratio,
            swarm_fell_short: outcome.swarm_fell_short,
            failure: match observations.failure.as_ref().or(outcome.failure.as_ref()) {
                Some(failure) => Some(failure.clone()),
                None if observations.room == Room::Own && !self.cores.are_disjoint(1) => {
                    Some("only one core: subject and swarm share it".to_owned())
                }
                None => None,
            },
            browser: None,
            may_drop: false,
            is_search: false,
        }
    }
}

/// Servers that the lab publishes to, besides the subject.
fn cluster_of(running: &Running) -> Cluster {
    Cluster {
        nats: running.addresses_beside(Role::Nats).next().or_else(|| running.client_address()),
        nodes: running.addresses_beside(Role::Node).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_numbered_through_all_starts_also_those_that_failed() {
        let slot = |start| Slot { part: 0, cell: 0, subject: 1, repeat: start };
        let span = |start, round| Span { slot: slot(start), rounds: 4, round };
        let repeats =
            (0..3).flat_map(|start| (0..4).map(move |round| span(start, round).blank().repeat));
        assert_eq!(repeats.collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
        let sample = span(2, 0).failed(&anyhow::anyhow!("gone")).unwrap();
        assert_eq!((sample.start(), sample.repeat, &*sample.why), (2, 8, "gone"));
        assert!(span(2, 0).failed(&Interrupted.into()).is_none());
    }
}
