//! One sample: a fresh subject, the swarm, and what was seen of both.

use super::progress::Progress;
use crate::measure::{
    Evidence, KernelMemory, Memory, Resources, Sample, Verdict, dropped_packets, stolen_s,
};
use crate::scenario::{Plan, Slot};
use crate::subject::{Cores, Launch, Place, Running, unsent_bytes_by_port};
use crate::swarm::{self, Figures, Interrupted, Moment, Observer, Outcome, Workload, monotonic_us};
use std::fs::File;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A self-driven subject begins so long after its start: by then it listens.
const START_AFTER_US: u64 = 300_000;

/// What every sample of a run has in common.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) program: &'a Path,
    pub(super) place: &'a Place,
    pub(super) cores: &'a Cores,
    pub(super) log: File,
    pub(super) interrupted: &'a AtomicBool,
}

impl Bench<'_> {
    /// Takes a sample, valid or not; `None` if interrupted.
    pub(super) fn take(&self, slot: Slot, progress: &mut Progress) -> Option<Sample> {
        match self.measure(slot, progress) {
            Ok(sample) => Some(sample),
            Err(error) if error.is::<Interrupted>() => None,
            Err(error) => {
                Some(Sample { verdict: Verdict::Invalid(format!("{error:#}")), ..blank(slot) })
            }
        }
    }

    fn measure(&self, slot: Slot, progress: &mut Progress) -> anyhow::Result<Sample> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        let (part, subject) = (self.plan.part(slot), self.plan.subject(slot));
        let settings = &subject.settings;
        let launch = Launch {
            program: &subject.program,
            settings,
            drive: part.drive,
            start_us: monotonic_us() + START_AFTER_US,
        };
        let running = Running::start(self.program, &launch, self.place, self.cores, &self.log)?;
        let workload = Workload {
            address: running.address(),
            dialect: subject.program.dialect(),
            path: subject.program.path(),
            settings,
            drive: part.drive,
            start_us: launch.start_us,
            warm_up: Duration::from_millis(part.warm_up_ms),
            measured: Duration::from_millis(part.measured_ms),
        };
        let mut watch = Watch::new(self, &running, settings.shards, progress)?;
        let outcome = swarm::run(&workload, &mut watch)?;
        let seen = watch.seen;
        running.stop();
        Ok(self.judge(slot, outcome, &seen))
    }

    fn judge(&self, slot: Slot, outcome: Outcome, seen: &Seen) -> Sample {
        let shards = self.plan.subject(slot).settings.shards;
        let span_ns = (seen.end.at_us - seen.begin.at_us).max(1) as f64 * 1000.0;
        let has_died = seen.end.resources.cpu_ns < seen.begin.resources.cpu_ns;
        let subject_cpu_ns = seen.end.resources.cpu_ns.saturating_sub(seen.begin.resources.cpu_ns);
        let subject_cores = self.cores.of_subject(shards).len() as f64;
        let subject_waited =
            seen.end.resources.waited_ns.saturating_sub(seen.begin.resources.waited_ns);
        let swarm_waited = seen.end.swarm_waited_ns.saturating_sub(seen.begin.swarm_waited_ns);
        let stolen = (seen.end.stolen_s - seen.begin.stolen_s).max(0.0) * 1e9;
        let evidence = Evidence {
            subject_busy: subject_cpu_ns as f64 / span_ns / subject_cores,
            swarm_busy: outcome.swarm_cpu_ns as f64 / (outcome.span_us.max(1) * 1000) as f64,
            disturbed: (subject_waited.max(swarm_waited) as f64 + stolen) / span_ns,
            dropped_packets: seen.end.dropped_packets - seen.begin.dropped_packets,
            swarm_fell_short: outcome.swarm_fell_short,
            failure: match seen.failure.as_ref().or(outcome.failure.as_ref()) {
                Some(failure) => Some(failure.clone()),
                None if has_died => Some("the subject has died".to_owned()),
                None if !self.cores.are_disjoint(1) => {
                    Some("only one core: subject and swarm share it".to_owned())
                }
                None => None,
            },
        };
        Sample {
            verdict: Verdict::of(&evidence, &outcome.ledger),
            span_us: outcome.span_us,
            traffic: outcome.traffic,
            ledger: outcome.ledger,
            subject_cpu_ns,
            subject_busy: evidence.subject_busy,
            swarm_busy: evidence.swarm_busy,
            disturbed: evidence.disturbed,
            dropped_packets: evidence.dropped_packets,
            open_us: outcome.open_us,
            memory: seen.memory,
            resources: seen.end.resources,
            kernel: seen.kernel,
            round_trips: outcome.round_trips,
            warm_up: outcome.warm_up,
            littles_ratio: outcome.littles_ratio,
            pacing: outcome.pacing,
            steps: outcome.steps,
            negotiated: outcome.negotiated,
            latency: outcome.latency,
            ..blank(slot)
        }
    }
}

fn blank(slot: Slot) -> Sample {
    let Slot { part, cell, subject, repeat } = slot;
    Sample { part, cell, subject, repeat, ..Sample::default() }
}

/// What was seen of a subject besides its events.
#[derive(Debug, Default)]
struct Seen {
    begin: Spot,
    end: Spot,
    memory: Memory,
    kernel: Option<KernelMemory>,
    /// Why the sample does not count, whatever the ledger says.
    failure: Option<String>,
}

/// Everything that counts up, at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Spot {
    at_us: u64,
    resources: Resources,
    swarm_waited_ns: u64,
    /// From all cores in use.
    stolen_s: f64,
    dropped_packets: u64,
}

/// Looks at the subject while the swarm is at it.
struct Watch<'a> {
    pid: u32,
    place: &'a Place,
    address: SocketAddr,
    cores: Vec<usize>,
    interrupted: &'a AtomicBool,
    progress: &'a mut Progress,
    seen: Seen,
}

impl<'a> Watch<'a> {
    fn new(
        bench: &Bench<'a>,
        running: &Running,
        shards: u32,
        progress: &'a mut Progress,
    ) -> anyhow::Result<Watch<'a>> {
        let mut cores = bench.cores.of_subject(shards).to_vec();
        cores.push(bench.cores.of_swarm(shards));
        cores.dedup();
        let mut seen = Seen::default();
        seen.memory.rss_ready_bytes = Resources::read(running.pid())?.rss_bytes;
        Ok(Watch {
            pid: running.pid(),
            place: bench.place,
            address: running.address(),
            cores,
            interrupted: bench.interrupted,
            progress,
            seen,
        })
    }

    fn spot(&self) -> Spot {
        Spot {
            at_us: monotonic_us(),
            // A subject that has died shows as connections cut.
            resources: Resources::read(self.pid).unwrap_or_default(),
            swarm_waited_ns: Resources::own_waited_ns(),
            stolen_s: self.cores.iter().map(|&core| stolen_s(core)).sum(),
            dropped_packets: dropped_packets(),
        }
    }

    /// What the kernel holds for the subscribers at `ports`, all of which must
    /// still be connected: to drop them is not to hold little.
    fn kernel_memory(&self, ports: &[u16]) -> Result<Option<KernelMemory>, String> {
        if ports.is_empty() {
            return Ok(None);
        }
        let unsent =
            unsent_bytes_by_port(self.place, self.address).map_err(|error| format!("{error:#}"))?;
        let held: Vec<u64> = ports.iter().filter_map(|port| unsent.get(port).copied()).collect();
        if held.len() < ports.len() {
            let (held, all) = (held.len(), ports.len());
            return Err(format!("only {held} of {all} stopped subscribers are still connected"));
        }
        Ok(Some(KernelMemory {
            connections: held.len() as u64,
            send_queue_bytes_max: held.iter().copied().max().unwrap_or(0),
            send_queue_bytes_mean: held.iter().sum::<u64>() / held.len().max(1) as u64,
        }))
    }
}

impl Observer for Watch<'_> {
    fn at(&mut self, moment: Moment<'_>) {
        match moment {
            Moment::Open => {
                let resources = Resources::read(self.pid).unwrap_or_default();
                self.seen.memory.rss_open_bytes = resources.rss_bytes;
            }
            Moment::Begin => self.seen.begin = self.spot(),
            Moment::End { stopped_ports } => {
                self.seen.end = self.spot();
                self.seen.memory.rss_end_bytes = self.seen.end.resources.rss_bytes;
                self.seen.memory.pss_end_bytes = Resources::pss_bytes(self.pid);
                match self.kernel_memory(stopped_ports) {
                    Ok(kernel) => self.seen.kernel = kernel,
                    Err(failure) => self.seen.failure = Some(failure),
                }
            }
        }
    }

    fn progress(&mut self, figures: Figures) -> ControlFlow<()> {
        self.progress.figures(figures);
        if self.interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
