//! Paths of a particular machine.

use super::finding::Finding;
use crate::tree::Tree;

const MACHINE_PATHS: [&str; 3] = ["/work/", "/root/", "/home/"];

/// The archive of a run names its machine, and this file names the folders.
const MAY_NAME_A_MACHINE: [&str; 2] = ["lab/runs/", "xtask/src/tidy/text.rs"];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts() {
        if MAY_NAME_A_MACHINE.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        for (line, text) in (1..).zip(text.lines()) {
            if let Some(machine_path) = machine_path(text) {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("{machine_path} is a path of one machine"),
                    "name it from the repository's root, or not at all",
                ));
            }
        }
    }
}

/// Returns the first machine path that begins in `line`. `docs/work/` is not one.
fn machine_path(line: &str) -> Option<&'static str> {
    let goes_on = |c: char| c.is_alphanumeric() || "_-.~}".contains(c);
    MACHINE_PATHS
        .into_iter()
        .find(|path| line.match_indices(path).any(|(at, _)| !line[..at].ends_with(goes_on)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found() {
        fn check(line: &str, expected: Option<&str>) {
            assert_eq!(machine_path(line), expected, "{line}");
        }
        check("cd /home/me/thalweg", Some("/home/"));
        check("path = \"/work/x\"", Some("/work/"));
        check("file:///root/.cargo", Some("/root/"));
        check("docs/work/x, https://example.org/home/, $HOME/work/x", None);
        check("/homes/ /workshop/", None);
    }

    #[test]
    fn an_archived_run_may_name_its_machine() {
        fn check(path: &str, expected: &[usize]) {
            let mut findings = Vec::new();
            super::check(&Tree::from_files(&[(path, "on\n/home/me")]), &mut findings);
            let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
            assert_eq!(lines, expected, "{path}");
        }
        check("lab/runs/one/command.txt", &[]);
        check("lab/README.md", &[2]);
    }
}
