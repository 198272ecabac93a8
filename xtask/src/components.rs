//! The crates and npm packages of others that a released binary contains.

mod component;
mod notices;
mod sbom;

use std::{
    collections::BTreeSet,
    env, fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::metadata;
use component::Component;

/// The package whose program has the documentation in it.
const SERVER: &str = "thalweg";

/// Prints the components of a package's program for a target as CycloneDX 1.6.
pub(crate) fn print_sbom(package: &str, target: &str) -> anyhow::Result<ExitCode> {
    let commit = said_by("git", &["rev-parse", "HEAD"], Path::new("."))?;
    let bill = sbom::write(
        &read(package, target)?,
        package,
        env!("CARGO_PKG_VERSION"),
        target,
        commit.trim(),
    );
    println!("{}", serde_json::to_string_pretty(&bill)?);
    Ok(ExitCode::SUCCESS)
}

/// Prints the texts of the licences of these components.
pub(crate) fn print_notices(package: &str, target: &str) -> anyhow::Result<ExitCode> {
    print!("{}", notices::write(&read(package, target)?)?);
    Ok(ExitCode::SUCCESS)
}

fn read(package: &str, target: &str) -> anyhow::Result<BTreeSet<Component>> {
    let root = said_by("git", &["rev-parse", "--show-toplevel"], Path::new("."))?;
    let root = Path::new(root.trim_end());
    let mut components = crates(package, target)?;
    components.extend(packages(&root.join("web"))?);
    if package == SERVER {
        components.insert(book(&fs::read_to_string(root.join("Makefile"))?)?);
    }
    Ok(components)
}

/// Returns the crates that the program of a package links, without those of this workspace.
fn crates(package: &str, target: &str) -> anyhow::Result<BTreeSet<Component>> {
    let tree = metadata::cargo(&[
        "tree",
        "--locked",
        "--package",
        package,
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}",
        "--target",
        target,
    ])?;
    linked(&tree, &metadata::read(target)?)
}

/// Returns the packages of the metadata that lines of `cargo tree` name, as in `serde v1.0.229`.
fn linked(tree: &str, metadata: &Value) -> anyhow::Result<BTreeSet<Component>> {
    let named: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut found = BTreeSet::new();
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        if named.contains(&(text("name"), text("version"))) {
            found.insert(Component {
                registry: "cargo",
                name: text("name").to_owned(),
                version: text("version").to_owned(),
                // Older crates separate alternatives with a slash.
                licence: text("license").split('/').map(str::trim).collect::<Vec<_>>().join(" OR "),
                folder: Path::new(text("manifest_path")).parent().map(Path::to_owned),
            });
        }
    }
    ensure!(!found.is_empty(), "cargo tree names no crate of the metadata");
    Ok(found)
}

/// Returns the npm packages that the pages contain, without those of this workspace.
fn packages(web: &Path) -> anyhow::Result<BTreeSet<Component>> {
    let listing =
        said_by("npm", &["ls", "--omit=dev", "--all", "--parseable", "-w", "thalweg-ui"], web)?;
    let mut found = BTreeSet::new();
    for folder in listing.lines().map(Path::new) {
        let is_ours =
            fs::canonicalize(folder)?.components().all(|part| part.as_os_str() != "node_modules");
        if is_ours {
            continue;
        }
        let manifest: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("package.json"))?)?;
        let text = |key: &str| manifest[key].as_str().unwrap_or_default().to_owned();
        found.insert(Component {
            registry: "npm",
            name: text("name"),
            version: text("version"),
            licence: text("license"),
            folder: Some(folder.to_owned()),
        });
    }
    ensure!(!found.is_empty(), "npm lists no packages of the pages; run `npm ci` in web/");
    Ok(found)
}

/// Returns mdBook, whose scripts are in the documentation. The Makefile sets its version.
fn book(makefile: &str) -> anyhow::Result<Component> {
    let version = makefile.lines().find_map(|line| line.strip_prefix("MDBOOK_VERSION = "));
    Ok(Component {
        registry: "cargo",
        name: "mdbook".to_owned(),
        version: version.context("the Makefile sets no MDBOOK_VERSION")?.to_owned(),
        licence: "MPL-2.0".to_owned(),
        folder: None,
    })
}

fn said_by(program: &str, arguments: &[&str], folder: &Path) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {} failed: {said}", arguments[0]);
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_those_that_the_program_links() {
        let tree = "thalweg v0.1.0 (folder)\nitoa v1.0.18\nserde v1.0.2 (*)\n";
        let package = |name: &str, version: &str, source: Value| {
            serde_json::json!({ "name": name, "version": version, "source": source,
                "license": "MIT / Apache-2.0", "manifest_path": format!("crates/{name}/Cargo.toml") })
        };
        let metadata = serde_json::json!({ "packages": [
            package("thalweg", "0.1.0", Value::Null),
            package("itoa", "1.0.18", "registry".into()),
            package("serde", "1.0.2", "registry".into()),
            package("serde", "0.9.0", "registry".into()),
            package("insta", "1.0.0", "registry".into()),
        ] });
        let found = linked(tree, &metadata).expect("crates");
        let names: Vec<_> =
            found.iter().map(|found| (&*found.name, &*found.version, &*found.licence)).collect();
        let either = "MIT OR Apache-2.0";
        assert_eq!(names, [("itoa", "1.0.18", either), ("serde", "1.0.2", either)]);
        assert!(linked("thalweg v0.1.0", &metadata).is_err());
    }

    #[test]
    fn the_version_of_the_book_is_the_makefiles() {
        assert_eq!(book("A = 1\nMDBOOK_VERSION = 0.5.4\n").expect("a version").version, "0.5.4");
        assert!(book("").is_err());
    }
}
