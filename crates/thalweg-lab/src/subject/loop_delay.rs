//! The delay of a subject's event loop, as the subject reports it.

use super::probe;
use crate::scenario::{Program, Settings};
use serde::Deserialize;
use std::net::SocketAddr;

/// Prefixes of Thalweg's histogram, one of each for a shard.
const SUM: &str = "thalweg_loop_delay_seconds_sum{";
const COUNT: &str = "thalweg_loop_delay_seconds_count{";

/// A subject's report of its event loop.
#[derive(Clone, Copy, Debug)]
pub struct LoopMeter<'a> {
    /// Path of a peer's report; `None` for Thalweg's metrics.
    path: Option<&'a str>,
    is_tls: bool,
}

/// Delays of timers of an event loop, since the subject began to count them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct LoopDelays {
    sum_us: f64,
    count: f64,
}

impl<'a> LoopMeter<'a> {
    /// Returns the report of a subject; `None` if it has none.
    pub fn new(program: &'a Program, settings: &Settings) -> Option<LoopMeter<'a>> {
        let path = match program {
            Program::Build(_) => None,
            Program::Peer(peer) if !peer.loop_delay.is_empty() => Some(&*peer.loop_delay),
            program if program.is_thalweg() => None,
            _ => return None,
        };
        Some(LoopMeter { path, is_tls: settings.tls })
    }

    /// Requests the delays so far; `None` if the subject does not answer in time.
    pub fn read(self, address: SocketAddr) -> Option<LoopDelays> {
        let answer = probe::get(address, self.path.unwrap_or("/metrics"), self.is_tls).ok()?;
        match self.path {
            Some(_) => serde_json::from_str(&answer).ok(),
            None => from_metrics(&answer),
        }
    }
}

impl LoopDelays {
    /// Returns the mean delay since an earlier reading, µs; `None` without a timer since then.
    pub fn mean_us_since(self, before: LoopDelays) -> Option<f64> {
        let count = self.count - before.count;
        (count > 0.0).then(|| ((self.sum_us - before.sum_us) / count).max(0.0))
    }
}

/// Returns the delays of all shards together.
fn from_metrics(metrics: &str) -> Option<LoopDelays> {
    let total = |prefix: &str| {
        let lines = metrics.lines().filter(|line| line.starts_with(prefix));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).reduce(|a: f64, b| a + b)
    };
    Some(LoopDelays { sum_us: total(SUM)? * 1e6, count: total(COUNT)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_those_of_all_shards_since_the_reading_before() {
        let metrics = |sums: [f64; 2], counts: [u32; 2]| {
            let shard = |shard: usize| {
                format!(
                    "thalweg_loop_delay_seconds_bucket{{shard=\"{shard}\",le=\"+Inf\"}} 9\n\
                     thalweg_loop_delay_seconds_sum{{shard=\"{shard}\"}} {}\n\
                     thalweg_loop_delay_seconds_count{{shard=\"{shard}\"}} {}\n",
                    sums[shard], counts[shard]
                )
            };
            from_metrics(&(shard(0) + &shard(1))).unwrap()
        };
        let before = metrics([0.5, 0.25], [10, 10]);
        let after = metrics([0.503, 0.251], [12, 12]);
        assert_eq!(after.mean_us_since(before).map(f64::round), Some(1000.0));
        assert_eq!(before.mean_us_since(before), None);
        assert_eq!(from_metrics("thalweg_connections{shard=\"0\"} 1\n"), None);
    }

    #[test]
    fn a_peer_reports_sum_and_count() {
        let report: LoopDelays = serde_json::from_str(r#"{"sum_us":1500.5,"count":3}"#).unwrap();
        let before = LoopDelays { sum_us: 500.5, count: 1.0 };
        assert_eq!(report.mean_us_since(before), Some(500.0));
    }
}
