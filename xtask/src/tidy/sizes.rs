//! Files, functions and pages that have become long. This is advice: a long file may have two purposes, but some files need to be long.

use super::{
    finding::Finding,
    rust::{code, functions},
};
use crate::tree::Tree;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
/// Newcomers read the whole overview.
const ARCHITECTURE_BYTES_MAX: usize = 15_000;
/// A page of docs/decisions holds one decision.
const DECISION_LINES_MAX: usize = 60;

pub(super) fn advise(tree: &Tree, advice: &mut Vec<Finding>) {
    for (path, text) in tree.texts() {
        let (bytes, lines) = (text.len(), text.lines().count());
        if path == "ARCHITECTURE.md" && bytes > ARCHITECTURE_BYTES_MAX {
            let what = format!("the overview has {bytes} bytes, over {ARCHITECTURE_BYTES_MAX}");
            advice.push(Finding::new(path, 1, what, "move reasons to docs/decisions"));
        }
        if path.starts_with("docs/decisions/") && lines > DECISION_LINES_MAX {
            let what = format!("the page has {lines} lines, over {DECISION_LINES_MAX}");
            advice.push(Finding::new(path, 1, what, "make a page of each decision"));
        }
    }
    for (path, text) in tree.rust() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            advice.push(Finding::new(
                path,
                1,
                format!("the file has {lines} lines, over {FILE_LINES_MAX}"),
                "if it does a second thing, give that its own file",
            ));
        }
        for function in functions(&code(text)) {
            if function.lines > FUNCTION_LINES_MAX {
                let (name, lines) = (&function.name, function.lines);
                advice.push(Finding::new(
                    path,
                    function.line,
                    format!("{name} has {lines} lines, over {FUNCTION_LINES_MAX}"),
                    "if a part of it has a name, make it a function",
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        let mut advice = Vec::new();
        advise(&Tree::from_files(&[("a.rs", text), ("b.md", &"\n".repeat(999))]), &mut advice);
        let found: Vec<_> = advice.iter().map(|advice| (advice.line, &*advice.what)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn long_pages_are_named() {
        fn check(path: &str, text: &str, expected: &[&str]) {
            let mut advice = Vec::new();
            advise(&Tree::from_files(&[(path, text)]), &mut advice);
            let found: Vec<_> = advice.iter().map(|advice| &*advice.what).collect();
            assert_eq!(found, expected, "{path}");
        }
        let over = "the overview has 15001 bytes, over 15000";
        check("ARCHITECTURE.md", &"a".repeat(15_000), &[]);
        check("ARCHITECTURE.md", &"a".repeat(15_001), &[over]);
        check("docs/decisions/001-a.md", &"\n".repeat(60), &[]);
        let over = "the page has 61 lines, over 60";
        check("docs/decisions/001-a.md", &"\n".repeat(61), &[over]);
        check("docs/wire.md", &"\n".repeat(999), &[]);
    }

    #[test]
    fn long_files_are_named() {
        check(&"\n".repeat(400), &[]);
        check(&"\n".repeat(401), &[(1, "the file has 401 lines, over 400")]);
    }

    #[test]
    fn long_functions_are_named() {
        let function =
            |lines: usize| format!("\nfn f(a: [u8; 2]) {{{}}}\nfn g();", "\n".repeat(lines - 1));
        check(&function(70), &[]);
        check(&function(71), &[(2, "f has 71 lines, over 70")]);
    }
}
