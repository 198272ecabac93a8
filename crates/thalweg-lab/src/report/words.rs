//! What a report says besides its figures, the same in every form.

use super::summary::{PartSummary, Summary};
use crate::scenario::Drive;

/// How the subjects of a part were driven, in a sentence or two.
pub(super) fn drive(part: &PartSummary) -> &'static str {
    let has_rate = part.rows.iter().any(|row| row.settings.rate > 0);
    match part.drive {
        Drive::Posted if has_rate => {
            "The lab publishes at a rate set in advance, whatever happens. Latency is from when an \
             event should have been sent to when the swarm has read it."
        }
        Drive::Posted => {
            "The lab publishes the next event as soon as every subscriber has what the window \
             allows: a subject is always given as much as it can take. Latency is from publishing \
             to when the swarm has read it."
        }
        Drive::SelfDriven => {
            "The subject broadcasts by itself, on a schedule it was told at its start. Latency is \
             from when a batch was due to when the swarm has read it."
        }
        Drive::Listen => {
            "The lab only listens to an endpoint that somebody runs: nobody knows what should have \
             come. Latency is from the time an event names to when the swarm has read it."
        }
        Drive::Idle => "Nobody sends anything: the connections only stand there.",
        Drive::Publish => {
            "The lab publishes as fast as the subject takes it; nobody subscribes. Events are those \
             that were taken."
        }
        Drive::Echo => {
            "Over a WebSocket the client asks on a schedule and must be answered, while the subject \
             pushes other data to it, on the same connection unless the cell says otherwise."
        }
        Drive::RoundTrip => {
            "The subject sends the next event when the client has acknowledged the last: one round \
             trip after the other."
        }
        Drive::Ceiling => {
            "The lab publishes at rates that rise until the p99 latency is over the objective; \
             shown is the highest rate that was not."
        }
    }
}

/// `5 samples of 2 s for each subject in each cell`
pub(super) fn effort(part: &PartSummary) -> String {
    let samples = if part.repeats == 1 { "sample" } else { "samples" };
    match part.drive {
        Drive::RoundTrip | Drive::Echo => {
            format!("{} {samples} of each subject in each cell.", part.repeats)
        }
        _ => format!(
            "{} {samples} of {} s, of each subject in each cell.",
            part.repeats,
            super::number::round(part.measured_ms as f64 / 1000.0)
        ),
    }
}

/// What a reader must know of verdicts, intervals and comparisons.
pub(super) const EXPLAINED: [&str; 3] = [
    "A verdict says what limited a sample: the subject (its cores were saturated, so its events per \
     second are a throughput), the swarm, the schedule or window (nobody was saturated), the machine \
     (somebody else had a share of the cores), or gaps that the subject announced; an invalid sample \
     lost, repeated or reordered events, and no figure contains it.",
    "An interval is that in which the true median of the samples lies, between two of the samples \
     themselves; it assumes no distribution, and with five samples it covers 94 %.",
    "A ratio is of pairs of samples, taken next to each other: the Hodges–Lehmann estimate, the middle \
     of all their means of two, with the interval of the signed-rank test. It is called a tie where \
     that contains 1 or overlaps that of the baseline beside itself (A/A), and nothing is claimed of \
     fewer than five pairs. The whole of it is in “How Thalweg measures”, docs/measuring.md.",
];

/// Text for a terminal: what others have said moves no cursor and changes no colour.
pub(super) fn printable(text: &str) -> String {
    let printable = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    text.chars().map(printable).collect()
}

/// Name and value of everything that a run was made with.
pub(super) fn facts(summary: &Summary) -> Vec<(&'static str, Vec<String>)> {
    let manifest = &summary.manifest;
    let machine = &manifest.machine;
    let cores: Vec<String> = machine.subject_cores.iter().map(usize::to_string).collect();
    let optional = |value: &Option<String>| value.iter().cloned().collect::<Vec<_>>();
    let memory_gb = machine.memory_bytes as f64 / 1e9;
    let peers = manifest.peers.iter().map(|(name, version)| format!("{name} {version}"));
    let time = if manifest.begun.is_empty() {
        Vec::new()
    } else {
        let ended = if manifest.was_interrupted { "interrupted" } else { "ended" };
        vec![format!("begun {}, {ended} {}", manifest.begun, manifest.ended)]
    };
    let all = vec![
        ("Version", vec![manifest.version.clone()]),
        ("Peers", peers.collect()),
        ("Time", time),
        ("CPU", vec![format!("{}, {} cores", machine.cpu, machine.cores)]),
        ("Memory", vec![format!("{memory_gb:.1} GB")]),
        ("Kernel", vec![format!("Linux {}", machine.kernel)]),
        ("Governor", optional(&machine.governor)),
        ("Load before", vec![format!("{:.2}", machine.load_average)]),
        (
            "Cores",
            vec![format!("subject on {}, swarm on {}", cores.join(", "), machine.swarm_core)],
        ),
        ("Remarks", machine.remarks.clone()),
        ("Connections", manifest.connections.iter().map(|it| (*it).to_owned()).collect()),
        ("Send buffer", optional(&machine.send_buffer_bytes)),
        ("Receive buffer", optional(&machine.receive_buffer_bytes)),
        ("Congestion control", optional(&machine.congestion_control)),
    ];
    all.into_iter().filter(|(_, values)| !values.is_empty()).collect()
}
