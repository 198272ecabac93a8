//! Helpers of the tests of protocols.
//!
//! - `fed`: a connection that gets its bytes from a test; `golden`: byte streams and their results
//! - `fossil`: an encoder of Fossil's deltas

pub(super) mod fed;
#[path = "../../tests/it/fossil.rs"]
pub(super) mod fossil;
pub(super) mod golden;
