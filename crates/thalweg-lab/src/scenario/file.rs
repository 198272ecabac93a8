//! A scenario file as it is written (TOML).

use super::quantity;
#[cfg(test)]
use super::quantity::{Quantities, Quantity};
use super::{
    Answers, Arrivals, Consumer, Control, CoreUse, Drive, Figure, Mode, Payload, Process,
    PublishTo, Request, TopicKind, Transport,
};
#[cfg(test)]
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
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
    /// How the subjects are made to broadcast.
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
    /// The same with the load in a browser.
    pub(super) fn in_browser(self) -> ScenarioFile {
        let Browser { defaults, cells, subjects, quick, .. } = self.browser.clone();
        let own = self.browser.clone();
        // Both must not apply: repeats of one, a budget of the other.
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

/// A suite: several scenarios run one after the other.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct SuiteFile {
    /// Name of the suite, and of the folders of its runs.
    pub(super) name: String,
    /// Title of the suite.
    pub(super) title: String,
    /// Names of scenarios that come with Thalweg, in order.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub(super) scenarios: Vec<Spanned<String>>,
    /// The scenarios with `--browser`, if they are other ones.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub(super) in_browser: Option<Vec<Spanned<String>>>,
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

/// Settings, each one value or a list of values. A block has a cell for every combination of its lists.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Block {
    /// How subscribers are connected.
    pub(super) transport: Option<Axis<Transport>>,
    /// Number of subscribers, each with its own connection unless `streams` is set; with the `publish` drive,
    /// of publishers. 1 with `echo` and `round-trip`.
    pub(super) connections: Option<Axis<u32>>,
    /// Number of topics to which each connection subscribes, each with its own window.
    pub(super) topics: Option<Axis<u32>>,
    /// Number of topics over which connections are spread: each subscribes to one of them.
    pub(super) keys: Option<Axis<u32>>,
    /// The kind of published events.
    pub(super) payload: Option<Axis<Payload>>,
    /// Size of a published event: exact for events, approximate for documents.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) event_bytes: Option<Axis<u32>>,
    /// Maximum number of published events per topic that not all subscribers have received: event n + window
    /// is published when all have n. With the `stored` drive: messages without an acknowledgement.
    pub(super) window: Option<Axis<u32>>,
    /// Published events per second and topic, on a fixed schedule. 0 publishes as fast as the window allows.
    /// With the `ceiling` drive: the first rate.
    pub(super) rate: Option<Axis<u32>>,
    /// Time between two published events of a topic, instead of a rate, ms; 0 is none.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) every_ms: Option<Axis<u64>>,
    /// The latency objective of the `ceiling` drive, for 99 of 100 events, µs.
    #[serde(default, deserialize_with = "quantity::us")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) p99_us_max: Option<Axis<u64>>,
    /// The latency objective of the `ramp` drive beside published events, for every event, µs:
    /// how many connections are held within it. 0 is none.
    #[serde(default, deserialize_with = "quantity::us")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) late_us_max: Option<Axis<u64>>,
    /// The connection over which the answers of the `echo` drive come.
    pub(super) answers: Option<Axis<Answers>>,
    /// Rows in a generated batch.
    pub(super) batch: Option<Axis<u32>>,
    /// Time between two generated batches, or, with `echo`, two dummies, µs.
    #[serde(default, deserialize_with = "quantity::us")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) interval_us: Option<Axis<u64>>,
    /// Number of subscribers that stop reading after the warm-up.
    pub(super) stopped: Option<Axis<u32>>,
    /// Number of subscribers that read very slowly after the warm-up.
    pub(super) slow: Option<Axis<u32>>,
    /// Bytes per second that each slow subscriber reads.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) slow_bytes_per_s: Option<Axis<u32>>,
    /// The rate at which connections arrive with the `ramp` drive, in stages: `50/s 10s, 200/s`. A last stage
    /// without a time continues until all have arrived.
    pub(super) arrivals: Option<Axis<Arrivals>>,
    /// Number of keys whose connections are lost with the `stampede` drive; the report shows what the others
    /// receive meanwhile. 0: all.
    pub(super) lost_keys: Option<Axis<u32>>,
    /// How long a connection of the `churn` drive stays, on average, ms.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) stay_ms: Option<Axis<u64>>,
    /// Threads of `thalweg serve`.
    pub(super) shards: Option<Axis<u32>>,
    /// The kind of the topics of `thalweg serve`.
    pub(super) kind: Option<Axis<TopicKind>>,
    /// Whether subscribers take patches of value topics.
    pub(super) deltas: Option<Axis<bool>>,
    /// How `limit` sends.
    pub(super) mode: Option<Axis<Mode>>,
    /// How the `publish` drive sends events.
    pub(super) request: Option<Axis<Request>>,
    /// Events of an HTTP chunk, where they are published in one long request. 0 puts all that are
    /// due into one chunk.
    pub(super) chunk_events: Option<Axis<u32>>,
    /// Where events are published: to the subject, or to the NATS server from which it reads.
    pub(super) publish_to: Option<Axis<PublishTo>>,
    /// Events in a message to a NATS server, up to 256.
    pub(super) message_events: Option<Axis<u32>>,
    /// Whether connections are encrypted (TLS 1.3).
    pub(super) tls: Option<Axis<bool>>,
    /// Whether subscribers offer compression: permessage-deflate (RFC 7692), or gzip.
    pub(super) compress: Option<Axis<bool>>,
    /// Subscribers that share an HTTP/2 connection; 0 is HTTP/1.1.
    pub(super) streams: Option<Axis<u32>>,
    /// Requests of the `echo` drive, or round trips; with `echo`, 0 only receives.
    pub(super) requests: Option<Axis<u32>>,
    /// Time between two requests of the `echo` drive, µs.
    #[serde(default, deserialize_with = "quantity::us")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) request_us: Option<Axis<u64>>,
    /// Size of the firehose's event, with `echo`; 0 is no firehose.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) dummy_bytes: Option<Axis<u32>>,
    /// Maximum bytes that are sent and not acked, with `echo`; 0: no window.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) window_bytes: Option<Axis<u32>>,
    /// `SO_RCVBUF` of a subscriber; 0 leaves it to the kernel.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) receive_buffer_bytes: Option<Axis<u32>>,
    /// `tuning.send-buffer-bytes` of `thalweg serve`; 0 is its default.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) send_buffer_bytes: Option<Axis<u32>>,
    /// `tuning.unsent-bytes` of `thalweg serve`; 0 is its default.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) unsent_bytes: Option<Axis<u32>>,
    /// Browser only: number of tabs over which the connections are spread.
    pub(super) tabs: Option<Axis<u32>>,
    /// Browser only: whether each tab is observed as DevTools does it (Runtime, Network and Performance
    /// domains).
    pub(super) devtools: Option<Axis<bool>>,
    /// Browser only: the factor by which its tabs are slowed down.
    pub(super) throttle: Option<Axis<u32>>,
    /// Browser only: what a page does with the events.
    pub(super) consumer: Option<Axis<Consumer>>,
    /// Browser only: whether the page does this in a worker.
    pub(super) worker: Option<Axis<bool>>,
    /// Browser only: whether it has its own cores, or shares all cores with the subject.
    pub(super) cores: Option<Axis<CoreUse>>,
    /// A number without effect that distinguishes equal cells, e.g. to measure the same pair many times.
    pub(super) round: Option<Axis<u32>>,
    /// The subjects of these cells, by name. Default: all that are not on demand.
    pub(super) subjects: Option<Vec<String>>,
    /// The subject with which the others are compared. Default: the first.
    pub(super) baseline: Option<String>,
}

/// Does the same for every key of a [`Block`], field by field.
macro_rules! of_every_key {
    ($($key:ident),* $(,)?) => {
        impl Block {
            pub(super) const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            /// Names of the settings made here.
            pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
                let set = [$(self.$key.is_some()),*];
                Block::KEYS.iter().zip(set).filter(|(_, is_set)| *is_set).map(|(key, _)| *key)
            }

            /// These settings, and `below` where they say nothing.
            pub(super) fn over(&self, below: &Block) -> Block {
                Block { $($key: self.$key.as_ref().or(below.$key.as_ref()).cloned()),* }
            }

            /// These settings where `other` says nothing.
            pub(super) fn except(&self, other: &Block) -> Block {
                Block { $($key: self.$key.clone().filter(|_| other.$key.is_none())),* }
            }

            /// Those of these settings whose names are wanted.
            pub(super) fn only(&self, is_wanted: impl Fn(&str) -> bool) -> Block {
                Block { $($key: self.$key.clone().filter(|_| is_wanted(stringify!($key)))),* }
            }
        }
    };
}

of_every_key!(
    transport,
    connections,
    topics,
    keys,
    payload,
    event_bytes,
    window,
    rate,
    every_ms,
    p99_us_max,
    late_us_max,
    batch,
    interval_us,
    stopped,
    slow,
    slow_bytes_per_s,
    arrivals,
    lost_keys,
    stay_ms,
    shards,
    kind,
    deltas,
    mode,
    request,
    chunk_events,
    publish_to,
    message_events,
    tls,
    compress,
    streams,
    requests,
    request_us,
    answers,
    dummy_bytes,
    window_bytes,
    receive_buffer_bytes,
    send_buffer_bytes,
    unsent_bytes,
    tabs,
    devtools,
    throttle,
    consumer,
    worker,
    cores,
    round,
    subjects,
    baseline,
);

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
