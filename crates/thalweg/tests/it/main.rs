//! The server as a stranger sees it: the real binary, its wire
//! (`docs/wire.md`), nothing else.

mod access;
mod answers;
mod bench;
mod commands;
mod drain;
mod following;
mod forever_frame;
mod harness;
mod hostile;
mod http2;
mod http2_abuse;
mod idempotency;
mod limits;
mod long_polling;
mod operations;
mod overtaking;
mod pacing;
mod piping;
mod publishing;
mod python;
mod reading;
mod readme;
mod resuming;
mod runner;
mod settings;
mod several_topics;
mod shards;
mod slow;
mod sources;
mod sse;
mod subscribing;
mod tls;
mod tokens;
mod websocket;
mod windows;
