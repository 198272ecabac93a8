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

impl Resources {
    /// Reads the tree under `pid`, which must not have ended.
    pub fn read(pid: u32) -> ProcResult<Resources> {
        let mut total = Resources::default();
        let mut pending = vec![pid];
        while let Some(pid) = pending.pop() {
            let process = Process::new(pid as i32)?;
            total.rss_bytes += process.statm()?.resident * procfs::page_size();
            // Threads come and go while the directory is read.
            for task in process.tasks()?.flatten() {
                let Ok(used) = task.schedstat() else { continue };
                total.cpu_ns += used.sum_exec_runtime;
                total.waited_ns += used.run_delay;
                total.threads += 1;
                if let Ok(status) = task.status() {
                    total.switches_voluntary += status.voluntary_ctxt_switches.unwrap_or(0);
                    total.switches_forced += status.nonvoluntary_ctxt_switches.unwrap_or(0);
                }
                pending.extend(task.children().unwrap_or_default());
            }
        }
        Ok(total)
    }

    /// Time the calling process's first thread was ready to run while its core
    /// ran somebody else.
    pub fn own_waited_ns() -> u64 {
        let used = Process::myself().and_then(|myself| myself.schedstat());
        used.map_or(0, |used| used.run_delay)
    }

    /// Proportional set size of `pid` alone: memory that it shares, shared out.
    /// Walks the page tables, so never within a measured span.
    pub fn pss_bytes(pid: u32) -> Option<u64> {
        let rollup = Process::new(pid as i32).ok()?.smaps_rollup().ok()?;
        let maps = rollup.memory_map_rollup.into_iter();
        maps.filter_map(|map| map.extension.map.get("Pss").copied()).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let resources = Resources::read(std::process::id()).unwrap();
        assert!(resources.rss_bytes > 100_000);
        assert!(resources.threads >= 1);
        assert!(Resources::pss_bytes(std::process::id()).unwrap() > 10_000);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Resources::read(u32::MAX / 4).is_err());
    }
}
