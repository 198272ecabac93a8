//! The native load generator: subscribers and publishers, on one thread of its own core.
//!
//! ```text
//! load ─► session ─► workload ─► subscribers, publishers ─► carrier ─► link ─► socket
//!                       └─◄── receiver, ledger ◄──────────────────┘
//! ```
//!
//! - `session`: a subject under load: opened, measured in spans, closed; `workload`: one way to load it, a file each
//! - `dialect`: the protocol on top of a carrier, a file each; `carrier`: one file per transport, bytes only
//! - `subscribers`: opened a few at a time, then read
//! - `protocol_session`: one connection, with `parser`: one answer (`body_stream`), answer after answer (`polls`), or several
//!   on HTTP/2 (`streams`)
//! - `subscribe_request`, `handshake`, `resume_state`: the request, whether the response opens the transport, and where to go on
//! - `receiver`: enters arrivals in the ledger; `recorder`: the same of an external endpoint, where there is none;
//!   `exchange`: messages to it and their answers, with `template`, the messages' text
//! - `published`, `generated`: what must arrive under either load; `timetable`: when rows must
//! - `publisher`: a long-lived publish connection; `nats`: one to a NATS server; `pace`: when it publishes
//! - `conversation`: a subscriber that answers; `http_client` and `http_response`: HTTP's requests and responses
//! - `dialer`: how to get to a server; `link`: a connection's bytes, as they are or encrypted; `writer`, `read_buffer`: buffers
//! - `socket`: sockets, readiness, the clock

mod body_stream;
mod carrier;
mod conversation;
mod dialect;
mod dialer;
mod event;
mod exchange;
#[cfg(test)]
mod fed;
mod generated;
#[cfg(test)]
mod golden;
mod handshake;
mod http_client;
mod http_response;
mod json_string;
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
/// The swarm looks for work this long before it sleeps.
const SPIN_US: u64 = 50;
/// The same in a conversation: longer than a round trip, so that only the subject has to be woken.
const SPIN_TALK_US: u64 = 2000;
/// After a long look, time to read what has come meanwhile.
const CALM: Duration = Duration::from_millis(20);
/// How often the observer is asked whether to go on.
const MOMENT: Duration = Duration::from_millis(5);
/// The observer gets progress so often.
const PROGRESS_EVERY_US: u64 = 100_000;

/// Settings of a connection that is not to be encrypted.
fn tls_free(settings: &Settings) -> Settings {
    Settings { tls: false, receive_buffer_bytes: 0, ..settings.clone() }
}
