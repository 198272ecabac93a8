//! Cores of each program. The subject has the first, the swarm the one after them, so that neither takes time from the other.

use crate::scenario::{CoreUse, Settings};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The cores this process may use, in order.
#[derive(Clone, Debug)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// Those of the calling thread.
    pub fn allowed() -> io::Result<Cores> {
        let set = sched_getaffinity(None)?;
        Ok(Cores((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()))
    }

    /// Cores that one of these processes may use; none of one that has ended.
    pub fn of_processes(pids: &[u32]) -> Vec<usize> {
        let pids = pids.iter().filter_map(|&pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let sets: Vec<CpuSet> = pids.filter_map(|pid| sched_getaffinity(Some(pid)).ok()).collect();
        (0..CpuSet::MAX_CPU).filter(|&core| sets.iter().any(|set| set.is_set(core))).collect()
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether subject and swarm have a core each.
    pub fn are_disjoint(&self, shards: u32) -> bool {
        self.0.len() > shards as usize
    }

    /// Cores of a subject.
    pub fn of_subject(&self, settings: &Settings) -> &[usize] {
        match settings.cores {
            CoreUse::Apart => &self.0[..self.0.len().min(settings.shards as usize)],
            CoreUse::Shared => &self.0,
        }
    }

    /// Core of the swarm: after the subject, else the last core.
    pub fn of_swarm(&self, shards: u32) -> usize {
        let after = self.0.get(shards as usize).or(self.0.last());
        after.copied().unwrap_or(0)
    }

    /// Cores of a browser: all that the subject leaves, else the subject's; or, shared, all there are.
    pub fn of_browser(&self, settings: &Settings) -> &[usize] {
        if settings.cores == CoreUse::Shared {
            return &self.0;
        }
        let after = self.0.get(settings.shards as usize..).unwrap_or_default();
        if after.is_empty() { &self.0[self.0.len() - 1..] } else { after }
    }

    /// Keeps the calling thread on the swarm's core.
    pub fn pin_swarm(&self, shards: u32) -> io::Result<()> {
        pin(&[self.of_swarm(shards)])
    }

    /// Cores of the processes beside a subject: after the swarm, else the swarm's, so that they take no time from the subject.
    pub fn of_processes_beside(&self, shards: u32) -> &[usize] {
        let after = self.0.get(shards as usize + 1..).unwrap_or_default();
        if after.is_empty() { &self.0[self.0.len() - 1..] } else { after }
    }

    /// Runs `spawn` on the subject's cores, which the child inherits, and then takes the calling thread back to the swarm's.
    pub fn spawn_pinned<T>(&self, settings: &Settings, spawn: impl FnOnce() -> T) -> io::Result<T> {
        self.spawn_on(self.of_subject(settings), settings.shards, spawn)
    }

    /// The same on these cores.
    pub fn spawn_on<T>(
        &self,
        cores: &[usize],
        shards: u32,
        spawn: impl FnOnce() -> T,
    ) -> io::Result<T> {
        pin(cores)?;
        let spawned = spawn();
        self.pin_swarm(shards)?;
        Ok(spawned)
    }
}

fn pin(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_use_what_it_is_allowed_to() {
        let Cores(allowed) = Cores::allowed().unwrap();
        let mut child = std::process::Command::new("taskset")
            .args(["-c", &allowed[0].to_string(), "sleep", "10"])
            .spawn()
            .unwrap();
        let own = std::process::id();
        // Until it has become the other program.
        while Cores::of_processes(&[child.id()]) != allowed[..1] {
            assert!(child.try_wait().unwrap().is_none());
        }
        assert_eq!(Cores::of_processes(&[child.id(), own]), allowed);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Cores::of_processes(&[]).is_empty());
    }

    #[test]
    fn subject_first_swarm_after() {
        let two = Cores(vec![0, 1]);
        let of = |shards, cores| Settings { shards, cores, ..Settings::default() };
        let (one_shard, two_shards) = (&of(1, CoreUse::Apart), &of(2, CoreUse::Apart));
        assert_eq!((two.of_subject(one_shard), two.of_swarm(1)), (&[0][..], 1));
        assert!(two.are_disjoint(1));
        assert_eq!(two.of_processes_beside(1), [1]);
        assert_eq!((two.of_browser(one_shard), two.of_browser(two_shards)), (&[1][..], &[1][..]));
        assert_eq!(Cores(vec![0, 1, 2, 3]).of_browser(one_shard), [1, 2, 3]);
        let shared = &of(1, CoreUse::Shared);
        assert_eq!((two.of_subject(shared), two.of_browser(shared)), (&[0, 1][..], &[0, 1][..]));
        assert_eq!(Cores(vec![0, 1, 2, 3]).of_processes_beside(1), [2, 3]);
        assert_eq!((two.of_subject(two_shards), two.of_swarm(2)), (&[0, 1][..], 1));
        assert!(!two.are_disjoint(2));
        let one = Cores(vec![3]);
        assert_eq!((one.of_subject(one_shard), one.of_swarm(1)), (&[3][..], 3));
        assert!(!one.are_disjoint(1));
    }
}
