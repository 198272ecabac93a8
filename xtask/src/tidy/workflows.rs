//! Workflows of GitHub: each step is an action or a make target, so that a developer can run what CI runs.

use std::collections::BTreeSet;

use yaml_rust2::{Yaml, YamlLoader};

use super::finding::Finding;
use crate::tree::Tree;

const FOLDER: &str = ".github/";
const WORKFLOWS: &str = ".github/workflows/";

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let targets = targets(tree.text("Makefile").unwrap_or_default());
    let is_yaml = |path: &str| path.ends_with(".yml") || path.ends_with(".yaml");
    for (path, text) in tree.texts().filter(|(path, _)| path.starts_with(FOLDER) && is_yaml(path)) {
        match YamlLoader::load_from_str(text) {
            Ok(documents) if path.starts_with(WORKFLOWS) => {
                for problem in documents.iter().flat_map(|workflow| problems(workflow, &targets)) {
                    findings.push(Finding::new(
                        path,
                        line_of(text, &problem.part),
                        problem.what,
                        problem.remedy,
                    ));
                }
            }
            Ok(_) => {}
            Err(error) => {
                let line = error.marker().line();
                findings.push(Finding::new(
                    path,
                    line,
                    format!("no YAML: {}", error.info()),
                    "correct it",
                ));
            }
        }
    }
}

/// The names of rules in a makefile.
fn targets(makefile: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', '#', '.']))
        .filter_map(|line| line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')))
        .flat_map(|(names, _)| names.split_whitespace().filter(is_name))
        .collect()
}

struct Problem {
    /// The text of the file that has the problem.
    part: String,
    what: String,
    remedy: &'static str,
}

fn problems(workflow: &Yaml, targets: &BTreeSet<&str>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |part: &str, what: String, remedy| {
        problems.push(Problem { part: part.to_owned(), what, remedy });
    };
    if workflow["permissions"].is_badvalue() {
        add(
            "name:",
            "the workflow has all permissions".to_owned(),
            "begin with `permissions: contents: read`",
        );
    }
    if workflow["concurrency"].is_badvalue() {
        add("name:", "runs of the workflow may overlap".to_owned(), "set a `concurrency` group");
    }
    let no_jobs = yaml_rust2::yaml::Hash::new();
    for (name, job) in workflow["jobs"].as_hash().unwrap_or(&no_jobs) {
        let name = name.as_str().unwrap_or_default();
        if job["timeout-minutes"].as_i64().is_none() {
            add(
                &format!("{name}:"),
                format!("{name} may run for six hours"),
                "set `timeout-minutes`",
            );
        }
        for step in job["steps"].as_vec().map_or(&[][..], Vec::as_slice) {
            if let Some(run) = step["run"].as_str().map(str::trim_end) {
                let target = run.strip_prefix("make ");
                if target.is_none_or(|target| !targets.contains(target)) {
                    let remedy = "make it a target, and run that";
                    add(run, format!("{run:?} is no make target"), remedy);
                }
            }
            let Some(action) = step["uses"].as_str() else { continue };
            let version = action.split_once('@').map(|(_, version)| version);
            if version.is_none_or(|version| ["main", "master"].contains(&version)) {
                add(action, format!("{action} has no version"), "name a version");
            }
        }
    }
    problems
}

/// Returns the first line with the first line of `part`, from 1.
fn line_of(text: &str, part: &str) -> usize {
    let part = part.lines().next().unwrap_or_default();
    text.lines().position(|line| line.contains(part)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: &str = "A ?= b\nC := d:e\n.PHONY: not\nhelp:\n\t@echo other: x\n\
        test test-all: export A := 1\nx/y: z\n";

    fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
        let mut findings = Vec::new();
        super::check(&Tree::from_files(&[("Makefile", MAKEFILE), (path, text)]), &mut findings);
        let found: Vec<_> = findings.iter().map(|finding| (finding.line, &*finding.what)).collect();
        assert_eq!(found, expected, "{text}");
    }

    fn check_step(step: &str, expected: &[(usize, &str)]) {
        let text = format!(
            "name: a\npermissions: {{}}\nconcurrency: a\njobs:\n  b:\n    timeout-minutes: 1\n    \
             steps:\n{step}\n"
        );
        check(".github/workflows/a.yml", &text, expected);
    }

    #[test]
    fn the_names_of_rules_are_targets() {
        assert_eq!(Vec::from_iter(targets(MAKEFILE)), ["help", "test", "test-all"]);
    }

    #[test]
    fn steps_are_actions_with_a_version_or_make_targets() {
        check_step("      - uses: a/b@v1\n      - run: make test-all", &[]);
        check_step("      - run: make other", &[(8, "\"make other\" is no make target")]);
        check_step("      - run: make test A=1", &[(8, "\"make test A=1\" is no make target")]);
        check_step(
            "      - run: |\n          make help\n          x",
            &[(9, "\"make help\\nx\" is no make target")],
        );
        check_step(
            "      - {name: b, run: cargo test}",
            &[(8, "\"cargo test\" is no make target")],
        );
        check_step("      - uses: a/b@main", &[(8, "a/b@main has no version")]);
        check_step("      - uses: a/b", &[(8, "a/b has no version")]);
    }

    #[test]
    fn a_workflow_limits_rights_time_and_overlap() {
        let jobs = "name: a\njobs:\n  b:\n    steps: []\n";
        check(
            ".github/workflows/a.yaml",
            jobs,
            &[
                (1, "the workflow has all permissions"),
                (1, "runs of the workflow may overlap"),
                (3, "b may run for six hours"),
            ],
        );
        check(".github/form.yml", jobs, &[]);
        check("deploy/compose.yaml", "a: [", &[]);
    }

    #[test]
    fn other_text_is_no_yaml() {
        check(
            ".github/a.yml",
            "a: [\n",
            &[(2, "no YAML: while parsing a node, did not find expected node content")],
        );
    }
}
