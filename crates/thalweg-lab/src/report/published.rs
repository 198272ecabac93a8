//! What others have published of the same experiments: another machine's, shown
//! beside what was measured and never compared with it.

use serde::Deserialize;
use std::collections::BTreeMap;

const TEXT: &str = include_str!("../../../../lab/published.toml");

/// What one source says of one scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) scenario: String,
    pub(super) source: String,
    pub(super) machine: String,
    pub(super) figures: Vec<Figure>,
}

/// One figure, in the source's words.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub(super) what: String,
    pub(super) figure: String,
    pub(super) mark: Option<Mark>,
}

/// Where a figure stands in a chart.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    /// Of the chart.
    pub(super) metric: String,
    /// Of the chart: the setting that varies.
    pub(super) axis: String,
    pub(super) at: f64,
    pub(super) value: f64,
    pub(super) name: String,
    /// Only in charts of these settings.
    #[serde(default)]
    pub(super) with: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct File {
    sets: Vec<Published>,
}

/// What has been published of a scenario, by its name.
pub(super) fn published(scenario: &str) -> Option<Published> {
    let file: File = toml::from_str(TEXT).ok()?;
    file.sets.into_iter().find(|set| set.scenario == scenario)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::find;

    #[test]
    fn every_set_is_of_a_scenario_there_is() {
        let file: File = toml::from_str(TEXT).unwrap();
        for set in &file.sets {
            find(&set.scenario).unwrap();
            assert!(!set.figures.is_empty(), "{}", set.scenario);
        }
        let names: Vec<&str> = file.sets.iter().map(|set| &*set.scenario).collect();
        assert_eq!(names, ["a1", "a2", "a3-1", "a3-2", "b", "c"]);
        assert!(published("fanout").is_none());
    }
}
