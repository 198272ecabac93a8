//! Counts of the situations that worlds had: a world without trouble tests little.

use std::collections::BTreeMap;

/// The number of worlds from which on each situation has to occur.
const ENOUGH_WORLDS: u64 = 200;

/// Situations: an operation of the disk, or a step of the world.
const SITUATIONS: [&str; 16] = [
    "worlds",
    "lives",
    "power cuts",
    "ends of the process",
    "crashes within an operation",
    "failed writes",
    "failed syncs",
    "failed operations on names",
    "failed reads",
    "reads of bad pages",
    "full disks",
    "damaged files",
    "spoiled pages",
    "gaps in pages",
    "gaps of followers",
    "unknown answers",
];

/// How often each situation occurred.
#[derive(Debug, Clone, Default)]
pub(in crate::tests) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(in crate::tests) fn add(&mut self, situation: &'static str, count: u64) {
        debug_assert!(SITUATIONS.contains(&situation), "{situation} is not in the list");
        *self.0.entry(situation).or_default() += count;
    }

    /// Adds the counts of another tally.
    pub(in crate::tests) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(situation, count)| self.add(situation, *count));
    }

    fn count(&self, situation: &str) -> u64 {
        self.0.get(situation).copied().unwrap_or(0)
    }

    /// Prints all counts. With enough worlds, each situation must have occurred.
    pub(in crate::tests) fn print_and_check(&self) {
        let counts = SITUATIONS.map(|situation| format!("{} {situation}", self.count(situation)));
        println!("{}", counts.join(", "));
        if self.count("worlds") < ENOUGH_WORLDS {
            return;
        }
        for situation in SITUATIONS {
            assert!(self.count(situation) > 0, "no world had {situation}");
        }
    }
}
