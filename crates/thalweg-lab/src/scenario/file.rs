//! A scenario file as it is written (TOML).

use super::{Again, Answers, Drive, Mode, Request, Transport};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A scenario: one drive, blocks of cells, the subjects to compare.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) name: String,
    /// What it is for; its name, else.
    pub(super) title: Option<String>,
    pub(super) drive: Drive,
    #[serde(default = "repeats")]
    pub(super) repeats: u32,
    #[serde(default = "warm_up_ms")]
    pub(super) warm_up_ms: u64,
    #[serde(default = "measured_ms")]
    pub(super) measured_ms: u64,
    #[serde(default = "again")]
    pub(super) again: Again,
    #[serde(default)]
    pub(super) defaults: Block,
    /// One cell of the defaults, else.
    pub(super) cells: Option<Vec<Spanned<Block>>>,
    /// Thalweg, and the limit where it can take part, else.
    pub(super) subjects: Option<Vec<Spanned<SubjectBlock>>>,
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
    pub(super) again: Option<Again>,
    pub(super) cells: Option<Vec<Spanned<Block>>>,
}

/// What a file need not say.
fn repeats() -> u32 {
    5
}

fn warm_up_ms() -> u64 {
    500
}

fn measured_ms() -> u64 {
    2000
}

fn again() -> Again {
    Again::EveryCell
}

/// One server to measure, and how it differs from the cell's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubjectBlock {
    /// The program's, else.
    pub(super) name: Option<String>,
    /// `thalweg`, `limit`, or the name of a peer.
    pub(super) program: String,
    /// Added to a peer's command.
    #[serde(default)]
    pub(super) arguments: Vec<String>,
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
    pub(super) rate: Option<Axis<u32>>,
    pub(super) p99_us_max: Option<Axis<u64>>,
    pub(super) answers: Option<Axis<Answers>>,
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
    pub(super) round: Option<Axis<u32>>,
    /// The subjects of these cells, by name; all that are not on demand, else.
    pub(super) subjects: Option<Vec<String>>,
    /// The subject the others are compared with; the first, else.
    pub(super) baseline: Option<String>,
}

/// Every key of a [`Block`], field by field.
macro_rules! each_key {
    ($combine:expr, $above:ident, $below:ident) => {
        each_key!($combine, $above, $below;
            transport, connections, topics, event_bytes, window, rate, p99_us_max, batch,
            interval_us, stopped, shards, mode, request, tls, streams, requests, request_us,
            answers, dummy_bytes, window_bytes, receive_buffer_bytes, send_buffer_bytes,
            unsent_bytes, round, subjects, baseline)
    };
    ($combine:expr, $above:ident, $below:ident; $($key:ident),*) => {
        Block { $($key: $combine(&$above.$key, &$below.$key)),* }
    };
}

fn either<T: Clone>(above: &Option<T>, below: &Option<T>) -> Option<T> {
    above.as_ref().or(below.as_ref()).cloned()
}

fn unless<T: Clone, U>(own: &Option<T>, other: &Option<U>) -> Option<T> {
    own.as_ref().filter(|_| other.is_none()).cloned()
}

impl Block {
    /// These settings, and `below` where they say nothing.
    pub(super) fn over(&self, below: &Block) -> Block {
        each_key!(either, self, below)
    }

    /// These settings where `other` says nothing.
    pub(super) fn except(&self, other: &Block) -> Block {
        each_key!(unless, self, other)
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
