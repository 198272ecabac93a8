//! Links between the repository's Markdown files and to its other files, and archived runs that they name.

use super::finding::Finding;
use crate::tree::Tree;

/// The beginning of the path of an archived run: its day.
const RUNS: &str = "lab/runs/20";

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        let mut is_code = false;
        for (line, text) in (1..).zip(text.lines()) {
            for run in runs(text).filter(|run| !tree.has(run)) {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("{run} is not in the repository"),
                    "name a run that is archived, or archive it",
                ));
            }
            if text.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            if is_code {
                continue;
            }
            for target in targets(text) {
                if !is_there(tree, path, target) {
                    findings.push(Finding::new(
                        path,
                        line,
                        format!("{target} is not in the repository"),
                        "link to a file that exists, or add this one",
                    ));
                }
            }
        }
    }
}

/// Returns the paths of archived runs, in links, in other text and in code.
fn runs(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(RUNS).map(|(at, _)| {
        let ends = |c: char| !(c.is_alphanumeric() || "/-_.".contains(c));
        let path = line[at..].split(ends).next().unwrap_or_default();
        path.trim_end_matches(['/', '.'])
    })
}

/// Returns the targets of `[text](target)` and `[name]: target`.
pub(super) fn targets(line: &str) -> Vec<&str> {
    // Every other piece between backticks is code.
    let mut targets: Vec<&str> = line
        .split('`')
        .step_by(2)
        .flat_map(|prose| prose.split("](").skip(1))
        .filter_map(|after| after.split([')', ' ']).next())
        .collect();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.extend(target.split_whitespace().next());
    }
    targets
}

/// Returns the targets of a page's links outside of code blocks, with their lines.
pub(super) fn outside_of_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let mut is_prose = move |line: &str| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code
    };
    let lines = (1..).zip(text.lines()).filter(move |(_, line)| is_prose(line));
    lines.flat_map(|(number, line)| targets(line).into_iter().map(move |target| (number, target)))
}

/// Returns whether the target of a link exists. Targets outside of the repository are not checked.
fn is_there(tree: &Tree, from: &str, target: &str) -> bool {
    let path = target.trim_start_matches('<').split('#').next().unwrap_or_default();
    path.is_empty()
        || path.contains(':')
        || resolve(from, target).is_some_and(|path| tree.has(&path))
}

/// Returns the path of a link's target from the root, without the heading; `None` if it is outside of the repository.
pub(super) fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let target = target.split('#').next().unwrap_or_default();
    let mut at: Vec<&str> = from.split('/').collect();
    at.pop();
    if target.starts_with('/') {
        at.clear();
    }
    for step in target.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                at.pop()?;
            }
            name => at.push(name),
        }
    }
    Some(at.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        let tree = Tree::from_files(&[
            ("docs/page.md", text),
            ("docs/wire.md", ""),
            ("lab/scenarios/a.toml", ""),
            ("README.md", ""),
            ("lab/runs/2026-day/peers/plan.json.gz", ""),
        ]);
        let mut findings = Vec::new();
        super::check(&tree, &mut findings);
        let found: Vec<_> = findings.iter().map(|f| (f.line, f.what.clone())).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(line, target)| (*line, format!("{target} is not in the repository")))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn links_inside_the_repository_must_lead_somewhere() {
        check("[w](wire.md), [r](../README.md#use), [s](../lab/scenarios/) [a](/lab)", &[]);
        check("[w](wire.md)\n[x](wires.md)", &[(2, "wires.md")]);
        check("[up](../../README.md)", &[(1, "../../README.md")]);
        check("[a](wire.md) and [b](b.md \"title\")", &[(1, "b.md")]);
        check("[name]: gone.md", &[(1, "gone.md")]);
        check("[scenario](../lab/scen)", &[(1, "../lab/scen")]);
    }

    #[test]
    fn runs_must_be_archived_wherever_they_are_named() {
        check("`bench show lab/runs/2026-day/peers --json`, lab/runs/2026-day/peers/.", &[]);
        check("`../lab/runs/2026-day/gone`", &[(1, "lab/runs/2026-day/gone")]);
        check("```\nlab/runs/2026-gone\n```", &[(2, "lab/runs/2026-gone")]);
    }

    #[test]
    fn links_elsewhere_and_code_are_left_alone() {
        check("[x](https://example.org/a) [y](#here) [z](mailto:a@b)", &[]);
        check("`a[0](b)` and\n```\n[x](y)\n```\n[z](z.md)", &[(5, "z.md")]);
    }
}
