//! The equality manifest: settings that subjects negotiated and configured in a cell, and all of their differences.

use crate::measure::Sample;
use crate::scenario::Cell;
use serde::Serialize;
use std::collections::BTreeSet;

/// The text for a buffer size that no program has set.
const GROWN: &str = "the kernel's";

/// Observations on the first connections of a cell's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Equality {
    /// The cell.
    pub cell: String,
    /// Name and value of equal settings.
    pub same: Vec<(String, String)>,
    /// Other settings.
    pub different: Vec<DifferentSetting>,
}

/// A setting that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DifferentSetting {
    /// The name of the setting.
    pub name: String,
    /// Subject and value of each; several values if they changed from sample to sample.
    pub values: Vec<(String, String)>,
}

impl Equality {
    /// Compares the subjects of a cell with these samples. Settings that subjects were given on purpose show
    /// in their effects.
    pub(super) fn new(cell: &Cell, samples: &[&Sample]) -> Equality {
        let mut names: Vec<String> = Vec::new();
        let seen: Vec<Vec<(usize, String, String)>> =
            samples.iter().map(|sample| facts(sample)).collect();
        for (_, name, _) in seen.iter().flatten() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let mut equality = Equality { cell: cell.label.clone(), ..Equality::default() };
        for name in names {
            let mut values: Vec<(String, String)> = Vec::new();
            for (index, subject) in cell.subjects.iter().enumerate() {
                let own = seen.iter().flatten().filter(|(of, it, _)| *of == index && *it == name);
                let own: BTreeSet<&str> = own.map(|(_, _, value)| value.as_str()).collect();
                if !own.is_empty() {
                    values.push((subject.name.clone(), joined(&own)));
                }
            }
            match values.first() {
                Some((_, first)) if values.iter().all(|(_, value)| value == first) => {
                    equality.same.push((name, first.clone()));
                }
                _ => equality.different.push(DifferentSetting { name, values }),
            }
        }
        equality
    }

    /// Returns `Server: none (limit), thalweg (thalweg)`; subjects of the same value together. Empty without differences.
    pub fn differences(&self) -> String {
        let groups = self.different.iter().map(|difference| {
            let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
            for (subject, value) in &difference.values {
                match groups.iter_mut().find(|(known, _)| known == value) {
                    Some((_, subjects)) => subjects.push(subject),
                    None => groups.push((value, vec![subject])),
                }
            }
            let groups = groups.iter().map(|(value, of)| format!("{value} ({})", of.join(", ")));
            format!("{}: {}", difference.name, groups.collect::<Vec<_>>().join(", "))
        });
        groups.collect::<Vec<_>>().join("; ")
    }
}

/// Returns subject, name and value. The size of a buffer that the kernel grows always varies, so only whether it was set counts.
fn facts(sample: &Sample) -> Vec<(usize, String, String)> {
    let agreed = sample.negotiated.facts.iter();
    let agreed = agreed.map(|(name, value)| (sample.subject, name.clone(), value.clone()));
    let buffer = sample.sockets.map(|sockets| set_or_grown(sockets.send_buffer_bytes));
    let buffer = buffer.map(|value| (sample.subject, "subject SO_SNDBUF".to_owned(), value));
    agreed.chain(buffer).collect()
}

/// Joins the values. If a buffer grew in one sample, no program has set it.
fn joined(values: &BTreeSet<&str>) -> String {
    if values.contains(GROWN) {
        return GROWN.to_owned();
    }
    values.iter().copied().collect::<Vec<_>>().join(" or ")
}

/// Returns the size if a program set it. The kernel doubles requested sizes, which are powers of two; sizes it grows to are multiples of a
/// segment's.
fn set_or_grown(bytes: u64) -> String {
    match bytes.is_power_of_two() {
        true => bytes.to_string(),
        false => GROWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Negotiated, SocketMemory};
    use crate::scenario::{Changes, read};

    #[test]
    fn equal_and_different_settings_are_separated() {
        let text = "name = \"x\"\ndrive = \"published-load\"\nagain = \"every-cell\"\n[[subjects]]\n\
                    program = \"limit\"\n[[subjects]]\nprogram = \"thalweg\"\n";
        let plan = read(text, &Changes::default(), &[]).unwrap();
        let cell = &plan.parts[0].cells[0];
        let sample = |subject: usize, server: &str, send_buffer_bytes: u64| {
            let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            Sample {
                subject,
                negotiated: Negotiated { facts: vec![fact("TLS", "none"), fact("Server", server)] },
                sockets: Some(SocketMemory { send_buffer_bytes, ..SocketMemory::default() }),
                ..Sample::default()
            }
        };
        let samples = [
            sample(0, "none", 2_626_560),
            sample(1, "none", 87_040),
            // Grown to the most there may be.
            sample(1, "none", 4 << 20),
            sample(2, "it", 1 << 20),
            sample(2, "it 2", 1 << 20),
        ];
        let equality = Equality::new(cell, &samples.iter().collect::<Vec<_>>());
        assert_eq!(equality.same[0], ("TLS".to_owned(), "none".to_owned()));
        assert_eq!(
            equality.differences(),
            "Server: none (limit, limit again), it or it 2 (thalweg); \
             subject SO_SNDBUF: the kernel's (limit, limit again), 1048576 (thalweg)"
        );
        let alone = Equality::new(cell, &[&samples[0], &samples[1]]);
        assert_eq!(alone.differences(), "");
    }
}
