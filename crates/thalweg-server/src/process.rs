//! The process metrics of Prometheus' own libraries, and the version, for `/metrics`.

use std::{fmt::Write, fs};

use rustix::process::{Resource, getrlimit};

/// Returns the families of the process, in either format. Values that the kernel does not have are omitted.
pub(crate) fn text(version: &str, is_open_metrics: bool) -> String {
    let mut out = String::new();
    let mut family = |name: &str, help: &str, kind: &str, labels: &str, value: f64| {
        // OpenMetrics names the family like its samples without their suffix.
        let suffix = if kind == "counter" { "_total" } else { "" };
        let of_family = if is_open_metrics { "" } else { suffix };
        // Writing to a string does not fail.
        let _ = writeln!(out, "# HELP {name}{of_family} {help}");
        let _ = writeln!(out, "# TYPE {name}{of_family} {kind}");
        let _ = writeln!(out, "{name}{suffix}{labels} {value}");
    };
    let version = version.replace(['"', '\\', '\n'], "");
    let labels = format!("{{version=\"{version}\"}}");
    family("thalweg_build_info", "Version of the build.", "gauge", &labels, 1.0);
    if let Some(Stat { cpu_s, start_s, resident_bytes, threads }) = Stat::read() {
        family("process_cpu_seconds", "User and system CPU time.", "counter", "", cpu_s);
        family(
            "process_start_time_seconds",
            "Start time of the process since 1970.",
            "gauge",
            "",
            start_s,
        );
        family("process_resident_memory_bytes", "Resident memory.", "gauge", "", resident_bytes);
        family("process_threads", "Threads.", "gauge", "", threads);
    }
    // Since Linux 6.2 the size is the number of open files: counting them takes 20 ms with 20,000.
    if let Ok(open) = fs::metadata("/proc/self/fd")
        && open.len() > 0
    {
        family("process_open_fds", "Open descriptors.", "gauge", "", open.len() as f64);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        family("process_max_fds", "Maximum number of open descriptors.", "gauge", "", most as f64);
    }
    out
}

struct Stat {
    cpu_s: f64,
    start_s: f64,
    resident_bytes: f64,
    threads: f64,
}

impl Stat {
    /// Reads `/proc/self/stat` (proc_pid_stat(5)) and `/proc/stat`.
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The fields follow a name in parentheses, which may contain any character.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // The first field here has number 3 in the manual.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?;
        Some(Self {
            cpu_s: (field(14)? + field(15)?) / ticks,
            start_s: boot.trim().parse::<f64>().ok()? + field(22)? / ticks,
            resident_bytes: field(24)? * rustix::param::page_size() as f64,
            threads: field(20)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_its_own_figures() {
        let Stat { cpu_s, start_s, resident_bytes, threads } = Stat::read().unwrap();
        let now_s = std::time::SystemTime::now();
        let now_s = now_s.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((0.0..1e6).contains(&cpu_s), "{cpu_s}");
        assert!((now_s - 1e5..now_s + 2.0).contains(&start_s), "{start_s} of {now_s}");
        assert!((1e5..1e10).contains(&resident_bytes) && threads >= 1.0);
        let text = text("1 \"a\"", false);
        assert!(text.contains("thalweg_build_info{version=\"1 a\"} 1\n"), "{text}");
        assert!(text.contains("# TYPE process_cpu_seconds_total counter\n"), "{text}");
    }
}
