//! The limit of a machine: the smallest honest push server of Thalweg's wire. One thread, one epoll, no runtime; a subject of the
//! lab, by which every other subject's figures are divided.
//!
//! A turn runs through the modules in this order:
//!
//! - `server`: waits, accepts, reads; hands the input on; ends in `fanout`.
//! - `http`: a request head becomes a request; `body`: a request body, chunked or of known length, becomes lines.
//! - `source`: the generated rows of experiment A; `topic`: events are numbered.
//! - `log`: the frames that all connections of a group are sent from; `frame`: what stands around the events of one.
//! - `fanout`: the turn's frames go to the sockets; `connection`: one socket; `tls`: the same, encrypted.
//!
//! `--echo` is a server of its own: `echo`, which returns what `talk` reads. `run` starts the one or the other.
//!
//! It keeps no history, resumes nothing, validates no JSON, sends no heartbeat and knows no slow subscriber: Thalweg's cost above
//! it is the price of those.

mod body;
mod connection;
mod echo;
mod fanout;
mod frame;
mod http;
mod log;
mod options;
mod run;
mod server;
mod source;
mod talk;
mod tls;
mod topic;

pub use options::{ConstantPlan, DummyPlan, LimitError, Mode, Options, SourcePlan};
pub use run::run;
