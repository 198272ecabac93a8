//! The plan of a run: a scenario file becomes a checked plan.
//!
//! Pure: text in, plan or one sentence out.
//!
//! - `settings`: the table of everything that may differ between two samples
//! - `file`: the file as it is written; `suite`: a list of scenarios; `quantity`: durations and sizes with a unit; `arrivals`: the rate of connections
//! - `read`: a file and the command line become a plan
//! - `drive`: what makes the load, with one arm for each drive
//! - `peer`: a server of another project, from its `subject.toml`; `process`: what a subject needs beside its own process
//! - `published_config`: the file of experiment C's published program
//! - `against`: another build of Thalweg beside the one that is measured
//! - `plan`: what is to be measured, in order; `cell_matrix`: its cells, every combination of the axes
//! - `check`: what cannot be measured; `browser`: what cannot in a browser; `uses`: which settings have no effect
//! - `library`: the scenarios that come with Thalweg
//! - `endpoint`: what `--url` names, instead of a subject; `listen`: a plan for endpoints that somebody runs
//! - `error`: the line, what is wrong there, and the nearest right name

mod against;
mod arrivals;
mod browser;
mod cell_matrix;
mod check;
mod drive;
mod endpoint;
mod error;
mod file;
mod library;
mod listen;
mod peer;
mod plan;
mod process;
pub mod published_config;
mod quantity;
mod read;
mod settings;
mod suite;
#[cfg(test)]
mod tests;
mod uses;

pub use arrivals::Arrivals;
pub use drive::{Drive, Source};
pub use endpoint::{
    Endpoint, EndpointDialect, Expectation, JsonPath, OpeningStep, PathStep, Scheme, Typed, Url,
    places,
};
pub(crate) use endpoint::{TOKEN, invocation};
pub use error::{ScenarioError, unknown};
pub use library::{LIBRARY, find, titles};
pub use listen::listen;
pub use peer::{Peer, PeerDialect};
pub use plan::{Blank, Cell, LoadIn, Part, Plan, Slot, Subject};
pub use process::{Process, Role};
pub use quantity::{parse_bytes, parse_duration};
pub use read::{Changes, read};
pub use settings::Settings;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A transport to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// RFC 6455, one text frame per envelope.
    Websocket,
    /// Server-Sent Events.
    Sse,
    /// NDJSON, one envelope a line.
    HttpStreaming,
    /// A document of scripts that never ends.
    ForeverFrame,
    /// One request for each response.
    LongPolling,
}

/// The main figure of a scenario, by which subjects are compared first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// CPU time of the subject per event.
    Cpu,
    /// p99 latency from the intended time to the arrival.
    Latency,
    /// Mean time of a round trip.
    RoundTrip,
    /// Highest rate within the objective.
    Ceiling,
    /// Resident memory that the subject grew by, for each connection.
    Memory,
    /// Connections that a ramp held within its objective.
    Held,
    /// CPU time of the browser per event, where one is the load.
    BrowserCpu,
}

/// The placeholder of the measured binary in a command.
pub const THALWEG: &str = "{thalweg}";
/// The placeholder of the lab's own program in a command.
pub const LAB: &str = "{lab}";

/// The program of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// `thalweg serve`.
    Thalweg,
    /// `thalweg serve` of another build: the path of its binary.
    Build(PathBuf),
    /// `thalweg-lab limit`: the maximum of this machine.
    Limit,
    /// A server of another project.
    Peer(Box<Peer>),
    /// Any server that already runs at an endpoint.
    Url(Box<Endpoint>),
}

impl Program {
    /// Returns whether it is the build that is measured, under any name.
    pub fn is_thalweg(&self) -> bool {
        match self {
            Program::Thalweg => true,
            Program::Peer(peer) => peer.command.first().is_some_and(|word| word == THALWEG),
            _ => false,
        }
    }

    /// Returns the dialect on top of a transport.
    pub fn dialect(&self) -> PeerDialect {
        match self {
            Program::Thalweg | Program::Build(_) => PeerDialect::Thalweg,
            Program::Limit => PeerDialect::Limit,
            Program::Peer(peer) => peer.dialect,
            Program::Url(_) => PeerDialect::Raw,
        }
    }
}

/// Which connection carries the answers of the echo drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// The connection of the firehose.
    Same,
    /// A separate connection.
    Beside,
}

/// Which cells have an A/A control: their baseline twice, so that the noise is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Every one.
    EveryCell,
    /// The first of each scenario.
    FirstCell,
    /// None.
    None,
}

/// How `limit` sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One send per socket, of everything due to it.
    Coalesced,
    /// One send per frame.
    Frame,
}

/// How the `publish` drive hands events in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// One long NDJSON request per connection.
    Ndjson,
    /// One event per request, the next when it is answered.
    Single,
}

/// Where published events go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PublishTo {
    /// The subject itself.
    Subject,
    /// The NATS server from which the subject reads a stream, in the form that its nodes store.
    Nats,
}

/// The kind of published events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// A number, a time, a checksum, and padding.
    Padded,
    /// The next version of a document, a football match of 5000, 10000 or 165000 bytes.
    Match,
}

/// The kind of the topics of `thalweg serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TopicKind {
    /// Every event counts.
    Log,
    /// The newest event replaces the older ones.
    Value,
}

/// Which cores subject and browser have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CoreUse {
    /// The subject has the first cores, and the browser has the others: neither takes time from the other.
    #[default]
    Apart,
    /// Both may run on all cores, as for a user on one machine. Then the received amount also depends on the
    /// subject, so only ratios count.
    Shared,
}

/// The work of a page for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Consumer {
    /// Only positions are read.
    Raw,
    /// JSON, an array for each row.
    Rows,
    /// JSON, an object of arrays for each batch.
    Columns,
    /// Arrow IPC over HTTP streaming, with `columns()` of the npm package.
    Arrow,
    /// The same as `rows`, of which every value is read.
    RowsEveryValue,
    /// The same as `arrow`, of which every value is read.
    ArrowEveryValue,
    /// JSON rows, with the npm package that the subject serves.
    Sdk,
    /// The live page of the subject, on a connection of its own: rows in a table.
    LivePage,
    /// The same with a chart.
    LiveChart,
}

impl Consumer {
    /// Returns its part of a cell's label.
    fn label(self) -> &'static str {
        match self {
            Consumer::Rows => "",
            Consumer::Raw => ", not parsed",
            Consumer::Columns => ", columns",
            Consumer::Arrow => ", Arrow",
            Consumer::RowsEveryValue => ", every value",
            Consumer::ArrowEveryValue => ", Arrow, every value",
            Consumer::Sdk => ", by the SDK",
            Consumer::LivePage => ", live page",
            Consumer::LiveChart => ", live page's chart",
        }
    }

    /// Returns whether it asks for Arrow.
    pub fn is_arrow(self) -> bool {
        matches!(self, Consumer::Arrow | Consumer::ArrowEveryValue)
    }

    /// Returns whether it is the subject's own page, which opens its connection by itself.
    pub fn is_page(self) -> bool {
        matches!(self, Consumer::LivePage | Consumer::LiveChart)
    }
}

impl Control {
    /// Returns the control of the quick form: at most once for each scenario.
    fn min_first(self) -> Control {
        if self == Control::None { self } else { Control::FirstCell }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Websocket => "websocket",
            Transport::Sse => "sse",
            Transport::HttpStreaming => "http-streaming",
            Transport::ForeverFrame => "forever-frame",
            Transport::LongPolling => "long-polling",
        })
    }
}
