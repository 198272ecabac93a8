//! The server's pure rooms, from the outside.

mod history;
mod log;
mod seldom;
mod sequencer;
mod simulation;
mod windows;
