//! CPU of Chromium's processes, by kind, as the kernel counts it.

use crate::measure::{KindUse, ProcessKind, Resources};
use procfs::process::Process;
use std::collections::HashMap;

/// The counts of all processes at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    processes: HashMap<u32, BrowserProcess>,
}

#[derive(Clone, Debug)]
struct BrowserProcess {
    kind: ProcessKind,
    cpu_ns: u64,
    rss_bytes: u64,
    /// Name and CPU time by thread id.
    threads: HashMap<i32, (String, u64)>,
}

impl Snapshot {
    /// Reads all processes of the browser with this root.
    pub(super) fn new(root: u32) -> Snapshot {
        let read = |pid: u32| Some((pid, BrowserProcess::read(pid)?));
        Snapshot { processes: Resources::tree(&[root]).into_iter().filter_map(read).collect() }
    }

    /// Returns the kind of a process and its CPU time so far.
    #[cfg(test)]
    pub(super) fn process(&self, pid: u32) -> Option<(ProcessKind, u64)> {
        self.processes.get(&pid).map(|one| (one.kind, one.cpu_ns))
    }

    fn rss_bytes(&self, kind: ProcessKind) -> u64 {
        let of_kind = self.processes.values().filter(|one| one.kind == kind);
        of_kind.map(|one| one.rss_bytes).sum()
    }

    /// Returns what each kind used since `before`.
    pub(super) fn since(&self, before: &Snapshot) -> Vec<KindUse> {
        let mut all = Vec::new();
        for kind in ProcessKind::ALL {
            let mut used = KindUse {
                kind,
                cpu_ns: 0,
                thread_cpu_ns_max: 0,
                thread: String::new(),
                rss_begun_bytes: before.rss_bytes(kind),
                rss_bytes: self.rss_bytes(kind),
            };
            for (pid, now) in self.processes.iter().filter(|(_, one)| one.kind == kind) {
                let before = before.processes.get(pid);
                used.cpu_ns +=
                    now.cpu_ns.saturating_sub(before.map_or(0, |earlier| earlier.cpu_ns));
                for (id, (name, cpu_ns)) in &now.threads {
                    let before = before
                        .and_then(|earlier| earlier.threads.get(id))
                        .map_or(0, |earlier| earlier.1);
                    let cpu_ns = cpu_ns.saturating_sub(before);
                    if cpu_ns > used.thread_cpu_ns_max {
                        used.thread_cpu_ns_max = cpu_ns;
                        let is_main = *id == *pid as i32;
                        used.thread = if is_main { "main".to_owned() } else { name.clone() };
                    }
                }
            }
            if self.processes.values().any(|one| one.kind == kind) {
                all.push(used);
            }
        }
        all
    }
}

impl BrowserProcess {
    /// Returns `None` if the process has ended.
    fn read(pid: u32) -> Option<BrowserProcess> {
        let process = Process::new(pid as i32).ok()?;
        let kind = kind_of(&process.cmdline().ok()?);
        let mut threads = HashMap::new();
        for task in process.tasks().ok()?.flatten() {
            let (Ok(used), Ok(stat)) = (task.schedstat(), task.stat()) else { continue };
            threads.insert(task.tid, (stat.comm, used.sum_exec_runtime));
        }
        let living_ns = threads.values().map(|(_, cpu_ns)| cpu_ns).sum::<u64>();
        let stat = process.stat().ok()?;
        // The process's own count is in ticks, but includes threads that have ended.
        let ticks_ns = 1_000_000_000 / procfs::ticks_per_second().max(1);
        let cpu_ns = living_ns.max((stat.utime + stat.stime) * ticks_ns);
        let rss_bytes = stat.rss * procfs::page_size();
        Some(BrowserProcess { kind, cpu_ns, rss_bytes, threads })
    }
}

/// Reads the kind from `--type=`, and for utilities `--utility-sub-type=`. A process forked from a zygote has its command line in one word.
fn kind_of(command_line: &[String]) -> ProcessKind {
    let words = || command_line.iter().flat_map(|word| word.split(' '));
    let value = |name: &str| words().find_map(|word| word.strip_prefix(name));
    match (value("--type="), value("--utility-sub-type=")) {
        (None, _) => ProcessKind::Browser,
        (Some("renderer"), _) => ProcessKind::Tab,
        (Some("gpu-process"), _) => ProcessKind::Gpu,
        (Some("utility"), Some("network.mojom.NetworkService")) => ProcessKind::Network,
        (Some(_), _) => ProcessKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: ProcessKind) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(kind_of(&words), expected, "{words:?}");
    }

    #[test]
    fn command_lines_identify_the_kind_of_a_process() {
        check(&["/usr/lib/chromium/chromium", "--headless=new"], ProcessKind::Browser);
        check(&["/chromium", "--type=gpu-process", "--no-sandbox"], ProcessKind::Gpu);
        check(&["/chromium --type=renderer --lang=en --renderer-client-id=5"], ProcessKind::Tab);
        let network = "--utility-sub-type=network.mojom.NetworkService";
        check(&["/chromium", "--type=utility", network], ProcessKind::Network);
        let storage = "--utility-sub-type=storage.mojom.StorageService";
        check(&["/chromium", "--type=utility", storage], ProcessKind::Other);
        check(&["/chromium", "--type=zygote"], ProcessKind::Other);
    }

    #[test]
    fn the_usage_of_processes_is_the_difference_of_snapshots() {
        let before = Snapshot::new(std::process::id());
        let begun = std::time::Instant::now();
        let mut sum = 0u64;
        while begun.elapsed().as_millis() < 20 {
            sum = sum.wrapping_mul(31).wrapping_add(begun.elapsed().as_nanos() as u64);
        }
        assert!(sum != 1);
        let used = Snapshot::new(std::process::id()).since(&before);
        let own = used.iter().find(|found| found.kind == ProcessKind::Browser).unwrap();
        assert!(own.rss_bytes > 1 << 20 && own.rss_begun_bytes > 1 << 20, "{used:?}");
        // Threads are read after their process, and may use more CPU in between.
        assert!(own.thread_cpu_ns_max > 0 && own.thread_cpu_ns_max < 2 * own.cpu_ns, "{used:?}");
    }
}
