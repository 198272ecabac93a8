//! The content of a message, as a dialect interprets it.

use crate::swarm::carrier::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::swarm) enum Message<'a> {
    /// Events of a topic; an empty list confirms the subscription.
    Events {
        topic: &'a [u8],
        /// Position of the last event; empty if there are no events.
        position: &'a [u8],
        /// Offset of the first event, in digits; empty if the subject does not say.
        first: &'a [u8],
        /// Separated by commas.
        events: &'a [u8],
    },
    /// The newest version of a value topic, or an event as a delta of the one before.
    Version {
        topic: &'a [u8],
        /// Position of this version.
        position: &'a [u8],
        version: Version<'a>,
    },
    /// Events that will not come.
    Gap {
        topic: &'a [u8],
        /// Position right before the next event.
        position: &'a [u8],
        /// Number of missed events; `None` if unknown.
        missed: Option<u64>,
    },
    Confirmed,
    /// A message that is an event by itself, of the connection's only topic.
    Event(Kind, &'a [u8]),
    Answer(&'a [u8]),
    /// A message that is part of opening a connection.
    Opening,
    Heartbeat,
    /// The end of a document that has grown large and must be loaded again.
    Reload,
    Close,
    /// An endpoint ends a connection, or refuses one that is being opened, and says why.
    Ended(&'a [u8]),
    /// The same if the connection is being opened. Later it is an event, such as the answer to a message of the lab.
    Refusal(Kind, &'a [u8]),
    /// The last message of a response or subscription that is complete.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::swarm) struct Version<'a> {
    /// The offset of the version.
    pub(in crate::swarm) number: u64,
    /// Offset of the version that the subscriber received before.
    pub(in crate::swarm) previous: u64,
    pub(in crate::swarm) body: VersionBody<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::swarm) enum VersionBody<'a> {
    Document(&'a [u8]),
    Encoded(Encoding, &'a [u8]),
}

/// The form of a version that is not sent as the document itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::swarm) enum Encoding {
    /// A patch of the previous version (RFC 6902).
    Patch,
    /// The document as the content of a JSON string.
    JsonString,
    /// A delta of the previous version in Fossil's format, as the content of a JSON string.
    FossilDelta,
}

/// Returns the only content of a message.
pub(super) fn alone(message: Message<'_>) -> (Message<'_>, &[u8]) {
    (message, b"")
}
