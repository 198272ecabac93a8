//! Rules that the compiler, clippy and rustfmt do not check.
//!
//! Rust is read as text, not parsed: `rust` removes comments and literals and finds the paths in the rest.
//! This suffices for this code, and for any code that does not try to deceive the checks. They do not know
//! macros that create paths, `use … as …` for a banned module, or `#[path]`.

mod arrows;
mod book;
mod circles;
mod finding;
mod language;
mod links;
mod modules;
mod panics;
mod rooms;
mod runs;
mod rust;
mod sizes;
mod text;
mod waits;
mod workflows;

use std::process::ExitCode;

use crate::figures::{self, Problem};
use crate::tree::Tree;
use finding::Finding;

/// Checks the working tree, prints findings and advice, and fails if there are findings.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let tree = Tree::read()?;
    let mut advice = Vec::new();
    sizes::advise(&tree, &mut advice);
    for advice in &advice {
        println!("advice: {advice}");
    }
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} findings", findings.len());
    Ok(ExitCode::FAILURE)
}

/// Prints what the rules of language find in files whose path begins with `path`.
pub(crate) fn show_language(path: &str) -> anyhow::Result<ExitCode> {
    language::show(&Tree::read()?, path);
    Ok(ExitCode::SUCCESS)
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    text::check(tree, &mut findings);
    links::check(tree, &mut findings);
    book::check(tree, &mut findings);
    runs::check(tree, &mut findings);
    modules::check(tree, &mut findings);
    arrows::check(tree, &mut findings);
    circles::check(tree, &mut findings);
    rooms::check(tree, &mut findings);
    panics::check(tree, &mut findings);
    waits::check(tree, &mut findings);
    workflows::check(tree, &mut findings);
    language::check(tree, &mut findings);
    findings.extend(figures::problems(tree).into_iter().map(|(path, Problem { line, what })| {
        Finding::new(path, line, what, "correct it, then run `cargo xtask figures`")
    }));
    findings.sort();
    findings.dedup();
    findings
}
