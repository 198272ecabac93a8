//! Who may import whom. These tables are the arrows of ARCHITECTURE.md.

use super::{
    finding::Finding,
    rust::{Path, code, outline},
    tree::Tree,
};

/// Importer, then what it may import.
type Arrows = [(&'static str, &'static [&'static str])];

/// Between our crates.
const CRATES: &Arrows = &[
    ("thalweg", &["thalweg-server", "thalweg-lab", "thalweg-limit", "thalweg-client"]),
    ("thalweg-server", &["thalweg-wire"]),
    ("thalweg-client", &["thalweg-wire"]),
    ("thalweg-lab", &["thalweg-wire"]),
    ("thalweg-limit", &[]),
    ("thalweg-wire", &[]),
    ("xtask", &[]),
];

/// Between the top-level modules of a crate, by the folder of its sources.
/// `lib.rs` is the map and may name all of them.
const MODULES: [(&str, &Arrows); 2] =
    [("crates/thalweg-server/src/", SERVER), ("crates/thalweg-lab/src/", LAB)];

const SERVER: &Arrows = &[
    ("clock", &[]),
    ("config", &["pages", "stream"]),
    ("metrics", &[]),
    ("pages", &[]),
    ("runs", &["config", "refusal"]),
    ("stream", &[]),
    ("fanout", &["stream"]),
    ("refusal", &[]),
    ("access", &["config", "refusal"]),
    ("seats", &["config", "refusal"]),
    ("source", &["stream", "config", "metrics", "refusal"]),
    ("transport", &["access", "seats", "fanout", "stream", "config", "metrics", "refusal"]),
    ("answers", &["config", "seats", "transport"]),
    ("fuzzing", &["access", "config", "transport", "shard", "refusal"]),
    (
        "shard",
        &[
            "access",
            "answers",
            "seats",
            "clock",
            "transport",
            "source",
            "fanout",
            "stream",
            "config",
            "metrics",
            "refusal",
        ],
    ),
    (
        "http",
        &[
            "shard",
            "access",
            "answers",
            "seats",
            "clock",
            "transport",
            "source",
            "fanout",
            "stream",
            "config",
            "metrics",
            "pages",
            "refusal",
            "runs",
        ],
    ),
    (
        "serve",
        &[
            "http",
            "shard",
            "access",
            "seats",
            "source",
            "transport",
            "config",
            "metrics",
            "refusal",
            "runs",
        ],
    ),
];

const LAB: &Arrows = &[
    ("scenario", &[]),
    ("measure", &[]),
    ("subject", &["scenario"]),
    ("swarm", &["scenario", "subject", "measure"]),
    ("report", &["scenario", "measure"]),
    ("run", &["scenario", "measure", "subject", "swarm", "report"]),
];

const HERE: &str = "change the arrows in xtask/src/tidy/arrows.rs and ARCHITECTURE.md";

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, manifest) in tree.texts().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        check_manifest(path, manifest, findings);
    }
    for (folder, arrows) in MODULES {
        for (path, text) in tree.rust() {
            if let Some(inside) = path.strip_prefix(folder) {
                check_module(path, &module(inside), text, arrows, findings);
            }
        }
    }
}

/// Every crate of ours under any `dependencies`, those of tests included, has an
/// arrow.
fn check_manifest(path: &str, manifest: &str, findings: &mut Vec<Finding>) {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.unwrap_or_default().trim_matches('"');
    let Some((_, allowed)) = CRATES.iter().find(|(importer, _)| *importer == name) else {
        return;
    };
    let mut is_dependencies = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        if text.starts_with('[') {
            is_dependencies = text.ends_with("dependencies]");
        }
        let key = text.split(['.', ' ', '=']).next().unwrap_or_default();
        let is_ours = CRATES.iter().any(|(ours, _)| *ours == key);
        if is_dependencies && is_ours && !allowed.contains(&key) {
            findings.push(Finding::new(
                path,
                line,
                format!("{name} may not depend on {key}"),
                format!("move what both need into a crate below both, or {HERE}"),
            ));
        }
    }
}

/// The module path of a file: `stream/log.rs` is `[stream, log]`; a crate's
/// root is empty.
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
    arrows: &Arrows,
    findings: &mut Vec<Finding>,
) {
    let Some(own) = module.first() else { return };
    let Some((_, allowed)) = arrows.iter().find(|(importer, _)| importer == own) else {
        findings.push(Finding::new(path, 1, format!("module {own} has no arrows"), HERE));
        return;
    };
    for used in outline(&code(text)).paths {
        let Some(sibling) = sibling(&used, module.len()) else { continue };
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
        findings.push(Finding::new(path, used.line, what, remedy));
    }
}

/// The top-level module that a path names from inside a module of this depth, if
/// it leaves its own by `crate::` or by enough `super::`.
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
        super::check(&Tree::of(&[(path, text)]), &mut findings);
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
        check(path, &manifest("thalweg-lab", "thalweg-wire"), &[]);
        check(path, &manifest("thalweg-lab", "serde"), &[]);
        let meeting = manifest("thalweg-lab", "thalweg-server");
        check(path, &meeting, &["thalweg-lab may not depend on thalweg-server"]);
        check("Cargo.toml", "[workspace.dependencies]\nthalweg-lab = { path = \"x\" }", &[]);
    }

    #[test]
    fn modules_import_along_the_arrows() {
        let server = |file, text, expected: &[&str]| {
            check(&format!("crates/thalweg-server/src/{file}"), text, expected);
        };
        server("fanout.rs", "use crate::stream::Log;", &[]);
        server("fanout.rs", "use crate::{fanout::x, stream};", &[]);
        server("fanout.rs", "use crate::{metrics::Metrics};", &["fanout may not import metrics"]);
        server("stream/log.rs", "crate::fanout::f()", &["stream may not import fanout"]);
        server(
            "stream/log.rs",
            "use super::batch; use super::super::source;",
            &["stream may not import source"],
        );
        server("stream/mod.rs", "use super::config;", &["stream may not import config"]);
        server("transport.rs", "use crate::source;", &["transport may not import source"]);
        server("lib.rs", "mod serve; pub use crate::serve::serve;", &[]);
        server("novel.rs", "", &["module novel has no arrows"]);
        server("serve.rs", "use crate::Everything;", &["crate::Everything hides an arrow"]);
        server("stream.rs", "// crate::serve\n\"crate::serve\"; pub(crate) fn f() {}", &[]);
    }

    #[test]
    fn tests_of_a_module_see_no_more_than_it() {
        let path = "crates/thalweg-lab/src/measure.rs";
        check(path, "mod tests { use super::*; use super::sample; }", &[]);
        check(path, "mod tests { use super::super::run; }", &["measure may not import run"]);
    }
}
