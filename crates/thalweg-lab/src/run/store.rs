//! A store: a folder of runs, and their names.

use super::files::{PLAN, has, path};
use super::misuse;
use super::stored_run::manifest;
use crate::scenario::unknown;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where runs are kept unless `--store` says otherwise.
pub const STORE: &str = "thalweg-runs";
const LAST: &str = "last";

/// A folder of runs, each a folder with a `plan.json`.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Creates a store. The folder need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// Returns the names of all its runs, in order.
    pub fn names(&self) -> anyhow::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(misuse(format!("{} cannot be read: {error}", self.folder.display())));
            }
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter(|entry| is_run(&entry.path()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Returns the folder of a run of that name.
    pub fn folder_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the folder of the wanted run: named by `last`, by its name, by a path, or by a part of its name that no other has.
    pub fn find(&self, wanted: &str) -> anyhow::Result<PathBuf> {
        let names = self.names()?;
        if wanted == LAST {
            return self.newest(&names);
        }
        if names.iter().any(|name| name == wanted) {
            return Ok(self.folder_of(wanted));
        }
        let path = Path::new(wanted);
        if is_run(path) {
            return Ok(path.to_owned());
        }
        let store = self.folder.display();
        let meant: Vec<&str> =
            names.iter().filter(|name| name.contains(wanted)).map(String::as_str).collect();
        match meant.as_slice() {
            [only] => Ok(self.folder_of(only)),
            [] if names.is_empty() => Err(self.without_runs()),
            [] => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                Err(misuse(unknown(&format!("run in {store} named"), wanted, &names)))
            }
            several => Err(misuse(format!(
                "`{wanted}` may be any of {}: write more of the name, or `{LAST}`",
                several.join(", ")
            ))),
        }
    }

    fn without_runs(&self) -> anyhow::Error {
        let store = self.folder.display();
        misuse(format!(
            "there is no run in {store}: `thalweg-lab bench` makes one, --store names another folder"
        ))
    }

    /// Returns the newest run; of those begun in one second, the one whose plan was written last.
    fn newest(&self, names: &[String]) -> anyhow::Result<PathBuf> {
        let age = |name: &&String| {
            let folder = self.folder_of(name);
            let written =
                fs::metadata(path(&folder, PLAN)).and_then(|metadata| metadata.modified()).ok();
            (manifest(&folder).begun, written)
        };
        let newest = names.iter().min_by_key(|name| Reverse(age(name)));
        let Some(name) = newest else {
            return Err(self.without_runs());
        };
        Ok(self.folder_of(name))
    }

    /// Returns the first folder of that name that does not exist yet.
    pub(super) fn unused(&self, name: &str) -> PathBuf {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| !self.folder_of(name).exists());
        self.folder_of(&free.unwrap_or_default())
    }
}

fn is_run(folder: &Path) -> bool {
    has(folder, PLAN)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ARCHIVE, scratch};
    use super::*;
    use crate::subject::TemporaryFolder;

    fn store(runs: &[(&str, &str)]) -> (TemporaryFolder, Store) {
        let folder = scratch();
        for (run, begun) in runs {
            let run = folder.path().join(run);
            fs::create_dir_all(&run).unwrap();
            fs::write(run.join("plan.json"), "{}").unwrap();
            fs::write(run.join("manifest.json"), format!("{{\"begun\": \"{begun}\"}}")).unwrap();
        }
        fs::create_dir_all(folder.path().join("not-a-run")).unwrap();
        let store = Store::new(folder.path());
        (folder, store)
    }

    #[test]
    fn a_run_is_named_in_many_ways() {
        let runs = [
            ("day-fanout", "2026-11-21T10:00:00Z"),
            ("day-fanout-2", "2026-11-21T12:00:00Z"),
            ("day-idle", "2026-11-21T11:00:00Z"),
        ];
        let (_folder, store) = store(&runs);
        let names = ["day-fanout", "day-fanout-2", "day-idle"];
        assert_eq!(store.names().unwrap(), names);
        let check = |wanted: &str, expected: &str| {
            assert_eq!(store.find(wanted).unwrap(), store.folder_of(expected), "{wanted}");
        };
        check("day-fanout", "day-fanout");
        check("fanout-2", "day-fanout-2");
        check("idle", "day-idle");
        check("last", "day-fanout-2");
        check(&store.folder_of("day-idle").to_string_lossy(), "day-idle");
        assert_eq!(store.unused("day-fanout"), store.folder_of("day-fanout-3"));
        assert_eq!(store.unused("other"), store.folder_of("other"));
    }

    #[test]
    fn missing_and_ambiguous_runs_are_refused() {
        let (_folder, store) = store(&[("day-fanout", ""), ("day-idle", "")]);
        let refusal = |wanted: &str| {
            let error = store.find(wanted).unwrap_err().to_string();
            error.replace(&*store.folder.to_string_lossy(), "STORE")
        };
        assert_eq!(
            refusal("day"),
            "`day` may be any of day-fanout, day-idle: write more of the name, or `last`"
        );
        assert_eq!(
            refusal("day-fanuot"),
            "there is no run in STORE named `day-fanuot`; did you mean `day-fanout`?"
        );
        let empty = Store::new(store.folder_of("nowhere"));
        assert!(empty.names().unwrap().is_empty());
        assert!(empty.find("last").unwrap_err().to_string().starts_with("there is no run in "));
    }

    #[test]
    fn the_archive_is_a_store() {
        let names = Store::new(ARCHIVE).names().unwrap();
        assert!(names.contains(&"fanout".to_owned()) && !names.contains(&"swarm".to_owned()));
    }
}
