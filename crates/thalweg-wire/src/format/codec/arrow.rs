//! Columns of rows. The caller writes all their messages.

use super::super::message::{MessageCodec, Outgoing};
use crate::{Envelope, signalr::StreamId};

/// The media type of Arrow's stream format.
pub(in crate::format) const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// Columns of rows.
pub(super) struct Arrow;

impl MessageCodec for Arrow {
    const HAS_COLUMNS: bool = true;

    fn write(_: Outgoing<'_>, _: Option<StreamId>, _: &mut Vec<u8>) {}

    fn len(_: &Envelope<'_>, _: Option<StreamId>) -> usize {
        0
    }

    fn write_around(_: &Envelope<'_>, _: Option<StreamId>, out: &mut Vec<u8>) -> usize {
        out.len()
    }
}
