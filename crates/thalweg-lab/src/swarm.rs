//! The native load generator: subscribers and publishers, on one thread of its own core.
//!
//! ```text
//! load ─► session ─► workload ─► subscribers, publishers ─► carrier ─► link ─► socket
//!                       └─◄── receiver, ledger ◄──────────────────┘
//! ```
//!
//! - `session`: a subject under load: opened, measured in spans, closed; `workload`: the ways to load it, one per file
//! - `dialect`: the protocols on top of a carrier, one per file; `carrier`: the transports, one per file, bytes only
//! - `subscribers`: opened a few at a time, then read
//! - `protocol_session`, `parser`: one connection, with a single answer (`body_stream`), consecutive answers (`polls`), or
//!   several on HTTP/2 (`streams`)
//! - `subscribe_request`, `handshake`, `resume_state`: the request, its response, and where to resume
//! - `receiver`: enters arrivals in the ledger; `recorder`: records arrivals of an external endpoint, which has no ledger;
//!   `exchange`: messages to an endpoint and their answers; `template`: the text of these messages
//! - `published`, `generated`: the expected events of each load; `timetable`: due times of rows
//! - `publisher`: a long-lived publish connection; `nats`: one to a NATS server; `pace`: when to publish
//! - `conversation`: a subscriber that answers; `http_client` and `http_response`: HTTP's requests and responses
//! - `dialer`: opens connections to a server; `link`: a connection, plain or encrypted; `writer`, `read_buffer`: buffers
//! - `json_value`: a value in a JSON text; `json_string`: the content of a JSON string; `fossil_delta`: deltas of Centrifugo
//! - `socket`: sockets, readiness, the clock

mod body_stream;
mod carrier;
mod conversation;
mod dialect;
mod dialer;
mod event;
mod exchange;
mod fossil_delta;
mod generated;
mod handshake;
mod http_client;
mod http_response;
mod json_string;
mod json_value;
mod link;
mod nats;
mod negotiated;
mod pace;
mod parser;
mod polls;
mod progress;
mod protocol_session;
mod published;
mod publisher;
mod publishing;
mod read_buffer;
mod receiver;
mod recorder;
mod resume_state;
mod session;
mod socket;
mod span_statistics;
mod streams;
mod subscribe_request;
mod subscribers;
mod template;
#[cfg(test)]
mod tests;
mod timetable;
mod workload;
mod writer;

pub use dialer::addresses;
pub use session::Swarm;
pub use socket::open_files_max;

use crate::load_generator::{Figures, Interrupted, Load, Moment, Observer, Outcome};
use crate::scenario::Settings;
use std::time::Duration;

/// Under a published load, silence this long means that an event is lost.
const SILENCE_US_MAX: u64 = 2_000_000;
/// The swarm polls for this long before it sleeps.
const SPIN_US: u64 = 50;
/// The same in a conversation: longer than a round trip, so that only the subject has to be woken.
const SPIN_TALK_US: u64 = 2000;
/// Time after a long look of the observer to read everything that has arrived meanwhile.
const CALM: Duration = Duration::from_millis(20);
/// Interval at which the observer is asked whether to continue.
const MOMENT: Duration = Duration::from_millis(5);
/// Interval of progress reports to the observer.
const PROGRESS_EVERY_US: u64 = 100_000;

/// Returns the settings of a connection without TLS.
fn tls_free(settings: &Settings) -> Settings {
    Settings { tls: false, receive_buffer_bytes: 0, ..settings.clone() }
}
