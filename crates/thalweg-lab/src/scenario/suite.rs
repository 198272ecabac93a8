//! A suite file as it is written (TOML): the names of scenarios, or tables that also change them.

use super::file::{ScenarioFile, SubjectBlock};
use super::quantity;
#[cfg(test)]
use super::quantity::Quantity;
use super::settings::Block;
#[cfg(test)]
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A suite: several scenarios run one after the other.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct SuiteFile {
    /// Name of the suite, and of the folders of its runs.
    pub(super) name: String,
    /// Title of the suite.
    pub(super) title: String,
    /// Scenarios that come with Thalweg, in order: their names, or tables that also change them.
    #[cfg_attr(test, schemars(with = "Vec<Listed>"))]
    pub(super) scenarios: Vec<Spanned<Listed>>,
    /// The scenarios with `--browser`, if they are other ones.
    #[cfg_attr(test, schemars(with = "Option<Vec<Listed>>"))]
    pub(super) in_browser: Option<Vec<Spanned<Listed>>>,
    /// Whether the scenarios always run in their short form (`--quick`).
    #[serde(default)]
    pub(super) quick: bool,
    /// The subjects of scenarios that name this suite in `subjects_of`.
    #[cfg_attr(test, schemars(with = "Option<Vec<SubjectBlock>>"))]
    pub(super) subjects: Option<Vec<Spanned<SubjectBlock>>>,
    /// The suite whose subjects are compared in all scenarios of this suite. Blocks of cells that name their
    /// own subjects are left out.
    pub(super) subjects_of: Option<String>,
}

/// A scenario of a suite, and changes to it.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct SuiteEntry {
    /// Name of a scenario that comes with Thalweg.
    pub(super) scenario: String,
    /// Name in the report. Default: that of the scenario.
    pub(super) name: Option<String>,
    /// Title in the report. Default: that of the scenario.
    title: Option<String>,
    /// The suite whose subjects are compared instead of the scenario's own. Blocks of cells that name their own
    /// subjects are left out.
    pub(super) subjects_of: Option<String>,
    /// The subjects, by name. Default: all that are not on demand.
    subjects: Option<Vec<String>>,
    /// Samples of each subject in each cell.
    repeats: Option<u32>,
    /// Time for all cells together, s.
    #[serde(default, deserialize_with = "quantity::s")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    budget_s: Option<u64>,
    /// Time measured in each sample, ms. `--quick` ignores it.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantity>"))]
    measured_ms: Option<u64>,
    /// Whether the subjects of a cell are measured at the same time.
    concurrent: Option<bool>,
    /// Settings of all cells, which replace those of the scenario.
    #[serde(default)]
    pub(super) set: Block,
}

impl SuiteEntry {
    /// Changes a scenario, after those of its changes that apply only to a browser.
    pub(super) fn change(&self, file: &mut ScenarioFile, is_quick: bool) {
        if let Some(name) = &self.name {
            file.name.clone_from(name);
        }
        file.title = self.title.clone().or(file.title.take());
        if self.repeats.is_some() || self.budget_s.is_some() {
            (file.repeats, file.budget_s) = (self.repeats, self.budget_s);
        }
        if let Some(measured_ms) = self.measured_ms.filter(|_| !is_quick) {
            file.measured_ms = measured_ms;
        }
        file.concurrent = self.concurrent.unwrap_or(file.concurrent);
        file.defaults.subjects = self.subjects.clone().or(file.defaults.subjects.take());
    }

    /// Returns the entry with the suite whose subjects are compared: that of the command line, its own, or the whole suite's.
    pub(super) fn comparing(&self, forced: Option<&String>, usual: Option<&String>) -> SuiteEntry {
        let subjects_of = forced.or(self.subjects_of.as_ref()).or(usual).cloned();
        // The names are those of another suite.
        let subjects = self.subjects.clone().filter(|_| forced.is_none());
        SuiteEntry { subjects_of, subjects, ..self.clone() }
    }
}

/// Reads the name of a scenario, or a table.
pub(super) fn named_or_changed<'de, D: Deserializer<'de>>(from: D) -> Result<SuiteEntry, D::Error> {
    from.deserialize_any(NamedOrChanged)
}

struct NamedOrChanged;

impl<'de> Visitor<'de> for NamedOrChanged {
    type Value = SuiteEntry;

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("the name of a scenario, or a table with the key `scenario`")
    }

    fn visit_str<E>(self, name: &str) -> Result<SuiteEntry, E> {
        Ok(SuiteEntry { scenario: name.to_owned(), ..SuiteEntry::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SuiteEntry, A::Error> {
        SuiteEntry::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A scenario as a suite lists it.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Listed(#[serde(deserialize_with = "named_or_changed")] pub(super) SuiteEntry);

#[cfg(test)]
impl JsonSchema for Listed {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Listed".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let changed = generator.subschema_for::<SuiteEntry>();
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, changed] })
    }
}
