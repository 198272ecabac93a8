//! Published figures of the same experiments: another machine's, shown beside the measured ones and never compared.

use serde::{Deserialize, Serialize};

const TEXT: &str = include_str!("../../../../lab/published.toml");

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) scenario: String,
    /// Names under which the suite `published` has the scenario, too.
    #[serde(default, skip_serializing)]
    also: Vec<String>,
    pub(super) source: String,
    pub(super) machine: String,
    pub(super) figures: Vec<PublishedFigure>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedFigure {
    pub(super) what: String,
    pub(super) figure: String,
}

#[derive(Deserialize)]
struct PublishedFile {
    sets: Vec<Published>,
}

/// Returns the published figures of a scenario, by its name.
pub(super) fn published(scenario: &str) -> Option<Published> {
    let file: PublishedFile = toml::from_str(TEXT).ok()?;
    let is_it =
        |set: &Published| set.scenario == scenario || set.also.iter().any(|name| name == scenario);
    file.sets.into_iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::find;

    #[test]
    fn every_published_set_names_an_existing_scenario() {
        let file: PublishedFile = toml::from_str(TEXT).unwrap();
        for set in &file.sets {
            find(&set.scenario).unwrap();
            assert!(!set.figures.is_empty(), "{}", set.scenario);
        }
        let names: Vec<&str> = file.sets.iter().map(|set| &*set.scenario).collect();
        assert_eq!(names, ["a1", "a2", "a3", "a4", "b", "c", "d", "d-ramp"]);
        assert!(published("fanout").is_none());
    }
}
