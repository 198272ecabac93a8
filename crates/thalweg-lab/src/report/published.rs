//! Published figures of the same experiments: another machine's, shown beside the measured ones and never compared.

use crate::scenario::Settings;
use serde::Deserialize;
use serde_json::{Map, Value};

const TEXT: &str = include_str!("../../../../lab/published.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) scenario: String,
    pub(super) source: String,
    pub(super) machine: String,
    pub(super) figures: Vec<Figure>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub(super) what: String,
    pub(super) figure: String,
    pub(super) mark: Option<Mark>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub(super) metric: String,
    /// The setting that varies in the chart.
    pub(super) axis: String,
    pub(super) at: f64,
    pub(super) value: f64,
    pub(super) name: String,
    /// The settings of the point, without the axis: charts of other settings do not show the point.
    pub(super) with: Map<String, Value>,
}

impl Mark {
    /// Whether it was taken with these settings.
    pub(super) fn is_of(&self, settings: &Settings) -> bool {
        let settings = serde_json::to_value(settings).unwrap_or_default();
        self.with.iter().all(|(key, value)| settings.get(key) == Some(value))
    }
}

#[derive(Deserialize)]
struct PublishedFile {
    sets: Vec<Published>,
}

/// Published figures of a scenario, by its name.
pub(super) fn published(scenario: &str) -> Option<Published> {
    let file: PublishedFile = toml::from_str(TEXT).ok()?;
    file.sets.into_iter().find(|set| set.scenario == scenario)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::find;

    #[test]
    fn every_set_is_of_a_scenario_there_is() {
        let file: PublishedFile = toml::from_str(TEXT).unwrap();
        for set in &file.sets {
            find(&set.scenario).unwrap();
            assert!(!set.figures.is_empty(), "{}", set.scenario);
        }
        let names: Vec<&str> = file.sets.iter().map(|set| &*set.scenario).collect();
        assert_eq!(names, ["a1", "a2", "a3-1", "a3-2", "a4", "a5", "b", "c", "d", "d-ramp"]);
        assert!(published("fanout").is_none());
    }

    /// A mark with an unknown setting would be drawn nowhere.
    #[test]
    fn every_mark_is_of_some_settings() {
        let Ok(Value::Object(known)) = serde_json::to_value(Settings::default()) else {
            panic!("settings are an object");
        };
        let file: PublishedFile = toml::from_str(TEXT).unwrap();
        for set in &file.sets {
            for mark in set.figures.iter().filter_map(|figure| figure.mark.as_ref()) {
                let mut own = known.clone();
                own.extend(mark.with.clone());
                let settings: Settings = serde_json::from_value(Value::Object(own)).unwrap();
                assert!(mark.is_of(&settings), "{mark:?}");
                assert!(known.contains_key(&mark.axis) && !mark.with.contains_key(&mark.axis));
                for (key, value) in &mark.with {
                    assert!(
                        known.get(key).is_some_and(|found| found.is_number() == value.is_number())
                    );
                }
                let other = Settings { interval_us: settings.interval_us + 1, ..settings };
                assert!(!mark.is_of(&other), "{mark:?}");
            }
        }
    }
}
