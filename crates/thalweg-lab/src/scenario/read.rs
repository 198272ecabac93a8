//! Reads a file and the command line into a plan.

use super::against::against;
use super::cell_matrix::{CellMatrix, Declared, declared};
use super::file::ScenarioFile;
use super::plan::{Blank, Cell, Part, Plan};
use super::settings::Block;
use super::suite::{SuiteEntry, SuiteFile};
use super::uses::expect_used;
use super::{Control, Drive, LoadIn, Peer, ScenarioError, Subject, find, unknown};
use std::path::PathBuf;
use toml::Spanned;

/// Changes that the command line makes to a file.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Whether to use the file's `[quick]`.
    pub quick: bool,
    /// Number of starts of each cell, whatever the results.
    pub repeats: Option<u32>,
    /// Spans of each subject in a start, instead of the file's.
    pub rounds: Option<u32>,
    /// Time for all cells together in s, instead of the file's.
    pub budget_s: Option<u64>,
    /// Time measured per sample.
    pub measured_ms: Option<u64>,
    /// Only these subjects, by name.
    pub subjects: Vec<String>,
    /// The suite whose subjects take the place of the file's.
    pub subjects_of: Option<String>,
    /// `key=value`, in place of the file's.
    pub set: Vec<String>,
    /// These transports instead of the file's.
    pub transports: Vec<String>,
    /// Which cells have an A/A control, instead of the file's.
    pub control: Option<Control>,
    /// All connections to an endpoint are lost at once, and reconnect.
    pub stampede: bool,
    /// The load generator.
    pub load: LoadIn,
    /// The binary of another build of Thalweg, to be measured beside this one.
    pub against: Option<PathBuf>,
}

/// Reads a scenario or a suite; `peers` are the servers of other projects that it may name.
pub fn read(text: &str, changes: &Changes, peers: &[Peer]) -> Result<Plan, ScenarioError> {
    let table: toml::Table =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    if table.contains_key("scenarios") {
        return read_suite(text, changes, peers);
    }
    let forced = forced_block(changes)?;
    let ReadScenario { part, declared, blank } =
        read_part(text, changes, &forced, peers, &SuiteEntry::default())?;
    expect_declared(&changes.subjects, &declared)?;
    let part = part.ok_or_else(|| nobody(blank))?;
    expect_effect(&part, changes, &forced)?;
    let (name, title) = (part.name.clone(), part.title.clone());
    Ok(Plan { name, title, load: changes.load, parts: vec![part] })
}

fn read_suite(text: &str, changes: &Changes, peers: &[Peer]) -> Result<Plan, ScenarioError> {
    let suite: SuiteFile =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    let changes = Changes { quick: suite.quick || changes.quick, ..changes.clone() };
    let forced = forced_block(&changes)?;
    let mut idle: Vec<&str> = forced.keys().collect();
    let (mut parts, mut declared, mut blank) = (Vec::new(), Vec::new(), None);
    let in_browser = suite.in_browser.as_ref().filter(|_| changes.load.is_browser());
    for listed in in_browser.unwrap_or(&suite.scenarios) {
        let entry = &listed.get_ref().0;
        let blame = |message: String| ScenarioError::at(text, &listed.span(), message);
        let found = find(&entry.scenario).map_err(|error| blame(error.message))?;
        let table: toml::Table = toml::from_str(found).unwrap_or_default();
        if table.contains_key("scenarios") {
            return Err(blame(format!("`{}` is itself a suite", entry.scenario)));
        }
        if entry.set.subjects.is_some() {
            return Err(blame("write `subjects` beside `set`, not in it".to_owned()));
        }
        let drive = table.get("drive").and_then(|drive| drive.clone().try_into::<Drive>().ok());
        let is_used = |key: &str| drive.is_some_and(|drive| drive.uses(key));
        idle.retain(|key| !is_used(key));
        // A suite keeps the rest when `--subject` empties a part, and changes those parts that use a setting.
        let forced = forced.only(is_used).over(&entry.set);
        let entry = entry.comparing(changes.subjects_of.as_ref(), suite.subjects_of.as_ref());
        let read = read_part(found, &changes, &forced, peers, &entry)
            .map_err(|error| blame(format!("`{}`: {error}", entry.scenario)))?;
        parts.extend(read.part);
        declared.extend(read.declared);
        blank = blank.or(read.blank);
    }
    if let Some(key) = idle.first() {
        return Err(ScenarioError::new(format!("no scenario of `{}` uses {key}", suite.name)));
    }
    expect_declared(&changes.subjects, &declared)?;
    if parts.is_empty() {
        return Err(nobody(blank));
    }
    if let Some(budget_s) = changes.budget_s {
        share_out(budget_s, &mut parts);
    }
    Ok(Plan { name: suite.name, title: suite.title, load: changes.load, parts })
}

/// Maximum number of starts of a cell within its budget.
const REPEATS_MAX: u32 = 100;
/// Default of a cell's budget for each [`SUBJECTS_USUAL`] subjects, s.
const BUDGET_CELL_S: u64 = 60;
/// Subjects of a cell that share its budget, a control included.
const SUBJECTS_USUAL: usize = 4;

/// One scenario, as the command line changes it.
struct ReadScenario {
    /// `None` if no requested subject takes part.
    part: Option<Part>,
    declared: Vec<String>,
    /// Why a requested subject takes no part, if that leaves a cell without subjects.
    blank: Option<Blank>,
}

/// Refuses a subject that no scenario has: the run would be without it.
fn expect_declared(asked: &[String], declared: &[String]) -> Result<(), ScenarioError> {
    let Some(wrong) = asked.iter().find(|name| !declared.contains(name)) else { return Ok(()) };
    let mut known: Vec<&str> = Vec::new();
    for name in declared {
        if !known.contains(&name.as_str()) {
            known.push(name);
        }
    }
    Err(ScenarioError::new(unknown("subject", wrong, &known)))
}

fn nobody(blank: Option<Blank>) -> ScenarioError {
    let why = blank.map(|blank| blank.to_string());
    ScenarioError::new(why.unwrap_or_else(|| "these settings leave no subject".to_owned()))
}

fn read_part(
    text: &str,
    changes: &Changes,
    forced: &Block,
    peers: &[Peer],
    entry: &SuiteEntry,
) -> Result<ReadScenario, ScenarioError> {
    let others = changes.subjects_of.as_deref().or(entry.subjects_of.as_deref());
    let mut file: ScenarioFile =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    let in_browser = changes.load.is_browser();
    if file.browser.only && !in_browser {
        return Err(ScenarioError::new(format!(
            "`{}` is measured in a browser: add --browser chromium",
            file.name
        )));
    }
    if others.is_some() {
        // Both may name subjects that only the scenario's own list has.
        let is_for_all = |block: &Spanned<Block>| block.get_ref().subjects.is_none();
        let all = [&mut file.cells, &mut file.quick.cells];
        let in_browser = [&mut file.browser.cells, &mut file.browser.quick.cells];
        for blocks in all.into_iter().chain(in_browser) {
            blocks.iter_mut().for_each(|blocks| blocks.retain(is_for_all));
            *blocks = blocks.take().filter(|blocks| !blocks.is_empty());
        }
        (file.defaults.baseline, file.browser.defaults.baseline) = (None, None);
    }
    let mut file = if in_browser { file.in_browser() } else { file };
    entry.change(&mut file, changes.quick);
    let expect_used = |block: &Block, drive| expect_used(block, drive, in_browser);
    let quick = changes.quick.then_some(&file.quick);
    let blocks = quick.and_then(|quick| quick.cells.as_ref()).or(file.cells.as_ref());
    expect_used(forced, file.drive).map_err(ScenarioError::new)?;
    expect_used(&file.defaults, file.drive)
        .map_err(|message| ScenarioError::new(format!("[defaults]: {message}")))?;
    let subjects = match (&file.subjects, others.or(file.subjects_of.as_deref())) {
        (_, Some(suite)) if others.is_some() || file.subjects.is_none() => {
            let mut subjects = subjects_of(suite, &file, peers, in_browser)?;
            // No block of another file's cells can name them.
            subjects.iter_mut().for_each(|subject| subject.demand(&changes.subjects));
            subjects
        }
        _ => declared(text, file.subjects.as_deref(), file.drive, peers, in_browser)?,
    };
    let matrix =
        CellMatrix { subjects: &subjects, drive: file.drive, only: &changes.subjects, in_browser };
    let expand = |block: &Spanned<Block>| {
        expect_used(block.get_ref(), file.drive)
            .and_then(|()| matrix.expand(&block.get_ref().over(&file.defaults), forced))
            .map_err(|message| ScenarioError::at(text, &block.span(), message))
    };
    let mut cells = Vec::new();
    match blocks {
        None => cells = matrix.expand(&file.defaults, forced).map_err(ScenarioError::new)?,
        Some(blocks) => {
            for block in blocks {
                cells.extend(expand(block)?);
            }
        }
    }
    // `--set` may have made combinations equal.
    let mut distinct: Vec<Cell> = Vec::new();
    let mut blank = None;
    for cell in cells {
        if cell.subjects.is_empty() {
            blank = blank.or(cell.blanks.into_iter().next());
        } else if !distinct.contains(&cell) {
            distinct.push(cell);
        }
    }
    if let Some(binary) = &changes.against {
        distinct = against(distinct, file.drive, binary);
    }
    let declared = subjects.iter().map(|subject| subject.name().to_owned()).collect();
    if distinct.is_empty() {
        return Ok(ReadScenario { part: None, declared, blank });
    }
    let quick_control = quick.map(|quick| quick.control.unwrap_or(file.control.min_first()));
    match changes.control.or(quick_control).unwrap_or(file.control) {
        Control::EveryCell => distinct.iter_mut().for_each(Cell::repeat_baseline),
        Control::FirstCell => distinct.iter_mut().take(1).for_each(Cell::repeat_baseline),
        Control::None => {}
    }

    let effort = Effort { repeats: changes.repeats, budget_s: changes.budget_s }
        .or(quick.map(|quick| Effort { repeats: quick.repeats, budget_s: quick.budget_s }))
        .or(Some(Effort { repeats: file.repeats, budget_s: file.budget_s }));
    let (repeats, budget_s) = effort.for_cells(&distinct);
    let measured_ms = quick.and_then(|quick| quick.measured_ms);
    let warm_up_ms = quick.and_then(|quick| quick.warm_up_ms);
    let rounds = changes.rounds.or(quick.and_then(|quick| quick.rounds));
    let mut part = Part {
        title: file.title.unwrap_or_else(|| file.name.clone()),
        name: file.name,
        drive: file.drive,
        figure: file.figure,
        repeats,
        rounds: rounds.unwrap_or(file.rounds),
        budget_s,
        warm_up_ms: warm_up_ms.unwrap_or(file.warm_up_ms),
        measured_ms: changes.measured_ms.or(measured_ms).unwrap_or(file.measured_ms),
        concurrent: file.concurrent,
        cells: distinct,
    };
    if part.repeats == 0 || part.rounds == 0 || part.measured_ms == 0 {
        return Err(ScenarioError::new(
            "at least one repeat, one round and some time to measure are needed",
        ));
    }
    let is_scheduled =
        |subject: &Subject| subject.settings.scheduled_events_per_s(part.drive).is_some();
    if part.concurrent && !part.cells.iter().flat_map(|cell| &cell.subjects).all(is_scheduled) {
        return Err(ScenarioError::new(
            "concurrent needs a rate, or a generated load: otherwise each subject takes the whole core",
        ));
    }
    part.tell_cells_apart();
    Ok(ReadScenario { part: Some(part), declared, blank })
}

fn subjects_of(
    suite: &str,
    file: &ScenarioFile,
    peers: &[Peer],
    in_browser: bool,
) -> Result<Vec<Declared>, ScenarioError> {
    let text = find(suite)?;
    let suite: SuiteFile =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    declared(text, suite.subjects.as_deref(), file.drive, peers, in_browser)
}

/// Refuses changes that other settings leave without an effect.
fn expect_effect(part: &Part, changes: &Changes, forced: &Block) -> Result<(), ScenarioError> {
    let settings = || part.cells.iter().map(|cell| &cell.settings);
    let name = &part.name;
    if changes.measured_ms.is_some()
        && !settings().any(|setting| part.drive.lasts_for_measured_time(setting))
    {
        return Err(ScenarioError::new(format!(
            "--duration has no effect on `{name}`, which counts requests: set their number with --set \
             requests=…"
        )));
    }
    if forced.window.is_some() && settings().all(|setting| setting.events_per_s().is_some()) {
        return Err(ScenarioError::new(
            "events at a rate do not wait for each other: remove window or the rate",
        ));
    }
    Ok(())
}

/// Divides a suite's budget by the cells of its scenarios.
fn share_out(budget_s: u64, parts: &mut [Part]) {
    let all: usize = parts.iter().map(|part| part.cells.len()).sum();
    for part in parts {
        part.budget_s = Some((budget_s * part.cells.len() as u64 / all.max(1) as u64).max(1));
    }
}

/// Repeats and budget: the first one that is set counts.
#[derive(Clone, Copy, Debug)]
struct Effort {
    repeats: Option<u32>,
    budget_s: Option<u64>,
}

impl Effort {
    fn or(self, other: Option<Effort>) -> Effort {
        match other {
            Some(other) if self.repeats.is_none() && self.budget_s.is_none() => other,
            _ => self,
        }
    }

    /// Returns repeats and budget of these cells. A cell of many subjects has more time.
    fn for_cells(self, cells: &[Cell]) -> (u32, Option<u64>) {
        let usual = || {
            let shares =
                cells.iter().map(|cell| cell.subjects.len().div_ceil(SUBJECTS_USUAL) as u64);
            BUDGET_CELL_S * shares.sum::<u64>()
        };
        match self {
            Effort { repeats: Some(repeats), .. } => (repeats, None),
            Effort { budget_s, .. } => (REPEATS_MAX, Some(budget_s.unwrap_or_else(usual))),
        }
    }
}

/// Returns the command line's `--set` and `--transports` as a block of settings.
pub(super) fn forced_block(changes: &Changes) -> Result<Block, ScenarioError> {
    let mut forced = Block::default();
    for pair in &changes.set {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| ScenarioError::new(format!("`{pair}` is not key=value")))?;
        // A bare word is a string, for convenience in a shell.
        let block: Block = toml::from_str(&format!("{key} = {value}"))
            .or_else(|error| match value.starts_with('"') {
                true => Err(error),
                false => toml::from_str(&format!("{key} = \"{value}\"")),
            })
            .map_err(|error| ScenarioError::from_toml("", &error))?;
        forced = block.over(&forced);
    }
    if !changes.transports.is_empty() {
        let block: Block = toml::from_str(&format!("transport = {:?}", changes.transports))
            .map_err(|error| ScenarioError::from_toml("", &error))?;
        forced = block.over(&forced);
    }
    Ok(forced)
}
