//! Messages to subscribers, and the trait of codecs.

use crate::{Close, End, Envelope, Gap, Position, signalr::StreamId};

/// The messages and the properties of a codec. By default it has no patches, columns, commands and streams.
pub(super) trait MessageCodec {
    /// Whether a version may be a patch.
    const TAKES_PATCHES: bool = false;

    /// Whether its messages are columns.
    const HAS_COLUMNS: bool = false;

    /// Whether a client may send commands over each transport, not only over a WebSocket.
    const TAKES_COMMANDS: bool = false;

    /// Whether messages may be items of a stream that the client began.
    const HAS_STREAMS: bool = false;

    /// Appends a message.
    fn write(message: Outgoing<'_>, stream: Option<StreamId>, out: &mut Vec<u8>);

    /// Returns the exact number of bytes of a batch.
    fn len(envelope: &Envelope<'_>, stream: Option<StreamId>) -> usize;

    /// Appends a batch without its events; returns where in `out` the events belong.
    fn write_around(envelope: &Envelope<'_>, stream: Option<StreamId>, out: &mut Vec<u8>) -> usize;
}

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
