//! The scenarios that come with Thalweg, embedded in the binary.

/// Name and text of each, in the order in which they are listed.
pub const LIBRARY: &[(&str, &str)] = &[
    ("quick", include_str!("../../../../lab/scenarios/quick.toml")),
    ("all", include_str!("../../../../lab/scenarios/all.toml")),
    ("published", include_str!("../../../../lab/scenarios/published.toml")),
    ("fanout", include_str!("../../../../lab/scenarios/fanout.toml")),
    ("latency", include_str!("../../../../lab/scenarios/latency.toml")),
    ("ceiling", include_str!("../../../../lab/scenarios/ceiling.toml")),
    ("idle", include_str!("../../../../lab/scenarios/idle.toml")),
    ("slow", include_str!("../../../../lab/scenarios/slow.toml")),
    ("publish", include_str!("../../../../lab/scenarios/publish.toml")),
    ("a1", include_str!("../../../../lab/scenarios/a1.toml")),
    ("a2", include_str!("../../../../lab/scenarios/a2.toml")),
    ("a3", include_str!("../../../../lab/scenarios/a3.toml")),
    ("a4", include_str!("../../../../lab/scenarios/a4.toml")),
    ("tab", include_str!("../../../../lab/scenarios/tab.toml")),
    ("b", include_str!("../../../../lab/scenarios/b.toml")),
    ("c", include_str!("../../../../lab/scenarios/c.toml")),
    ("d", include_str!("../../../../lab/scenarios/d.toml")),
    ("d-ramp", include_str!("../../../../lab/scenarios/d-ramp.toml")),
    ("d-cost", include_str!("../../../../lab/scenarios/d-cost.toml")),
    ("peers", include_str!("../../../../lab/scenarios/peers.toml")),
    ("peers-deflate", include_str!("../../../../lab/scenarios/peers-deflate.toml")),
    ("deltas", include_str!("../../../../lab/scenarios/deltas.toml")),
    ("swarm", include_str!("../../../../lab/scenarios/swarm.toml")),
];

/// Returns name and title of each.
pub fn titles() -> impl Iterator<Item = (&'static str, &'static str)> {
    let title = |text: &'static str| text.lines().find_map(|line| line.strip_prefix("title = "));
    LIBRARY
        .iter()
        .map(move |(name, text)| (*name, title(text).unwrap_or_default().trim_matches('"')))
}

/// Returns the text of the scenario of that name; an error names the nearest.
pub fn find(name: &str) -> Result<&'static str, super::ScenarioError> {
    LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let names: Vec<_> = LIBRARY.iter().map(|(name, _)| *name).collect();
        super::ScenarioError::new(super::error::unknown("scenario", name, &names))
    })
}
