//! Cores of each program. The subject has the first cores, the swarm the next one, so that neither takes time from the other.

use crate::scenario::{CoreUse, Settings};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The cores this process may use, in order.
#[derive(Clone, Debug)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// Returns the cores of the calling thread.
    pub fn allowed() -> io::Result<Cores> {
        let set = sched_getaffinity(None)?;
        Ok(Cores((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()))
    }

    /// Returns the cores that any of these processes may use; skips processes that have ended.
    pub fn used_by(pids: &[u32]) -> Vec<usize> {
        let pids = pids.iter().filter_map(|&pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let sets: Vec<CpuSet> = pids.filter_map(|pid| sched_getaffinity(Some(pid)).ok()).collect();
        (0..CpuSet::MAX_CPU).filter(|&core| sets.iter().any(|set| set.is_set(core))).collect()
    }

    /// Returns the number of cores.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns whether subject and swarm have different cores.
    pub fn are_disjoint(&self, shards: u32) -> bool {
        self.0.len() > shards as usize
    }

    /// Returns the cores of a subject.
    pub fn subject_cores(&self, settings: &Settings) -> &[usize] {
        match settings.cores {
            CoreUse::Apart => &self.0[..self.0.len().min(settings.shards as usize)],
            CoreUse::Shared => &self.0,
        }
    }

    /// Returns the swarm's core: the one after the subject's, else the last.
    pub fn swarm_core(&self, shards: u32) -> usize {
        let after = self.0.get(shards as usize).or(self.0.last());
        after.copied().unwrap_or(0)
    }

    /// Returns a browser's cores: all after the subject's, else the last; if the settings share the cores, all.
    pub fn browser_cores(&self, settings: &Settings) -> &[usize] {
        if settings.cores == CoreUse::Shared {
            return &self.0;
        }
        let after = self.0.get(settings.shards as usize..).unwrap_or_default();
        if after.is_empty() { &self.0[self.0.len() - 1..] } else { after }
    }

    /// Keeps the calling thread on the swarm's core.
    pub fn pin_swarm(&self, shards: u32) -> io::Result<()> {
        pin(&[self.swarm_core(shards)])
    }

    /// Returns the cores of the processes beside a subject: those after the swarm's, else the last. They take no time from the subject.
    pub fn cores_beside(&self, shards: u32) -> &[usize] {
        let after = self.0.get(shards as usize + 1..).unwrap_or_default();
        if after.is_empty() { &self.0[self.0.len() - 1..] } else { after }
    }

    /// Runs `spawn` on the subject's cores, which the child inherits, and then takes the calling thread back to the swarm's.
    pub fn spawn_pinned<T>(&self, settings: &Settings, spawn: impl FnOnce() -> T) -> io::Result<T> {
        self.spawn_on(self.subject_cores(settings), settings.shards, spawn)
    }

    /// Like [`Self::spawn_pinned`], on these cores.
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
    fn the_cores_of_a_process_are_those_of_its_affinity() {
        let Cores(allowed) = Cores::allowed().unwrap();
        let mut child = std::process::Command::new("taskset")
            .args(["-c", &allowed[0].to_string(), "sleep", "10"])
            .spawn()
            .unwrap();
        let own = std::process::id();
        // Until the child has become the other program.
        while Cores::used_by(&[child.id()]) != allowed[..1] {
            assert!(child.try_wait().unwrap().is_none());
        }
        assert_eq!(Cores::used_by(&[child.id(), own]), allowed);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Cores::used_by(&[]).is_empty());
    }

    #[test]
    fn subject_first_swarm_after() {
        let two = Cores(vec![0, 1]);
        let of = |shards, cores| Settings { shards, cores, ..Settings::default() };
        let (one_shard, two_shards) = (&of(1, CoreUse::Apart), &of(2, CoreUse::Apart));
        assert_eq!((two.subject_cores(one_shard), two.swarm_core(1)), (&[0][..], 1));
        assert!(two.are_disjoint(1));
        assert_eq!(two.cores_beside(1), [1]);
        assert_eq!(
            (two.browser_cores(one_shard), two.browser_cores(two_shards)),
            (&[1][..], &[1][..])
        );
        assert_eq!(Cores(vec![0, 1, 2, 3]).browser_cores(one_shard), [1, 2, 3]);
        let shared = &of(1, CoreUse::Shared);
        assert_eq!(
            (two.subject_cores(shared), two.browser_cores(shared)),
            (&[0, 1][..], &[0, 1][..])
        );
        assert_eq!(Cores(vec![0, 1, 2, 3]).cores_beside(1), [2, 3]);
        assert_eq!((two.subject_cores(two_shards), two.swarm_core(2)), (&[0, 1][..], 1));
        assert!(!two.are_disjoint(2));
        let one = Cores(vec![3]);
        assert_eq!((one.subject_cores(one_shard), one.swarm_core(1)), (&[3][..], 3));
        assert!(!one.are_disjoint(1));
    }
}
