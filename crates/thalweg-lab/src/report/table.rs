//! The summary as a table for a terminal.

use super::blanks::blanks;
use super::columns::{
    BESIDE, Column, LATE, LIMITED, LOAD, LOOP_DELAY, PAINTED, PROBE, PROCESSES, PROPORTIONAL,
    RECEIVED, SERVED, STOPPED, SWARM, TO_BASELINE, TOPICS, WITH_POLLS, withholds_p99,
};
use super::findings::browser;
use super::part_summary::PartSummary;
use super::row::Row;
use super::summary::Summary;
use super::unsettled::unsettled;
use super::words::{COLUMNS, folded, pinned, printable};
use super::{cost, received, standings, workload};
use crate::measure::MachineNote;
use crate::measure::comparison::{Comparison, Word};
use crate::scenario::Drive;

/// Spaces between columns.
const GAP: &str = "  ";

/// Returns the whole summary as a table.
pub fn table(summary: &Summary) -> String {
    let machine = &summary.manifest.machine;
    let mut text: String =
        received::states(summary).iter().map(|state| format!("{}\n", folded(state, 2))).collect();
    if !text.is_empty() {
        text += "\n";
    }
    let MachineNote { cpu, cores, kernel, .. } = machine;
    let line = format!("{cpu} · {cores} cores · Linux {kernel} · {}", pinned(machine));
    for line in std::iter::once(&line).chain(&machine.remarks) {
        text += &format!("{}\n", folded(line, 2));
    }
    for part in summary.parts.iter().filter(|part| !part.rows.is_empty()) {
        let (repeats, span_s) = (part.repeats, part.measured_ms as f64 / 1000.0);
        let effort = match part.budget_s {
            Some(_) => format!("spans of {span_s:.1} s until a cell is decided"),
            None => format!("{repeats} × {span_s:.1} s per subject{}", shortfall(part)),
        };
        let title = format!("{}: {} ({effort})", part.name, part.title);
        text += &format!("\n{}\n\n", folded(&title, 2));
        text += &draw(&grid(part));
        for row in &part.rows {
            text += &received::lines(row);
        }
        text += &folded(&over_time(part), 4);
        text += &folded(&notes(part), 2);
    }
    let standings = standings::grid(&summary.standings);
    if !standings.is_empty() {
        text += &format!("\n{}", draw(&standings));
    }
    let reported = browser::sentences(summary);
    if !reported.is_empty() {
        text += &format!("\n{}\n", folded(&reported.join("\n"), 2));
    }
    let models = cost::models(summary);
    let cost = cost::sentences(summary, &models);
    let side_by_side = cost::grid(&models);
    if !side_by_side.is_empty() {
        text += &format!("\n{}", draw(&side_by_side));
    }
    if !cost.is_empty() {
        text += &format!("\n{}\n", folded(&cost.join("\n"), 2));
    }
    let unsettled = unsettled(summary);
    if !unsettled.is_empty() {
        text += &format!("\n{}\n", folded(&unsettled.join("\n"), 2));
    }
    printable(&text)
}

/// Returns a line for each row that has curves over a long time, below a heading.
fn over_time(part: &PartSummary) -> String {
    let line = |row: &Row| {
        let curves = row.curves.in_words(row.received.is_some())?;
        Some(format!("  {}, {}: {curves}\n", row.subject, row.cell))
    };
    let lines: String = part.rows.iter().filter_map(line).collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\nOver time: at the start, in the middle and at the end\n{lines}"),
    }
}

/// Returns `, of which 0.7 s were measured`; empty if the spans were as long as planned.
fn shortfall(part: &PartSummary) -> String {
    let planned_s = part.measured_ms as f64 / 1000.0;
    let spans = part.rows.iter().filter(|row| row.samples > 0);
    let longest_s = spans.map(|row| row.span_s / row.samples as f64).fold(0.0, f64::max);
    match part.is_timed() && longest_s < 0.9 * planned_s {
        true => format!(", of which {longest_s:.1} s were measured"),
        false => String::new(),
    }
}

/// Returns lines of fields; a line of one field is a heading.
fn grid(part: &PartSummary) -> Vec<Vec<String>> {
    let columns = columns(part);
    let head = |of: fn(&Column) -> &'static str| -> Vec<String> {
        let heads = columns.iter().map(|column| of(column).to_owned());
        std::iter::once(String::new()).chain(heads).collect()
    };
    let mut lines = vec![head(|column| column.0), head(|column| column.1)];
    let mut last_cell = None;
    for row in &part.rows {
        if last_cell.replace(row.place.cell) != Some(row.place.cell) {
            lines.push(vec![row.cell.clone()]);
        }
        let figures = columns.iter().map(|(_, _, show)| show(part, row));
        lines.push(std::iter::once(format!("  {}", row.subject)).chain(figures).collect());
    }
    lines
}

/// Returns the columns of this part's table, in any form.
pub(super) fn columns(part: &PartSummary) -> Vec<Column> {
    let has_topics = part.rows.iter().any(|row| row.cell.contains("topics"));
    let has_stopped = part.rows.iter().any(|row| row.memory.stopped_bytes_max.is_some());
    let mut groups = workload::shown(part).columns;
    if has_topics {
        groups.push(TOPICS);
    }
    if has_stopped {
        groups.push(STOPPED);
    }
    if part.rows.iter().any(|row| row.beside.is_some()) && !part.has_objective() {
        groups.push(BESIDE);
    }
    if part.drive == Drive::Stampede {
        groups.push(SERVED);
    }
    if part.rows.iter().any(|row| row.settings.keys > 1) {
        groups.extend([PROPORTIONAL, RECEIVED, PROBE]);
    }
    if part.rows.iter().any(|row| row.load.loop_delay_us.is_some()) {
        groups.push(LOOP_DELAY);
    }
    if part.rows.iter().any(|row| row.cpu.beside_us_per_event.is_some()) {
        groups.push(PROCESSES);
    }
    if part.rows.iter().any(|row| row.settings.consumer.is_page()) {
        groups.push(PAINTED);
    }
    groups.push(if part.in_browser { LIMITED } else { LOAD });
    let mut columns = groups.concat();
    columns.retain(|(_, name, show)| {
        let is_empty = |row: &Row| match *name {
            TO_BASELINE if row.is_baseline => true,
            // Without polls, the kernel counts the same.
            WITH_POLLS => ["", &SWARM.2(part, row)].contains(&&*show(part, row)),
            _ => show(part, row).is_empty(),
        };
        ![TO_BASELINE, LATE, WITH_POLLS].contains(name) || !part.rows.iter().all(is_empty)
    });
    columns
}

/// Draws columns as wide as they need: the first and the last are left-aligned, figures right-aligned. Columns
/// that do not fit into the width of a terminal continue below, beside the first column again.
pub(super) fn draw(lines: &[Vec<String>]) -> String {
    let Some(heads) = lines.first() else { return String::new() };
    let count = heads.len();
    let full = || lines.iter().filter(|line| line.len() == count);
    let width = |column: usize| full().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut blocks: Vec<Vec<usize>> = vec![vec![0]];
    let mut used = widths[0];
    let others: Vec<usize> = (1..count).collect();
    // A column without a head of its own stays beside the one before.
    for group in others.chunk_by(|_, next| heads[*next].is_empty()) {
        let of_group: usize = group.iter().map(|column| GAP.len() + widths[*column]).sum();
        let is_full = used + of_group > COLUMNS && used > widths[0];
        if is_full {
            blocks.push(vec![0]);
            used = widths[0];
        }
        used += of_group;
        blocks.last_mut().into_iter().for_each(|block| block.extend(group));
    }
    let field = |line: &Vec<String>, column: usize| match (line.get(column), widths[column]) {
        (Some(field), width) if column == 0 || column + 1 == count => format!("{field:<width$}"),
        (Some(field), width) => format!("{field:>width$}"),
        (None, _) => String::new(),
    };
    let drawn = |block: &Vec<usize>| -> String {
        let line = |line: &Vec<String>| {
            let fields: Vec<String> = block.iter().map(|column| field(line, *column)).collect();
            format!("{}\n", fields.join(GAP).trim_end())
        };
        lines.iter().map(line).collect()
    };
    blocks.iter().map(drawn).collect::<Vec<_>>().join("\n")
}

/// Returns the notes on this part's table; those about all cells first.
pub(super) fn notes(part: &PartSummary) -> String {
    let reported = workload::shown(part).compared;
    let mut text = String::new();
    for pooled in
        part.pooled.iter().filter(|pooled| !pooled.is_control && reported.contains(&pooled.metric))
    {
        text += &format!("All cells: {}\n", part.sentence(pooled));
    }
    if part.rows.iter().any(|row| row.is_noise) {
        text += "“Again” is the baseline, measured a second time (A/A): the difference is noise. Other rows are compared with the mean of both.\n";
    }
    let asked = || reported.iter().flat_map(|metric| part.asked(*metric));
    if asked().any(|found| found.word == Word::Undecided && found.not_excluded.is_some()) {
        text += "“% not excluded”: undecided, because the interval contains 1; a difference of this size is possible.\n";
    }
    if asked().any(|found| found.word == Word::Undecided && found.power.is_some()) {
        text += "“power”: the chance that so many starts find a true difference of 5\u{a0}%, with the noise between starts of “again”.\n";
    }
    if asked().any(Comparison::is_corrected_away) {
        text += "“*”: its own interval excludes 1, but with so many cells and subjects this can be chance (Holm).\n";
    }
    if workload::shown(part).has_throughput
        && part.rows.iter().any(|row| row.throughput.events_per_s.is_some() && !row.is_ranked)
    {
        text += match part.in_browser {
            true => {
                "(events/s) in brackets: the offered rate, because the browser was not the bottleneck.\n"
            }
            false if part.is_endpoint() => {
                "(messages/s) in brackets: not a maximum, because the server was not the only bottleneck.\n"
            }
            false => {
                "(events/s) in brackets: not a maximum, because the subject was not the only bottleneck, or events were missing.\n"
            }
        };
    }
    if part.rows.iter().any(|row| row.is_at_least) {
        text += "“≥”: the load generator could not offer more.\n";
    }
    if part.rows.iter().any(withholds_p99) {
        text += "“–”: withheld, because the load generator itself published late by more than a tenth of the p99.\n";
    }
    for row in &part.rows {
        if let Some(share) = row.delivered_share {
            text += &format!(
                "{} · {}: {:.2} % of the events were delivered, so this row is not compared with others.\n",
                row.cell,
                row.subject,
                share * 100.0
            );
        }
        if row.replaced > 0 {
            text += &format!(
                "{} · {}: {} versions were replaced by newer ones before they were sent.\n",
                row.cell, row.subject, row.replaced
            );
        }
        if row.redialed > 0 {
            text += &format!(
                "{} · {}: {} connections were dialed a second time, because the first attempt failed.\n",
                row.cell, row.subject, row.redialed
            );
        }
        if let Some(held) = &row.held {
            text += &format!("{} · {}: {}\n", row.cell, row.subject, held.sentence);
        }
    }
    text += &blanks(&part.blanks);
    text += &reasons(part);
    text += &differences(part);
    if !text.is_empty() {
        text.insert(0, '\n');
    }
    text
}

/// Returns the reasons why figures do not count fully, with an example of each.
fn reasons(part: &PartSummary) -> String {
    let example = |kind: &&str| {
        let row = part.rows.iter().find(|row| row.verdict.starts_with(*kind))?;
        let Row { cell, subject, why, .. } = row;
        (!why.is_empty()).then(|| format!("{kind}, e.g. {cell} · {subject}: {why}.\n"))
    };
    ["both", "swarm", "browser", "machine", "gaps"].iter().filter_map(example).collect()
}

/// Returns the differences of subjects: once if they are the same in every cell, else by cell.
fn differences(part: &PartSummary) -> String {
    let reported: Vec<String> = part.equality.iter().map(|cell| cell.differences()).collect();
    match reported.first() {
        Some(first) if reported.iter().all(|other| other == first) => match first.as_str() {
            "" => String::new(),
            _ => format!("differs: {first}.\n"),
        },
        _ => {
            let cells =
                part.equality.iter().zip(&reported).filter(|(_, reported)| !reported.is_empty());
            cells.map(|(of, reported)| format!("{} differs: {reported}.\n", of.cell)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_beyond_the_width_of_a_terminal_continue_below() {
        let wide = "=".repeat(48);
        let line = |fields: [&str; 5]| fields.map(str::to_owned).to_vec();
        let lines = [
            line(["", "one", "two", "", "last"]),
            vec!["cell".to_owned()],
            line(["  a", &wide, &wide, "7", ""]),
        ];
        let drawn = draw(&lines);
        let blank = |count| " ".repeat(count);
        let expected = format!(
            "{}one\ncell\n  a  {wide}\n\n{}two{}last\ncell\n  a  {wide}  7\n",
            blank(50),
            blank(50),
            blank(5)
        );
        assert_eq!(drawn, expected);
        assert!(drawn.lines().all(|line| line.chars().count() <= COLUMNS));
    }
}
