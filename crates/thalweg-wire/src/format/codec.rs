//! Messages to subscribers as bytes, before any framing.

use super::Codec;
use crate::{Close, End, Envelope, Gap, Position, notice};

/// A message to a subscriber.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outgoing<'a> {
    Batch(&'a Envelope<'a>),
    Gap(&'a Gap<'a>),
    End(&'a End<'a>),
    Heartbeat,
    Close(Close),
}

impl Outgoing<'_> {
    /// Returns the position to resume after this message.
    pub(super) fn position(self) -> Option<Position> {
        match self {
            Self::Batch(envelope) => {
                Some(Position { epoch: envelope.epoch, offset: envelope.last })
            }
            Self::Gap(gap) => Some(gap.position),
            Self::End(end) => Some(end.position),
            Self::Heartbeat | Self::Close(_) => None,
        }
    }
}

impl Codec {
    pub(super) fn write(self, message: Outgoing<'_>, out: &mut Vec<u8>) {
        match self {
            // An envelope itself tells whether it is a patch.
            Self::Json | Self::JsonPatch => match message {
                Outgoing::Batch(envelope) => envelope.write(out),
                Outgoing::Gap(gap) => gap.write(out),
                Outgoing::End(end) => end.write(out),
                Outgoing::Heartbeat => out.extend_from_slice(notice::HEARTBEAT),
                Outgoing::Close(close) => close.write(out),
            },
            Self::Arrow => {}
        }
    }

    /// Returns the exact number of bytes of a batch.
    pub(super) fn len(self, envelope: &Envelope<'_>) -> usize {
        match self {
            Self::Json | Self::JsonPatch => envelope.len(),
            Self::Arrow => 0,
        }
    }

    /// Appends a batch without its events; returns where in `out` the events belong.
    pub(super) fn write_around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> usize {
        match self {
            Self::Json | Self::JsonPatch => envelope.write_around(out),
            Self::Arrow => out.len(),
        }
    }
}
