//! Writes a block of figures.

use std::collections::BTreeSet;

use super::archived::{Comparison, Estimate, Metric, Part, Row, Run, Standing, Word};
use super::block_kind::{BlockKind, Rows};
use super::shown::{Shown, ShownRun};

/// Returns the block's text, or the reason why there is none.
pub(super) fn text(
    kind: &BlockKind,
    runs: &[Run],
    to_root: &str,
    shown: &mut Shown,
) -> Result<String, String> {
    let tree = Run::tree_of_all(runs)?;
    let text = match kind {
        BlockKind::Compared { is_pooled, metrics } => {
            compared(*is_pooled, metrics, runs)? + &also_decided(runs, shown)
        }
        BlockKind::Standings(rows) => standings(runs, rows)?,
    };
    let runs: Vec<String> = runs.iter().map(|run| again(run, to_root)).collect();
    Ok(format!("\n{text}\nSource tree `{tree}`; reproduce with {}.\n", runs.join(", ")))
}

fn compared(is_pooled: bool, metrics: &[Metric], runs: &[Run]) -> Result<String, String> {
    let parts: Vec<&Part> = runs.iter().flat_map(|run| &run.summary.parts).collect();
    let has = |metric: &Metric| parts.iter().any(|part| findings(part, *metric).next().is_some());
    // One of several metrics may be withheld in every cell.
    if !metrics.iter().any(has) {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.in_short()).collect();
        return Err(format!("no run here compares {}", names.join(" or ")));
    }
    Ok(match is_pooled {
        true => parts.iter().map(|part| pooled(part, metrics)).collect(),
        false => table(&parts, metrics) + &noise(&parts, metrics),
    })
}

/// Writes the decided results, over all cells and of single cells, that no block of the page shows, so that no loss is left
/// out. Only of runs that no later block of the page names.
fn also_decided(runs: &[Run], shown: &mut Shown) -> String {
    let mut text = String::new();
    for run in runs {
        let Some(shown) = shown.take_last(&run.name) else { continue };
        for part in &run.summary.parts {
            for metric in Metric::ALL {
                text += &decided_in(part, metric, shown);
            }
        }
    }
    if text.is_empty() { text } else { format!("\nAlso decided:\n\n{text}") }
}

/// Writes a line for each subject with a decided result in this metric that is not shown.
fn decided_in(part: &Part, metric: Metric, shown: &ShownRun) -> String {
    let mut subjects: Vec<&str> = Vec::new();
    for comparison in findings(part, metric).filter(|found| found.is_decided()) {
        if !subjects.contains(&comparison.subject.as_str()) {
            subjects.push(&comparison.subject);
        }
    }
    let mut text = String::new();
    for subject in subjects {
        let own = || findings(part, metric).filter(|found| found.subject == subject);
        let pool = own().find(|found| found.cell.is_none() && found.is_decided());
        let is_pool_shown = shown.pooled.contains(&metric);
        let said = pool.filter(|_| !is_pool_shown).map(|pool| match cells(part, pool) {
            1 => verdict(pool),
            _ => format!("{} over all cells", verdict(pool)),
        });
        let mut of_cells: Vec<&Comparison> = own().filter(|found| found.cell.is_some()).collect();
        // The pool of a single cell equals the cell.
        if shown.by_cell.contains(&metric) || pool.is_some() && of_cells.len() == 1 {
            of_cells.clear();
        }
        let words = [(Word::Better, "better"), (Word::Worse, "**worse**")];
        let by_cell = words.iter().filter_map(|(word, name)| in_cells(&of_cells, *word, name));
        let said: Vec<String> = said.into_iter().chain(by_cell).collect();
        let Some(found) = own().next().filter(|_| !said.is_empty()) else { continue };
        text += &format!(
            "- `{}`, {} of `{subject}` to {}: {}\n",
            part.name,
            metric.in_words(),
            possessive(&found.baseline),
            said.join("; ")
        );
    }
    text
}

/// Returns a text such as `**worse** in 3 of 15 cells, 1.21 (1.15–1.27) to 1.66 (1.60–1.71)`.
fn in_cells(of_cells: &[&Comparison], word: Word, name: &str) -> Option<String> {
    let mut own: Vec<&&Comparison> = of_cells.iter().filter(|found| found.word == word).collect();
    own.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let (least, most) = (own.first()?, own.last()?);
    let range = match own.len() {
        1 => ratio(least),
        _ => format!("{} to {}", ratio(least), ratio(most)),
    };
    Some(format!("{name} in {} of {} cells, {range}", own.len(), of_cells.len()))
}

/// Writes a table for each transport. The subject that delivers the most is first.
fn standings(runs: &[Run], rows: &Rows) -> Result<String, String> {
    let mut all: Vec<&Standing> = runs.iter().flat_map(|run| &run.summary.standings).collect();
    if all.is_empty() {
        return Err("no run here has standings, because none has many subjects".to_owned());
    }
    let rows_max = match rows {
        Rows::First(rows_max) => *rows_max,
        Rows::Named { transport, subjects } => {
            all.retain(|one| one.transport == *transport && subjects.contains(&one.subject));
            let is_missing = |name: &&String| all.iter().all(|one| one.subject != **name);
            if let Some(name) = subjects.iter().find(is_missing) {
                return Err(format!("no run here has `{name}` over {transport}"));
            }
            usize::MAX
        }
    };
    let mut tables = Vec::new();
    for own in all.chunk_by(|one, next| one.transport == next.transport) {
        let baseline = own
            .iter()
            .find(|standing| standing.is_baseline)
            .map_or("limit", |standing| &standing.subject);
        let name = code(baseline);
        let mut text = format!(
            "| over {} | delivered for the same CPU, {name} = 100 % | one event in flight | p99 at a \
             fixed rate, × {name} | KiB per idle connection |\n|---|---|---|---|---|\n",
            own[0].transport
        );
        let figure = |value: Option<f64>, low: Option<f64>, high: Option<f64>, unit: f64| {
            let interval = low.zip(high).map_or_else(String::new, |(low, high)| {
                format!(" ({}–{})", digits(low / unit), digits(high / unit))
            });
            let of_value = |value: f64| digits(value / unit) + &interval;
            value.map_or_else(|| "–".to_owned(), of_value)
        };
        for one in own.iter().take(rows_max) {
            let alone = one.alone.as_ref().map_or("–", |share| &share.said);
            text += &format!(
                "| {} | {} | {alone} | {} | {} |\n",
                code(&one.subject),
                one.together.said,
                figure(one.p99, one.p99_low, one.p99_high, 1.0),
                figure(one.idle_bytes, one.idle_bytes_low, one.idle_bytes_high, 1024.0)
            );
        }
        tables.push(text);
    }
    Ok(tables.join("\n"))
}

/// Returns a text such as `thalweg-lab bench latency` (raw data, 2026-11-23, CPU, 2 cores, Linux 6.18).
fn again(run: &Run, to_root: &str) -> String {
    let manifest = &run.summary.manifest;
    let (machine, folder) = (&manifest.machine, run.folder());
    let day = manifest.begun.split('T').next().unwrap_or_default();
    let name = folder.trim_end_matches('/');
    format!(
        "`thalweg-lab bench rerun {name}` ([raw data]({to_root}{folder}), {day}, {}, {} cores, Linux {})",
        machine.cpu, machine.cores, machine.kernel
    )
}

/// Returns the comparisons of a part, without the noise.
fn findings(part: &Part, metric: Metric) -> impl Iterator<Item = &Comparison> {
    part.comparisons
        .iter()
        .chain(&part.pooled)
        .filter(move |comparison| comparison.metric == metric && !comparison.is_control)
}

/// Returns the number of cells in which the subject is compared in this metric.
fn cells(part: &Part, of: &Comparison) -> usize {
    let own =
        |comparison: &&Comparison| comparison.cell.is_some() && comparison.subject == of.subject;
    findings(part, of.metric).filter(own).count()
}

fn pooled(part: &Part, metrics: &[Metric]) -> String {
    let mut text = String::new();
    for metric in metrics {
        for all in findings(part, *metric).filter(|comparison| comparison.cell.is_none()) {
            let cells = match cells(part, all) {
                1 => "in one cell".to_owned(),
                cells => format!("over {cells} cells"),
            };
            let who = if all.subject == "thalweg" { "" } else { &format!(" of `{}`", all.subject) };
            text += &format!(
                "- `{}`, {}{who} to {}, {cells}: {}\n",
                part.name,
                metric.in_words(),
                possessive(&all.baseline),
                verdict(all)
            );
        }
    }
    text
}

/// Returns [`findings`] without the pool of a single cell, which equals the cell.
fn table_comparisons(part: &Part, metric: Metric) -> impl Iterator<Item = &Comparison> {
    findings(part, metric)
        .filter(|comparison| comparison.cell.is_some() || cells(part, comparison) > 1)
}

/// Writes a line for each subject of each cell, and for each pool.
fn table(parts: &[&Part], metrics: &[Metric]) -> String {
    let all = || {
        parts
            .iter()
            .flat_map(|part| metrics.iter().flat_map(|metric| table_comparisons(part, *metric)))
    };
    let baselines: BTreeSet<&str> = all().map(|comparison| comparison.baseline.as_str()).collect();
    let subjects: BTreeSet<&str> = all().map(|comparison| comparison.subject.as_str()).collect();
    let beside = match baselines.iter().collect::<Vec<_>>()[..] {
        [one] => possessive(one),
        _ => "its baseline's".to_owned(),
    };
    let heads = metrics.iter().map(|metric| format!(" {} | to {beside} |", metric.head()));
    let mut text = format!("| |{}\n", heads.collect::<String>());
    text += &format!("|---|{}\n", "---|---|".repeat(metrics.len()));
    for part in parts {
        for (cell, subject) in lines(part, metrics) {
            let mut place = match (cell, parts.len()) {
                (Some(cell), _) => cell.to_owned(),
                (None, 1) => "**all cells**".to_owned(),
                (None, _) => format!("**all cells of `{}`**", part.name),
            };
            if subjects.len() > 1 {
                place += &format!(", `{subject}`");
            }
            text += &format!("| {place} |");
            for metric in metrics {
                let own = |comparison: &&Comparison| {
                    comparison.cell.as_deref() == cell && comparison.subject == subject
                };
                let found = table_comparisons(part, *metric).find(own);
                text += &fields(part, *metric, cell, subject, found);
            }
            text += "\n";
        }
    }
    text
}

/// Returns cells and subjects in the order of their comparisons, pools last.
fn lines<'a>(part: &'a Part, metrics: &[Metric]) -> Vec<(Option<&'a str>, &'a str)> {
    let mut lines: Vec<(Option<&str>, &str)> = Vec::new();
    for comparison in metrics.iter().flat_map(|metric| table_comparisons(part, *metric)) {
        let line = (comparison.cell.as_deref(), comparison.subject.as_str());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.sort_by_key(|(cell, _)| cell.is_none());
    lines
}

/// Writes both figures, and their ratio.
fn fields(
    part: &Part,
    metric: Metric,
    cell: Option<&str>,
    subject: &str,
    found: Option<&Comparison>,
) -> String {
    let figure = |subject: &str| cell.and_then(|cell| metric.figure(part.row(cell, subject)?));
    let figures = match (figure(subject), found) {
        (Some(own), Some(found)) => match figure(&found.baseline) {
            Some(base) => format!("{own}, `{}` {base} ", found.baseline),
            None => format!("{own} "),
        },
        (Some(own), None) => format!("{own} "),
        // The figure is withheld, or was not measured.
        (None, _) if cell.is_some() => "– ".to_owned(),
        (None, _) => String::new(),
    };
    let verdict = found.map_or(String::new(), |found| format!("{} ", verdict(found)));
    format!(" {figures}| {verdict}|")
}

/// Writes the comparison of the baseline with itself.
fn noise(parts: &[&Part], metrics: &[Metric]) -> String {
    let mut text = String::new();
    for part in parts {
        let pooled = |comparison: &&Comparison| comparison.is_control && comparison.cell.is_none();
        for metric in metrics {
            for comparison in part
                .comparisons
                .iter()
                .filter(|comparison| comparison.metric == *metric)
                .filter(pooled)
            {
                text += &format!(
                    "\n`{}` beside {}, the noise: {} {}.\n",
                    comparison.subject,
                    code(&comparison.baseline),
                    metric.in_short(),
                    ratio(comparison)
                );
            }
        }
    }
    text
}

/// An interval of fewer starts says hardly anything.
const STARTS_MIN: usize = 3;

/// Returns a text such as `1.12 (1.08–1.15), **worse**`.
fn verdict(comparison: &Comparison) -> String {
    let word = match (comparison.word, comparison.not_excluded) {
        (Word::Better, _) => "better".to_owned(),
        (Word::Worse, _) => "**worse**".to_owned(),
        (Word::Equivalent, _) => "equivalent".to_owned(),
        (Word::Undecided, _) if comparison.starts.is_some_and(|starts| starts < STARTS_MIN) => {
            return format!("{:.2}, too few starts to tell", comparison.ratio);
        }
        (Word::Undecided, Some(share)) if share > 1.0 => {
            "undecided (over 100 % not excluded)".to_owned()
        }
        (Word::Undecided, Some(share)) => {
            format!("undecided ({:.0} % not excluded)", share * 100.0)
        }
        (Word::Undecided, None) => "undecided".to_owned(),
    };
    format!("{}, {word}", ratio(comparison))
}

fn ratio(comparison: &Comparison) -> String {
    match (comparison.low, comparison.high) {
        (Some(low), Some(high)) => format!("{:.2} ({low:.2}–{high:.2})", comparison.ratio),
        _ => format!("{:.2}", comparison.ratio),
    }
}

/// Writes the name of a subject. Several subjects have no common name.
fn code(baseline: &str) -> String {
    if baseline == "its baseline" { baseline.to_owned() } else { format!("`{baseline}`") }
}

fn possessive(baseline: &str) -> String {
    format!("{}'s", code(baseline))
}

impl Comparison {
    fn is_decided(&self) -> bool {
        matches!(self.word, Word::Better | Word::Worse)
    }
}

impl Metric {
    const ALL: [Metric; 6] = [
        Metric::Cpu,
        Metric::P99,
        Metric::RoundTrip,
        Metric::Throughput,
        Metric::Memory,
        Metric::Held,
    ];

    fn head(self) -> &'static str {
        match self {
            Metric::Cpu => "CPU µs per event",
            Metric::P99 => "p99 µs",
            Metric::RoundTrip => "round trip µs",
            Metric::Throughput => "events per s",
            Metric::Memory => "KiB per connection",
            Metric::Held => "clients held",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Metric::Cpu => "CPU per event",
            Metric::P99 => "p99 latency",
            Metric::RoundTrip => "mean round trip",
            Metric::Throughput => "events per second",
            Metric::Memory => "memory per connection",
            Metric::Held => "clients held",
        }
    }

    fn in_short(self) -> &'static str {
        match self {
            Metric::Cpu => "CPU",
            Metric::P99 => "p99",
            Metric::RoundTrip => "round trip",
            Metric::Throughput => "throughput",
            Metric::Memory => "memory",
            Metric::Held => "clients",
        }
    }

    fn figure(self, row: &Row) -> Option<String> {
        let median = |estimate: Option<Estimate>| estimate.map(|estimate| estimate.median);
        match self {
            Metric::Cpu => median(row.cpu.us_per_event).map(digits),
            Metric::P99 => row.latency.p99_us.map(digits),
            Metric::RoundTrip => row.round_trip.mean_us.map(digits),
            Metric::Throughput => {
                // If the load generator was at its limit, the subject might deliver more.
                let is_least = ["swarm", "both"].iter().any(|by| row.verdict.starts_with(by));
                let least = if is_least { "≥ " } else { "" };
                median(row.throughput.events_per_s).map(|value| format!("{least}{}", many(value)))
            }
            Metric::Memory => {
                row.memory.rss_bytes_per_connection.map(|bytes| digits(bytes / 1024.0))
            }
            Metric::Held => row.held.as_ref().map(|held| {
                let least = if held.is_all { "≥ " } else { "" };
                format!("{least}{:.0}", held.connections.median)
            }),
        }
    }
}

/// Writes three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn many(value: f64) -> String {
    match value {
        large if large >= 1e6 => format!("{} million", digits(large / 1e6)),
        large if large >= 1e5 => format!("{:.0} thousand", large / 1e3),
        small => digits(small),
    }
}
