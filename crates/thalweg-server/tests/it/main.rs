//! The server's pure rooms, from the outside.

mod history;
mod log;
mod polls;
mod sequencer;
mod simulation;
mod windows;
