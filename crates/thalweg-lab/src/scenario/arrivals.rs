//! Arrival rate of connections: in stages, each with a number per second and a duration.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Stages that a ramp may have, and how long it may take.
const STAGES_MAX: usize = 100;
const TOTAL_US_MAX: u64 = 24 * 3_600_000_000;
/// Connections a second: more than one thread could open.
const RATE_MAX: u32 = 1_000_000;
const EXAMPLE: &str = "write a rate, or stages: 100/s, or 50/s 10s, 200/s 1m";

/// `50/s 10s, 200/s 1m`: stages, one after the other. A last stage without a time continues until all have arrived. Without stages,
/// everybody arrives at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(with = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct Arrivals {
    stages: Vec<ArrivalStage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArrivalStage {
    /// Connections a second.
    rate: u32,
    /// `None`: until all have arrived.
    time_us: Option<u64>,
}

impl Arrivals {
    /// Returns whether everybody arrives at once.
    pub fn are_at_once(&self) -> bool {
        self.stages.is_empty()
    }

    /// Returns the due times of this many connections, µs from the beginning, and the end of the last stage. Not all may have time to
    /// arrive.
    pub fn schedule(&self, connections: usize) -> (Vec<u64>, u64) {
        let (mut due_us, mut begun_us) = (Vec::new(), 0);
        for stage in &self.stages {
            let rate = u64::from(stage.rate);
            let left = (connections - due_us.len()) as u64;
            let (count, end_us) = match stage.time_us {
                Some(time_us) => ((rate * time_us / 1_000_000).min(left), begun_us + time_us),
                None => (left, begun_us + left * 1_000_000 / rate.max(1)),
            };
            due_us.extend((0..count).map(|number| begun_us + number * 1_000_000 / rate));
            begun_us = end_us;
        }
        if self.are_at_once() {
            due_us = vec![0; connections];
        }
        (due_us, begun_us)
    }
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let stages: Vec<ArrivalStage> = parts.map(stage).collect::<Result<_, _>>()?;
        let timed = stages.split_last().map_or(&[][..], |(_, before)| before);
        if timed.iter().any(|stage| stage.time_us.is_none()) {
            return Err(format!("only the last stage may be without a time: {EXAMPLE}"));
        }
        let total_us: u64 = stages.iter().filter_map(|stage| stage.time_us).sum();
        if stages.len() > STAGES_MAX || total_us > TOTAL_US_MAX {
            return Err(format!("a ramp has up to {STAGES_MAX} stages and takes up to a day"));
        }
        Ok(Arrivals { stages })
    }
}

fn stage(text: &str) -> Result<ArrivalStage, String> {
    let wrong = || format!("`{text}` is not a stage: {EXAMPLE}");
    let (rate, time) = text.split_once(' ').map_or((text, None), |(rate, time)| (rate, Some(time)));
    let rate: u32 = rate.strip_suffix("/s").and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
    if rate > RATE_MAX || rate == 0 && time.is_none() {
        return Err(format!("a rate is 1 to {RATE_MAX}/s, and 0/s only for a time: {EXAMPLE}"));
    }
    let time_us = match time.map(str::trim) {
        None => None,
        Some(time) => {
            let units = [("ms", 1000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];
            let found = units.iter().find_map(|(unit, us)| {
                let number: u64 = time.strip_suffix(unit)?.trim().parse().ok()?;
                number.checked_mul(*us)
            });
            Some(found.filter(|us| *us <= TOTAL_US_MAX).ok_or_else(wrong)?)
        }
    };
    Ok(ArrivalStage { rate, time_us })
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ArrivalStage { rate, time_us }) in self.stages.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{rate}/s")?;
            match time_us {
                None => {}
                Some(us) if us.is_multiple_of(1_000_000) => write!(f, " {}s", us / 1_000_000)?,
                Some(us) => write!(f, " {}ms", us / 1000)?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Arrivals {
    type Error = String;

    fn try_from(text: String) -> Result<Arrivals, String> {
        text.parse()
    }
}

impl From<Arrivals> for String {
    fn from(arrivals: Arrivals) -> String {
        arrivals.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other() {
        let check = |text: &str, connections, expected: &[u64], end_us| {
            let arrivals: Arrivals = text.parse().unwrap();
            assert_eq!(arrivals.schedule(connections), (expected.to_vec(), end_us), "{text}");
            assert_eq!(arrivals.to_string().parse(), Ok(arrivals), "{text}");
        };
        check("", 2, &[0, 0], 0);
        check("10/s", 3, &[0, 100_000, 200_000], 300_000);
        check("2/s 1s, 0/s 500ms, 4/s", 4, &[0, 500_000, 1_500_000, 1_750_000], 2_000_000);
        // Fewer than there are, and more than there is time for.
        check("2/s 1m", 3, &[0, 500_000, 1_000_000], 60_000_000);
        check("2/s 1s", 9, &[0, 500_000], 1_000_000);
    }

    #[test]
    fn malformed_rates_are_refused_with_an_example() {
        for text in ["10", "10/m", "/s", "0/s", "-1/s", "10/s, 5/s 1s", "1/s 9y", "1/s 25h"] {
            let error = text.parse::<Arrivals>().unwrap_err();
            assert!(error.contains("50/s 10s") || error.contains("a day"), "{text}: {error}");
        }
    }
}
