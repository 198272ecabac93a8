//! CPU and memory of a process and all its descendants.
//!
//! Descendants come and go while they are looked at; the roots must not. The CPU time of an ended child is in its parent's count
//! as soon as the parent has waited for it (`cutime`, `cstime`, in ticks of 10 ms, with its own children that it waited for), and
//! so in the span in which the child ended. The kernel reports nothing for a child whose parent ignores `SIGCHLD`, or that moved to
//! another tree.

use procfs::process::Process;
use procfs::{ProcError, ProcResult};
use serde::{Deserialize, Serialize};

/// CPU time that a process tree has used so far, and memory that it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU time of all living threads, user and system, and of the children that have ended and were waited
    /// for. The kernel's work on the receiving side of loopback is included.
    pub cpu_ns: u64,
    /// Time for which its threads were ready to run while others ran on their core.
    pub waited_ns: u64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Threads alive.
    pub threads: u64,
    /// Number of times that a thread gave up its core voluntarily.
    pub switches_voluntary: u64,
    /// Number of times that a thread was preempted.
    pub switches_forced: u64,
}

/// With more threads, CPU time during a sample is read from one file, in ticks of 10 ms, because a file per thread takes too long.
const GLANCE_THREADS_MAX: usize = 8;

impl Resources {
    /// Reads the tree under `pid`, which must not have ended.
    pub fn read(pid: u32) -> ProcResult<Resources> {
        Resources::read_all(&[pid])
    }

    /// Reads several trees. Fails if a root has ended or cannot be read.
    pub fn read_all(roots: &[u32]) -> ProcResult<Resources> {
        let mut reading = walk(roots, read_one)?;
        for _ in 1..READINGS_MAX {
            if !reading.has_lost {
                break;
            }
            reading = walk(roots, read_one)?;
        }
        Ok(reading.total)
    }

    fn add(&mut self, other: &Resources) {
        self.cpu_ns += other.cpu_ns;
        self.waited_ns += other.waited_ns;
        self.rss_bytes += other.rss_bytes;
        self.threads += other.threads;
        self.switches_voluntary += other.switches_voluntary;
        self.switches_forced += other.switches_forced;
    }

    /// Returns the processes of the trees under `pids`, the roots first.
    pub fn tree(pids: &[u32]) -> Vec<u32> {
        let mut tree = pids.to_vec();
        let mut next = 0;
        while let Some(&pid) = tree.get(next) {
            next += 1;
            let tasks = Process::new(pid as i32).and_then(|process| process.tasks());
            for task in tasks.into_iter().flatten().flatten() {
                tree.extend(task.children().unwrap_or_default());
            }
        }
        tree
    }

    /// Returns CPU time and resident memory of these processes as cheaply as possible, for a look during a sample. With three
    /// threads it takes about 40 µs on the swarm's core, which ten times a second is 0.04 % of it.
    pub fn glance(processes: &[u32]) -> (u64, u64) {
        let (mut cpu_ns, mut rss_bytes) = (0, 0);
        for &pid in processes {
            let Ok(process) = Process::new(pid as i32) else { continue };
            let resident = process.statm().map_or(0, |memory| memory.resident);
            rss_bytes += resident * procfs::page_size();
            let tasks: Vec<_> = process.tasks().into_iter().flatten().flatten().collect();
            cpu_ns += match tasks.len() {
                ..=GLANCE_THREADS_MAX => {
                    let used = tasks.iter().filter_map(|task| task.schedstat().ok());
                    used.map(|used| used.sum_exec_runtime).sum()
                }
                _ => process.stat().map_or(0, |stat| ticks_ns(stat.utime + stat.stime)),
            };
        }
        (cpu_ns, rss_bytes)
    }

    /// Returns the time for which the calling thread was ready to run while others ran on its core.
    pub fn own_waited_ns() -> u64 {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let used = Process::myself()
            .and_then(|myself| myself.task_from_tid(thread))
            .and_then(|task| task.schedstat());
        used.map_or(0, |used| used.run_delay)
    }

    /// Returns the resident memory of the calling process; `None` if the kernel does not report it.
    pub fn own_rss_bytes() -> Option<u64> {
        let memory = Process::myself().and_then(|myself| myself.statm()).ok()?;
        Some(memory.resident * procfs::page_size())
    }

    /// Returns the proportional set size of these processes, which divides shared memory among its users. Walks the page tables,
    /// which takes long. `None` if the kernel does not report it for all of them.
    pub fn pss_bytes(processes: &[u32]) -> Option<u64> {
        let of = |pid: u32| {
            let rollup = Process::new(pid as i32).ok()?.smaps_rollup().ok()?;
            let maps = rollup.memory_map_rollup.into_iter();
            maps.filter_map(|map| map.extension.map.get("Pss").copied()).next()
        };
        processes.iter().map(|&pid| of(pid)).sum()
    }
}

/// Maximum number of readings of a tree. A child that ends between the reading of its parent and its own is in neither count, so the tree
/// is read again.
const READINGS_MAX: usize = 4;

#[derive(Debug, Default)]
struct Reading {
    total: Resources,
    /// Whether a descendant ended meanwhile.
    has_lost: bool,
}

#[derive(Debug, Default)]
struct SampledProcess {
    own: Resources,
    children: Vec<u32>,
    /// Ended, and not waited for.
    has_ended: bool,
}

/// Adds up all of these trees.
fn walk(roots: &[u32], read: impl Fn(u32) -> ProcResult<SampledProcess>) -> ProcResult<Reading> {
    let mut reading = Reading::default();
    let mut pending: Vec<(u32, bool)> = roots.iter().map(|&pid| (pid, true)).collect();
    while let Some((pid, is_root)) = pending.pop() {
        match read(pid) {
            Ok(one) if is_root && one.has_ended => return Err(ProcError::NotFound(None)),
            Ok(SampledProcess { own, children, .. }) => {
                reading.total.add(&own);
                pending.extend(children.into_iter().map(|pid| (pid, false)));
            }
            Err(ProcError::NotFound(_)) if !is_root => reading.has_lost = true,
            Err(error) => return Err(error),
        }
    }
    Ok(reading)
}

/// Reads a process. If the process ends meanwhile, every error becomes [`ProcError::NotFound`].
fn read_one(pid: u32) -> ProcResult<SampledProcess> {
    let is_there = || Process::new(pid as i32).and_then(|process| process.stat()).is_ok();
    read_living(pid).map_err(|error| if is_there() { error } else { ProcError::NotFound(None) })
}

fn read_living(pid: u32) -> ProcResult<SampledProcess> {
    let process = Process::new(pid as i32)?;
    let mut own = Resources {
        rss_bytes: process.statm()?.resident * procfs::page_size(),
        ..Resources::default()
    };
    let mut children = Vec::new();
    let mut living_ns = 0;
    // Threads come and go while the directory is read.
    for task in process.tasks()?.flatten() {
        let Ok(used) = task.schedstat() else { continue };
        living_ns += used.sum_exec_runtime;
        own.waited_ns += used.run_delay;
        own.threads += 1;
        if let Ok(status) = task.status() {
            own.switches_voluntary += status.voluntary_ctxt_switches.unwrap_or(0);
            own.switches_forced += status.nonvoluntary_ctxt_switches.unwrap_or(0);
        }
        children.extend(task.children().unwrap_or_default());
    }
    // Read after the threads, so that it includes all the time that was read from them.
    let stat = process.stat()?;
    // The process's own count is coarse, but does not forget a thread.
    own.cpu_ns = living_ns.max(ticks_ns(stat.utime + stat.stime));
    own.cpu_ns += ticks_ns((stat.cutime + stat.cstime).max(0) as u64);
    // The main thread can end before the others.
    let has_ended = matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1;
    Ok(SampledProcess { own, children, has_ended })
}

fn ticks_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / procfs::ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use super::*;

    #[test]
    fn this_process_uses_something() {
        let resources = Resources::read(std::process::id()).unwrap();
        assert!(resources.rss_bytes > 100_000);
        assert!(Resources::own_rss_bytes().unwrap() > 100_000);
        assert!(resources.threads >= 1);
        assert_eq!(Resources::tree(&[std::process::id()])[0], std::process::id());
        assert!(Resources::pss_bytes(&[std::process::id()]).unwrap() > 10_000);
        assert_eq!(Resources::pss_bytes(&[u32::MAX / 4]), None);
    }

    #[test]
    fn a_short_look_counts_the_same_cpu_as_a_long_one() {
        // `cat` waits for input, and uses no CPU meanwhile, unlike this process with its tests.
        let piped = std::process::Stdio::piped;
        let mut child =
            std::process::Command::new("cat").stdin(piped()).stdout(piped()).spawn().unwrap();
        let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        stdin.write_all(b"it runs\n").unwrap();
        BufReader::new(stdout).read_line(&mut String::new()).unwrap();
        // The child has answered, and is about to wait again.
        while Process::new(child.id() as i32).unwrap().stat().unwrap().state != 'S' {
            std::thread::yield_now();
        }
        let long = Resources::read(child.id()).unwrap();
        let (cpu_ns, rss_bytes) = Resources::glance(&[child.id()]);
        assert!(cpu_ns > 0 && rss_bytes > 0);
        assert_eq!(rss_bytes, long.rss_bytes);
        assert!(cpu_ns <= long.cpu_ns, "{cpu_ns} {long:?}");
        drop(stdin);
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Resources::read(u32::MAX / 4).is_err());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // The child has ended, and nobody waits for it yet.
        while !read_one(child.id()).unwrap().has_ended {
            std::thread::yield_now();
        }
        let error = Resources::read(child.id()).unwrap_err();
        assert!(matches!(error, ProcError::NotFound(_)), "{error}");
        child.wait().unwrap();
    }

    #[test]
    fn a_descendant_that_vanishes_is_skipped_and_a_root_is_not() {
        let tree = |gone: u32| {
            walk(&[1, 5], move |pid| {
                let children = if pid == 1 { vec![2, 3] } else { Vec::new() };
                let own = Resources { cpu_ns: u64::from(pid), ..Resources::default() };
                if pid == gone {
                    return Err(ProcError::NotFound(None));
                }
                Ok(SampledProcess { own, children, has_ended: false })
            })
        };
        let read = |gone| tree(gone).map(|usage| (usage.total.cpu_ns, usage.has_lost)).unwrap();
        assert_eq!((read(0), read(3)), ((11, false), (8, true)));
        assert!(tree(1).is_err() && tree(5).is_err());
    }
}
