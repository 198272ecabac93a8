//! The maximum of a machine: the smallest push server with Thalweg's protocol. It has one thread, one epoll and no runtime. The
//! lab divides the figures of every other subject by those of this one.
//!
//! A turn runs through the modules in this order:
//!
//! - `server` waits, accepts and reads, passes the input on, and ends in `fanout`.
//! - `http` parses request heads; `body` splits request bodies, chunked or of known length, into lines.
//! - `source` generates the rows of experiment A; `topic` numbers events.
//! - `log` has the frames that all connections of a group share; `frame` encodes the text around the events of a frame.
//! - `fanout` sends the frames of the turn; `connection` is one socket; `tls` encrypts its data.
//!
//! `--echo` runs another server, `echo`, which returns the messages that `talk` reads. `run` starts one of the two servers.
//!
//! The limit keeps no history, resumes nothing, validates no JSON, sends no heartbeat and has no policy for slow subscribers. The
//! cost of Thalweg above that of the limit is the price of these features.

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
