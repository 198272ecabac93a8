//! Helpers of the tests of protocols.
//!
//! - `fed`: a connection that gets its bytes from a test; `golden`: byte streams and their results

pub(super) mod fed;
pub(super) mod golden;
