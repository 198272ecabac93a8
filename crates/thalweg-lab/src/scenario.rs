//! What is to be measured: a scenario file becomes a checked plan.
//!
//! Pure: text in, plan or one sentence out.
//!
//! - `file`: the file as it is written
//! - `plan`: every combination of its axes, checked, as cells
//! - `library`: the scenarios that come with Thalweg
//! - `error`: the line, what is wrong there, and the nearest right name

mod error;
mod file;
mod library;
mod plan;
#[cfg(test)]
mod tests;

pub use error::ScenarioError;
pub use library::{LIBRARY, find};
pub use plan::{Cell, Changes, Part, Plan, Slot, Subject, read};

use serde::{Deserialize, Serialize};
use std::fmt;

/// A way out to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// RFC 6455, one text frame per envelope.
    Websocket,
    /// Server-Sent Events.
    Sse,
    /// NDJSON, one envelope a line.
    HttpStreaming,
}

/// Who makes the subject broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drive {
    /// The lab publishes: event n + window as soon as all subscribers have n.
    Posted,
    /// The subject broadcasts on a schedule announced once, at its start.
    SelfDriven,
    /// Nobody: the connections only stand there.
    Idle,
    /// The lab publishes as fast as the subject takes it, nobody subscribes.
    Publish,
}

/// Which program the subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// `thalweg serve`.
    Thalweg,
    /// `thalweg limit`: what this machine can do at all.
    Limit,
}

/// How `limit` sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One send per socket, of everything due to it.
    Coalesced,
    /// One send per frame.
    Frame,
}

/// How the `publish` drive hands events in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// One long NDJSON request per connection.
    Ndjson,
    /// One event per request, the next when it is answered.
    Single,
}

/// Everything that may differ between two samples of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How subscribers are connected.
    pub transport: Transport,
    /// Subscriber connections; with the `publish` drive, publisher connections.
    pub connections: u32,
    /// Topics each connection subscribes to.
    pub topics: u32,
    /// Exact size of a posted event.
    pub event_bytes: u32,
    /// Posted events outstanding per topic.
    pub window: u32,
    /// Rows in a self-driven batch.
    pub batch: u32,
    /// Time between two self-driven batches.
    pub interval_us: u64,
    /// Subscribers that stop reading once warm-up is over.
    pub stopped: u32,
    /// Threads of `thalweg serve`.
    pub shards: u32,
    /// How `limit` sends.
    pub mode: Mode,
    /// How the `publish` drive hands events in.
    pub request: Request,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            transport: Transport::Websocket,
            connections: 100,
            topics: 1,
            event_bytes: 128,
            window: 4,
            batch: 1,
            interval_us: 1000,
            stopped: 0,
            shards: 1,
            mode: Mode::Coalesced,
            request: Request::Ndjson,
        }
    }
}

impl Settings {
    /// Subscribers that read to the end, and so move the window on.
    pub fn readers(&self) -> u32 {
        self.connections - self.stopped
    }

    /// What a cell is called: the settings that matter under its drive.
    pub fn label(&self, drive: Drive) -> String {
        let connections = self.connections;
        let mut label = match drive {
            Drive::Posted => format!(
                "{} {connections} × {} W{}",
                self.transport,
                bytes_label(self.event_bytes),
                self.window
            ),
            Drive::SelfDriven => format!(
                "{} {connections} × {} / {}",
                self.transport,
                if self.batch == 1 { "1 row".to_owned() } else { format!("{} rows", self.batch) },
                interval_label(self.interval_us)
            ),
            Drive::Idle => format!("{} {connections} idle", self.transport),
            Drive::Publish => format!(
                "{} {connections} × {}",
                match self.request {
                    Request::Ndjson => "ndjson",
                    Request::Single => "single posts",
                },
                bytes_label(self.event_bytes)
            ),
        };
        if self.topics > 1 {
            label += &format!(" × {} topics", self.topics);
        }
        if self.stopped > 0 {
            label += &format!(", {} stop", self.stopped);
        }
        if self.shards > 1 {
            label += &format!(", {} shards", self.shards);
        }
        label
    }
}

fn bytes_label(bytes: u32) -> String {
    if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} B")
    }
}

fn interval_label(interval_us: u64) -> String {
    if interval_us.is_multiple_of(1000) {
        format!("{} ms", interval_us / 1000)
    } else {
        format!("{interval_us} µs")
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Websocket => "websocket",
            Transport::Sse => "sse",
            Transport::HttpStreaming => "http-streaming",
        })
    }
}
