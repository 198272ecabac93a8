//! From files to cells: every combination of the axes, checked.

use super::check::check;
use super::error::unknown;
use super::file::{Axis, Block, ScenarioFile, SubjectBlock, SuiteFile};
use super::{Again, Drive, Peer, Program, ScenarioError, Settings, Transport, find};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;

/// What a subject takes to start and to stop, about.
const STARTING_MS: u64 = 60;
/// What a connection takes to open and to close, about.
const OPENING_US: u64 = 150;
/// What a round trip takes, about.
const ROUND_TRIP_US: u64 = 100;
/// Spans of a search for the highest rate, about.
const CEILING_STEPS: u64 = 15;

/// What to measure, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Of the scenario or suite.
    pub name: String,
    /// What it is for.
    pub title: String,
    /// The scenarios, one after the other.
    pub parts: Vec<Part>,
}

/// One scenario of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Of the scenario.
    pub name: String,
    /// What it is for.
    pub title: String,
    /// Who makes the subjects broadcast.
    pub drive: Drive,
    /// Samples of each subject in each cell.
    pub repeats: u32,
    /// Time at full load before measuring.
    pub warm_up_ms: u64,
    /// Time measured.
    pub measured_ms: u64,
    /// What to compare the subjects in.
    pub cells: Vec<Cell>,
}

/// One combination of settings and the subjects to compare in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// What the settings say.
    pub label: String,
    /// The subjects' common settings.
    pub settings: Settings,
    /// At least one.
    pub subjects: Vec<Subject>,
    /// Index of the subject the others are compared with.
    pub baseline: usize,
}

/// One server in one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// As the report calls it.
    pub name: String,
    /// What is started.
    pub program: Program,
    /// The cell's settings with this subject's own on top.
    pub settings: Settings,
}

/// One sample to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the part.
    pub part: usize,
    /// Index of the part's cell.
    pub cell: usize,
    /// Index of the cell's subject.
    pub subject: usize,
    /// From 0.
    pub repeat: u32,
}

impl Plan {
    /// Every sample, in the order in which they are taken: cell by cell, and
    /// within a cell interleaved, the order rotating (A B C, B C A, …), so that
    /// what drifts with the machine hits every subject alike.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.parts.iter().enumerate().flat_map(|(part_index, part)| {
            part.cells.iter().enumerate().flat_map(move |(cell_index, cell)| {
                let count = cell.subjects.len();
                (0..part.repeats).flat_map(move |repeat| {
                    (0..count).map(move |turn| Slot {
                        part: part_index,
                        cell: cell_index,
                        subject: (turn + repeat as usize) % count,
                        repeat,
                    })
                })
            })
        })
    }

    /// The part of a sample.
    pub fn part(&self, slot: Slot) -> &Part {
        &self.parts[slot.part]
    }

    /// The cell of a sample.
    pub fn cell(&self, slot: Slot) -> &Cell {
        &self.part(slot).cells[slot.cell]
    }

    /// The subject of a sample.
    pub fn subject(&self, slot: Slot) -> &Subject {
        &self.cell(slot).subjects[slot.subject]
    }

    /// All subjects of all cells.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.parts.iter().flat_map(|part| &part.cells).flat_map(|cell| &cell.subjects)
    }

    /// About how long a sample takes, start and stop of the subject included.
    pub fn expected_time(&self, slot: Slot) -> Duration {
        let (part, settings) = (self.part(slot), &self.subject(slot).settings);
        let opening_us = u64::from(settings.connections) * OPENING_US;
        let measured_us = match part.drive {
            Drive::Echo if settings.requests > 0 => {
                u64::from(settings.requests) * settings.request_us
            }
            Drive::RoundTrip => u64::from(settings.requests) * ROUND_TRIP_US,
            Drive::Ceiling => CEILING_STEPS * part.measured_ms * 1000,
            _ => part.measured_ms * 1000,
        };
        Duration::from_millis(STARTING_MS + part.warm_up_ms)
            + Duration::from_micros(opening_us + measured_us)
    }
}

/// What the command line changes about a file.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Take the file's `[quick]` instead.
    pub quick: bool,
    /// Samples of each subject in each cell.
    pub repeats: Option<u32>,
    /// Time measured per sample.
    pub measured_ms: Option<u64>,
    /// Only these subjects, by name.
    pub subjects: Vec<String>,
    /// `key=value`, in place of what the file says.
    pub set: Vec<String>,
    /// These transports instead of the file's.
    pub transports: Vec<String>,
    /// Which cells have their baseline twice, instead of the file's.
    pub again: Option<Again>,
}

/// Reads a scenario or a suite; `peers` are the subjects of others that it may
/// name.
pub fn read(text: &str, changes: &Changes, peers: &[Peer]) -> Result<Plan, ScenarioError> {
    let table: toml::Table =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    if table.contains_key("scenarios") {
        return read_suite(text, changes, peers);
    }
    let part = read_part(text, changes, peers)?;
    Ok(Plan { name: part.name.clone(), title: part.title.clone(), parts: vec![part] })
}

fn read_suite(text: &str, changes: &Changes, peers: &[Peer]) -> Result<Plan, ScenarioError> {
    let suite: SuiteFile =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    let changes = Changes { quick: suite.quick || changes.quick, ..changes.clone() };
    let mut parts = Vec::new();
    for name in &suite.scenarios {
        let blame = |message: String| ScenarioError::at(text, &name.span(), message);
        let found = find(name.get_ref()).map_err(|error| blame(error.message))?;
        let table: toml::Table = toml::from_str(found).unwrap_or_default();
        if table.contains_key("scenarios") {
            return Err(blame(format!("`{}` is itself a suite", name.get_ref())));
        }
        // A suite keeps what is left of it when `--subjects` empties a part.
        match read_part(found, &changes, peers) {
            Err(error) if error.message == NO_SUBJECT => {}
            part => parts.push(part.map_err(|error| blame(error.to_string()))?),
        }
    }
    if parts.is_empty() {
        return Err(ScenarioError::new(NO_SUBJECT));
    }
    Ok(Plan { name: suite.name, title: suite.title, parts })
}

const NO_SUBJECT: &str = "none of the subjects asked for is in this scenario";

fn read_part(text: &str, changes: &Changes, peers: &[Peer]) -> Result<Part, ScenarioError> {
    let file: ScenarioFile =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    let quick = changes.quick.then_some(&file.quick);
    let blocks = quick.and_then(|quick| quick.cells.as_ref()).or(file.cells.as_ref());
    let forced = forced_block(changes)?;
    let subjects = declared(text, &file, peers)?;
    let cast = Cast { subjects: &subjects, drive: file.drive, only: &changes.subjects };
    let expand = |block: &Block, span: &Range<usize>| {
        cast.expand(&block.over(&file.defaults), &forced)
            .map_err(|message| ScenarioError::at(text, span, message))
    };
    let mut cells = Vec::new();
    match blocks {
        None => cells = expand(&Block::default(), &(0..0))?,
        Some(blocks) => {
            for block in blocks {
                cells.extend(expand(block.get_ref(), &block.span())?);
            }
        }
    }
    // `--set` may have made combinations equal.
    let mut distinct: Vec<Cell> = Vec::new();
    for cell in cells {
        if !cell.subjects.is_empty() && !distinct.contains(&cell) {
            distinct.push(cell);
        }
    }
    if distinct.is_empty() {
        return Err(ScenarioError::new(NO_SUBJECT));
    }
    let quick_again = quick.map(|quick| quick.again.unwrap_or(file.again.min_first()));
    match changes.again.or(quick_again).unwrap_or(file.again) {
        Again::EveryCell => distinct.iter_mut().for_each(Cell::repeat_baseline),
        Again::FirstCell => distinct.iter_mut().take(1).for_each(Cell::repeat_baseline),
        Again::None => {}
    }

    let repeats = quick.and_then(|quick| quick.repeats);
    let measured_ms = quick.and_then(|quick| quick.measured_ms);
    let warm_up_ms = quick.and_then(|quick| quick.warm_up_ms);
    let part = Part {
        title: file.title.unwrap_or_else(|| file.name.clone()),
        name: file.name,
        drive: file.drive,
        repeats: changes.repeats.or(repeats).unwrap_or(file.repeats),
        warm_up_ms: warm_up_ms.unwrap_or(file.warm_up_ms),
        measured_ms: changes.measured_ms.or(measured_ms).unwrap_or(file.measured_ms),
        cells: distinct,
    };
    if part.repeats == 0 || part.measured_ms == 0 {
        return Err(ScenarioError::new("at least one repeat and some time to measure are needed"));
    }
    Ok(part)
}

impl Cell {
    /// The baseline once more, next to itself, unless it is there already: two
    /// samples of the same thing tell the noise.
    fn repeat_baseline(&mut self) {
        let baseline = &self.subjects[self.baseline];
        let is_same = |other: &&Subject| {
            (&other.program, &other.settings) == (&baseline.program, &baseline.settings)
        };
        if self.subjects.iter().filter(is_same).count() < 2 {
            let again = Subject { name: format!("{} again", baseline.name), ..baseline.clone() };
            self.subjects.insert(self.baseline + 1, again);
        }
    }
}

/// A subject as a file declares it.
struct Declared {
    name: String,
    program: Program,
    on_demand: bool,
    with: Block,
}

/// The subjects of a file; Thalweg, and the limit where it can take part, if it
/// has none.
fn declared(
    text: &str,
    file: &ScenarioFile,
    peers: &[Peer],
) -> Result<Vec<Declared>, ScenarioError> {
    let plain = |name: &str, program| Declared {
        name: name.to_owned(),
        program,
        on_demand: false,
        with: Block::default(),
    };
    let Some(blocks) = &file.subjects else {
        let has_limit = file.drive != Drive::Publish;
        let limit = has_limit.then(|| plain("limit", Program::Limit));
        return Ok(limit.into_iter().chain([plain("thalweg", Program::Thalweg)]).collect());
    };
    let declare = |spanned: &Spanned<SubjectBlock>| {
        let block = spanned.get_ref();
        let program = program(block, peers)
            .map_err(|message| ScenarioError::at(text, &spanned.span(), message))?;
        Ok(Declared {
            name: block.name.clone().unwrap_or_else(|| block.program.clone()),
            program,
            on_demand: block.on_demand,
            with: block.with.clone(),
        })
    };
    blocks.iter().map(declare).collect()
}

fn program(block: &SubjectBlock, peers: &[Peer]) -> Result<Program, String> {
    let ours = match block.program.as_str() {
        "thalweg" => Some(Program::Thalweg),
        "limit" => Some(Program::Limit),
        _ => None,
    };
    if let Some(ours) = ours {
        return match block.arguments.as_slice() {
            [] => Ok(ours),
            _ => Err("`arguments` are for peers; Thalweg's are settings".to_owned()),
        };
    }
    let Some(peer) = peers.iter().find(|peer| peer.name == block.program) else {
        let peers = peers.iter().map(|peer| peer.name.as_str());
        let known: Vec<&str> = ["thalweg", "limit"].into_iter().chain(peers).collect();
        return Err(unknown("program", &block.program, &known));
    };
    let arguments = block.arguments.clone();
    Ok(Program::Peer(Box::new(Peer { arguments, ..peer.clone() })))
}

/// The command line's `--set` and `--transports` as a block of settings.
fn forced_block(changes: &Changes) -> Result<Block, ScenarioError> {
    let mut forced = Block::default();
    for pair in &changes.set {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| ScenarioError::new(format!("`{pair}` is not key=value")))?;
        // A bare word is a string: nobody wants to quote quotes in a shell.
        let block: Block = toml::from_str(&format!("{key} = {value}"))
            .or_else(|_| toml::from_str(&format!("{key} = \"{value}\"")))
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

/// What the command line says, over `base`: every combination.
pub(super) fn forced_settings(
    changes: &Changes,
    base: &Settings,
) -> Result<Vec<Settings>, ScenarioError> {
    Ok(combinations_over(&forced_block(changes)?, base))
}

/// Who may take part in the cells of a file.
struct Cast<'a> {
    subjects: &'a [Declared],
    drive: Drive,
    /// Only these, by name, unless it is empty.
    only: &'a [String],
}

impl Cast<'_> {
    /// The cells that a block stands for; `forced` is what the command line says.
    fn expand(&self, block: &Block, forced: &Block) -> Result<Vec<Cell>, String> {
        let names: Vec<&str> = self.subjects.iter().map(|it| it.name.as_str()).collect();
        let known = |name: &str| match names.iter().position(|known| *known == name) {
            Some(index) => Ok(index),
            None => Err(unknown("subject", name, &names)),
        };
        let listed: Vec<usize> = match &block.subjects {
            Some(listed) => listed.iter().map(|name| known(name)).collect::<Result<_, _>>()?,
            None => (0..names.len()).filter(|&index| !self.subjects[index].on_demand).collect(),
        };
        let chosen: Vec<&Declared> = listed
            .into_iter()
            .map(|index| &self.subjects[index])
            .filter(|subject| self.only.is_empty() || self.only.contains(&subject.name))
            .collect();
        let baseline = match &block.baseline {
            Some(name) => names[known(name)?],
            None => chosen.first().map_or("", |subject| &subject.name),
        };
        combinations(&forced.over(block))
            .into_iter()
            .map(|settings| {
                let subjects: Result<Vec<_>, _> =
                    chosen.iter().map(|subject| self.place(subject, &settings, forced)).collect();
                let subjects = subjects?;
                let baseline = subjects.iter().position(|subject| subject.name == baseline);
                Ok(Cell {
                    label: settings.label(self.drive),
                    settings,
                    baseline: baseline.unwrap_or(0),
                    subjects,
                })
            })
            .collect()
    }

    /// A subject in a cell, with its own settings on top, and on top of these the
    /// command line's.
    fn place(
        &self,
        subject: &Declared,
        settings: &Settings,
        forced: &Block,
    ) -> Result<Subject, String> {
        let own = combinations_over(&subject.with.except(forced), settings);
        let [settings] = own.as_slice() else {
            let name = &subject.name;
            return Err(format!("subject `{name}` needs one value per setting, not a list"));
        };
        check(settings, self.drive, &subject.program)?;
        Ok(Subject {
            name: subject.name.clone(),
            program: subject.program.clone(),
            settings: settings.clone(),
        })
    }
}

fn combinations(block: &Block) -> Vec<Settings> {
    combinations_over(block, &Settings::default())
}

fn combinations_over(block: &Block, base: &Settings) -> Vec<Settings> {
    let mut all = vec![base.clone()];
    vary(&mut all, &block.transport, |settings, value: Transport| settings.transport = value);
    vary(&mut all, &block.mode, |settings, value| settings.mode = value);
    vary(&mut all, &block.request, |settings, value| settings.request = value);
    vary(&mut all, &block.shards, |settings, value| settings.shards = value);
    vary(&mut all, &block.topics, |settings, value| settings.topics = value);
    vary(&mut all, &block.event_bytes, |settings, value| settings.event_bytes = value);
    vary(&mut all, &block.connections, |settings, value| settings.connections = value);
    vary(&mut all, &block.stopped, |settings, value| settings.stopped = value);
    vary(&mut all, &block.window, |settings, value| settings.window = value);
    vary(&mut all, &block.rate, |settings, value| settings.rate = value);
    vary(&mut all, &block.p99_us_max, |settings, value| settings.p99_us_max = value);
    vary(&mut all, &block.answers, |settings, value| settings.answers = value);
    vary(&mut all, &block.interval_us, |settings, value| settings.interval_us = value);
    vary(&mut all, &block.batch, |settings, value| settings.batch = value);
    vary(&mut all, &block.tls, |settings, value| settings.tls = value);
    vary(&mut all, &block.streams, |settings, value| settings.streams = value);
    vary(&mut all, &block.requests, |settings, value| settings.requests = value);
    vary(&mut all, &block.dummy_bytes, |settings, value| settings.dummy_bytes = value);
    vary(&mut all, &block.request_us, |settings, value| settings.request_us = value);
    vary(&mut all, &block.window_bytes, |settings, value| settings.window_bytes = value);
    vary(&mut all, &block.receive_buffer_bytes, |settings, value| {
        settings.receive_buffer_bytes = value;
    });
    vary(&mut all, &block.send_buffer_bytes, |settings, value| settings.send_buffer_bytes = value);
    vary(&mut all, &block.unsent_bytes, |settings, value| settings.unsent_bytes = value);
    vary(&mut all, &block.round, |settings, value| settings.round = value);
    all
}

/// Every combination so far, once for each value of one more axis.
fn vary<T: Copy>(all: &mut Vec<Settings>, axis: &Option<Axis<T>>, set: impl Fn(&mut Settings, T)) {
    let Some(Axis(values)) = axis else { return };
    let shorter = std::mem::take(all);
    for settings in shorter {
        for &value in values {
            let mut longer = settings.clone();
            set(&mut longer, value);
            all.push(longer);
        }
    }
}
