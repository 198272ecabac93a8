//! The report as Markdown, in GitHub's flavour.

use super::findings::findings;
use super::part_summary::PartSummary;
use super::published::published;
use super::received;
use super::row::Row;
use super::summary::Summary;
use super::table::{columns, notes};
use super::unsettled::unsettled;
use super::{cost, standings, words, workload};

/// The whole report.
pub fn markdown(summary: &Summary) -> String {
    let found = findings(summary);
    let mut text = format!("# {}\n\n{}\n", safe(&summary.name), safe(&found.headline));
    text += &grid_table(&standings::grid(&summary.standings));
    text += &list(&found.details);
    text += "\n## How sure that is\n";
    text += &list(&found.trust);
    for part in summary.parts.iter().filter(|part| !part.rows.is_empty()) {
        text += &format!("\n## {}\n\n{}\n", safe(&part.name), safe(&part.title));
        text += &format!("\n{} {}\n\n", workload::of(part).sentence, words::effort(part));
        text += &table(part);
        for note in notes(part).lines().filter(|line| !line.is_empty()) {
            text += &format!("\n{}\n", safe(note));
        }
        text += &part.rows.iter().map(received_events).collect::<String>();
        text += &beside(part);
    }
    let models = cost::models(summary);
    let cost = cost::sentences(summary, &models);
    if !cost.is_empty() {
        let grid = grid_table(&cost::grid(&models));
        text += &format!("\n## What it costs\n{grid}{}", list(&cost));
    }
    if let [head, rows @ ..] = unsettled(summary).as_slice() {
        text += &format!("\n## {}\n{}", safe(head.trim_end_matches(':')), list(rows));
    }
    text += "\n## How it was measured\n\n| | |\n|---|---|\n";
    for (name, values) in words::facts(summary) {
        let values: Vec<String> = values.iter().map(|value| safe(value)).collect();
        text += &format!("| {name} | {} |\n", values.join("<br>"));
    }
    text += &format!(
        "\nTo run it again, `thalweg bench rerun <folder>` with the folder of this run, or as it was \
         typed:\n\n{}\n",
        code(&summary.manifest.command_line)
    );
    for sentence in words::EXPLAINED {
        text += &format!("\n{sentence}\n");
    }
    text
}

/// Lines of fields as a table; the first has the heads.
fn grid_table(grid: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (index, line) in grid.iter().enumerate() {
        let fields: Vec<String> = line.iter().map(|field| safe(field)).collect();
        text += if index == 0 { "\n" } else { "" };
        text += &format!("| {} |\n", fields.join(" | "));
        if index == 0 {
            text += &format!("|{}\n", "---|".repeat(line.len()));
        }
    }
    text
}

/// Cells are lines of their own, in bold, over their subjects.
fn table(part: &PartSummary) -> String {
    let columns = columns(part);
    let mut group = "";
    let mut text = "| |".to_owned();
    for (first, second, _) in &columns {
        if !first.is_empty() {
            group = first;
        }
        text += &format!(" {group} {second} |");
    }
    text += "\n|---|";
    for index in 0..columns.len() {
        text += if index + 1 == columns.len() { "---|" } else { "--:|" };
    }
    text.push('\n');
    for cell in part.cells() {
        let name = cell.first().map_or("", |row| &row.cell);
        text += &format!("| **{}** |{}\n", safe(name), " |".repeat(columns.len()));
        for row in cell {
            text += &format!("| {} |", safe(&row.subject));
            for (_, _, show) in &columns {
                text += &format!(" {} |", safe(&show(part, row)));
            }
            text.push('\n');
        }
    }
    text
}

/// Returns the received events of an endpoint that the lab does not control.
fn received_events(row: &Row) -> String {
    let Some(received) = &row.received else { return String::new() };
    let head = format!("\n### {}, {}\n\n| | |\n|---|---|\n", safe(&row.subject), safe(&row.cell));
    let facts = received::facts(received);
    let lines = facts.iter().map(|(name, line)| format!("| {name} | {} |\n", safe(line)));
    head + &lines.collect::<String>()
}

fn beside(part: &PartSummary) -> String {
    let Some(set) = published(&part.name) else { return String::new() };
    let mut text = format!(
        "\n### Published, another machine\n\n{}. {}. Context, and part of no ratio here.\n\n| | |\n|---|---|\n",
        safe(&set.source),
        safe(&set.machine)
    );
    for figure in &set.figures {
        text += &format!("| {} | {} |\n", safe(&figure.what), safe(&figure.figure));
    }
    text
}

fn list(items: &[String]) -> String {
    let mut text = String::new();
    for item in items {
        text += &format!("\n- {}", safe(item));
    }
    if !items.is_empty() {
        text.push('\n');
    }
    text
}

/// A block of code whatever is in it.
fn code(text: &str) -> String {
    let fence = "`".repeat(3 + text.split(|c| c != '`').map(str::len).max().unwrap_or(0));
    format!("{fence}sh\n{}\n{fence}", text.replace(char::is_control, " "))
}

/// Text as text: nothing in it is markup, and it stays within its line and cell.
fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '`' | '[' | ']' | '\\' | '_' | '~' | '#' => {
                safe.push('\\');
                safe.push(c);
            }
            '<' => safe += "&lt;",
            '&' => safe += "&amp;",
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
