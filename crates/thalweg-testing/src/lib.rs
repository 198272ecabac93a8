//! Waits, connections and retries that the tests of all crates share, so that a test passes on a
//! busy machine and a test that hangs still fails.
//!
//! - `patience`: ends a wait when progress stops
//! - `waiting`: looks, receives and awaits with that patience
//! - `connecting`: connects, reads and writes with that patience
//! - `quiet`: repeats a test that needs a quiet machine
//! - `skipped`: notes the tests that this machine cannot run
//! - `ports`: reserves ports, and an address where nobody listens
//! - `cpu`: compares CPU time, which does not depend on the machine's load
//! - `temporary`: files and folders that are removed
//! - `program`: runs a program, line by line
//! - `help`: the help of a program and of its commands
//! - `upstream`: an HTTP server whose responses the test chooses

mod connecting;
mod cpu;
mod help;
mod patience;
mod ports;
mod program;
mod quiet;
mod skipped;
mod temporary;
mod upstream;
mod waiting;

pub use connecting::{connect, is_timeout, read_to_end, write_all};
pub use cpu::{CpuTimer, assert_growth};
pub use help::{Help, assert_help_fits};
pub use patience::{PATIENCE, Patience};
pub use ports::{RefusingAddress, ReservedPort};
pub use program::Program;
pub use quiet::{stolen, undisturbed};
pub use skipped::skipped;
pub use temporary::TemporaryPath;
pub use upstream::{Asked, Reply, Upstream, response};
pub use waiting::{
    LOOK_AGAIN_AFTER, let_pass, paced, receive, try_receive, wait_for, wait_for_value,
};
#[cfg(feature = "async")]
pub use waiting::{patiently, try_patiently};
