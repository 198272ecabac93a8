//! Files and functions that have grown long. That is advice: length shows where to look
//! for two things in one, and some things are long.

use super::{
    finding::Finding,
    rust::{code, functions},
};
use crate::tree::Tree;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn advise(tree: &Tree, advice: &mut Vec<Finding>) {
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
        advise(&Tree::of(&[("a.rs", text), ("b.md", &"\n".repeat(999))]), &mut advice);
        let found: Vec<_> = advice.iter().map(|advice| (advice.line, &*advice.what)).collect();
        assert_eq!(found, expected);
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
