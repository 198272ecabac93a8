//! JSON objects, with or without patches of versions.

use super::super::message::{MessageCodec, Outgoing};
use crate::{Envelope, notice, signalr::StreamId};

/// The media type of one object per line.
pub(in crate::format) const MEDIA_TYPE: &str = "application/x-ndjson";

/// One object per message. An envelope itself tells whether it is a patch.
pub(super) struct Json<const PATCHES: bool>;

impl<const PATCHES: bool> MessageCodec for Json<PATCHES> {
    const TAKES_PATCHES: bool = PATCHES;

    fn write(message: Outgoing<'_>, _: Option<StreamId>, out: &mut Vec<u8>) {
        match message {
            Outgoing::Batch(envelope) => envelope.write(out),
            Outgoing::Gap(gap) => gap.write(out),
            Outgoing::End(end) => end.write(out),
            Outgoing::Heartbeat => out.extend_from_slice(notice::HEARTBEAT),
            Outgoing::Close(close) => close.write(out),
        }
    }

    fn len(envelope: &Envelope<'_>, _: Option<StreamId>) -> usize {
        envelope.len()
    }

    fn write_around(envelope: &Envelope<'_>, _: Option<StreamId>, out: &mut Vec<u8>) -> usize {
        envelope.write_around(out)
    }
}
