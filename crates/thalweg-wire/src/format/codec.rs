//! What a subscriber is told, as bytes that no transport has touched yet.

use super::Codec;
use crate::{Close, End, Envelope, Gap, Position, notice};

/// Something that a subscriber is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Message<'a> {
    Batch(&'a Envelope<'a>),
    Gap(&'a Gap<'a>),
    End(&'a End<'a>),
    Heartbeat,
    Close(Close),
}

impl Message<'_> {
    /// Where to resume after it.
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
    pub(super) fn write(self, message: Message<'_>, out: &mut Vec<u8>) {
        match self {
            // An envelope says itself whether it is a patch.
            Self::Json | Self::JsonPatch => match message {
                Message::Batch(envelope) => envelope.write(out),
                Message::Gap(gap) => gap.write(out),
                Message::End(end) => end.write(out),
                Message::Heartbeat => out.extend_from_slice(notice::HEARTBEAT),
                Message::Close(close) => close.write(out),
            },
            Self::Arrow => {}
        }
    }

    /// Exactly how many bytes a batch has.
    pub(super) fn len(self, envelope: &Envelope<'_>) -> usize {
        match self {
            Self::Json | Self::JsonPatch => envelope.len(),
            Self::Arrow => 0,
        }
    }

    /// Appends a batch without its events; returns where in `out` they belong.
    pub(super) fn write_around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> usize {
        match self {
            Self::Json | Self::JsonPatch => envelope.write_around(out),
            Self::Arrow => out.len(),
        }
    }
}
