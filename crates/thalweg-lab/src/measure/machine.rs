//! The machine of the samples, and its other load.

use procfs::{Current, CurrentSI};
use serde::{Deserialize, Serialize};

/// Total work of some cores so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreTimes {
    /// Time of programs, and of the kernel on their behalf, in seconds.
    pub busy_s: f64,
    /// Time that the hypervisor has taken, in seconds; 0 without a hypervisor.
    pub stolen_s: f64,
}

/// Returns the times of these cores so far, which the kernel usually counts in ticks of 10 ms.
pub fn core_times(cores: &[usize]) -> CoreTimes {
    let Ok(stat) = procfs::KernelStats::current() else {
        return CoreTimes::default();
    };
    let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
    let mut total = CoreTimes::default();
    for times in cores.iter().filter_map(|&core| stat.cpu_time.get(core)) {
        total.busy_s += seconds(times.user + times.nice + times.system);
        total.stolen_s += seconds(times.steal.unwrap_or(0));
    }
    total
}

/// Returns how many packets the kernel has dropped so far because a core's queue was full. On loopback each costs a retransmission timeout.
pub fn dropped_packets() -> u64 {
    dropped(&std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default())
}

/// Sums the second column, the number of dropped packets. The file has one line per core, in hexadecimal.
fn dropped(softnet: &str) -> u64 {
    let second = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet.lines().filter_map(second).sum()
}

/// Returns the kernel memory of all TCP sockets of the machine, both ends of loopback included; `None` if it is not reported.
pub fn tcp_bytes() -> Option<u64> {
    tcp_pages(&std::fs::read_to_string("/proc/net/sockstat").ok()?)
        .map(|pages| pages * procfs::page_size())
}

/// Returns the same relative to the limit at which the kernel comes under memory pressure (`tcp(7)`, tcp_mem).
pub fn tcp_share() -> Option<f64> {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").ok()?;
    let pressure: u64 = limits.split_whitespace().nth(1)?.parse().ok()?;
    Some(tcp_bytes()? as f64 / (pressure * procfs::page_size()) as f64)
}

/// Parses the number of pages: 3 in `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3`.
fn tcp_pages(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()
}

/// Facts about the machine for the reader of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineNote {
    /// Model name of the first core.
    pub cpu: String,
    /// Cores this process may run on.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor of the first core, where there is one.
    pub governor: Option<String>,
    /// Load average over the last minute, before the first sample.
    pub load_average: f64,
    /// Memory.
    pub memory_bytes: u64,
    /// Where the subject ran.
    pub subject_cores: Vec<usize>,
    /// Where the swarm ran.
    pub swarm_core: usize,
    /// Where the browser ran, if one was the load; then the swarm did not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub browser_cores: Vec<usize>,
    /// Sender's buffer limits of a socket: minimum, default, maximum.
    pub send_buffer_bytes: Option<String>,
    /// Receiver's buffer limits of a socket.
    pub receive_buffer_bytes: Option<String>,
    /// TCP's congestion control; `bbr` paces, `cubic` does not.
    pub congestion_control: Option<String>,
    /// Remarks for a reader.
    pub remarks: Vec<String>,
}

impl MachineNote {
    /// Reads `/proc` and `/sys`. The caller fills in the cores.
    pub fn read() -> MachineNote {
        let cpu = procfs::CpuInfo::current().ok();
        let model = cpu.as_ref().and_then(|cpu| cpu.model_name(0));
        let load = procfs::LoadAverage::current();
        MachineNote {
            cpu: model.unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: line_of("/proc/sys/kernel/osrelease").unwrap_or_default(),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_average: load.map_or(0.0, |load| f64::from(load.one)),
            memory_bytes: procfs::Meminfo::current().map_or(0, |memory| memory.mem_total),
            send_buffer_bytes: line_of("/proc/sys/net/ipv4/tcp_wmem"),
            receive_buffer_bytes: line_of("/proc/sys/net/ipv4/tcp_rmem"),
            congestion_control: line_of("/proc/sys/net/ipv4/tcp_congestion_control"),
            remarks: vec!["loopback, one machine".to_owned()],
            ..MachineNote::default()
        }
    }

    /// Returns the name of the CPU for a folder's name, such as `intel-xeon-2.50ghz`.
    pub fn cpu_slug(&self) -> String {
        let plain = self.cpu.to_lowercase().replace("(r)", "").replace("(tm)", "");
        let words = plain
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
            .filter(|word| !word.is_empty() && !["cpu", "processor", "core"].contains(word));
        words.take(5).collect::<Vec<_>>().join("-")
    }
}

fn line_of(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_makes_a_folder_name() {
        let named = |cpu: &str| MachineNote { cpu: cpu.to_owned(), ..MachineNote::default() };
        let slug = named("Intel(R) Xeon(R) Processor @ 2.50GHz").cpu_slug();
        assert_eq!(slug, "intel-xeon-2.50ghz");
        assert_eq!(named("AMD EPYC 9B14").cpu_slug(), "amd-epyc-9b14");
    }

    #[test]
    fn drops_are_summed_over_cores() {
        assert_eq!(dropped("02b37775 000005f7 00000000\n01d84670 00000001 00000005\n"), 0x5f8);
        assert_eq!(dropped(""), 0);
    }

    #[test]
    fn this_machine_has_a_core_and_memory() {
        let note = MachineNote::read();
        assert!(note.cores >= 1 && note.memory_bytes > 0 && !note.kernel.is_empty());
        assert!(core_times(&[0]).busy_s > 0.0);
    }
}
