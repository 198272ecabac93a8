//! The core from the outside, and the simulation: seeded worlds of publishers, subscribers and slow sinks.

mod column_frames;
#[path = "../../../thalweg-columns/tests/it/reading.rs"]
mod columns_reading;
mod history;
mod hostile_documents;
mod keyed;
mod keyed_loading;
mod log;
mod rare_cases;
mod sequencer;
mod simulation;
mod windows;
