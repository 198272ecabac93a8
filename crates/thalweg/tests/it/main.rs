//! The server as a stranger sees it: the real binary, its wire
//! (`docs/wire.md`), nothing else.

mod drain;
mod following;
mod harness;
mod hostile;
mod operations;
mod pacing;
mod piping;
mod publishing;
mod python;
mod readme;
mod resuming;
mod settings;
mod several_topics;
mod shards;
mod slow;
mod sources;
mod subscribing;
mod websocket;
