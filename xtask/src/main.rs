//! The project's own checks:
//!
//! - `cargo xtask tidy`: the rules of CONTRIBUTING.md (`tidy/circles.rs` defines cycles of files)
//! - `cargo xtask tidy --language [PATH]`: lists sentences, words and names that break the rules of language
//! - `cargo xtask figures`: writes figures of archived runs into Markdown
//! - `cargo xtask licences`: checks the licences of dependencies
//! - `cargo xtask sbom PACKAGE TARGET`: prints what the program of a package contains for a target, as CycloneDX
//! - `cargo xtask notices PACKAGE TARGET`: prints the texts of their licences

mod components;
mod figures;
mod licences;
mod metadata;
mod tidy;
mod tree;

use std::{env, process::ExitCode};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        ["tidy", "--language"] => tidy::show_language(""),
        ["tidy", "--language", path] => tidy::show_language(path),
        ["figures"] => figures::run(),
        ["licences"] => licences::run(),
        ["sbom", package, target] => components::print_sbom(package, target),
        ["notices", package, target] => components::print_notices(package, target),
        _ => anyhow::bail!(
            "the tasks are tidy, figures, licences, sbom PACKAGE TARGET and notices PACKAGE TARGET, as in: cargo xtask \
             tidy"
        ),
    }
}
