//! Cycles between the files of a crate: files that need each other have no order in which to read them.
//!
//! A file needs another if one of its paths leads there, even through re-exports, and even to a parent or a child. A parent that
//! only declares a child (`mod child;`), or passes the child's names on (`pub use child::Name;`), does not need the child; a file
//! that uses these names does. A parent therefore either declares the common parts of its children, and uses no child, or
//! consists of its children, which use nothing of the parent. Visibilities (`pub(super)`) and tests do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    finding::Finding,
    modules::{Modules, compiled},
    rust::{Outline, Path, code, outline, without_tests},
};
use crate::tree::Tree;

/// More steps than any re-export takes. Without a limit, two re-exports that name each other would never end.
const REEXPORTS_MAX: usize = 8;

/// Known cycles of parents and children: the first of the files, and their number. The list may only become
/// shorter, and the numbers smaller.
const KNOWN: [(&str, usize); 16] = [
    ("crates/thalweg-client/src/carrier.rs", 3),
    ("crates/thalweg-core/src/patch.rs", 3),
    ("crates/thalweg-lab-cli/src/bench.rs", 3),
    ("crates/thalweg-lab/src/run.rs", 10),
    ("crates/thalweg-lab/src/scenario.rs", 6),
    ("crates/thalweg-lab/src/swarm/carrier.rs", 6),
    ("crates/thalweg-lab/src/swarm/dialect.rs", 13),
    ("crates/thalweg-lab/src/swarm/published.rs", 2),
    ("crates/thalweg-lab/src/swarm/subscribers.rs", 2),
    ("crates/thalweg-lab/src/swarm/workload.rs", 12),
    ("crates/thalweg-nats/tests/it/harness.rs", 2),
    ("crates/thalweg-server/src/broker.rs", 2),
    ("crates/thalweg-server/src/source.rs", 5),
    ("crates/thalweg-server/src/transport.rs", 2),
    ("crates/thalweg/examples/cluster/http.rs", 7),
    ("crates/thalweg/tests/it/cluster.rs", 7),
];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    check_except(&KNOWN, tree, findings);
}

fn check_except(known: &[(&str, usize)], tree: &Tree, findings: &mut Vec<Finding>) {
    let mut unseen: BTreeMap<&str, usize> = known.iter().copied().collect();
    for modules in &compiled(tree) {
        let needs = needs(tree, modules);
        for files in tangles(&needs) {
            let parent = files.first().copied().unwrap_or_default();
            if unseen.remove(parent).is_none_or(|most| files.len() > most) {
                let circle = shortest_circle(&needs, &files);
                findings.push(finding(&needs, &circle, &files));
            }
        }
    }
    for (parent, _) in unseen {
        findings.push(Finding::new(
            "xtask/src/tidy/circles.rs",
            1,
            format!("{parent} and its children form no cycle any more"),
            "remove it from the list",
        ));
    }
}

fn finding(needs: &Needs<'_>, circle: &[&str], files: &BTreeSet<&str>) -> Finding {
    let (count, first) = (files.len(), files.first().copied().unwrap_or_default());
    let next = circle.iter().cycle().skip(1);
    let steps = circle.iter().zip(next).map(|(from, to)| {
        let line = needs[from][to];
        format!("{from}:{line} needs {to}")
    });
    Finding::new(
        circle[0],
        needs[circle[0]][circle[1]],
        format!(
            "a cycle of {count} files, {first} first: {}",
            steps.collect::<Vec<_>>().join(", ")
        ),
        "move what both need into a file below both, or pass it in",
    )
}

/// The files that each file needs, with the first line that needs each.
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
            let Some(found) = names.needed(name, used) else { continue };
            if found != name.as_slice() {
                needed.entry(&modules[found]).or_insert(used.line);
            }
        }
    }
    needs
}

/// The definitions behind the names of a crate.
struct Names<'a> {
    modules: &'a Modules,
    outlines: BTreeMap<&'a [String], Outline>,
}

impl<'a> Names<'a> {
    /// Returns the module that a path of module `from` needs, if it needs one.
    fn needed(&self, from: &[String], used: &Path) -> Option<&'a [String]> {
        let absolute = match used.segments.as_slice() {
            [name] if used.is_item && !used.is_use => self.brought_in(from, name),
            _ => self.absolute(from, &used.segments, used.inline_modules),
        };
        let found = self.find(&absolute?, REEXPORTS_MAX);
        let is_passed_on = used.is_reexport && found.starts_with(from);
        (!is_passed_on).then_some(found)
    }

    /// Resolves a path in module `from`, inside of this many inline modules, from the crate's root. Returns
    /// `None` for a path of another crate, or a name of the file itself.
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

    /// Returns the path from the crate's root that a `use` of module `from` imports under this name.
    fn brought_in(&self, from: &[String], name: &str) -> Option<Vec<String>> {
        let used = self.outlines[from].paths.iter().find(|used| {
            used.is_use
                && used.segments.len() > 1
                && used.segments.last().is_some_and(|n| n == name)
        })?;
        let first = used.segments[0].as_str();
        let is_child = || self.modules.contains_key(&[from, &used.segments[..1]].concat());
        // A path that begins with a name of another `use` is not followed.
        if matches!(first, "crate" | "self" | "super") || is_child() {
            return self.absolute(from, &used.segments, used.inline_modules);
        }
        None
    }

    /// Returns the module that defines this path from the root: the deepest one on the way, or, if that one
    /// imports the next name, the module that the import names.
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

/// Returns each group of files that all need each other, directly or through others.
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

/// Returns the files that a file needs, directly or through others.
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

/// Returns the shortest cycle of files in a group.
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
        check_except(&[], &Tree::from_files(&[files, &[PACKAGE]].concat()), &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_circle_is_found_whatever_way_it_takes() {
        let root = ("a/src/lib.rs", "mod b; mod c; pub use c::C;");
        let b = ("a/src/b.rs", "use super::{c::C, d};");
        let back = "a cycle of 2 files, a/src/b.rs first: a/src/b.rs:1 needs a/src/c.rs, \
                    a/src/c.rs:2 needs a/src/b.rs";
        found(&[root, b, ("a/src/c.rs", "\nuse crate::b::B;")], &[back]);
        found(&[root, b, ("a/src/c.rs", "\nfn f() { crate::b::f() }")], &[back]);
        found(&[root, b, ("a/src/c.rs", "use std::b;\npub(in super::b) struct C;")], &[]);
        found(&[root, ("a/src/b.rs", "use crate::C;"), ("a/src/c.rs", "\nuse crate::b;")], &[back]);
        found(&[root, b, ("a/src/c.rs", "use std::b; // crate::b")], &[]);
        found(&[root, b, ("a/src/c.rs", "#[cfg(test)] mod tests { use crate::b; }")], &[]);
    }

    #[test]
    fn the_shortest_circle_of_a_tangle_is_shown() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c; mod d;"),
            ("a/src/b.rs", "use crate::c;"),
            ("a/src/c.rs", "use crate::d;"),
            ("a/src/d.rs", "use crate::{b, c};"),
        ];
        let shown = "a cycle of 3 files, a/src/b.rs first: a/src/c.rs:1 needs a/src/d.rs, \
                     a/src/d.rs:1 needs a/src/c.rs";
        found(&files, &[shown]);
    }

    #[test]
    fn names_of_one_file_are_found_through_another() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c;"),
            ("a/src/b.rs", "mod d; pub use d::D; use super::c;"),
            ("a/src/b/d.rs", "pub struct D;"),
            ("a/src/c.rs", "use crate::b; fn f() { b::D::new() }"),
        ];
        // c needs d through a name of b, and b through its own `use`.
        let circle = "a cycle of 2 files, a/src/b.rs first: a/src/b.rs:1 needs a/src/c.rs, \
                      a/src/c.rs:1 needs a/src/b.rs";
        found(&files, &[circle]);
    }

    #[test]
    fn a_parent_and_its_child_do_not_need_each_other() {
        let root = ("a/src/lib.rs", "mod b;");
        let child =
            ("a/src/b/c.rs", "use super::B; pub(super) struct C; pub(in crate::b) fn f() {}");
        let circle = |line| {
            format!(
                "a cycle of 2 files, a/src/b.rs first: a/src/b.rs:{line} needs a/src/b/c.rs, a/src/b/c.rs:1 needs a/src/b.rs"
            )
        };
        for uses in [
            "use c::C;",
            "fn f() { c::f() }",
            "pub use c::C; struct D(C);",
            "pub use c::f; fn g() { f() }",
            "pub use c::C as E; pub use c::C; fn g() { C::new() }",
        ] {
            let parent = format!("mod c;\npub struct B;\n{uses}");
            found(&[root, ("a/src/b.rs", &parent), child], &[&circle(3)]);
        }
        for passes_on in ["", "pub use c::C;", "pub(crate) use c::{C, f}; fn g(x: X) { x.f() }"] {
            let parent = format!("mod c;\npub struct B;\n{passes_on}");
            found(&[root, ("a/src/b.rs", &parent), child], &[]);
        }
        let parent = ("a/src/b.rs", "mod c; mod d; pub use d::B; fn f(c: c::C) {}");
        let below = [child, ("a/src/b/d.rs", "pub struct B; impl B { pub(super) fn f() {} }")];
        found(&[&[root, parent], &below[..]].concat(), &[]);
    }

    #[test]
    fn a_known_circle_may_not_grow_and_is_struck_off() {
        let files = [
            ("a/src/lib.rs", "mod b;"),
            ("a/src/b.rs", "mod c; pub struct B(c::C);"),
            ("a/src/b/c.rs", "use super::B;"),
            PACKAGE,
        ];
        let check = |known: &[(&str, usize)], expected: &[&str]| {
            let mut findings = Vec::new();
            check_except(known, &Tree::from_files(&files), &mut findings);
            let found: Vec<&str> =
                findings.iter().map(|finding| finding.what.split(':').next().unwrap()).collect();
            assert_eq!(found, expected, "{known:?}");
        };
        check(&[("a/src/b.rs", 2)], &[]);
        check(&[("a/src/b.rs", 3)], &[]);
        check(&[("a/src/b.rs", 1)], &["a cycle of 2 files, a/src/b.rs first"]);
        check(
            &[("a/src/b.rs", 2), ("a/src/d.rs", 3)],
            &["a/src/d.rs and its children form no cycle any more"],
        );
    }
}
