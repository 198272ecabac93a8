//! Crates and modules that a crate or module may import.

use std::collections::BTreeSet;

use super::{
    finding::Finding,
    rust::{Path, code, outline},
};
use crate::tree::Tree;

/// An importer, and its allowed imports.
type Arrows = [(&'static str, &'static [&'static str])];

const CRATES: &Arrows = &[
    (
        "thalweg",
        &[
            "thalweg-broker",
            "thalweg-core",
            "thalweg-server",
            "thalweg-token",
            "thalweg-disk",
            "thalweg-nats",
            "thalweg-client",
            "thalweg-match-feed",
            "thalweg-terminal",
            "thalweg-build",
        ],
    ),
    ("thalweg-lab-cli", &["thalweg-lab", "thalweg-limit", "thalweg-terminal", "thalweg-build"]),
    ("thalweg-disk", &["thalweg-broker", "thalweg-broker-tests", "thalweg-core", "thalweg-wire"]),
    ("thalweg-nats", &["thalweg-broker", "thalweg-broker-tests", "thalweg-core", "thalweg-wire"]),
    (
        "thalweg-server",
        &[
            "thalweg-broker",
            "thalweg-broker-tests",
            "thalweg-columns",
            "thalweg-core",
            "thalweg-query",
            "thalweg-token",
            "thalweg-wire",
        ],
    ),
    ("thalweg-broker-tests", &["thalweg-broker", "thalweg-core", "thalweg-wire"]),
    ("thalweg-broker", &["thalweg-core", "thalweg-wire"]),
    ("thalweg-core", &["thalweg-columns", "thalweg-wire"]),
    ("thalweg-token", &["thalweg-wire"]),
    ("thalweg-columns", &[]),
    ("thalweg-query", &["thalweg-columns"]),
    ("thalweg-client", &["thalweg-wire"]),
    ("thalweg-lab", &["thalweg-match-feed", "thalweg-terminal"]),
    ("thalweg-limit", &[]),
    ("thalweg-terminal", &[]),
    ("thalweg-build", &[]),
    ("thalweg-match-feed", &[]),
    ("thalweg-wire", &[]),
    ("xtask", &[]),
];

/// The crate that every crate may use in tests.
const OF_TESTS: &str = "thalweg-testing";

/// The imports between the top-level modules of a crate, by the folder of its sources. `lib.rs` is the map
/// and may name all of them.
const MODULES: [(&str, &Arrows); 3] = [
    ("crates/thalweg-core/src/", CORE),
    ("crates/thalweg-server/src/", SERVER),
    ("crates/thalweg-lab/src/", LAB),
];

const CORE: &Arrows =
    &[("dispatch", &[]), ("patch", &[]), ("stream", &["patch"]), ("fanout", &["stream"])];

const SERVER: &Arrows = &[
    ("clock", &[]),
    ("start", &["clock", "config"]),
    ("config", &["pages"]),
    ("metrics", &["audit", "process", "refusal"]),
    ("process", &[]),
    ("audit", &["clock", "connection_limits", "refusal"]),
    ("rates", &["config", "connection_limits", "refusal"]),
    ("pages", &[]),
    ("runs", &["config", "refusal"]),
    ("refusal", &[]),
    ("access", &["clock", "config", "connection_limits", "derived", "rates", "refusal"]),
    ("connection_limits", &["config", "refusal"]),
    ("owner_shard", &[]),
    ("traces", &["access", "clock", "config", "refusal"]),
    ("broker", &["access", "clock", "config", "owner_shard"]),
    ("source", &["config", "refusal"]),
    ("derived", &["config", "connection_limits", "refusal"]),
    ("fetch", &["access", "config", "clock", "connection_limits", "metrics"]),
    ("transport", &["access", "connection_limits", "config", "refusal", "start"]),
    ("protocol", &["access", "clock", "config", "rates", "refusal", "traces", "transport"]),
    ("answers", &["config", "connection_limits", "transport"]),
    ("fuzzing", &["access", "clock", "config", "protocol", "transport", "refusal"]),
    (
        "shard",
        &[
            "access",
            "answers",
            "audit",
            "broker",
            "connection_limits",
            "clock",
            "owner_shard",
            "protocol",
            "transport",
            "source",
            "derived",
            "fetch",
            "config",
            "metrics",
            "rates",
            "refusal",
            "traces",
        ],
    ),
    (
        "http",
        &[
            "shard",
            "access",
            "answers",
            "audit",
            "broker",
            "connection_limits",
            "clock",
            "protocol",
            "transport",
            "source",
            "config",
            "metrics",
            "pages",
            "rates",
            "refusal",
            "traces",
            "runs",
        ],
    ),
    (
        "serve",
        &[
            "http",
            "shard",
            "access",
            "audit",
            "broker",
            "connection_limits",
            "derived",
            "owner_shard",
            "protocol",
            "source",
            "fetch",
            "transport",
            "config",
            "metrics",
            "rates",
            "refusal",
            "runs",
        ],
    ),
];

const LAB: &Arrows = &[
    ("scenario", &[]),
    ("measure", &[]),
    ("subject", &["scenario"]),
    ("load_generator", &["scenario", "measure"]),
    ("swarm", &["load_generator", "scenario", "subject", "measure"]),
    ("browser", &["load_generator", "scenario", "subject", "measure"]),
    ("report", &["scenario", "measure"]),
    ("sizing", &["scenario", "measure", "report"]),
    (
        "run",
        &[
            "browser",
            "load_generator",
            "scenario",
            "measure",
            "subject",
            "swarm",
            "report",
            "sizing",
        ],
    ),
];

const HERE: &str = "change the arrows in xtask/src/tidy/arrows.rs";

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut used = Used::new();
    check_crates(tree, &mut used, findings);
    check_unused(CRATES, &used, findings);
    for (folder, arrows) in MODULES {
        let mut used = Used::new();
        check_modules(tree, folder, arrows, &mut used, findings);
        check_unused(arrows, &used, findings);
    }
}

/// Imports that exist: importer, imported.
type Used = BTreeSet<(&'static str, &'static str)>;

fn check_unused(arrows: &Arrows, used: &Used, findings: &mut Vec<Finding>) {
    for (importer, allowed) in arrows {
        for imported in allowed.iter().filter(|imported| !used.contains(&(importer, imported))) {
            findings.push(Finding::new(
                "xtask/src/tidy/arrows.rs",
                1,
                format!("{importer} may import {imported}, but does not"),
                "remove the arrow",
            ));
        }
    }
}

fn check_crates(tree: &Tree, used: &mut Used, findings: &mut Vec<Finding>) {
    for (path, manifest) in tree.texts().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        check_manifest(path, manifest, used, findings);
    }
}

/// Checks that every crate of ours under any `dependencies`, including those for tests, is an allowed import.
fn check_manifest(path: &str, manifest: &str, used: &mut Used, findings: &mut Vec<Finding>) {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.unwrap_or_default().trim_matches('"');
    let Some((name, allowed)) = CRATES.iter().find(|(importer, _)| *importer == name) else {
        if path.starts_with("crates/") && name != OF_TESTS {
            findings.push(Finding::new(path, 1, format!("crate {name} has no arrows"), HERE));
        }
        return;
    };
    let mut is_dependencies = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        if text.starts_with('[') {
            is_dependencies = text.ends_with("dependencies]");
        }
        let key = text.split(['.', ' ', '=']).next().unwrap_or_default();
        let is_ours = key == "xtask" || key == "thalweg" || key.starts_with("thalweg-");
        if !is_dependencies || !is_ours || key == OF_TESTS {
            continue;
        }
        if let Some(ours) = allowed.iter().find(|allowed| **allowed == key) {
            used.insert((name, ours));
            continue;
        }
        findings.push(Finding::new(
            path,
            line,
            format!("{name} may not depend on {key}"),
            format!("move what both need into a crate below both, or {HERE}"),
        ));
    }
}

fn check_modules(
    tree: &Tree,
    folder: &str,
    arrows: &'static Arrows,
    used: &mut Used,
    findings: &mut Vec<Finding>,
) {
    for (path, text) in tree.rust() {
        if let Some(inside) = path.strip_prefix(folder) {
            check_module(path, &module(inside), text, arrows, used, findings);
        }
    }
}

/// Returns the module path of a file: `stream/log.rs` is `[stream, log]`. A crate's root is empty.
fn module(inside: &str) -> Vec<&str> {
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" => Vec::new(),
        _ => stem.split('/').collect(),
    }
}

fn check_module(
    path: &str,
    module: &[&str],
    text: &str,
    arrows: &'static Arrows,
    used: &mut Used,
    findings: &mut Vec<Finding>,
) {
    let Some(own) = module.first() else { return };
    let Some((importer, allowed)) = arrows.iter().find(|(importer, _)| importer == own) else {
        findings.push(Finding::new(path, 1, format!("module {own} has no arrows"), HERE));
        return;
    };
    for path_used in outline(&code(text)).paths {
        let Some(sibling) = sibling(&path_used, module.len()) else { continue };
        if let Some(imported) = allowed.iter().find(|imported| **imported == sibling) {
            used.insert((importer, imported));
        }
        if sibling == *own || allowed.contains(&sibling) {
            continue;
        }
        let (what, remedy) = if arrows.iter().any(|(known, _)| *known == sibling) {
            let remedy = format!("move what both need below both, pass it in, or {HERE}");
            (format!("{own} may not import {sibling}"), remedy)
        } else {
            let remedy = "name the module it comes from".to_owned();
            (format!("crate::{sibling} hides an arrow"), remedy)
        };
        findings.push(Finding::new(path, path_used.line, what, remedy));
    }
}

/// Returns the top-level module that a path names from inside a module of this depth, if it leaves its own by
/// `crate::` or by enough `super::`.
fn sibling(path: &Path, depth: usize) -> Option<&str> {
    let steps_up = match path.segments.first()?.as_str() {
        "crate" => 1,
        _ => {
            let supers = path.segments.iter().take_while(|segment| *segment == "super").count();
            (supers == depth + path.inline_modules).then_some(supers)?
        }
    };
    path.segments.get(steps_up).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        let (tree, mut used) = (Tree::from_files(&[(path, text)]), Used::new());
        check_crates(&tree, &mut used, &mut findings);
        for (folder, arrows) in MODULES {
            check_modules(&tree, folder, arrows, &mut used, &mut findings);
        }
        let found: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
        assert_eq!(found, expected, "{path}: {text}");
    }

    #[test]
    fn crates_depend_downwards() {
        let manifest = |name, dependency| {
            format!(
                "[package]\nname = \"{name}\"\n[dev-dependencies]\n{dependency}.workspace = true"
            )
        };
        let path = "crates/any/Cargo.toml";
        check(path, &manifest("thalweg-client", "thalweg-wire"), &[]);
        check(path, &manifest("thalweg-lab", "serde"), &[]);
        let meeting = manifest("thalweg-lab", "thalweg-server");
        check(path, &meeting, &["thalweg-lab may not depend on thalweg-server"]);
        check(path, &manifest("thalweg-lab", "thalweg-testing"), &[]);
        let novel = manifest("thalweg-lab", "thalweg-novel");
        check(path, &novel, &["thalweg-lab may not depend on thalweg-novel"]);
        check(path, &manifest("thalweg-novel", "serde"), &["crate thalweg-novel has no arrows"]);
        check("Cargo.toml", "[workspace.dependencies]\nthalweg-lab = { path = \"x\" }", &[]);
    }

    #[test]
    fn modules_import_along_the_arrows() {
        let server = |file, text, expected: &[&str]| {
            check(&format!("crates/thalweg-server/src/{file}"), text, expected);
        };
        let core = |file, text, expected: &[&str]| {
            check(&format!("crates/thalweg-core/src/{file}"), text, expected);
        };
        core("fanout.rs", "use crate::stream::Log;", &[]);
        core("fanout.rs", "use crate::{fanout::x, stream};", &[]);
        core("stream/log.rs", "crate::fanout::f()", &["stream may not import fanout"]);
        core(
            "stream/log.rs",
            "use super::batch; use super::super::fanout;",
            &["stream may not import fanout"],
        );
        core("patch/mod.rs", "use super::stream;", &["patch may not import stream"]);
        server("transport.rs", "use crate::source;", &["transport may not import source"]);
        server("lib.rs", "mod serve; pub use crate::serve::serve;", &[]);
        server("novel.rs", "", &["module novel has no arrows"]);
        server("serve.rs", "use crate::Everything;", &["crate::Everything hides an arrow"]);
        server("pages.rs", "// crate::serve\n\"crate::serve\"; pub(crate) fn f() {}", &[]);
    }

    #[test]
    fn an_arrow_that_nobody_takes_is_found() {
        const ARROWS: &Arrows = &[("a", &["b", "c"]), ("b", &[]), ("c", &["b"])];
        let tree = Tree::from_files(&[
            ("src/a.rs", "use crate::b;"),
            ("src/c/d.rs", "super::super::b::e()"),
        ]);
        let (mut used, mut findings) = (Used::new(), Vec::new());
        check_modules(&tree, "src/", ARROWS, &mut used, &mut findings);
        check_unused(ARROWS, &used, &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
        assert_eq!(found, ["a may import c, but does not"]);
    }

    #[test]
    fn tests_of_a_module_import_only_what_it_may() {
        let path = "crates/thalweg-lab/src/measure.rs";
        check(path, "mod tests { use super::*; use super::sample; }", &[]);
        check(path, "mod tests { use super::super::run; }", &["measure may not import run"]);
    }
}
