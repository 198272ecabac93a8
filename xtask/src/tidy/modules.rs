//! The files that the compiler reads, and those that it reads for tests only.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    finding::Finding,
    rust::{code, outline, without_tests},
};
use crate::tree::Tree;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let reached = reached(tree, code);
    for (path, _) in tree.rust().filter(|(path, _)| package(tree, path).is_some()) {
        if !reached.contains(path) && !is_root(tree, path) {
            findings.push(Finding::new(
                path,
                1,
                "no `mod` leads to this file",
                "declare it where it belongs, or delete it",
            ));
        }
    }
}

/// Returns the files that are part of a library or a program, without tests.
pub(super) fn shipped(tree: &Tree) -> BTreeSet<String> {
    let mut shipped = reached(tree, |text| without_tests(&code(text)));
    shipped.retain(|path| !is_test_target(path));
    shipped
}

/// Returns every file that is reachable from a root through `mod name;`.
fn reached(tree: &Tree, read: impl Fn(&str) -> String) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<String> =
        tree.rust().map(|(path, _)| path.to_owned()).filter(|path| is_root(tree, path)).collect();
    while let Some(path) = next.pop() {
        let Some(text) = tree.text(&path) else { continue };
        let folder = children_folder(tree, &path);
        for module in outline(&read(text)).modules {
            let module = module.join("/");
            next.push(format!("{folder}{module}.rs"));
            next.push(format!("{folder}{module}/mod.rs"));
        }
        reached.insert(path);
    }
    reached
}

/// The modules of a library, a program or a test program, without its unit tests: each file by the path of
/// its module. The root's path is empty.
pub(super) type Modules = BTreeMap<Vec<String>, String>;

pub(super) fn compiled(tree: &Tree) -> Vec<Modules> {
    let roots = tree.rust().map(|(path, _)| path).filter(|path| is_root(tree, path));
    roots.map(|root| modules_below(tree, root)).collect()
}

fn modules_below(tree: &Tree, root: &str) -> Modules {
    let mut modules = Modules::new();
    let mut next = vec![(Vec::new(), root.to_owned())];
    while let Some((name, path)) = next.pop() {
        let Some(text) = tree.text(&path) else { continue };
        let folder = children_folder(tree, &path);
        for inside in outline(&without_tests(&code(text))).modules {
            let file = format!("{folder}{}", inside.join("/"));
            let name = [name.clone(), inside].concat();
            next.push((name.clone(), format!("{file}.rs")));
            next.push((name, format!("{file}/mod.rs")));
        }
        modules.insert(name, path);
    }
    modules
}

/// Returns the folder of the modules that a file declares.
fn children_folder(tree: &Tree, path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    match stem.rsplit_once('/') {
        Some((folder, "mod")) => format!("{folder}/"),
        Some((folder, _)) if is_root(tree, path) => format!("{folder}/"),
        _ => format!("{stem}/"),
    }
}

/// Returns whether cargo compiles the file without a `mod` (The Cargo Book, "Package Layout"; cargo-fuzz for `fuzz_targets`).
fn is_root(tree: &Tree, path: &str) -> bool {
    let Some(package) = package(tree, path) else { return false };
    let steps: Vec<&str> = path[package.len()..].split('/').collect();
    matches!(
        steps[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples" | "fuzz_targets", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// Returns whether the file belongs to a package's tests or benchmarks. (A `tests` inside `src` is a module like any other.)
fn is_test_target(path: &str) -> bool {
    let outside_src = path.split_once("/src/").map_or(path, |(before, _)| before);
    outside_src.split('/').any(|step| matches!(step, "tests" | "benches" | "fuzz_targets"))
}

/// Returns the folder, with its slash, of the package that has the file.
fn package<'a>(tree: &Tree, path: &'a str) -> Option<&'a str> {
    path.rmatch_indices('/').map(|(at, slash)| &path[..at + slash.len()]).find(|folder| {
        let manifest = tree.text(&format!("{folder}Cargo.toml"));
        manifest.is_some_and(|manifest| manifest.contains("[package]"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: (&str, &str) = ("a/Cargo.toml", "[package]");

    #[test]
    fn a_file_nobody_declares_is_found() {
        fn check(files: &[(&str, &str)], expected: &[&str]) {
            let mut findings = Vec::new();
            super::check(&Tree::from_files(&[files, &[PACKAGE]].concat()), &mut findings);
            let found: Vec<&str> = findings.iter().map(|finding| &*finding.path).collect();
            assert_eq!(found, expected);
        }
        let library = ("a/src/lib.rs", "mod b; mod c { mod d; }");
        let b = ("a/src/b.rs", "#[cfg(test)] mod tests;");
        let d = ("a/src/c/d.rs", "");
        let tests = ("a/src/b/tests.rs", "");
        check(&[library, b, d, tests], &[]);
        check(&[library, ("a/src/b/mod.rs", "mod e;"), d, ("a/src/b/e.rs", "")], &[]);
        check(&[library, b, ("a/src/d.rs", ""), tests], &["a/src/d.rs"]);
        check(&[("a/tests/it/main.rs", "mod f;"), ("a/tests/it/f.rs", "")], &[]);
        check(&[("a/tests/it/main.rs", ""), ("a/tests/it/f.rs", "")], &["a/tests/it/f.rs"]);
        check(&[library, ("a/src/main.rs", "// mod g;"), ("a/src/g.rs", "")], &["a/src/g.rs"]);
        check(&[("elsewhere/no_package.rs", "")], &[]);
    }

    #[test]
    fn tests_are_not_shipped() {
        let tree = Tree::from_files(&[
            PACKAGE,
            ("a/src/lib.rs", "mod b; #[cfg(test)] mod c; #[cfg(test)] mod tests { mod d; }"),
            ("a/src/b.rs", ""),
            ("a/src/c.rs", "mod e;"),
            ("a/src/c/e.rs", ""),
            ("a/src/tests/d.rs", ""),
            ("a/tests/it.rs", ""),
        ]);
        assert_eq!(Vec::from_iter(shipped(&tree)), ["a/src/b.rs", "a/src/lib.rs"]);
    }
}
