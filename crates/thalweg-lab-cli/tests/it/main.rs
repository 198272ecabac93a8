//! The lab as its user sees it: the real program, which measures the real server.

mod bench;
mod finding;
mod help;
mod misbehaving;
mod pages;
mod programs;
mod runs;
