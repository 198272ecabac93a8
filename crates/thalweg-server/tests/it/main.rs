//! The server's pure rooms, from the outside; and its pages.

mod column_frames;
#[path = "../../../thalweg-columns/tests/it/reading.rs"]
mod columns_reading;
mod fed;
mod history;
mod hostile_documents;
mod log;
mod pages;
mod running;
mod seldom;
mod sequencer;
mod simulation;
mod windows;
