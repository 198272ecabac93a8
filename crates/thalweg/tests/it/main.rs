//! The server as a stranger sees it: the real binary, its wire
//! (`docs/wire.md`), nothing else.

mod drain;
mod forever_frame;
mod harness;
mod hostile;
mod long_polling;
mod operations;
mod pacing;
mod publishing;
mod readme;
mod resuming;
mod settings;
mod several_topics;
mod shards;
mod slow;
mod sources;
mod subscribing;
mod websocket;
