use super::*;

/// `expected` has the begins of findings, each with its file and line.
fn check(files: &[(&str, &str)], expected: &[&str]) {
    let mut findings = Vec::new();
    super::check(&Tree::from_files(files), &mut findings);
    let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }
}

const BAD: (&str, &str) = ("docs/a.md", "It is\ngood. Of it");

#[test]
fn each_rule_finds_its_case() {
    check(&[BAD], &["docs/a.md:2: a sentence begins with Of"]);
    check(&[("docs/a.md", "leave it away")], &["docs/a.md:1: \"leave it away\""]);
    check(&[("a/src/b.rs", "// x\nfn heard() {}")], &["a/src/b.rs:2: \"heard\""]);
    check(&[("a/src/b.rs", "x(\"a\nwhom\")")], &["a/src/b.rs:2: \"whom\""]);
    check(&[("a/src/b.rs", "fn of() {}")], &["a/src/b.rs:1: a function named `of`"]);
    check(&[("a/src/b.rs", "fn what_is_old_goes() {}")], &["a/src/b.rs:1: the name `what_is"]);
    let twice = [("a/src/b.rs", "pub struct A;"), ("a/src/c.rs", "pub struct A;")];
    check(&twice, &["a/src/c.rs:1: A is a type of this crate at a/src/b.rs:1"]);
    check(&[("docs/a.md", "The server sends it."), ("a/src/b.rs", "pub fn new() {}")], &[]);
}

#[test]
fn an_exception_allows_its_sentence_and_must_still_match() {
    let except = |exception| [BAD, (EXCEPTIONS, exception)];
    check(&except("docs/a.md: Of it"), &[]);
    let unused = "xtask/language/exceptions.txt:1: no finding is";
    check(&except("docs/b.md: Of it"), &["docs/a.md:2", unused]);
    check(&except("docs/a.md: What it"), &["docs/a.md:2", unused]);
    let many = format!("docs/a.md: Of it\n{}", "docs/a.md: Of it\n".repeat(EXCEPTIONS_MAX));
    let mut findings = Vec::new();
    super::check(&Tree::from_files(&except(&many)), &mut findings);
    assert!(
        findings
            .iter()
            .any(|finding| finding.what.starts_with(&format!("{} exceptions", EXCEPTIONS_MAX + 1))),
        "{findings:?}"
    );
}

#[test]
fn a_part_is_a_crate_a_package_a_folder_or_a_file() {
    let parts = ["crates/a/src/b.rs", "web/ui/src/a.ts", "docs/sdk/a.md", "README.md"].map(part);
    assert_eq!(parts, ["crates/a", "web/ui", "docs", "README.md"]);
}
