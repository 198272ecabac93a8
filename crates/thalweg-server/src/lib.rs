//! The push server: topics in, every web transport out.
//!
//! ```text
//! source ─► stream ─► fanout ─► transport ─► browser
//!
//! config             settings, and the reasons for their defaults
//! source             events in
//! broker             events in and out: topics that a broker orders and stores, for several servers
//! fetch              events in: documents of HTTP servers without push
//! thalweg-core       ordered, bounded topic history; delivery to subscribers  (pure)
//! transport          events out: the only place with subscribers' sockets
//! protocol           protocols between clients and the server
//! shard              one thread that connects the modules above
//! owner_shard        maps topics to their owner shards                (pure)
//! derived            topics with the rows of queries
//! http               requests: routing, publishing, takeover
//! serve              shards, listener, shutdown
//! answers            unread answers                                   (pure)
//! rates              rate limits of clients
//! audit              log lines about refusals
//! traces             lines about what a subject does
//! process            metrics of the process
//! metrics            counters and gauges
//! access             the access policy                                (pure)
//! connection_limits  limits of connections
//! pages              files for browsers
//! runs               the lab's runs in a folder
//! refusal            refusals of requests and commands
//! clock              the clock
//! start              the start of a subscription as people write it
//! fuzzing            untrusted input, only for the fuzz targets
//! ```

mod access;
mod answers;
mod audit;
pub mod broker;
mod clock;
pub mod config;
mod connection_limits;
mod derived;
mod fetch;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod metrics;
mod owner_shard;
pub mod pages;
mod process;
mod protocol;
mod rates;
mod refusal;
mod runs;
mod serve;
mod shard;
mod source;
mod start;
mod traces;
mod transport;

pub use clock::now_us;
pub use serve::{ServeError, Server, check, serve};
pub use start::parse_start;
