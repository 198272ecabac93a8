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
    /// What it is called; names the folder of its runs.
    pub(super) name: String,
    /// What it is for; its name, else.
    pub(super) title: Option<String>,
    /// Who makes the subjects broadcast.
    pub(super) drive: Drive,
    /// What it is about; what its drive is mostly for, else.
    pub(super) figure: Option<Figure>,
    /// Samples of each subject in each cell.
    pub(super) repeats: Option<u32>,
    /// Spans of each subject from one start to the next, in turns, where the load can
    /// pause; elsewhere it is one.
    #[serde(default = "rounds")]
    pub(super) rounds: u32,
    /// Time for all cells together, s, without `repeats`: each cell is measured until it
    /// is decided, or its share is over. A minute for each cell, else.
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
    /// Which cells have an A/A control: their baseline twice, so that the noise is known.
    #[serde(alias = "again", default = "control")]
    pub(super) control: Control,
    /// Whether the subjects of a cell are measured at the same time, each with a share
    /// of the core, so that what the machine does meanwhile hits all alike. Only at a
    /// rate that leaves room for all.
    #[serde(alias = "together", default)]
    pub(super) concurrent: bool,
    /// Settings of all cells, where they say nothing else.
    #[serde(default)]
    pub(super) defaults: Block,
    /// Blocks of cells, each standing for every combination of its lists; one cell
    /// of the defaults, else.
    #[cfg_attr(test, schemars(with = "Option<Vec<Block>>"))]
    pub(super) cells: Option<Vec<Spanned<Block>>>,
    /// Who is compared; Thalweg, and the limit where it can take part, else.
    #[cfg_attr(test, schemars(with = "Option<Vec<SubjectBlock>>"))]
    pub(super) subjects: Option<Vec<Spanned<SubjectBlock>>>,
    /// The suite whose subjects are compared, if the file has none of its own.
    pub(super) subjects_of: Option<String>,
    /// What `--quick` changes.
    #[serde(default)]
    pub(super) quick: Quick,
    /// What `--browser` changes.
    #[serde(default)]
    pub(super) browser: Browser,
}

/// What `--browser` changes: the subjects are loaded by tabs of a browser.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Browser {
    /// Whether it is a scenario of browsers alone.
    #[serde(default)]
    pub(super) only: bool,
    /// What it is about then.
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
    /// Which cells have an A/A control; the first of each scenario, else.
    pub(super) control: Option<Control>,
    /// Settings of all cells, where they say nothing else; on top of the scenario's.
    #[serde(default)]
    pub(super) defaults: Block,
    /// In place of all the scenario's cells.
    #[cfg_attr(test, schemars(with = "Option<Vec<Block>>"))]
    pub(super) cells: Option<Vec<Spanned<Block>>>,
    /// In place of all the scenario's subjects.
    #[cfg_attr(test, schemars(with = "Option<Vec<SubjectBlock>>"))]
    pub(super) subjects: Option<Vec<Spanned<SubjectBlock>>>,
    /// What `--quick` changes then.
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
    /// What it is called; names the folder of its runs.
    pub(super) name: String,
    /// What it is for.
    pub(super) title: String,
    /// Names of scenarios that come with Thalweg, in order.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub(super) scenarios: Vec<Spanned<String>>,
    /// The same with `--browser`, where that is another list.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub(super) in_browser: Option<Vec<Spanned<String>>>,
    /// Whether they are always taken in their quick form.
    #[serde(default)]
    pub(super) quick: bool,
    /// Who is compared in scenarios that name this suite in `subjects_of`.
    #[cfg_attr(test, schemars(with = "Option<Vec<SubjectBlock>>"))]
    pub(super) subjects: Option<Vec<Spanned<SubjectBlock>>>,
}

/// What `--quick` changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    /// Samples of each subject in each cell.
    pub(super) repeats: Option<u32>,
    /// Spans of each subject from one start to the next.
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
    /// Which cells have an A/A control; the first of each scenario, else.
    #[serde(alias = "again")]
    pub(super) control: Option<Control>,
    /// In place of all the scenario's cells.
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
    /// What it is called; as its program, else.
    pub(super) name: Option<String>,
    /// `thalweg`, `limit`, or the name of a peer.
    pub(super) program: String,
    /// Of a peer's transports, those over which this form of it differs; all, else.
    #[serde(default)]
    pub(super) transports: Vec<Transport>,
    /// Added to a peer's command; beside processes, to Thalweg's, too.
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    /// What is started before it and ended with it, in order.
    #[serde(default)]
    pub(super) processes: Vec<Process>,
    /// Left out unless a block of cells names it.
    #[serde(default)]
    pub(super) on_demand: bool,
    /// Settings of its own, on top of the cell's.
    #[serde(default)]
    pub(super) with: Block,
}

/// Settings, each one value or a list of them. A list is an axis: a block of
/// cells stands for every combination.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Block {
    /// How subscribers are connected.
    pub(super) transport: Option<Axis<Transport>>,
    /// Subscribers, each with a connection of its own unless `streams` says
    /// otherwise; with the `publish` drive, publishers. 1 with `echo` and `round-trip`.
    pub(super) connections: Option<Axis<u32>>,
    /// Topics each connection subscribes to, each with a window of its own.
    pub(super) topics: Option<Axis<u32>>,
    /// Topics that connections are spread over in turn, each on one of them.
    pub(super) keys: Option<Axis<u32>>,
    /// What a published event is.
    pub(super) payload: Option<Axis<Payload>>,
    /// Exact size of a published event; of a document, about.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) event_bytes: Option<Axis<u32>>,
    /// Published events outstanding per topic: event n + window is published when all
    /// have n. With the `stored` drive messages without an acknowledgement.
    pub(super) window: Option<Axis<u32>>,
    /// Published events per second and topic, on a schedule set in advance; 0 posts as
    /// fast as the window allows. With the `ceiling` drive the first rate tried.
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
    /// Which connection carries the answers of the `echo` drive.
    pub(super) answers: Option<Axis<Answers>>,
    /// Rows in a generated batch.
    pub(super) batch: Option<Axis<u32>>,
    /// Time between two generated batches, or, with `echo`, two dummies, µs.
    #[serde(default, deserialize_with = "quantity::us")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) interval_us: Option<Axis<u64>>,
    /// Subscribers that stop reading once warm-up is over.
    pub(super) stopped: Option<Axis<u32>>,
    /// Subscribers that read at a trickle from then on.
    pub(super) slow: Option<Axis<u32>>,
    /// How much each of these reads a second, bytes.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) slow_bytes_per_s: Option<Axis<u32>>,
    /// At which rate connections arrive with the `ramp` drive, in stages: `50/s 10s, 200/s`.
    /// Without a time the last goes on until all are there.
    pub(super) arrivals: Option<Axis<Arrivals>>,
    /// Keys whose connections are lost with the `stampede` drive; what comes on the others meanwhile
    /// is told. 0 is all.
    pub(super) lost_keys: Option<Axis<u32>>,
    /// How long a connection of the `churn` drive stays, on average, ms.
    #[serde(default, deserialize_with = "quantity::ms")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) stay_ms: Option<Axis<u64>>,
    /// Threads of `thalweg serve`.
    pub(super) shards: Option<Axis<u32>>,
    /// What topics of `thalweg serve` are.
    pub(super) kind: Option<Axis<TopicKind>>,
    /// Whether subscribers take patches of value topics.
    pub(super) deltas: Option<Axis<bool>>,
    /// How `limit` sends.
    pub(super) mode: Option<Axis<Mode>>,
    /// How the `publish` drive hands events in.
    pub(super) request: Option<Axis<Request>>,
    /// Events of an HTTP chunk, where they are published in one long request. 0 puts all that are
    /// due into one chunk.
    pub(super) chunk_events: Option<Axis<u32>>,
    /// Where published events go to: the subject, or the NATS server that it reads from.
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
    /// From request to request of the `echo` drive, µs.
    #[serde(default, deserialize_with = "quantity::us")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) request_us: Option<Axis<u64>>,
    /// Size of the firehose's event, with `echo`; 0 is no firehose.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[cfg_attr(test, schemars(with = "Option<Quantities>"))]
    pub(super) dummy_bytes: Option<Axis<u32>>,
    /// Bytes that may be under way and not acked, with `echo`; 0 is no window.
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
    /// Of a browser: tabs that the connections are spread over.
    pub(super) tabs: Option<Axis<u32>>,
    /// Of a browser: whether each tab is observed as DevTools does it (Runtime, Network and
    /// Performance domains).
    pub(super) devtools: Option<Axis<bool>>,
    /// Of a browser: how many times slower its tabs are made.
    pub(super) throttle: Option<Axis<u32>>,
    /// Of a browser: what a page makes of what comes.
    pub(super) consumer: Option<Axis<Consumer>>,
    /// Of a browser: whether that happens in a worker.
    pub(super) worker: Option<Axis<bool>>,
    /// Of a browser: whether it has cores of its own, or shares all of them with the subject.
    pub(super) cores: Option<Axis<CoreUse>>,
    /// A number that changes nothing and keeps equal cells apart, e.g. to take the same
    /// pair many times.
    pub(super) round: Option<Axis<u32>>,
    /// The subjects of these cells, by name; all that are not on demand, else.
    pub(super) subjects: Option<Vec<String>>,
    /// The subject the others are compared with; the first, else.
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
