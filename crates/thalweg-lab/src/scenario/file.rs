//! A scenario file as it is written (TOML).

use super::{Drive, Mode, Program, Request, Transport};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A scenario: one drive, blocks of cells, the subjects to compare.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) drive: Drive,
    pub(super) repeats: u32,
    pub(super) warm_up_ms: u64,
    pub(super) measured_ms: u64,
    #[serde(default)]
    pub(super) defaults: Block,
    pub(super) cells: Vec<Spanned<Block>>,
    pub(super) subjects: Vec<Spanned<SubjectBlock>>,
    #[serde(default)]
    pub(super) quick: Quick,
}

/// Several scenarios run one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SuiteFile {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) scenarios: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) quick: bool,
}

/// What `--quick` changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    pub(super) repeats: Option<u32>,
    pub(super) warm_up_ms: Option<u64>,
    pub(super) measured_ms: Option<u64>,
    pub(super) cells: Option<Vec<Spanned<Block>>>,
}

/// One server to measure, and how it differs from the cell's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubjectBlock {
    pub(super) name: String,
    pub(super) program: Program,
    /// Left out unless a block of cells names it.
    #[serde(default)]
    pub(super) on_demand: bool,
    #[serde(default)]
    pub(super) with: Block,
}

/// Settings, each one value or a list of them. A list is an axis: a block of
/// cells stands for every combination.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Block {
    pub(super) transport: Option<Axis<Transport>>,
    pub(super) connections: Option<Axis<u32>>,
    pub(super) topics: Option<Axis<u32>>,
    pub(super) event_bytes: Option<Axis<u32>>,
    pub(super) window: Option<Axis<u32>>,
    pub(super) batch: Option<Axis<u32>>,
    pub(super) interval_us: Option<Axis<u64>>,
    pub(super) stopped: Option<Axis<u32>>,
    pub(super) shards: Option<Axis<u32>>,
    pub(super) mode: Option<Axis<Mode>>,
    pub(super) request: Option<Axis<Request>>,
    pub(super) tls: Option<Axis<bool>>,
    pub(super) streams: Option<Axis<u32>>,
    pub(super) requests: Option<Axis<u32>>,
    pub(super) request_us: Option<Axis<u64>>,
    pub(super) dummy_bytes: Option<Axis<u32>>,
    pub(super) window_bytes: Option<Axis<u32>>,
    pub(super) receive_buffer_bytes: Option<Axis<u32>>,
    pub(super) send_buffer_bytes: Option<Axis<u32>>,
    pub(super) unsent_bytes: Option<Axis<u32>>,
    /// The subjects of these cells, by name; all that are not on demand, else.
    pub(super) subjects: Option<Vec<String>>,
    /// The subject the others are compared with; the first, else.
    pub(super) baseline: Option<String>,
}

impl Block {
    /// These settings, and `below` where they say nothing.
    pub(super) fn over(&self, below: &Block) -> Block {
        fn either<T: Clone>(above: &Option<T>, below: &Option<T>) -> Option<T> {
            above.as_ref().or(below.as_ref()).cloned()
        }
        Block {
            transport: either(&self.transport, &below.transport),
            connections: either(&self.connections, &below.connections),
            topics: either(&self.topics, &below.topics),
            event_bytes: either(&self.event_bytes, &below.event_bytes),
            window: either(&self.window, &below.window),
            batch: either(&self.batch, &below.batch),
            interval_us: either(&self.interval_us, &below.interval_us),
            stopped: either(&self.stopped, &below.stopped),
            shards: either(&self.shards, &below.shards),
            mode: either(&self.mode, &below.mode),
            request: either(&self.request, &below.request),
            tls: either(&self.tls, &below.tls),
            streams: either(&self.streams, &below.streams),
            requests: either(&self.requests, &below.requests),
            request_us: either(&self.request_us, &below.request_us),
            dummy_bytes: either(&self.dummy_bytes, &below.dummy_bytes),
            window_bytes: either(&self.window_bytes, &below.window_bytes),
            receive_buffer_bytes: either(&self.receive_buffer_bytes, &below.receive_buffer_bytes),
            send_buffer_bytes: either(&self.send_buffer_bytes, &below.send_buffer_bytes),
            unsent_bytes: either(&self.unsent_bytes, &below.unsent_bytes),
            subjects: either(&self.subjects, &below.subjects),
            baseline: either(&self.baseline, &below.baseline),
        }
    }
}

/// One value, or several to go through.
#[derive(Clone, Debug)]
pub(super) struct Axis<T>(pub(super) Vec<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Axis<T> {
    // By hand rather than `untagged`, which would swallow the reason why a
    // value was refused.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = match toml::Value::deserialize(deserializer)? {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        if values.is_empty() {
            return Err(D::Error::custom("a list of no values leaves no cell"));
        }
        let parsed: Result<Vec<T>, toml::de::Error> =
            values.into_iter().map(toml::Value::try_into).collect();
        parsed.map(Axis).map_err(|error| D::Error::custom(error.message()))
    }
}
