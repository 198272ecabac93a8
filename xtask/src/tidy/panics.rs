//! Calls that shipped code must not contain: a peer or a user must never be able to panic the process.

use super::{
    finding::Finding,
    modules::shipped,
    rust::{code, without_tests},
};
use crate::tree::Tree;

const BANNED: [(&str, &str); 4] = [
    (".unwrap()", "return a typed error, or let the types rule it out"),
    ("todo!", "write it, or plan it in the docs"),
    ("unimplemented!", "write it, or plan it in the docs"),
    ("dbg!", "remove it, or log with tracing"),
];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let shipped = shipped(tree);
    for (path, text) in tree.rust().filter(|(path, _)| shipped.contains(*path)) {
        for (line, code) in (1..).zip(without_tests(&code(text)).lines()) {
            for (banned, remedy) in BANNED {
                if code.contains(banned) {
                    findings.push(Finding::new(
                        path,
                        line,
                        format!("{banned} outside tests"),
                        remedy,
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(library: &str, expected: &[(usize, &str)]) {
        let tree = Tree::from_files(&[
            ("a/Cargo.toml", "[package]"),
            ("a/src/lib.rs", library),
            ("a/tests/it.rs", "fn t() { x.unwrap(); }"),
        ]);
        let mut findings = Vec::new();
        super::check(&tree, &mut findings);
        let found: Vec<_> = findings.iter().map(|f| (f.line, &*f.what)).collect();
        assert_eq!(found, expected, "{library}");
    }

    #[test]
    fn panics_are_found_where_they_are_shipped() {
        check("fn f() {\n x.unwrap();\n}", &[(2, ".unwrap() outside tests")]);
        check("fn f() { todo!() }", &[(1, "todo! outside tests")]);
        check("fn f() { x.unwrap_or(1); \"x.unwrap()\"; } // dbg!(x)", &[]);
        check("#[cfg(test)]\nmod tests {\n fn t() { x.unwrap(); }\n}", &[]);
    }
}
