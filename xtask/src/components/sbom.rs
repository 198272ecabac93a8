//! A software bill of materials in CycloneDX 1.6.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_json::{Value, json};

use super::component::Component;

/// Returns the bill of the program's components. The same arguments give the same bill.
pub(super) fn write(
    components: &BTreeSet<Component>,
    package: &str,
    version: &str,
    target: &str,
    commit: &str,
) -> Value {
    let listed: Vec<Value> = components.iter().map(entry).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial_number(package, target, commit),
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": package,
                "name": package,
                "version": version,
                "licenses": [{ "expression": "Apache-2.0 OR MIT" }],
                "properties": [
                    { "name": "thalweg:target", "value": target },
                    { "name": "thalweg:commit", "value": commit },
                ],
            },
        },
        "components": listed,
    })
}

fn entry(component: &Component) -> Value {
    let Component { registry, name, version, licence, folder: _ } = component;
    // The one character of npm's names that a package URL escapes.
    let url = format!("pkg:{registry}/{}@{version}", name.replace('@', "%40"));
    json!({
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "licenses": [{ "expression": licence }],
        "purl": url,
    })
}

/// Returns a UUID for the bill of a package, a target and a commit (version 8, RFC 9562, 5.8).
fn serial_number(package: &str, target: &str, commit: &str) -> String {
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, package, target, commit).hash(&mut hasher);
        hasher.finish()
    };
    let (first, last) = (hash(0), hash(1));
    let (start, middle, third) = (first >> 32, (first >> 16) & 0xffff, first & 0xfff);
    let (fourth, node) = (0x8000 | ((last >> 48) & 0x3fff), last & 0xffff_ffff_ffff);
    format!("urn:uuid:{start:08x}-{middle:04x}-8{third:03x}-{fourth:04x}-{node:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_names_each_component_by_its_package_url() {
        let component = |registry, name: &str| Component {
            registry,
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            licence: "MIT".to_owned(),
            folder: None,
        };
        let components = BTreeSet::from([component("cargo", "itoa"), component("npm", "@a/b")]);
        let bill = write(&components, "thalweg", "0.1.0", "here", "abc");
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/itoa@1.2.3");
        assert_eq!(bill["components"][1]["purl"], "pkg:npm/%40a/b@1.2.3");
        assert_eq!(bill["metadata"]["component"]["version"], "0.1.0");
        assert_eq!(bill, write(&components, "thalweg", "0.1.0", "here", "abc"));
    }

    #[test]
    fn a_serial_number_is_a_uuid_of_package_target_and_commit() {
        let number = serial_number("a", "here", "abc");
        let uuid = number.strip_prefix("urn:uuid:").expect("a UUID");
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert_eq!(&uuid[14..15], "8");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        assert_ne!(number, serial_number("b", "here", "abc"));
        assert_ne!(number, serial_number("a", "there", "abc"));
        assert_ne!(number, serial_number("a", "here", "abd"));
    }
}
