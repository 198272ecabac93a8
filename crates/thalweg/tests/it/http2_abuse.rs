//! Invalid and abusive HTTP/2: the server answers, counts or closes it, and a bystander does not notice.
//!
//! - `floods`: too many valid frames
//! - `breaches`: violations of RFC 9113
//! - `windows`: streams that the client does not read

mod breaches;
mod floods;
mod windows;

use crate::harness::{H2, Raw, Server};

/// Error codes (RFC 9113 §7).
mod error {
    pub(super) const NO_ERROR: u32 = 0;
    pub(super) const PROTOCOL_ERROR: u32 = 1;
    pub(super) const FLOW_CONTROL_ERROR: u32 = 3;
    pub(super) const STREAM_CLOSED: u32 = 5;
    pub(super) const FRAME_SIZE_ERROR: u32 = 6;
    pub(super) const REFUSED_STREAM: u32 = 7;
    pub(super) const CANCEL: u32 = 8;
    pub(super) const COMPRESSION_ERROR: u32 = 9;
    pub(super) const ENHANCE_YOUR_CALM: u32 = 11;
}

/// Settings (RFC 9113 §6.5.2).
mod setting {
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
}

const MISUSES: &str = "thalweg_h2_misuses_total";

fn connect(server: &Server) -> H2 {
    H2::start(Raw::connect(server.address), &[])
}
