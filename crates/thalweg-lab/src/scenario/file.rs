//! A scenario file as it is written (TOML).

use super::quantity;
#[cfg(test)]
use super::quantity::Quantity;
use super::settings::Block;
use super::{Control, Drive, Figure, Process, Transport};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A scenario: one drive, blocks of cells, the subjects to compare.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    /// Name of the scenario, and of the folders of its runs.
    pub(super) name: String,
    /// Title of the scenario. Default: its name.
    pub(super) title: Option<String>,
    /// The drive, which makes the subjects broadcast.
    pub(super) drive: Drive,
    /// The figure that matters most. Default: the usual one of the drive.
    pub(super) figure: Option<Figure>,
    /// Samples of each subject in each cell.
    pub(super) repeats: Option<u32>,
    /// Number of measured spans of each subject between two starts, in turns. 1 if the load cannot pause.
    #[serde(default = "rounds")]
    pub(super) rounds: u32,
    /// Time for all cells together, s, without `repeats`: each cell is measured until its result is precise
    /// enough, or its share of the time is over. Default: a minute for each cell.
    #[serde(default, deserialize_with = "quantity::s")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    pub(super) budget_s: Option<u64>,
    /// Time at full load before measuring, ms.
    #[serde(default = "warm_up_ms", deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Quantity"))]
    pub(super) warm_up_ms: u64,
    /// Time measured in each sample, ms.
    #[serde(default = "measured_ms", deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Quantity"))]
    pub(super) measured_ms: u64,
    /// Which cells have an A/A control, which measures their baseline twice to show the noise.
    #[serde(alias = "again", default = "control")]
    pub(super) control: Control,
    /// Whether the subjects of a cell are measured at the same time, each with a share of the core, so that
    /// other work of the machine affects all of them alike. Only at a rate that leaves room for all.
    #[serde(alias = "together", default)]
    pub(super) concurrent: bool,
    /// Settings of all cells that do not set them.
    #[serde(default)]
    pub(super) defaults: Block,
    /// Blocks of cells. A block has a cell for every combination of its lists. Default: one cell with the
    /// defaults.
    #[cfg_attr(test, schemars(with = "Option<Vec<Block>>"))]
    pub(super) cells: Option<Vec<Spanned<Block>>>,
    /// The subjects. Default: Thalweg, and `limit` if it can take part.
    #[cfg_attr(test, schemars(with = "Option<Vec<SubjectBlock>>"))]
    pub(super) subjects: Option<Vec<Spanned<SubjectBlock>>>,
    /// The suite whose subjects are compared, if the file has none of its own.
    pub(super) subjects_of: Option<String>,
    /// Changes with `--quick`.
    #[serde(default)]
    pub(super) quick: Quick,
    /// Changes with `--browser`.
    #[serde(default)]
    pub(super) browser: Browser,
}

/// Changes with `--browser`: tabs of a browser generate the load.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Browser {
    /// Whether the scenario exists only with a browser.
    #[serde(default)]
    pub(super) only: bool,
    /// The figure that matters most then.
    pub(super) figure: Option<Figure>,
    /// Samples of each subject in each cell.
    pub(super) repeats: Option<u32>,
    /// Time for all cells together, s.
    #[serde(default, deserialize_with = "quantity::s")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    pub(super) budget_s: Option<u64>,
    /// Time at full load before measuring, ms.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    pub(super) warm_up_ms: Option<u64>,
    /// Time measured in each sample, ms.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    pub(super) measured_ms: Option<u64>,
    /// Which cells have an A/A control. Default: the first cell.
    pub(super) control: Option<Control>,
    /// Settings of all cells that do not set them; they replace those of the scenario.
    #[serde(default)]
    pub(super) defaults: Block,
    /// Cells that replace all cells of the scenario.
    #[cfg_attr(test, schemars(with = "Option<Vec<Block>>"))]
    pub(super) cells: Option<Vec<Spanned<Block>>>,
    /// Subjects that replace all subjects of the scenario.
    #[cfg_attr(test, schemars(with = "Option<Vec<SubjectBlock>>"))]
    pub(super) subjects: Option<Vec<Spanned<SubjectBlock>>>,
    /// Changes with `--quick` and `--browser`.
    #[serde(default)]
    pub(super) quick: Quick,
}

impl ScenarioFile {
    /// Returns the scenario with the load in a browser.
    pub(super) fn in_browser(self) -> ScenarioFile {
        let Browser { defaults, cells, subjects, quick, .. } = self.browser.clone();
        let own = self.browser.clone();
        // Repeats of one and a budget of the other must not both apply.
        let says_effort = own.repeats.is_some() || own.budget_s.is_some();
        ScenarioFile {
            figure: own.figure.or(self.figure),
            repeats: if says_effort { own.repeats } else { self.repeats },
            budget_s: if says_effort { own.budget_s } else { self.budget_s },
            // A browser is started again for every span.
            rounds: 1,
            warm_up_ms: own.warm_up_ms.unwrap_or(self.warm_up_ms),
            measured_ms: own.measured_ms.unwrap_or(self.measured_ms),
            control: own.control.unwrap_or(Control::FirstCell),
            concurrent: false,
            defaults: defaults.over(&self.defaults),
            cells: cells.or(self.cells),
            subjects: subjects.or(self.subjects),
            quick: Quick { rounds: None, ..quick },
            ..self
        }
    }
}

/// Changes with `--quick`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    /// Samples of each subject in each cell.
    pub(super) repeats: Option<u32>,
    /// Number of measured spans of each subject between two starts.
    pub(super) rounds: Option<u32>,
    /// Time for all cells together, s.
    #[serde(default, deserialize_with = "quantity::s")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    pub(super) budget_s: Option<u64>,
    /// Time at full load before measuring, ms.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    pub(super) warm_up_ms: Option<u64>,
    /// Time measured in each sample, ms.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    pub(super) measured_ms: Option<u64>,
    /// Which cells have an A/A control. Default: the first cell.
    #[serde(alias = "again")]
    pub(super) control: Option<Control>,
    /// Cells that replace all cells of the scenario.
    #[cfg_attr(test, schemars(with = "Option<Vec<Block>>"))]
    pub(super) cells: Option<Vec<Spanned<Block>>>,
}

fn rounds() -> u32 {
    3
}

fn warm_up_ms() -> u64 {
    500
}

fn measured_ms() -> u64 {
    2000
}

fn control() -> Control {
    Control::EveryCell
}

/// One server to measure, and how it differs from the cell's settings.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct SubjectBlock {
    /// Name of the subject. Default: its program.
    pub(super) name: Option<String>,
    /// `thalweg`, `limit`, or the name of a peer.
    pub(super) program: String,
    /// The transports of a peer for which this subject differs. Default: all.
    #[serde(default)]
    pub(super) transports: Vec<Transport>,
    /// Arguments that are added to a peer's command, and to Thalweg's if the subject has `processes`.
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    /// Processes that are started before the subject, in order, and ended with it.
    #[serde(default)]
    pub(super) processes: Vec<Process>,
    /// Whether the subject is left out unless a block of cells names it.
    #[serde(default)]
    pub(super) on_demand: bool,
    /// Settings of this subject, which replace those of the cell.
    #[serde(default)]
    pub(super) with: Block,
}
