//! Observes a subject's resources at the right moments.

use super::progress::Progress;
use super::span_points::SpanPoints;
use super::start_barrier::StartBarrier;
use crate::load_generator::{Figures, Moment, Observer, monotonic_us};
use crate::measure::{
    CoreTimes, KernelMemory, Memory, Point, ProcessUse, Resources, Room, SocketMemory, SystemCalls,
    core_times, dropped_packets, tcp_bytes,
};
use crate::subject::{
    LoopDelays, LoopMeter, Place, Socket, SystemCallCount, sends_at_once, sockets,
};
use procfs::ProcError;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long system calls are counted, and how long that may take to begin.
const COUNT_US: u64 = 300_000;
const COUNT_WITHIN_US: u64 = 3_000_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Observations {
    /// Where the subject could run, and on how many cores; beside a browser, how many of them its threads could use.
    pub(super) room: Room,
    pub(super) cores: usize,
    pub(super) begin: CounterSnapshot,
    pub(super) end: CounterSnapshot,
    pub(super) memory: Memory,
    pub(super) kernel: Option<KernelMemory>,
    pub(super) sockets: Option<SocketMemory>,
    /// Socket options of the subject's side of its connections.
    pub(super) negotiated: Vec<(String, String)>,
    pub(super) timeline: SpanPoints,
    pub(super) system_calls: Option<SystemCalls>,
    pub(super) loop_delay_us: Option<f64>,
    pub(super) processes: Vec<ProcessUse>,
    /// The reason why something could not be observed.
    pub(super) remark: Option<String>,
    /// Why the sample does not count, whatever the ledger says.
    pub(super) failure: Option<String>,
}

/// All counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterSnapshot {
    pub(super) at_us: u64,
    pub(super) resources: Resources,
    pub(super) swarm_waited_ns: u64,
    /// Times of the cores that the subject runs on.
    pub(super) subject_cores: CoreTimes,
    /// Time that the hypervisor took from all cores in use.
    pub(super) stolen_s: f64,
    pub(super) dropped_packets: u64,
}

impl Observations {
    fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }

    /// Returns the difference of a counter over the span.
    pub(super) fn between(&self, of: impl Fn(&CounterSnapshot) -> u64) -> u64 {
        of(&self.end).saturating_sub(of(&self.begin))
    }
}

#[derive(Debug)]
pub(super) struct Watched {
    /// Roots of its process trees; empty if they cannot be seen.
    pub(super) pids: Vec<u32>,
    /// Processes beside it, which are in none of its trees: names and roots.
    pub(super) beside: Vec<(String, u32)>,
    pub(super) address: SocketAddr,
    /// Where the subject may run.
    pub(super) room: Room,
    /// Cores that it may run on.
    pub(super) cores: Vec<usize>,
    pub(super) swarm_core: usize,
    /// Whether the subject, or a process beside it, may run on the swarm's core.
    pub(super) shares_swarm_core: bool,
}

pub(super) struct WatchOptions<'a> {
    pub(super) place: &'a Place,
    pub(super) interrupted: &'a AtomicBool,
    pub(super) system_calls: bool,
    pub(super) progress: Option<&'a RefCell<Progress>>,
    /// Shared with samples whose spans begin together.
    pub(super) barrier: StartBarrier,
    /// Whether the load is keyed. If so, the kernel's memory is also read within the span.
    pub(super) is_keyed: bool,
    /// Reads the delay of the subject's event loop before the span and after it.
    pub(super) loop_meter: Option<LoopMeter<'a>>,
}

/// An observer of the subject under load. Clones share observations: the swarm has one, and the owner of another takes them.
#[derive(Clone)]
pub(super) struct Watch<'a>(Rc<RefCell<Inspector<'a>>>);

struct Inspector<'a> {
    subject: Watched,
    options: WatchOptions<'a>,
    /// Cores of the subject and the swarm.
    all_cores: Vec<usize>,
    processes: Vec<u32>,
    is_in_span: bool,
    /// CPU time when the span began, as looks within the span count it.
    begin_cpu_ns: u64,
    counting: Counting,
    /// Delays of the event loop before the span.
    loop_before: Option<LoopDelays>,
    observations: Observations,
}

enum Counting {
    /// Not requested, or finished.
    Nothing,
    Wanted,
    /// The start time.
    Starting(SystemCallCount, u64),
    /// The start time, and the number of events until then.
    Running(SystemCallCount, u64, u64),
}

impl<'a> Watch<'a> {
    pub(super) fn new(subject: Watched, options: WatchOptions<'a>) -> anyhow::Result<Watch<'a>> {
        let mut all_cores = subject.cores.clone();
        if !all_cores.contains(&subject.swarm_core) {
            all_cores.push(subject.swarm_core);
        }
        let mut observations = Observations {
            room: subject.room,
            cores: match subject.room {
                Room::WithBrowser(threads) => threads,
                _ => subject.cores.len(),
            },
            ..Observations::default()
        };
        observations.memory.rss_ready_bytes = Resources::read_all(&subject.pids)?.rss_bytes;
        let watch = Watch(Rc::new(RefCell::new(Inspector {
            all_cores,
            processes: Vec::new(),
            is_in_span: false,
            begin_cpu_ns: 0,
            counting: if options.system_calls { Counting::Wanted } else { Counting::Nothing },
            loop_before: None,
            observations,
            subject,
            options,
        })));
        watch.connects();
        Ok(watch)
    }

    /// Records the swarm's memory before it opens connections; those of others may already exist.
    pub(super) fn connects(&self) {
        self.0.borrow_mut().observations.memory.swarm_rss_before_bytes = Resources::own_rss_bytes();
    }

    pub(super) fn observations(&self) -> Observations {
        self.0.borrow().observations.clone()
    }
}

impl Inspector<'_> {
    /// Returns the resources of the subject's processes; without them, no figure of this sample counts.
    fn resources(&mut self) -> Resources {
        Resources::read_all(&self.subject.pids).unwrap_or_else(|error| {
            self.observations.fail(match error {
                ProcError::NotFound(_) => "the subject's process is gone".to_owned(),
                error => format!("the subject's process cannot be seen: {error}"),
            });
            Resources::default()
        })
    }

    fn snapshot(&mut self) -> CounterSnapshot {
        CounterSnapshot {
            at_us: monotonic_us(),
            resources: self.resources(),
            swarm_waited_ns: Resources::own_waited_ns(),
            subject_cores: core_times(&self.subject.cores),
            stolen_s: core_times(&self.all_cores).stolen_s,
            dropped_packets: dropped_packets(),
        }
    }

    fn loop_delays(&self) -> Option<LoopDelays> {
        self.options.loop_meter?.read(self.subject.address)
    }

    /// Returns the resources of the processes beside the subject so far; one that has ended makes the sample invalid.
    fn processes_beside(&mut self) -> Vec<ProcessUse> {
        let mut all = Vec::new();
        for (name, pid) in &self.subject.beside {
            match Resources::read(*pid) {
                // A process that has ended and is not waited for has no memory.
                Ok(Resources { cpu_ns, rss_bytes: rss_bytes @ 1.., .. }) => {
                    all.push(ProcessUse { name: name.clone(), cpu_ns, rss_bytes });
                }
                _ => self.observations.fail(format!("the process `{name}` has ended")),
            }
        }
        all
    }

    fn inspect_sockets(&mut self, stopped_ports: &[u16]) {
        let found = match sockets(self.options.place, self.subject.address) {
            Ok(found) => found,
            Err(error) if stopped_ports.is_empty() => {
                self.observations.remark =
                    Some(format!("the kernel's memory was not seen: {error:#}"));
                return;
            }
            Err(error) => {
                self.observations.fail(format!("{error:#}"));
                return;
            }
        };
        self.observations.sockets = memory(&found);
        self.observations.negotiated = negotiated(&found);
        let at_once = sends_at_once(&self.processes, self.subject.address);
        self.observations
            .negotiated
            .extend(at_once.map(|count| ("subject TCP_NODELAY".to_owned(), count.to_string())));
        match kernel_memory(&found, stopped_ports) {
            Ok(kernel) => self.observations.kernel = kernel,
            Err(failure) => self.observations.fail(failure),
        }
    }

    /// Takes the next step of counting system calls; `events` have come since the span's end. A failure is remarked once.
    fn count(&mut self, events: u64) -> anyhow::Result<Counting> {
        let now_us = monotonic_us();
        Ok(match std::mem::replace(&mut self.counting, Counting::Nothing) {
            Counting::Nothing => Counting::Nothing,
            Counting::Wanted => {
                Counting::Starting(SystemCallCount::start(&self.processes)?, now_us)
            }
            Counting::Starting(mut count, since_us) => match count.has_begun()? {
                true => Counting::Running(count, now_us, events),
                false if now_us - since_us > COUNT_WITHIN_US => {
                    anyhow::bail!("perf has not begun to count system calls within 3 s")
                }
                false => Counting::Starting(count, since_us),
            },
            Counting::Running(count, since_us, before) if now_us - since_us >= COUNT_US => {
                let events = events - before;
                self.observations.system_calls =
                    Some(SystemCalls { calls: count.finish()?, events });
                Counting::Nothing
            }
            running => running,
        })
    }
}

impl Observer for Watch<'_> {
    fn shares_core(&self) -> bool {
        self.0.borrow().subject.shares_swarm_core
    }

    fn at(&mut self, moment: Moment<'_>) {
        let inspector = &mut *self.0.borrow_mut();
        match moment {
            Moment::Open => {
                inspector.observations.memory.rss_open_bytes = inspector.resources().rss_bytes;
                inspector.observations.memory.swarm_rss_open_bytes = Resources::own_rss_bytes();
            }
            Moment::Warm => {
                inspector.processes = Resources::tree(&inspector.subject.pids);
                inspector.loop_before = inspector.loop_delays();
            }
            Moment::Begin => {
                // Not between the looks at the subject itself, which must be short.
                inspector.observations.processes = inspector.processes_beside();
                inspector.observations.timeline = SpanPoints::default();
                inspector.is_in_span = true;
                inspector.begin_cpu_ns = Resources::glance(&inspector.processes).0;
                inspector.observations.begin = inspector.snapshot();
            }
            Moment::End => {
                let end = inspector.snapshot();
                inspector.observations.memory.rss_end_bytes = end.resources.rss_bytes;
                inspector.observations.end = end;
                inspector.is_in_span = false;
                let before = std::mem::take(&mut inspector.observations.processes);
                inspector.observations.processes = inspector.processes_beside();
                for (now, before) in inspector.observations.processes.iter_mut().zip(before) {
                    now.cpu_ns = now.cpu_ns.saturating_sub(before.cpu_ns);
                }
            }
            Moment::Over { stopped_ports } => {
                let processes = Resources::tree(&inspector.subject.pids);
                inspector.observations.memory.pss_end_bytes = Resources::pss_bytes(&processes);
                inspector.inspect_sockets(stopped_ports);
                // Last, so that memory and sockets are those of the load alone.
                let (before, after) = (inspector.loop_before, inspector.loop_delays());
                let mean_us =
                    before.zip(after).and_then(|(before, after)| after.mean_us_since(before));
                inspector.observations.loop_delay_us = mean_us;
            }
        }
    }

    fn progress(&mut self, figures: Figures<'_>) -> ControlFlow<()> {
        let Inspector { options, observations, processes, is_in_span, begin_cpu_ns, .. } =
            &mut *self.0.borrow_mut();
        if let Some(progress) = options.progress {
            progress.borrow_mut().figures(figures);
        }
        if *is_in_span && observations.timeline.wants_next(figures.silence_us) {
            let (cpu_ns, rss_bytes) = Resources::glance(processes);
            let point = Point {
                at_us: monotonic_us() - observations.begin.at_us,
                events: figures.events,
                cpu_ns: cpu_ns.saturating_sub(*begin_cpu_ns),
                rss_bytes,
                connections: figures.connections as u32,
                kernel_bytes: options.is_keyed.then(tcp_bytes).flatten().unwrap_or(0),
                ..Point::default()
            };
            observations.timeline.push(point, figures.latency);
        }
        match options.interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn may_begin(&mut self) -> bool {
        self.0.borrow_mut().options.barrier.arrive()
    }

    fn wants_more(&mut self, events: u64) -> bool {
        let inspector = &mut *self.0.borrow_mut();
        inspector.counting = inspector.count(events).unwrap_or_else(|error| {
            inspector.observations.remark = Some(format!("no system calls: {error:#}"));
            Counting::Nothing
        });
        !matches!(inspector.counting, Counting::Nothing)
    }
}

/// Returns the memory of all sockets together; `None` without any.
fn memory(sockets: &[Socket]) -> Option<SocketMemory> {
    let first = sockets.first()?;
    Some(SocketMemory {
        connections: sockets.len() as u64,
        bytes: sockets.iter().map(|socket| socket.received_bytes + socket.unsent_bytes).sum(),
        send_buffer_bytes: first.send_buffer_bytes,
        receive_buffer_bytes: first.receive_buffer_bytes,
    })
}

/// Returns the options of the first connection that the subject has set, or left to the kernel.
fn negotiated(sockets: &[Socket]) -> Vec<(String, String)> {
    let Some(first) = sockets.first() else { return Vec::new() };
    let segment = first.segment_bytes.map(|bytes| bytes.to_string());
    let options = [
        ("subject TCP_MAXSEG", segment),
        ("subject congestion control", first.congestion_control.clone()),
    ];
    options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the kernel memory for the subscribers at `ports`. All must still be connected, because dropped ones hold no memory.
fn kernel_memory(sockets: &[Socket], ports: &[u16]) -> Result<Option<KernelMemory>, String> {
    if ports.is_empty() {
        return Ok(None);
    }
    let ports: std::collections::HashSet<u16> = ports.iter().copied().collect();
    let held: Vec<u64> = sockets
        .iter()
        .filter(|socket| ports.contains(&socket.peer_port))
        .map(|socket| socket.unsent_bytes)
        .collect();
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
