//! The lab's runs, in a folder that the lab has written. Contract: `docs/reference/http.md`, "Pages and runs".
//!
//! Requests read the folder on demand, outside of the shards' threads, one at a time. Each name is opened relative to
//! the folder's descriptor, one step down, and links are not followed, so no path leads out of the folder.

mod folder;

use std::{
    cmp::Reverse,
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thalweg_wire::{ErrorCode, Excerpt};
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    config::{RUN_FILE_BYTES, RUNS_LISTED, RUNS_LOOKED_AT},
    refusal::Refusal,
};
use folder::{Folder, NotRead, compressed};

#[derive(Debug)]
pub(crate) struct Runs {
    path: PathBuf,
    /// Lets one request read at a time.
    turn: Arc<Semaphore>,
}

pub(crate) const REPORT: &str = "report.html";
const MANIFEST: &str = "manifest.json";
const SUMMARY: &str = "summary.json";

/// Files of a run that are sent unchanged.
pub(crate) const FILES: [&str; 3] = [REPORT, MANIFEST, SUMMARY];

/// The plan of a run: the first file that the lab writes.
const PLAN: &str = "plan.json";

/// Bytes of a name: the maximum of the usual file systems.
const NAME_BYTES_MAX: usize = 255;

/// Characters of a text in the list. A title has at most a tenth of this.
const TEXT_CHARS_MAX: usize = 500;

impl Runs {
    /// Returns the runs in a folder. Without the folder there are none. The error is one sentence with the remedy.
    pub(crate) fn new(path: &Path) -> Result<Self, String> {
        if let Err(error) = Folder::open(path)
            && error.kind() != ErrorKind::NotFound
        {
            let shown = path.display();
            return Err(format!(
                "--runs {shown} is not a readable folder ({error}): name the one that \
                 `thalweg-lab bench` writes to, which is thalweg-runs unless --store or --out says \
                 otherwise"
            ));
        }
        Ok(Self { path: path.into(), turn: Arc::new(Semaphore::new(1)) })
    }

    /// Returns the list of runs as JSON, the newest first. Fails with `NotFound` when the folder is gone.
    pub(crate) async fn list(&self) -> Result<Vec<u8>, Refusal> {
        self.read(|folder| {
            // `thalweg-lab bench` creates the folder with its first run.
            let Some(folder) = folder else { return Ok(listing(Vec::new(), false)) };
            let (runs, more) = listed(&folder).map_err(|error| {
                tracing::warn!(%error, "the folder of runs cannot be listed");
                gone()
            })?;
            Ok(listing(runs, more))
        })
        .await
    }

    /// Returns a file of the run named `name` in a URL, one of [`FILES`]. Fails with `NotFound`, and the remedy if there is
    /// one.
    pub(crate) async fn file(&self, name: &str, file: &'static str) -> Result<RunFile, Refusal> {
        let decoded = percent_decode_str(name).decode_utf8().ok();
        let name = decoded.filter(|name| is_name(name)).map(|name| name.into_owned());
        let name = name.ok_or_else(|| not_found("no run has this name: GET /runs lists them"))?;
        self.read(move |folder| {
            let run = folder.and_then(|folder| folder.folder(&name).ok()).ok_or_else(|| {
                let name = Excerpt(&name);
                not_found(format!("there is no run {name:?}: GET /runs lists all runs"))
            });
            let run = run?;
            let opened = match run.file(file, RUN_FILE_BYTES) {
                Err(NotRead::NotThere) => run
                    .file(&compressed(file), RUN_FILE_BYTES)
                    .map(|(file, bytes)| RunFile { file, bytes, is_compressed: true }),
                opened => opened.map(|(file, bytes)| RunFile { file, bytes, is_compressed: false }),
            };
            opened.map_err(|error| match error {
                NotRead::TooLarge => not_found(format!(
                    "{file} of {:?} is larger than {} MiB: open it in its folder",
                    Excerpt(&name),
                    RUN_FILE_BYTES >> 20
                )),
                NotRead::NotThere if file == REPORT => not_found(format!(
                    "{:?} has no report.html: `thalweg-lab bench export --format html` creates it",
                    Excerpt(&name)
                )),
                NotRead::NotThere => not_found(format!("{:?} has no {file}", Excerpt(&name))),
            })
        })
        .await
    }

    /// Reads on a thread that may wait for a disk. A cancelled request keeps its turn until the read is done.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(Option<Folder>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let turn = turn.map_err(|_| Refusal::draining())?;
        let path = self.path.clone();
        let read = spawn_blocking(move || {
            let _turn = turn;
            match Folder::open(&path) {
                Ok(folder) => read(Some(folder)),
                Err(error) if error.kind() == ErrorKind::NotFound => read(None),
                Err(error) => {
                    tracing::warn!(%error, "the folder of runs cannot be opened");
                    Err(gone())
                }
            }
        });
        read.await.map_err(|_| Refusal::draining())?
    }
}

pub(crate) struct RunFile {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    /// Whether it is compressed with gzip, as in an archived run.
    pub(crate) is_compressed: bool,
}

/// A run in the list. Unreadable values are omitted.
#[derive(Debug, Serialize, PartialEq)]
struct Listed {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    begun: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    has_report: bool,
    has_summary: bool,
}

#[derive(Serialize)]
struct Listing {
    runs: Vec<Listed>,
    /// Whether the list omits runs, because they exceed its limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

/// The values of `manifest.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    version: Option<String>,
    begun: Option<String>,
    machine: Option<Machine>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Machine {
    cpu: Option<String>,
    cores: Option<u64>,
}

/// The values of `plan.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Plan {
    name: Option<String>,
    title: Option<String>,
}

fn listing(runs: Vec<Listed>, more: bool) -> Vec<u8> {
    // Every value has a JSON form.
    serde_json::to_vec(&Listing { runs, more }).unwrap_or_default()
}

/// Returns the newest runs, and whether there are others.
fn listed(store: &Folder) -> std::io::Result<(Vec<Listed>, bool)> {
    let names = store.names(RUNS_LOOKED_AT)?;
    let is_cut = names.len() >= RUNS_LOOKED_AT;
    let names = names.into_iter().filter(|name| is_name(name));
    let mut runs: Vec<Listed> = names.filter_map(|name| looked_at(store, name)).collect();
    // Runs without a known time come last.
    runs.sort_by(|a, b| (Reverse(&a.begun), &a.name).cmp(&(Reverse(&b.begun), &b.name)));
    let more = is_cut || runs.len() > RUNS_LISTED;
    runs.truncate(RUNS_LISTED);
    for run in &mut runs {
        let Ok(folder) = store.folder(&run.name) else { continue };
        let Plan { name, title } = json(&folder, PLAN);
        (run.scenario, run.title) = (name.map(clipped), title.map(clipped));
    }
    Ok((runs, more))
}

/// Returns the list entry of a run, without its plan, which is the largest file. `None` if it is not a run.
fn looked_at(store: &Folder, name: String) -> Option<Listed> {
    let folder = store.folder(&name).ok()?;
    if !folder.has(PLAN) && !FILES.into_iter().any(|file| folder.has(file)) {
        return None;
    }
    let Manifest { version, begun, machine } = json(&folder, MANIFEST);
    Some(Listed {
        name,
        scenario: None,
        title: None,
        begun: begun.map(clipped),
        version: version.map(clipped),
        machine: machine.and_then(Machine::into_text).map(clipped),
        has_report: folder.has(REPORT),
        has_summary: folder.has(SUMMARY),
    })
}

/// Returns the values in a file; the default if it is unreadable.
fn json<T: Default + DeserializeOwned>(folder: &Folder, name: &str) -> T {
    let text = folder.read(name, RUN_FILE_BYTES).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

impl Machine {
    fn into_text(self) -> Option<String> {
        let cores = self.cores.map(|cores| format!("{cores} cores"));
        let parts: Vec<String> = self.cpu.into_iter().chain(cores).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn clipped(text: String) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

/// Returns whether a text can be the name of a run, one step down and not hidden.
fn is_name(name: &str) -> bool {
    let is_one_step = !name.contains(['/', '\\', '\0']);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && is_one_step
}

fn not_found(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::NotFound, message)
}

fn gone() -> Refusal {
    not_found("the folder that --runs names cannot be read any more: put it back, or name another")
}

#[cfg(test)]
mod tests;
