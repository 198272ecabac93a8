//! Figures in Markdown that come from archived runs.
//!
//! A block begins with a line that names its content and its runs:
//!
//! ```text
//! <!-- figures cpu p99 from 2026-11-23-epyc-2/latency -->
//! <!-- end of figures -->
//! ```
//!
//! `cargo xtask figures` writes the lines between these two from each run's `summary.json.gz` in `lab/runs`,
//! and `cargo xtask tidy` fails if they differ. The words are metrics of the lab's comparisons (`cpu`, `p99`,
//! `round_trip`, `throughput`, `memory`, `held`). `pooled` before them selects the result of a whole
//! scenario. Below its last block on a page, each run has a list of its decided results that no block shows.
//! `standings` ranks many subjects, `standings 5` the first five over each transport, and
//! `standings sse nchan bun` these two over SSE. The word `faults` is for folders of ledgers from the cluster
//! tests (`THALWEG_LEDGERS`). All runs of a block were built from one tree, which the block names.

mod archived;
mod block;
mod block_kind;
mod faults;
mod shown;

use std::process::ExitCode;

use archived::Run;
use block_kind::{BEGIN, BlockKind, content};
use shown::Shown;

use crate::tree::Tree;

const END: &str = "<!-- end of figures -->";

/// A block that cannot be written, or that differs from its runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) what: String,
}

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let tree = Tree::read()?;
    let mut code = ExitCode::SUCCESS;
    for (path, text) in pages(&tree) {
        match written(&tree, path, text) {
            Ok(written) if written != text => tree.write(path, &written)?,
            Ok(_) => {}
            Err(Problem { line, what }) => {
                println!("{path}:{line}: {what}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// Returns the pages with a block that cannot be written, or that differs from its runs.
pub(crate) fn problems(tree: &Tree) -> Vec<(&str, Problem)> {
    let problem = |(path, text)| match written(tree, path, text) {
        Ok(written) => {
            let at = text.lines().zip(written.lines()).take_while(|(is, would)| is == would);
            let what = "these figures are not those of their runs".to_owned();
            (written != text).then(|| (path, Problem { line: at.count() + 1, what }))
        }
        Err(problem) => Some((path, problem)),
    };
    pages(tree).filter_map(problem).collect()
}

fn pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter(|(path, text)| path.ends_with(".md") && text.contains(BEGIN))
}

/// Returns the page with up-to-date blocks.
fn written(tree: &Tree, path: &str, text: &str) -> Result<String, Problem> {
    let mut page = String::new();
    let mut shown = Shown::new(text);
    let mut lines = (1..).zip(text.split_inclusive('\n'));
    let mut is_code = false;
    while let Some((line, text)) = lines.next() {
        page += text;
        is_code ^= text.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        let Some(words) = text.strip_prefix(BEGIN) else { continue };
        let problem = |what| Problem { line, what };
        page += &block(tree, path, words, &mut shown).map_err(problem)?;
        let end = lines.find(|(_, text)| text.trim_end() == END);
        let (_, end) = end.ok_or_else(|| problem(format!("no line `{END}` follows")))?;
        page += end;
    }
    Ok(page)
}

/// Returns the text of a block. `words` are those after `<!-- figures `.
fn block(tree: &Tree, path: &str, words: &str, shown: &mut Shown) -> Result<String, String> {
    let form = "is not `[pooled] METRIC… from RUN… -->`, `standings [ROWS]`, `standings TRANSPORT SUBJECT…` \
                or `faults`";
    let (what, of) = content(words).ok_or_else(|| format!("`{}` {form}", words.trim_end()))?;
    let names: Vec<&str> = of.split_whitespace().collect();
    let to_root = "../".repeat(path.matches('/').count());
    if what == "faults" {
        return faults::text(tree, &names, &to_root);
    }
    let kind = BlockKind::parse(what).ok_or_else(|| format!("`{what}` {form}"))?;
    let runs: Result<Vec<Run>, String> = names.iter().map(|name| Run::read(tree, name)).collect();
    block::text(&kind, &runs?, &to_root, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = include_str!("figures/example.json");
    const RUN: &str = "lab/runs/day/latency/summary.json.gz";

    fn check(words: &str, summary: &str, expected: Result<&str, &str>) {
        let page = format!("Before.\n\n{BEGIN}{words} -->\nold\n{END}\nAfter.\n");
        let other = SUMMARY.replace("aaaabbbbcccc", "111122223333");
        let tree =
            Tree::from_files(&[(RUN, summary), ("lab/runs/day/other/summary.json.gz", &other)]);
        let written = written(&tree, "docs/page.md", &page);
        let expected = expected
            .map(|text| page.replace("old\n", text))
            .map_err(|what| Problem { line: 3, what: what.to_owned() });
        assert_eq!(written, expected);
    }

    const FOOT: &str = "\nSource tree `aaaabbbbcccc`; reproduce with `thalweg-lab bench rerun lab/runs/day/latency` ([raw data](../lab/runs/day/latency/), \
                        2026-11-23, Example CPU, 2 cores, Linux 6.18).\n";

    #[test]
    fn a_table_says_which_cells_are_worse_and_which_undecided() {
        let table = "\n\
            | | CPU µs per event | to `limit`'s | p99 µs | to `limit`'s |\n\
            |---|---|---|---|---|\n\
            | 100 × 128 B | 1.50, `limit` 1.20 | 1.25 (1.20–1.30), **worse** | 812, `limit` 790 | \
            1.03 (0.98–1.08), undecided (8 % not excluded) |\n\
            | 1000 × 1 KiB | 1.20, `limit` 1.20 | 1.00 (0.98–1.02), equivalent | – | |\n\
            | **all cells** | | 1.12 (1.08–1.15), **worse** | | |\n\
            \n\
            `limit again` beside `limit`, the noise: CPU 1.00 (0.99–1.01).\n\
            \n\
            Also decided:\n\
            \n\
            - `latency`, events per second of `thalweg` to `limit`'s: 1.13 (1.05–1.20), better\n";
        check("cpu p99 from day/latency", SUMMARY, Ok(&format!("{table}{FOOT}")));
    }

    #[test]
    fn pooled_figures_have_a_line_for_each_run() {
        let lines = "\n- `latency`, CPU per event to `limit`'s, over 2 cells: 1.12 (1.08–1.15), **worse**\n\n\
            Also decided:\n\n\
            - `latency`, CPU per event of `thalweg` to `limit`'s: **worse** in 1 of 2 cells, 1.25 (1.20–1.30)\n\
            - `latency`, events per second of `thalweg` to `limit`'s: 1.13 (1.05–1.20), better\n";
        check("pooled cpu from day/latency", SUMMARY, Ok(&format!("{lines}{FOOT}")));
    }

    #[test]
    fn figures_limited_by_the_swarm_are_lower_bounds() {
        let table = "\n\
            | | events per s | to `limit`'s |\n\
            |---|---|---|\n\
            | 1000 × 1 KiB | ≥ 14.1 million, `limit` 12.5 million | 1.13 (1.05–1.20), better |\n\
            \n\
            Also decided:\n\
            \n\
            - `latency`, CPU per event of `thalweg` to `limit`'s: 1.12 (1.08–1.15), **worse** over all cells; \
            **worse** in 1 of 2 cells, 1.25 (1.20–1.30)\n";
        check("throughput from day/latency", SUMMARY, Ok(&format!("{table}{FOOT}")));
    }

    #[test]
    fn the_standings_have_a_table_for_each_transport() {
        let standings = r#"[
            {"transport": "sse", "subject": "limit", "is_baseline": true, "together": {"said": "100 %"},
             "alone": {"said": "100 %"}, "p99": 1},
            {"transport": "sse", "subject": "thalweg", "is_baseline": false,
             "together": {"said": "95 % (93–98)"}, "alone": {"said": "97 %"}, "p99": 1.02, "p99_low": 0.9,
             "p99_high": 1.156, "idle_bytes": 614, "idle_bytes_low": 512, "idle_bytes_high": 736.3},
            {"transport": "sse", "subject": "drops", "is_baseline": false,
             "together": {"said": "unranked: 40.0 % delivered"}}
        ]"#;
        let mut summary: serde_json::Value = serde_json::from_str(SUMMARY).expect("JSON");
        summary["standings"] = serde_json::from_str(standings).expect("JSON");
        let table = "\n\
            | over sse | delivered for the same CPU, `limit` = 100 % | one event in flight | \
            p99 at a fixed rate, × `limit` | KiB per idle connection |\n\
            |---|---|---|---|---|\n\
            | `limit` | 100 % | 100 % | 1.00 | – |\n\
            | `thalweg` | 95 % (93–98) | 97 % | 1.02 (0.90–1.16) | 0.60 (0.50–0.72) |\n\
            | `drops` | unranked: 40.0 % delivered | – | – | – |\n";
        check("standings from day/latency", &summary.to_string(), Ok(&format!("{table}{FOOT}")));
        let (first, _) = table.split_once("| `drops`").expect("rows");
        check("standings 2 from day/latency", &summary.to_string(), Ok(&format!("{first}{FOOT}")));
        let (head, rows) = table.split_once("| `limit` | 100").expect("rows");
        let (_, row) = rows.split_once('\n').expect("more rows");
        let (row, _) = row.split_once("| `drops`").expect("a last row");
        let words = "standings sse thalweg from day/latency";
        check(words, &summary.to_string(), Ok(&format!("{head}{row}{FOOT}")));
        let what = "no run here has `nobody` over sse";
        check("standings sse nobody from day/latency", &summary.to_string(), Err(what));
        let what = "no run here has standings, because none has many subjects";
        check("standings from day/latency", SUMMARY, Err(what));
    }

    #[test]
    fn one_block_is_of_one_tree() {
        let what = "its runs are of several trees: 111122223333, aaaabbbbcccc";
        check("cpu from day/latency day/other", SUMMARY, Err(what));
        let what = "day/latency was built from files that no commit has: measure it again";
        let modified = SUMMARY.replace("aaaabbbbcccc", "aaaabbbbcccc modified");
        check("cpu from day/latency", &modified, Err(what));
        let what = "day/latency does not say from which tree it was built: measure it again";
        check("cpu from day/latency", &SUMMARY.replace(", tree ", ", "), Err(what));
        let other = SUMMARY.replace("\"measured\": \"", "\"measured\": \"0.1.0, c, tree 999");
        let what = "day/latency was built from several trees: 999, aaaabbbbcccc";
        check("cpu from day/latency", &other, Err(what));
    }

    #[test]
    fn missing_figures_are_reported() {
        let what = "lab/runs/day/none/summary.json.gz is not in the repository";
        check("cpu from day/none", SUMMARY, Err(what));
        let what = "no run here compares memory or round trip";
        check("memory round_trip from day/latency", SUMMARY, Err(what));
        let what = "`cost` is not `[pooled] METRIC… from RUN… -->`, `standings [ROWS]`, `standings TRANSPORT SUBJECT…` or `faults`";
        check("cost from day/latency", SUMMARY, Err(what));
        let what = "day/latency was interrupted: measure it again";
        check("cpu from day/latency", &SUMMARY.replace("false", "true"), Err(what));
    }

    #[test]
    fn too_few_starts_and_wide_intervals_are_told_in_words() {
        let with = |not_excluded: &str, starts: &str| {
            let member = r#""not_excluded": 0.08"#;
            assert!(SUMMARY.contains(member));
            let changed = format!(r#""not_excluded": {not_excluded}, "starts": {starts}"#);
            let summary = SUMMARY.replace(member, &changed);
            let page = format!("{BEGIN}cpu p99 from day/latency -->\n{END}\n");
            written(&Tree::from_files(&[(RUN, &summary)]), "README.md", &page).unwrap()
        };
        assert!(with("0.08", "3").contains("1.03 (0.98–1.08), undecided (8 % not excluded)"));
        assert!(
            with("22.4", "3").contains("1.03 (0.98–1.08), undecided (over 100 % not excluded)")
        );
        assert!(with("22.4", "2").contains("1.03, too few starts to tell |"));
    }

    #[test]
    fn a_page_lists_what_no_block_of_it_shows_once() {
        let page = |words: &[&str]| {
            let block = |words: &&str| format!("{BEGIN}{words} from day/latency -->\n{END}\n");
            let page: String = words.iter().map(block).collect();
            written(&Tree::from_files(&[(RUN, SUMMARY)]), "README.md", &page).unwrap()
        };
        assert_eq!(page(&["cpu", "pooled cpu"]).matches("Also decided:").count(), 1);
        assert_eq!(page(&["cpu", "throughput"]).matches("Also decided:").count(), 0);
        assert!(
            page(&["pooled cpu"])
                .contains("CPU per event of `thalweg` to `limit`'s: **worse** in 1 of 2")
        );
    }

    #[test]
    fn figures_that_somebody_changed_are_found() {
        let page = format!("{BEGIN}pooled cpu from day/latency -->\n{END}\n");
        let tree = Tree::from_files(&[(RUN, SUMMARY)]);
        let written = written(&tree, "README.md", &page).unwrap();
        let problem = |text: &str| {
            let tree = Tree::from_files(&[(RUN, SUMMARY), ("README.md", text)]);
            problems(&tree).into_iter().map(|(_, problem)| problem.line).collect::<Vec<_>>()
        };
        assert!(problem(&written).is_empty());
        assert_eq!(problem(&written.replace("1.12", "1.02")), [3]);
        assert_eq!(problem(&page), [2]);
        // A block inside of a code block is an example.
        assert!(problem(&format!("```\n{page}```\n")).is_empty());
    }
}
