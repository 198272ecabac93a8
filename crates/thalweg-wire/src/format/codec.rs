//! Codecs: messages to subscribers as bytes, before any framing. A codec is a file below, with its messages and its
//! properties. It is registered here, by a variant of [`Codec`] and a line in `with_codec`.

pub(super) mod arrow;
pub(super) mod json;
mod signalr;

use super::message::{MessageCodec, Outgoing};
use crate::{Envelope, signalr::StreamId};

/// The form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// One JSON object.
    Json,
    /// One JSON object; a version of a value topic may be a patch of the version before.
    JsonPatch,
    /// Columns of rows, as an Arrow IPC stream. The bytes depend on the topic's schema, so the caller writes
    /// them with [`Format::own`](super::Format::own). All other messages are empty in this codec.
    Arrow,
    /// One record of SignalR's JSON hub protocol, which wraps the JSON object. A close is empty: only the protocol of
    /// the connection can write it.
    SignalR,
}

/// Runs an expression with the type of a codec: static dispatch.
macro_rules! with_codec {
    ($codec:expr, $type:ident => $what:expr) => {
        match $codec {
            Codec::Json => {
                type $type = json::Json<false>;
                $what
            }
            Codec::JsonPatch => {
                type $type = json::Json<true>;
                $what
            }
            Codec::Arrow => {
                type $type = arrow::Arrow;
                $what
            }
            Codec::SignalR => {
                type $type = signalr::SignalR;
                $what
            }
        }
    };
}

impl Codec {
    /// Returns the codec with patches of versions, if there are both.
    pub(super) const fn with_patches(self) -> Self {
        match self {
            Self::Json => Self::JsonPatch,
            other => other,
        }
    }

    /// Returns the codec without patches of versions.
    pub(super) const fn without_patches(self) -> Self {
        match self {
            Self::JsonPatch => Self::Json,
            other => other,
        }
    }

    pub(super) const fn takes_patches(self) -> bool {
        with_codec!(self, C => C::TAKES_PATCHES)
    }

    #[inline]
    pub(super) const fn has_columns(self) -> bool {
        with_codec!(self, C => C::HAS_COLUMNS)
    }

    pub(super) const fn takes_commands(self) -> bool {
        with_codec!(self, C => C::TAKES_COMMANDS)
    }

    pub(super) const fn has_streams(self) -> bool {
        with_codec!(self, C => C::HAS_STREAMS)
    }
}

/// A codec, and the stream whose items its messages are.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageForm {
    pub(super) codec: Codec,
    pub(super) stream: Option<StreamId>,
}

impl MessageForm {
    /// Appends a message ([`MessageCodec::write`]).
    pub(super) fn write(self, message: Outgoing<'_>, out: &mut Vec<u8>) {
        with_codec!(self.codec, C => C::write(message, self.stream, out));
    }

    /// Returns the length of a batch ([`MessageCodec::len`]).
    pub(super) fn len(self, envelope: &Envelope<'_>) -> usize {
        with_codec!(self.codec, C => C::len(envelope, self.stream))
    }

    /// Appends a batch without its events ([`MessageCodec::write_around`]).
    pub(super) fn write_around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> usize {
        with_codec!(self.codec, C => C::write_around(envelope, self.stream, out))
    }
}
