//! The scenarios that come with Thalweg, embedded in the binary.

/// Name and text of each, in the order in which they are listed.
pub const LIBRARY: &[(&str, &str)] = &[
    ("quick", include_str!("../../../../lab/scenarios/quick.toml")),
    ("all", include_str!("../../../../lab/scenarios/all.toml")),
    ("published", include_str!("../../../../lab/scenarios/published.toml")),
    ("fanout", include_str!("../../../../lab/scenarios/fanout.toml")),
    ("latency", include_str!("../../../../lab/scenarios/latency.toml")),
    ("ceiling", include_str!("../../../../lab/scenarios/ceiling.toml")),
    ("transports", include_str!("../../../../lab/scenarios/transports.toml")),
    ("topics", include_str!("../../../../lab/scenarios/topics.toml")),
    ("idle", include_str!("../../../../lab/scenarios/idle.toml")),
    ("stopped", include_str!("../../../../lab/scenarios/stopped.toml")),
    ("ramp", include_str!("../../../../lab/scenarios/ramp.toml")),
    ("churn", include_str!("../../../../lab/scenarios/churn.toml")),
    ("stampede", include_str!("../../../../lab/scenarios/stampede.toml")),
    ("slow", include_str!("../../../../lab/scenarios/slow.toml")),
    ("shards", include_str!("../../../../lab/scenarios/shards.toml")),
    ("publish", include_str!("../../../../lab/scenarios/publish.toml")),
    ("a1", include_str!("../../../../lab/scenarios/a1.toml")),
    ("a2", include_str!("../../../../lab/scenarios/a2.toml")),
    ("a3-1", include_str!("../../../../lab/scenarios/a3-1.toml")),
    ("a3-2", include_str!("../../../../lab/scenarios/a3-2.toml")),
    ("a4", include_str!("../../../../lab/scenarios/a4.toml")),
    ("a5", include_str!("../../../../lab/scenarios/a5.toml")),
    ("decode", include_str!("../../../../lab/scenarios/decode.toml")),
    ("tab", include_str!("../../../../lab/scenarios/tab.toml")),
    ("live", include_str!("../../../../lab/scenarios/live.toml")),
    ("tab-minutes", include_str!("../../../../lab/scenarios/tab-minutes.toml")),
    ("sdk", include_str!("../../../../lab/scenarios/sdk.toml")),
    ("signalr", include_str!("../../../../lab/scenarios/signalr.toml")),
    ("b", include_str!("../../../../lab/scenarios/b.toml")),
    ("c", include_str!("../../../../lab/scenarios/c.toml")),
    ("c-gorilla", include_str!("../../../../lab/scenarios/c-gorilla.toml")),
    ("d", include_str!("../../../../lab/scenarios/d.toml")),
    ("d-transports", include_str!("../../../../lab/scenarios/d-transports.toml")),
    ("d-ramp", include_str!("../../../../lab/scenarios/d-ramp.toml")),
    ("d-slow", include_str!("../../../../lab/scenarios/d-slow.toml")),
    ("d-churn", include_str!("../../../../lab/scenarios/d-churn.toml")),
    ("d-soak", include_str!("../../../../lab/scenarios/d-soak.toml")),
    ("d-stampede", include_str!("../../../../lab/scenarios/d-stampede.toml")),
    ("d-cost", include_str!("../../../../lab/scenarios/d-cost.toml")),
    ("interference", include_str!("../../../../lab/scenarios/interference.toml")),
    ("queries", include_str!("../../../../lab/scenarios/queries.toml")),
    ("cluster-cpu", include_str!("../../../../lab/scenarios/cluster-cpu.toml")),
    ("cluster-latency", include_str!("../../../../lab/scenarios/cluster-latency.toml")),
    ("cluster-fanout", include_str!("../../../../lab/scenarios/cluster-fanout.toml")),
    ("cluster-publish", include_str!("../../../../lab/scenarios/cluster-publish.toml")),
    ("durable", include_str!("../../../../lab/scenarios/durable.toml")),
    ("durable-fanout", include_str!("../../../../lab/scenarios/durable-fanout.toml")),
    ("peers", include_str!("../../../../lab/scenarios/peers.toml")),
    ("peers-all", include_str!("../../../../lab/scenarios/peers-all.toml")),
    ("peers-fanout", include_str!("../../../../lab/scenarios/peers-fanout.toml")),
    ("peers-single", include_str!("../../../../lab/scenarios/peers-single.toml")),
    ("peers-idle", include_str!("../../../../lab/scenarios/peers-idle.toml")),
    ("peers-latency", include_str!("../../../../lab/scenarios/peers-latency.toml")),
    ("peers-slow", include_str!("../../../../lab/scenarios/peers-slow.toml")),
    ("peers-deflate", include_str!("../../../../lab/scenarios/peers-deflate.toml")),
    ("peers-a1", include_str!("../../../../lab/scenarios/peers-a1.toml")),
    ("peers-a2", include_str!("../../../../lab/scenarios/peers-a2.toml")),
    ("peers-a3", include_str!("../../../../lab/scenarios/peers-a3.toml")),
    ("peers-b", include_str!("../../../../lab/scenarios/peers-b.toml")),
    ("peers-c", include_str!("../../../../lab/scenarios/peers-c.toml")),
    ("peers-d", include_str!("../../../../lab/scenarios/peers-d.toml")),
    ("peers-d-ramp", include_str!("../../../../lab/scenarios/peers-d-ramp.toml")),
    ("peers-cost", include_str!("../../../../lab/scenarios/peers-cost.toml")),
    ("tls", include_str!("../../../../lab/scenarios/tls.toml")),
    ("idle-tls", include_str!("../../../../lab/scenarios/idle-tls.toml")),
    ("h2", include_str!("../../../../lab/scenarios/h2.toml")),
    ("a-a", include_str!("../../../../lab/scenarios/a-a.toml")),
    ("netem", include_str!("../../../../lab/scenarios/netem.toml")),
    ("swarm", include_str!("../../../../lab/scenarios/swarm.toml")),
];

/// Name and title of each.
pub fn titles() -> impl Iterator<Item = (&'static str, &'static str)> {
    let title = |text: &'static str| text.lines().find_map(|line| line.strip_prefix("title = "));
    LIBRARY
        .iter()
        .map(move |(name, text)| (*name, title(text).unwrap_or_default().trim_matches('"')))
}

/// The text of the scenario of that name; an error names the nearest.
pub fn find(name: &str) -> Result<&'static str, super::ScenarioError> {
    LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let names: Vec<_> = LIBRARY.iter().map(|(name, _)| *name).collect();
        super::ScenarioError::new(super::error::unknown("scenario", name, &names))
    })
}
