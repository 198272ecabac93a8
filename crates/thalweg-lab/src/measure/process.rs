//! CPU and memory of a process and all its descendants.

use procfs::ProcResult;
use procfs::process::Process;
use serde::{Deserialize, Serialize};

/// What a process tree has used so far, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU time of all living threads, user and system. What the kernel does
    /// on a thread's behalf on the receiving side of loopback is in it.
    pub cpu_ns: u64,
    /// Time its threads were ready to run while their core ran somebody else.
    pub waited_ns: u64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Threads alive.
    pub threads: u64,
    /// Times a thread gave its core up by itself.
    pub switches_voluntary: u64,
    /// Times it was taken from one.
    pub switches_forced: u64,
}

/// Of a process with more threads the CPU time is read from one file, in ticks of
/// 10 ms, while a sample lasts: a file for each thread would take too long.
const GLANCE_THREADS_MAX: usize = 8;

impl Resources {
    /// Reads the tree under `pid`, which must not have ended. What threads and
    /// children have used that have ended since is in it, in ticks of 10 ms.
    pub fn read(pid: u32) -> ProcResult<Resources> {
        Resources::read_all(&[pid])
    }

    /// The same of several trees; of none, nothing.
    pub fn read_all(pids: &[u32]) -> ProcResult<Resources> {
        let mut total = Resources::default();
        let mut pending = pids.to_vec();
        while let Some(pid) = pending.pop() {
            let process = Process::new(pid as i32)?;
            total.rss_bytes += process.statm()?.resident * procfs::page_size();
            let mut living_ns = 0;
            // Threads come and go while the directory is read.
            for task in process.tasks()?.flatten() {
                let Ok(used) = task.schedstat() else { continue };
                living_ns += used.sum_exec_runtime;
                total.waited_ns += used.run_delay;
                total.threads += 1;
                if let Ok(status) = task.status() {
                    total.switches_voluntary += status.voluntary_ctxt_switches.unwrap_or(0);
                    total.switches_forced += status.nonvoluntary_ctxt_switches.unwrap_or(0);
                }
                pending.extend(task.children().unwrap_or_default());
            }
            let stat = process.stat()?;
            // The process's own count is coarse, but does not forget a thread.
            total.cpu_ns += living_ns.max(ticks_ns(stat.utime + stat.stime));
            total.cpu_ns += ticks_ns((stat.cutime + stat.cstime).max(0) as u64);
        }
        Ok(total)
    }

    /// The processes of the tree under `pid`, itself first; none if it has ended.
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

    /// CPU time and resident memory of these processes, as cheaply as can be: for
    /// a look while a sample lasts. With three threads it takes some 40 µs, on the
    /// swarm's core, which ten times a second is 0.04 % of it.
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

    /// Time the calling process's first thread was ready to run while its core
    /// ran somebody else.
    pub fn own_waited_ns() -> u64 {
        let used = Process::myself().and_then(|myself| myself.schedstat());
        used.map_or(0, |used| used.run_delay)
    }

    /// Proportional set size of these processes: memory that they share with others,
    /// shared out. Walks the page tables, so never within a measured span. `None`
    /// where the kernel does not tell of all of them.
    pub fn pss_bytes(processes: &[u32]) -> Option<u64> {
        let of = |pid: u32| {
            let rollup = Process::new(pid as i32).ok()?.smaps_rollup().ok()?;
            let maps = rollup.memory_map_rollup.into_iter();
            maps.filter_map(|map| map.extension.map.get("Pss").copied()).next()
        };
        processes.iter().map(|&pid| of(pid)).sum()
    }
}

fn ticks_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / procfs::ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let resources = Resources::read(std::process::id()).unwrap();
        assert!(resources.rss_bytes > 100_000);
        assert!(resources.threads >= 1);
        assert_eq!(Resources::tree(&[std::process::id()])[0], std::process::id());
        assert!(Resources::pss_bytes(&[std::process::id()]).unwrap() > 10_000);
        assert_eq!(Resources::pss_bytes(&[u32::MAX / 4]), None);
    }

    #[test]
    fn a_glance_sees_what_a_long_look_sees() {
        let before = Resources::read(std::process::id()).unwrap();
        let (cpu_ns, rss_bytes) = Resources::glance(&[std::process::id()]);
        let after = Resources::read(std::process::id()).unwrap();
        // Other tests' threads come and go meanwhile.
        assert!(cpu_ns > 0 && cpu_ns <= after.cpu_ns, "{cpu_ns} {after:?}");
        assert!(rss_bytes * 2 > before.rss_bytes && rss_bytes < after.rss_bytes * 2);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Resources::read(u32::MAX / 4).is_err());
    }
}
