//! Writes a table of ledgers: the results of clusters under load and faults.

use serde::Deserialize;

use super::archived::{RUNS, only_tree, tree_of};
use crate::tree::Tree;

/// The parts of a ledger that the table needs. `crates/thalweg/tests/it/cluster/report.rs` writes it.
#[derive(Deserialize)]
struct Ledger {
    fault: String,
    version: String,
    bound: Option<Bound>,
    silence_s: Percentiles,
    publishing_silence_s: Percentiles,
    back_s: Option<Percentiles>,
    totals: Totals,
    /// The table needs their number only.
    strikes: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Bound {
    of: String,
    s_max: f64,
    is_kept: bool,
}

#[derive(Deserialize)]
struct Percentiles {
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Deserialize)]
struct Totals {
    stored: u64,
    not_stored: u64,
    unknown: u64,
    lost: u64,
    repeated: u64,
    reordered: u64,
    misplaced: u64,
    unexpected: u64,
    gaps: u64,
    contradictory: u64,
}

/// Returns the block of these folders of `lab/runs`, or the reason why there is none.
pub(super) fn text(tree: &Tree, names: &[&str], to_root: &str) -> Result<String, String> {
    let mut ledgers = Vec::new();
    for name in names {
        let folder = format!("{RUNS}/{name}/");
        let before = ledgers.len();
        let files =
            tree.texts().filter_map(|(path, text)| Some((path.strip_prefix(&folder)?, text)));
        for (file, text) in files.filter(|(file, _)| file.ends_with(".json")) {
            let ledger: Ledger =
                serde_json::from_str(text).map_err(|error| format!("{folder}{file}: {error}"))?;
            ledgers.push(ledger);
        }
        if ledgers.len() == before {
            return Err(format!("{folder} has no ledger in the repository"));
        }
    }
    let trees = ledgers.iter().map(|ledger| tree_of(&ledger.version, &ledger.fault));
    let built = only_tree(&trees.collect::<Result<Vec<_>, _>>()?)?;
    let mut text = String::from(
        "\n| | times | longest silence, s | of publishing, s | back after, s | stored, not, unknown \
         | lost, repeated, reordered, otherwise wrong |\n|---|---|---|---|---|---|---|\n",
    );
    ledgers.iter().for_each(|ledger| text += &row(ledger));
    let raw = |name: &&str| format!("[`{name}`]({to_root}{RUNS}/{name}/)");
    let raw: Vec<String> = names.iter().map(raw).collect();
    Ok(format!("{text}\nSource tree `{built}`; seeds and raw data: {}.\n", raw.join(", ")))
}

fn row(ledger: &Ledger) -> String {
    let Totals { stored, not_stored, unknown, lost, repeated, reordered, .. } = &ledger.totals;
    let Totals { misplaced, unexpected, gaps, contradictory, .. } = &ledger.totals;
    let wrong = misplaced + unexpected + gaps + contradictory;
    let back = ledger.back_s.as_ref().map_or("–".to_owned(), |back| {
        format!("p50 {:.2}, p99 {:.2}{}", back.p50, back.p99, bound(ledger, "back_s"))
    });
    let silence = &ledger.silence_s;
    format!(
        "| `{}` | {} | {:.2} (p50 {:.2}){} | {:.2} (p50 {:.2}) | {back} | {stored}, {not_stored}, {unknown} \
         | {lost}, {repeated}, {reordered}, {wrong} |\n",
        ledger.fault,
        ledger.strikes.len(),
        silence.max,
        silence.p50,
        bound(ledger, "silence_s"),
        ledger.publishing_silence_s.max,
        ledger.publishing_silence_s.p50,
    )
}

/// Returns `; at most 10`, if the ledger has a bound of this name.
fn bound(ledger: &Ledger, of: &str) -> String {
    match &ledger.bound {
        Some(bound) if bound.of.starts_with(of) => {
            let word = if bound.is_kept { "" } else { ", **beyond**" };
            format!("; at most {}{word}", bound.s_max)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(fault: &str, version: &str, bound: &str) -> String {
        let seconds = r#"{ "count": 2, "p50": 4.5, "p99": 6.1, "max": 6.126 }"#;
        format!(
            r#"{{ "fault": "{fault}", "version": "{version}", "seed": 7, "took_s": 20.5, "bound": {bound},
                "silence_s": {seconds}, "publishing_silence_s": {seconds}, "back_s": null,
                "totals": {{ "stored": 900, "not_stored": 2, "unknown": 1, "unknown_stored": 1, "lost": 0,
                    "repeated": 0, "reordered": 0, "misplaced": 1, "unexpected": 1, "gaps": 0,
                    "contradictory": 0 }},
                "answers": {{}}, "violations": [], "strikes": [{{ "at_s": 1 }}, {{ "at_s": 9 }}] }}"#
        )
    }

    const VERSION: &str = "thalweg 0.1.0, c, tree aaaabbbbcccc, rustc";

    fn check(ledgers: &[(&str, String)], expected: Result<&str, &str>) {
        let files: Vec<(&str, &str)> =
            ledgers.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let text = text(&Tree::from_files(&files), &["day/kills"], "../");
        assert_eq!(text, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn each_ledger_is_a_line() {
        let kept = r#"{ "of": "silence_s.max", "s_max": 10.0, "is_kept": true }"#;
        let not = r#"{ "of": "silence_s.max", "s_max": 3.0, "is_kept": false }"#;
        let ledgers = [
            ("lab/runs/day/kills/a.json", ledger("a", VERSION, kept)),
            ("lab/runs/day/kills/b.json", ledger("b", VERSION, not)),
            ("lab/runs/day/other/c.json", ledger("c", VERSION, "null")),
        ];
        let expected = "\n\
            | | times | longest silence, s | of publishing, s | back after, s | stored, not, unknown | lost, repeated, reordered, otherwise wrong |\n\
            |---|---|---|---|---|---|---|\n\
            | `a` | 2 | 6.13 (p50 4.50); at most 10 | 6.13 (p50 4.50) | – | 900, 2, 1 | 0, 0, 0, 2 |\n\
            | `b` | 2 | 6.13 (p50 4.50); at most 3, **beyond** | 6.13 (p50 4.50) | – | 900, 2, 1 | 0, 0, 0, 2 |\n\
            \n\
            Source tree `aaaabbbbcccc`; seeds and raw data: [`day/kills`](../lab/runs/day/kills/).\n";
        check(&ledgers, Ok(expected));
    }

    #[test]
    fn ledgers_without_a_table_are_reported() {
        check(&[], Err("lab/runs/day/kills/ has no ledger in the repository"));
        let modified = ledger("a", &VERSION.replace("cccc", "cccc modified"), "null");
        let what = "a was built from files that no commit has: measure it again";
        check(&[("lab/runs/day/kills/a.json", modified)], Err(what));
        let ledgers = [
            ("lab/runs/day/kills/a.json", ledger("a", VERSION, "null")),
            ("lab/runs/day/kills/b.json", ledger("b", &VERSION.replace("aaaa", "1111"), "null")),
        ];
        check(&ledgers, Err("its runs are of several trees: 1111bbbbcccc, aaaabbbbcccc"));
    }
}
