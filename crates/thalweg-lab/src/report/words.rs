//! Text of a report besides its figures, the same in every form.

use super::part_summary::PartSummary;
use super::summary::{Addition, Summary};
use crate::measure::MachineNote;
use crate::scenario::Drive;

/// The maximum width of a line for a terminal. Paths, and single words that are longer, stay whole.
pub const COLUMNS: usize = 100;

/// Splits a text at spaces into lines of at most this many columns.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the text with long lines split; their further lines begin with this many spaces.
pub(super) fn folded(text: &str, indent: usize) -> String {
    let fold = |line: &str| match line.chars().count() > COLUMNS {
        true => wrapped(line, COLUMNS - indent).join(&format!("\n{:indent$}", "")),
        false => line.to_owned(),
    };
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

/// Returns `5 samples of 2 s for each subject in each cell`.
pub(super) fn effort(part: &PartSummary) -> String {
    let samples = if part.repeats == 1 { "sample" } else { "samples" };
    let concurrent = if part.concurrent { ", all of a cell at the same time" } else { "" };
    if let Some(budget_s) = part.budget_s {
        return format!(
            "The subjects of a cell take turns, a short span each, until the cell is decided or its \
             share of {budget_s} s is over{concurrent}."
        );
    }
    match part.drive {
        Drive::RoundTrip | Drive::Echo | Drive::Ramp | Drive::Stampede => {
            format!("{} {samples} of each subject in each cell.", part.repeats)
        }
        _ => format!(
            "{} {samples} of {} s, of each subject in each cell{concurrent}.",
            part.repeats,
            super::number::round(part.measured_ms as f64 / 1000.0)
        ),
    }
}

/// Returns a text for a terminal in which quoted text cannot move the cursor or change colours.
pub(super) fn printable(text: &str) -> String {
    let printable = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    text.chars().map(printable).collect()
}

/// Returns name and value of a run's circumstances.
pub(super) fn facts(summary: &Summary) -> Vec<(&'static str, Vec<String>)> {
    let manifest = &summary.manifest;
    let machine = &manifest.machine;
    let optional = |value: &Option<String>| value.iter().cloned().collect::<Vec<_>>();
    let memory_gb = machine.memory_bytes as f64 / 1e9;
    let peers = manifest.peers.iter().map(|(name, version)| format!("{name} {version}"));
    let time = match (&*manifest.begun, &*manifest.ended) {
        ("", _) => Vec::new(),
        (begun, "") => vec![format!("begun {begun}, not ended")],
        (begun, ended) if manifest.was_interrupted => {
            vec![format!("begun {begun}, interrupted {ended}")]
        }
        (begun, ended) => vec![format!("begun {begun}, ended {ended}")],
    };
    let measured = Some(manifest.measured.clone());
    let measured =
        measured.filter(|measured| !measured.is_empty() && *measured != manifest.version);
    let flags = manifest.browser_flags.join(" ");
    let flags = Some(flags).filter(|flags| !flags.is_empty());
    let under = (!manifest.under.is_empty()).then(|| manifest.under.join(" "));
    let added = manifest.continued.iter().map(|Addition { begun, version, measured }| {
        format!("at {begun} with {version}, measured {measured}")
    });
    let all = vec![
        ("Version", vec![manifest.version.clone()]),
        ("Measured", optional(&measured)),
        ("Peers", peers.collect()),
        ("Load", optional(&manifest.browser.as_ref().map(|browser| format!("tabs of {browser}")))),
        ("Browser flags", optional(&flags)),
        ("Plan of", optional(&manifest.rerun_of)),
        ("Time", time),
        ("Samples added", added.collect()),
        ("CPU", vec![format!("{}, {} cores", machine.cpu, machine.cores)]),
        ("Memory", vec![format!("{memory_gb:.1} GB")]),
        ("Kernel", vec![format!("Linux {}", machine.kernel)]),
        ("Governor", optional(&machine.governor)),
        ("Load before", vec![format!("{:.2}", machine.load_average)]),
        ("Cores", vec![pinned(machine)]),
        ("Under", optional(&under)),
        ("At", optional(&manifest.at)),
        ("Remarks", machine.remarks.clone()),
        (
            "Connections",
            manifest.connections.iter().map(|connection| (*connection).to_owned()).collect(),
        ),
        ("Send buffer", optional(&machine.send_buffer_bytes)),
        ("Receive buffer", optional(&machine.receive_buffer_bytes)),
        ("Congestion control", optional(&machine.congestion_control)),
        ("The same for all subjects", summary.parts.iter().filter_map(same).collect()),
    ];
    all.into_iter().filter(|(_, values)| !values.is_empty()).collect()
}

/// Returns `subject on core 0, swarm on core 1`, or the sharing; for an endpoint that already runs, only known facts.
pub(super) fn pinned(machine: &MachineNote) -> String {
    let listed =
        |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let MachineNote { subject_cores, swarm_core, browser_cores, .. } = machine;
    match (subject_cores.as_slice(), browser_cores.as_slice()) {
        ([], _) => format!("swarm pinned to core {swarm_core}, nothing else"),
        (subject, []) => {
            format!("subject on core {}, swarm on core {swarm_core}", listed(subject))
        }
        (subject, browser) if subject == browser && subject.len() > 1 => {
            format!("subject and browser share cores {}", listed(subject))
        }
        (subject, browser) => {
            format!("subject on core {}, browser on core {}", listed(subject), listed(browser))
        }
    }
}

/// Returns equal settings of the subjects of every cell, in one line; a setting that differs between cells has several values.
fn same(part: &PartSummary) -> Option<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, value) in part.equality.iter().flat_map(|cell| &cell.same) {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) if values.contains(&value.as_str()) => {}
            Some((_, values)) => values.push(value),
            None => all.push((name, vec![value])),
        }
    }
    let reported = all.iter().map(|(name, values)| format!("{name}: {}", values.join(" or ")));
    let reported = reported.collect::<Vec<_>>().join("; ");
    (!reported.is_empty()).then(|| format!("{}: {reported}", part.name))
}

/// Returns a run's circumstances, for a terminal.
pub fn manifest(summary: &Summary) -> String {
    let mut text = String::new();
    for (name, values) in facts(summary) {
        for value in values {
            text += &format!("{name}: {value}\n");
        }
    }
    printable(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Manifest;

    #[test]
    fn long_lines_are_split_at_spaces() {
        let word = "–".repeat(30);
        let line = [&*word; 4].join(" ");
        let two = format!("{word} {word} {word}\n  {word}");
        assert_eq!(folded(&format!("short\n{line}\n"), 2), format!("short\n{two}\n"));
        let path = "/".repeat(COLUMNS + 1);
        assert_eq!(folded(&format!("{path} a"), 2), format!("{path}\n  a"));
    }

    #[test]
    fn shared_cores_are_reported() {
        let on = |subject: &[usize], browser: &[usize]| MachineNote {
            subject_cores: subject.to_vec(),
            browser_cores: browser.to_vec(),
            swarm_core: 1,
            ..MachineNote::default()
        };
        assert_eq!(pinned(&on(&[0, 1], &[0, 1])), "subject and browser share cores 0, 1");
        assert_eq!(pinned(&on(&[0], &[1])), "subject on core 0, browser on core 1");
        assert_eq!(pinned(&on(&[0], &[])), "subject on core 0, swarm on core 1");
    }

    #[test]
    fn the_whole_setup_of_a_run_is_reported() {
        let manifest = Manifest {
            version: "1".to_owned(),
            measured: "2".to_owned(),
            under: vec!["nice".to_owned(), "-n5".to_owned()],
            at: Some("10.0.0.1".to_owned()),
            rerun_of: Some("day-fanout".to_owned()),
            begun: "then".to_owned(),
            continued: vec![Addition {
                begun: "later".to_owned(),
                version: "1".to_owned(),
                measured: "3".to_owned(),
            }],
            ..Manifest::default()
        };
        let mut summary = super::super::tests::summary(super::super::tests::SCENARIO, |sample| {
            let agreed = [("TLS", "none".to_owned()), ("cell", sample.cell.to_string())];
            let subject = ("Server", sample.subject.to_string());
            let facts = agreed.into_iter().chain([subject]);
            sample.negotiated.facts = facts.map(|(name, value)| (name.to_owned(), value)).collect();
        });
        summary.manifest = manifest;
        let text = super::manifest(&summary);
        assert!(text.contains("\nSamples added: at later with 1, measured 3\n"), "{text}");
        let facts = facts(&summary);
        let check = |name: &str, expected: &[&str]| {
            let fact = facts.iter().find(|(known, _)| *known == name);
            assert_eq!(fact.map(|(_, values)| &values[..]).unwrap_or_default(), expected, "{name}");
        };
        check("The same for all subjects", &["example: TLS: none; cell: 0 or 1"]);
        check("Measured", &["2"]);
        check("Under", &["nice -n5"]);
        check("At", &["10.0.0.1"]);
        check("Plan of", &["day-fanout"]);
        check("Time", &["begun then, not ended"]);
    }
}
