//! The server's pure rooms, from the outside.

mod log;
mod sequencer;
mod simulation;
