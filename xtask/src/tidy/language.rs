//! The rules of language: sentences begin with their subject, no listed word is used, no two types of a crate
//! have the same name, no constructor is called `of`, and no name of a function hides its subject.

mod names;
mod prose;
mod sentences;

use std::collections::BTreeMap;

use super::{
    finding::Finding,
    rust::{Piece, pieces},
};
use crate::tree::Tree;
use names::Types;
use sentences::{Hit, Kind};

/// The folder with the words for which the check looks.
const NOT_CHECKED: [&str; 1] = ["xtask/src/tidy/language/"];

/// Sentences and words that may stay: `path: the beginning`, one per line.
const EXCEPTIONS: &str = "xtask/language/exceptions.txt";
const EXCEPTIONS_MAX: usize = 8;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    findings.extend(by_part(tree).into_values().flatten());
}

/// Prints all findings in files whose path begins with `path`, then a table of the parts.
pub(super) fn show(tree: &Tree, path: &str) {
    let parts = by_part(tree);
    for finding in parts.values().flatten().filter(|finding| finding.path.starts_with(path)) {
        println!("{finding}");
    }
    println!("{:>8}  part", "findings");
    for (part, found) in &parts {
        println!("{:>8}  {part}", found.len());
    }
    println!("{:>8}  all", parts.values().map(Vec::len).sum::<usize>());
}

/// Returns the part of a file: a crate, a package of `web`, another folder, or a file of the root.
fn part(path: &str) -> &str {
    let depth = if path.starts_with("crates/") || path.starts_with("web/") { 2 } else { 1 };
    path.match_indices('/').nth(depth - 1).map_or(path, |(end, _)| &path[..end])
}

/// Returns all findings except exceptions, by part.
fn by_part(tree: &Tree) -> BTreeMap<String, Vec<Finding>> {
    let mut findings = all(tree);
    let exceptions: Vec<&str> = tree.text(EXCEPTIONS).unwrap_or_default().lines().collect();
    for (line, exception) in (1..).zip(&exceptions) {
        let before = findings.len();
        findings.retain(|(finding, excerpt)| !is_excepted(exception, finding, excerpt));
        if findings.len() == before {
            let what = format!("no finding is \"{exception}\"");
            let finding = Finding::new(EXCEPTIONS, line, what, "remove the exception");
            findings.push((finding, String::new()));
        }
    }
    if exceptions.len() > EXCEPTIONS_MAX {
        let what = format!("{} exceptions, and at most {EXCEPTIONS_MAX} may be", exceptions.len());
        let finding = Finding::new(EXCEPTIONS, EXCEPTIONS_MAX + 1, what, "rewrite some of them");
        findings.push((finding, String::new()));
    }
    let mut parts: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for (finding, _) in findings {
        parts.entry(part(&finding.path).to_owned()).or_default().push(finding);
    }
    for found in parts.values_mut() {
        found.sort();
        found.dedup();
    }
    parts
}

fn is_excepted(exception: &str, finding: &Finding, excerpt: &str) -> bool {
    exception
        .split_once(": ")
        .is_some_and(|(path, begin)| path == finding.path && excerpt.starts_with(begin))
}

/// Returns all findings, each with the text that an exception may name.
fn all(tree: &Tree) -> Vec<(Finding, String)> {
    let mut findings = Vec::new();
    let mut types = Types::default();
    for (path, text) in tree.texts() {
        if NOT_CHECKED.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for paragraph in prose::paragraphs(path, text) {
            let hits = sentences::first_words(&paragraph.text);
            let hits = hits.chain(sentences::avoided(&paragraph.text));
            findings.extend(hits.map(|hit| found(path, paragraph.line, hit)));
        }
        if path.ends_with(".rs") {
            rust(path, text, &mut types, &mut findings);
        }
    }
    findings
}

/// Finds words to avoid in code and literals, and bad names.
fn rust(path: &str, text: &str, types: &mut Types, findings: &mut Vec<(Finding, String)>) {
    let mut line = 1;
    for (piece, text) in pieces(text) {
        if piece != Piece::Comment {
            findings.extend(sentences::avoided(text).map(|hit| found(path, line, hit)));
        }
        line += text.matches('\n').count();
    }
    for (line, name, earlier) in types.repeated(path, text) {
        let what = format!("{name} is a type of this crate at {earlier}, too");
        findings.push((Finding::new(path, line, what, "give one of them another name"), name));
    }
    for line in names::functions_of(text) {
        let remedy = "call it new, parse, from_… or with_…";
        findings.push((Finding::new(path, line, "a function named `of`", remedy), "of".to_owned()));
    }
    for (line, name) in names::without_subject(text) {
        let what = format!("the name `{name}` hides its subject");
        let remedy = "name the subject and its behaviour, as in stored_events_survive_a_restart";
        findings.push((Finding::new(path, line, what, remedy), name));
    }
}

fn found(path: &str, first_line: usize, hit: Hit) -> (Finding, String) {
    let Hit { lines_before, kind, excerpt } = hit;
    let (what, remedy) = match kind {
        Kind::FirstWord(word) => {
            (format!("a sentence begins with {word} (\"{excerpt}\")"), "name its subject first")
        }
        Kind::Avoided { phrase, better } => (format!("\"{phrase}\" (\"{excerpt}\")"), better),
    };
    (Finding::new(path, first_line + lines_before, what, remedy), excerpt)
}

#[cfg(test)]
mod tests;
