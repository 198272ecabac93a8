//! The size of the archived runs, which every clone contains.

use super::finding::Finding;
use crate::tree::Tree;

const RUNS: &str = "lab/runs/";

/// The maximum for all archived runs, in bytes.
const BYTES_MAX: u64 = 8_000_000;

/// Prefixes of files that no archived run has, because `thalweg-lab bench` draws them from the samples.
const DRAWN: [&str; 5] = ["histograms.", "report.", "summary.csv", "table.", "subjects."];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let bytes: u64 = tree.sizes(RUNS).map(|(_, bytes)| bytes).sum();
    if bytes > BYTES_MAX {
        findings.push(Finding::new(
            RUNS,
            1,
            format!("archived runs have {bytes} bytes, over {BYTES_MAX}"),
            "delete a superseded run, and name it in lab/runs/README.md",
        ));
    }
    for (path, _) in tree.sizes(RUNS) {
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        let is_run = tree.has(&format!("{folder}/manifest.json"));
        if is_run && DRAWN.iter().any(|drawn| name.starts_with(drawn)) {
            findings.push(Finding::new(
                path,
                1,
                "no archived run has such a file",
                "archive the run with `thalweg-lab bench archive`",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let mut findings = Vec::new();
        super::check(&Tree::from_files(files), &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn archived_runs_are_light() {
        let (manifest, csv) =
            ("lab/runs/day/peers/manifest.json", "lab/runs/day/peers/summary.csv");
        check(
            &[(manifest, "{}"), ("lab/runs/day/rates/table.txt", ""), ("docs/report.md", "")],
            &[],
        );
        check(&[(manifest, "{}"), (csv, "")], &[csv]);
        let large = "x".repeat(BYTES_MAX as usize - 1);
        check(&[(manifest, "{"), ("lab/runs/day/large.txt", &large), ("docs/a.md", "{}")], &[]);
        check(&[(manifest, "{}"), ("lab/runs/day/large.txt", &large)], &[RUNS]);
    }
}
