//! Circles between the files of a crate: what each needs of the other can be read in
//! no order.
//!
//! A file needs another when a path of it leads there, through re-exports too. A module's
//! own file and those below it may need each other: the parent says what its children
//! have in common and chooses among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    finding::Finding,
    modules::{Modules, compiled},
    rust::{Outline, code, outline, without_tests},
};
use crate::tree::Tree;

/// More steps than any re-export takes; two that name each other would have no end.
const REEXPORTS_MAX: usize = 8;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for modules in &compiled(tree) {
        let needs = needs(tree, modules);
        for files in tangles(&needs) {
            let circle = shortest_circle(&needs, &files);
            findings.push(finding(&needs, &circle));
        }
    }
}

fn finding(needs: &Needs<'_>, circle: &[&str]) -> Finding {
    let next = circle.iter().cycle().skip(1);
    let steps = circle.iter().zip(next).map(|(from, to)| {
        let line = needs[from][to];
        format!("{from}:{line} needs {to}")
    });
    Finding::new(
        circle[0],
        needs[circle[0]][circle[1]],
        format!("a circle of files: {}", steps.collect::<Vec<_>>().join(", ")),
        "move what both need into a file below both, or pass it in",
    )
}

/// The files that each file needs, but for those above and below it, and the first line
/// that needs each.
type Needs<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

fn needs<'a>(tree: &Tree, modules: &'a Modules) -> Needs<'a> {
    let outlines: BTreeMap<&[String], Outline> = modules
        .iter()
        .map(|(name, path)| {
            let text = tree.text(path).unwrap_or_default();
            (name.as_slice(), outline(&without_tests(&code(text))))
        })
        .collect();
    let names = Names { modules, outlines };
    let mut needs = Needs::new();
    for (name, path) in modules {
        let needed = needs.entry(path.as_str()).or_default();
        for used in &names.outlines[name.as_slice()].paths {
            let Some(absolute) = names.absolute(name, &used.segments, used.inline_modules) else {
                continue;
            };
            let found = names.find(&absolute, REEXPORTS_MAX);
            if !found.starts_with(name) && !name.starts_with(found) {
                needed.entry(&modules[found]).or_insert(used.line);
            }
        }
    }
    needs
}

/// What the names of a crate stand for.
struct Names<'a> {
    modules: &'a Modules,
    outlines: BTreeMap<&'a [String], Outline>,
}

impl<'a> Names<'a> {
    /// The path from the crate's root, of one that stands in module `from` within so many
    /// inline modules; `None` for what is not of this crate, or a name of the file itself.
    fn absolute(&self, from: &[String], path: &[String], inline: usize) -> Option<Vec<String>> {
        let first = path.first()?;
        match first.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([from, &path[1..]].concat()),
            "super" => {
                let supers = path.iter().take_while(|segment| *segment == "super").count();
                let up = supers.saturating_sub(inline);
                let above = &from[..from.len().checked_sub(up)?];
                Some([above, &path[supers..]].concat())
            }
            _ if path.len() == 1 => None,
            _ if self.modules.contains_key(&[from, &path[..1]].concat()) => {
                Some([from, path].concat())
            }
            _ => {
                let brought = self.brought_in(from, first)?;
                Some([&brought, &path[1..]].concat())
            }
        }
    }

    /// What a `use` of module `from` brings in by this name, from the crate's root.
    fn brought_in(&self, from: &[String], name: &str) -> Option<Vec<String>> {
        let used = self.outlines[from].paths.iter().find(|used| {
            used.is_use
                && used.segments.len() > 1
                && used.segments.last().is_some_and(|n| n == name)
        })?;
        let first = used.segments[0].as_str();
        let is_child = || self.modules.contains_key(&[from, &used.segments[..1]].concat());
        // A path that begins with what another `use` brings in is not followed.
        if matches!(first, "crate" | "self" | "super") || is_child() {
            return self.absolute(from, &used.segments, used.inline_modules);
        }
        None
    }

    /// The module that defines what this path from the root names: the deepest on its way,
    /// or, where that one brings the next name in, wherever it comes from.
    fn find(&self, path: &[String], steps: usize) -> &'a [String] {
        let depth = (0..=path.len()).rev().find(|&len| self.modules.contains_key(&path[..len]));
        let depth = depth.unwrap_or_default();
        if let Some(next) = path.get(depth)
            && steps > 0
            && let Some(brought) = self.brought_in(&path[..depth], next)
        {
            let rest = [&brought, &path[depth + 1..]].concat();
            return self.find(&rest, steps - 1);
        }
        let (name, _) = self.modules.get_key_value(&path[..depth]).expect("the root is a module");
        name
    }
}

/// Each group of files that all need each other, directly or through others.
fn tangles<'a>(needs: &Needs<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<_, _> = needs.keys().map(|path| (*path, reached(needs, path))).collect();
    let mut tangles: Vec<BTreeSet<&str>> = Vec::new();
    for (path, there) in &reached {
        let is_listed = tangles.iter().any(|files| files.contains(path));
        if there.contains(path) && !is_listed {
            let back = there.iter().filter(|other| reached[**other].contains(path));
            tangles.push(back.copied().collect());
        }
    }
    tangles
}

/// What a file needs, directly or through others.
fn reached<'a>(needs: &Needs<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = needs[from].keys().copied().collect();
    while let Some(path) = next.pop() {
        if reached.insert(path) {
            next.extend(needs[path].keys());
        }
    }
    reached
}

/// The shortest way from a file of a tangle back to it.
fn shortest_circle<'a>(needs: &Needs<'a>, files: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let circles = files.iter().filter_map(|file| {
        let mut ways = VecDeque::from([vec![*file]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            for next in needs[way[way.len() - 1]].keys() {
                if next == file {
                    return Some(way);
                }
                if seen.insert(*next) {
                    ways.push_back([way.as_slice(), &[*next]].concat());
                }
            }
        }
        None
    });
    circles.min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: (&str, &str) = ("a/Cargo.toml", "[package]");

    fn found(files: &[(&str, &str)], expected: &[&str]) {
        let mut findings = Vec::new();
        check(&Tree::of(&[files, &[PACKAGE]].concat()), &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_circle_is_found_whatever_way_it_takes() {
        let root = ("a/src/lib.rs", "mod b; mod c; pub use c::C;");
        let b = ("a/src/b.rs", "use super::{c::C, d};");
        let back = "a circle of files: a/src/b.rs:1 needs a/src/c.rs, \
                    a/src/c.rs:2 needs a/src/b.rs";
        found(&[root, b, ("a/src/c.rs", "\nuse crate::b::B;")], &[back]);
        found(&[root, b, ("a/src/c.rs", "\nfn f() { crate::b::f() }")], &[back]);
        found(&[root, b, ("a/src/c.rs", "use std::b;\npub(in super::b) struct C;")], &[back]);
        found(&[root, ("a/src/b.rs", "use crate::C;"), ("a/src/c.rs", "\nuse crate::b;")], &[back]);
        found(&[root, b, ("a/src/c.rs", "use std::b; // crate::b")], &[]);
        found(&[root, b, ("a/src/c.rs", "#[cfg(test)] mod tests { use crate::b; }")], &[]);
    }

    #[test]
    fn of_a_tangle_the_shortest_circle_is_shown() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c; mod d;"),
            ("a/src/b.rs", "use crate::c;"),
            ("a/src/c.rs", "use crate::d;"),
            ("a/src/d.rs", "use crate::{b, c};"),
        ];
        let shown = "a circle of files: a/src/c.rs:1 needs a/src/d.rs, \
                     a/src/d.rs:1 needs a/src/c.rs";
        found(&files, &[shown]);
    }

    #[test]
    fn what_one_file_brings_in_is_found_through_another() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c;"),
            ("a/src/b.rs", "mod d; pub use d::D; use super::c;"),
            ("a/src/b/d.rs", "pub struct D;"),
            ("a/src/c.rs", "use crate::b; fn f() { b::D::new() }"),
        ];
        // c needs d by way of b's name, and b itself by its own `use`.
        let circle = "a circle of files: a/src/b.rs:1 needs a/src/c.rs, \
                      a/src/c.rs:1 needs a/src/b.rs";
        found(&files, &[circle]);
    }

    #[test]
    fn above_and_below_are_no_circle() {
        let files = [
            ("a/src/lib.rs", "mod b; use b::c::C;"),
            ("a/src/b.rs", "mod c; trait B {} fn f() -> C { c::f() }"),
            ("a/src/b/c.rs", "use super::B; use crate::b;"),
        ];
        found(&files, &[]);
    }
}
