//! The push server: topics in, every web transport out.
//!
//! ```text
//! source ─► stream ─► fanout ─► transport ─► browser
//!
//! config             what a user may set, and the reasons for the defaults
//! source             ways in
//! backend            ways in and out: topics that another system keeps, for several servers
//! fetch              ways in: documents of HTTP servers that know nothing of push
//! thalweg-core       ordered, bounded topic history; who gets what next  (pure)
//! transport          ways out: the only place with subscribers' sockets
//! shard              one thread that wires the four above together
//! home               which shard a topic's order is made on               (pure)
//! http               requests: routing, publishing, takeover
//! serve              shards, listener, shutdown
//! answers            answers that clients have not read                  (pure)
//! metrics            what is counted
//! access             who may do what                                     (pure)
//! connection_limits  who may connect
//! pages              files that browsers show
//! runs               the lab's runs in a folder
//! refusal            why a request or a command is refused
//! clock              the one clock
//! fuzzing            input from strangers, only for the fuzz targets
//! ```

mod access;
mod answers;
mod audit;
pub mod backend;
mod clock;
pub mod config;
mod connection_limits;
mod derived;
mod fetch;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod home;
mod http;
mod log_throttle;
mod metrics;
pub mod pages;
mod process;
mod rates;
mod refusal;
mod runs;
mod serve;
mod shard;
mod source;
mod transport;

pub use clock::now_us;
pub use log_throttle::LogThrottle;
pub use serve::{ServeError, Server, check, serve};
