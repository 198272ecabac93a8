//! Messages to subscribers as bytes, before any framing.

use super::Codec;
use crate::{
    Close, End, EndCode, Envelope, Gap, Position, notice,
    signalr::{
        self, StreamId,
        delivery::{self, Target},
    },
};

#[derive(Debug, Clone, Copy)]
pub(super) enum Outgoing<'a> {
    Batch(&'a Envelope<'a>),
    Gap(&'a Gap<'a>),
    End(&'a End<'a>),
    Heartbeat,
    Close(Close),
}

impl Outgoing<'_> {
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

/// A codec, and the stream whose items its messages are.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageForm {
    pub(super) codec: Codec,
    pub(super) stream: Option<StreamId>,
}

impl MessageForm {
    pub(super) fn write(self, message: Outgoing<'_>, out: &mut Vec<u8>) {
        match self.codec {
            // An envelope itself tells whether it is a patch.
            Codec::Json | Codec::JsonPatch => match message {
                Outgoing::Batch(envelope) => envelope.write(out),
                Outgoing::Gap(gap) => gap.write(out),
                Outgoing::End(end) => end.write(out),
                Outgoing::Heartbeat => out.extend_from_slice(notice::HEARTBEAT),
                Outgoing::Close(close) => close.write(out),
            },
            Codec::Arrow => {}
            Codec::SignalR => self.write_hub_message(message, out),
        }
    }

    fn write_hub_message(self, message: Outgoing<'_>, out: &mut Vec<u8>) {
        let stream = self.stream;
        match message {
            Outgoing::Batch(envelope) => {
                delivery::begin(Target::Events, stream, out);
                envelope.write(out);
                delivery::end(stream, out);
            }
            Outgoing::Gap(gap) => {
                delivery::begin(Target::Gap, stream, out);
                gap.write(out);
                delivery::end(stream, out);
            }
            Outgoing::End(end) => {
                delivery::begin(Target::End, stream, out);
                end.write(out);
                delivery::end(stream, out);
                if let Some(stream) = stream {
                    delivery::complete(stream, stream_error(end.code).as_deref(), out);
                }
            }
            Outgoing::Heartbeat => out.extend_from_slice(signalr::PING),
            Outgoing::Close(_) => {}
        }
    }

    /// Returns the exact number of bytes of a batch.
    pub(super) fn len(self, envelope: &Envelope<'_>) -> usize {
        match self.codec {
            Codec::Json | Codec::JsonPatch => envelope.len(),
            Codec::Arrow => 0,
            Codec::SignalR => envelope.len() + delivery::around_len(Target::Events, self.stream),
        }
    }

    /// Appends a batch without its events; returns where in `out` the events belong.
    pub(super) fn write_around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> usize {
        match self.codec {
            Codec::Json | Codec::JsonPatch => envelope.write_around(out),
            Codec::Arrow => out.len(),
            Codec::SignalR => {
                delivery::begin(Target::Events, self.stream, out);
                let events_at = envelope.write_around(out);
                delivery::end(self.stream, out);
                events_at
            }
        }
    }
}

/// Returns the error of a stream whose topic ends with this code; `None` if the topic itself is complete.
fn stream_error(code: EndCode) -> Option<String> {
    match code {
        EndCode::Deleted | EndCode::Gone => None,
        _ => Some(format!("{}: {}", code.name(), code.reason())),
    }
}
