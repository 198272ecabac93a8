//! The texts of licences, which must accompany the binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use anyhow::Context;

use super::component::Component;

const NAMES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];

/// Returns each text once, below the components to which it belongs.
pub(super) fn write(components: &BTreeSet<Component>) -> anyhow::Result<String> {
    let mut owners: BTreeMap<String, Vec<&Component>> = BTreeMap::new();
    let mut out = String::from("Thalweg contains these components of others:\n\n");
    for component in components {
        let Component { registry, name, version, licence, folder } = component;
        let _ = writeln!(out, "  {registry} {name} {version}: {licence}");
        if let Some(folder) = folder {
            for text in texts(folder)? {
                owners.entry(text).or_default().push(component);
            }
        }
    }
    out += "\nThe sources of a component, and its licence if no text follows, are in its registry, \
            crates.io or npm.\n";
    for (text, owners) in owners {
        let names: Vec<String> =
            owners.iter().map(|owner| format!("{} {}", owner.name, owner.version)).collect();
        let _ = write!(out, "\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    Ok(out)
}

/// Returns the texts in files such as LICENSE-MIT, each without white space at its ends.
fn texts(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            found
                .insert(String::from_utf8_lossy(&fs::read(entry.path())?).trim().replace('\r', ""));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_two_components_is_printed_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let component = |name: &str| Component {
            registry: "cargo",
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            licence: "MIT".to_owned(),
            folder: Some(root.to_owned()),
        };
        let written = write(&BTreeSet::from([component("a"), component("b")])).expect("texts");
        assert!(written.contains("  cargo a 1.2.3: MIT\n  cargo b 1.2.3: MIT\n"), "{written}");
        let mit = fs::read_to_string(root.join("LICENSE-MIT")).expect("a licence");
        assert_eq!(written.matches(mit.trim()).count(), 1);
        assert_eq!(written.matches("a 1.2.3, b 1.2.3\n").count(), 2);
    }
}
