//! Messages to subscribers besides events, as JSON: gap, end, heartbeat, close.

use crate::{Close, Offset, Position, Topic, envelope::write_head, position::write_decimal};

/// Events that a subscriber does not receive.
#[derive(Debug, Clone, Copy)]
pub struct Gap<'a> {
    /// The topic.
    pub topic: &'a Topic,
    /// The position to resume at. The next event is the first one after it.
    pub position: Position,
    /// Number of missing events, if known.
    pub missed: Option<Offset>,
    /// The reason.
    pub reason: GapReason,
}

/// The reason for missing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The subscriber fell behind the history.
    Slow,
    /// The cursor was already older than the history, and than the events that a broker stores, when the
    /// client subscribed; or a query could not make some rows.
    Trimmed,
    /// The cursor belongs to another epoch.
    Epoch,
    /// The server does not have the newest version of a value topic, and cannot tell whether the subscriber has it.
    Unknown,
}

impl GapReason {
    /// All reasons, for tables with one entry per reason.
    pub const ALL: [Self; 4] = [Self::Slow, Self::Trimmed, Self::Epoch, Self::Unknown];

    /// Returns the reason's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Trimmed => "trimmed",
            Self::Epoch => "epoch",
            Self::Unknown => "unknown",
        }
    }
}

/// The end of a topic on one connection, whose other topics continue.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// The topic.
    pub topic: &'a Topic,
    /// The subscriber's last position.
    pub position: Position,
    /// The reason.
    pub code: EndCode,
}

/// The reason why a topic ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCode {
    /// A publisher deleted the topic.
    Deleted,
    /// The upstream has no such resource, or no longer has it.
    Gone,
    /// The subscriber's new token gives no right to the topic.
    Forbidden,
    /// The subscriber fell behind the history, and its policy is `close`.
    Slow,
    /// The subscriber's position is older than the history, and its policy is `close`.
    Trimmed,
    /// One row of the topic's query exceeds its limit of steps (`docs/reference/sql.md`, "Bounds").
    QueryRowSteps,
    /// One row of the topic's query exceeds its limit of text.
    QueryRowBytes,
    /// One event exceeds the limit of steps of the topic's query.
    QueryEventSteps,
    /// The rows of one event exceed their limit of bytes.
    QueryEventBytes,
    /// The queries of the subscriber's address have reached their memory limit.
    QueryMemory,
}

impl EndCode {
    /// All codes.
    pub const ALL: [Self; 10] = [
        Self::Deleted,
        Self::Gone,
        Self::Forbidden,
        Self::Slow,
        Self::Trimmed,
        Self::QueryRowSteps,
        Self::QueryRowBytes,
        Self::QueryEventSteps,
        Self::QueryEventBytes,
        Self::QueryMemory,
    ];

    /// Returns the code's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Gone => "gone",
            Self::Forbidden => "forbidden",
            Self::Slow => "slow",
            Self::Trimmed => "trimmed",
            Self::QueryRowSteps => "query_row_steps",
            Self::QueryRowBytes => "query_row_bytes",
            Self::QueryEventSteps => "query_event_steps",
            Self::QueryEventBytes => "query_event_bytes",
            Self::QueryMemory => "query_memory",
        }
    }

    /// Returns the reason as one short phrase.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Deleted => "the topic was deleted",
            Self::Gone => "the upstream has no such resource",
            Self::Forbidden => "the token no longer grants a right to the topic",
            Self::Slow => "the subscriber fell behind the history",
            Self::Trimmed => "events after this position are no longer available",
            Self::QueryRowSteps => {
                "one row of the query takes more steps than allowed: shorten its expressions"
            }
            Self::QueryRowBytes => {
                "one row of the query makes longer texts than allowed: cut them with substr"
            }
            Self::QueryEventSteps => {
                "one event takes more steps in the query than allowed: shorten the expressions, or let fewer windows overlap"
            }
            Self::QueryEventBytes => {
                "one event makes longer rows in the query than allowed: select less, or let fewer windows overlap"
            }
            Self::QueryMemory => {
                "the queries of this address have reached their memory limit: group by less, or end one of them"
            }
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"code":""#);
        out.extend_from_slice(self.name().as_bytes());
        out.extend_from_slice(br#"","reason":""#);
        out.extend_from_slice(self.reason().as_bytes());
        out.extend_from_slice(br#""}"#);
    }

    /// Returns whether only this subscription ends, and the topic continues for others.
    pub fn is_own(self) -> bool {
        match self {
            Self::Deleted
            | Self::Gone
            | Self::QueryRowSteps
            | Self::QueryRowBytes
            | Self::QueryEventSteps
            | Self::QueryEventBytes
            | Self::QueryMemory => false,
            Self::Forbidden | Self::Slow | Self::Trimmed => true,
        }
    }
}

/// The heartbeat's JSON.
pub const HEARTBEAT: &[u8] = br#"{"heartbeat":{}}"#;

impl Gap<'_> {
    /// Appends the gap to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_head(self.topic, self.position.epoch, self.position.offset, out);
        out.extend_from_slice(br#"","gap":{"missed":"#);
        match self.missed {
            Some(missed) => write_decimal(missed, out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(br#","reason":""#);
        out.extend_from_slice(self.reason.name().as_bytes());
        out.extend_from_slice(br#""}}"#);
    }
}

impl End<'_> {
    /// Appends the end to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_head(self.topic, self.position.epoch, self.position.offset, out);
        out.extend_from_slice(br#"","end":"#);
        self.code.write(out);
        out.push(b'}');
    }
}

impl Close {
    /// Appends the close to `out` in the form of one-way transports.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"close":"#);
        self.write_members(out);
        out.push(b'}');
    }

    fn write_members(&self, out: &mut Vec<u8>) {
        self.write_with_end(None, out);
    }

    /// Appends the close and, if given, the code with which the connection's only topic ended. Responses of
    /// columns use it, because they have no end message.
    pub fn write_with_end(&self, ended: Option<EndCode>, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"code":"#);
        write_decimal(u64::from(self.code), out);
        out.extend_from_slice(br#","reason":""#);
        out.extend_from_slice(self.reason.as_bytes());
        out.extend_from_slice(br#"","reconnect":"#);
        out.extend_from_slice(if self.reconnect { b"true" } else { b"false" });
        if let Some(code) = ended {
            out.extend_from_slice(br#","end":"#);
            code.write(out);
        }
        out.push(b'}');
    }
}
