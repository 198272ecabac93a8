//! The reasons for which a server closes a connection: code, reason and retry advice.

/// An orderly close of a connection. Table: `docs/reference/errors.md`, "Close".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close {
    /// RFC 6455 §7.4 close code.
    pub code: u16,
    /// One short phrase.
    pub reason: &'static str,
    /// Whether the client should reconnect with its cursor.
    pub reconnect: bool,
}

/// The server answers the client's own close.
pub const DONE: Close = Close { code: 1000, reason: "done", reconnect: false };
/// The server shuts down.
pub const DRAINING: Close = Close { code: 1001, reason: "draining", reconnect: true };
/// The client sent a malformed WebSocket frame.
pub const PROTOCOL_ERROR: Close = Close { code: 1002, reason: "protocol error", reconnect: false };
/// The client sent a binary message.
pub const BINARY: Close = Close { code: 1003, reason: "binary not accepted", reconnect: false };
/// The client sent a text message that is not UTF-8.
pub const NOT_UTF8: Close = Close { code: 1007, reason: "not utf-8", reconnect: false };
/// The client began a message and did not finish it in time.
pub const TOO_SLOW: Close = Close { code: 1008, reason: "too slow", reconnect: false };
/// The client sent a message over the size limit.
pub const TOO_BIG: Close = Close { code: 1009, reason: "too big", reconnect: false };
/// Unfinished messages of clients use all the memory that the server allows them.
pub const BUSY: Close = Close { code: 1013, reason: "busy", reconnect: true };
/// The client did not read a partly sent frame in time.
pub const STALLED: Close = Close { code: 4002, reason: "stalled", reconnect: true };
/// The subscription continues in another response: a forever frame is large, or a stream of columns has a new schema or a gap.
pub const RELOAD: Close = Close { code: 4003, reason: "reload", reconnect: true };
/// The broker's stream was lost or replaced: a topic's offsets now stand for other events.
pub const RESTARTED: Close = Close { code: 4005, reason: "restarted", reconnect: true };
/// The server has lost its broker, and another server may still reach it.
pub const CUT_OFF: Close = Close { code: 4006, reason: "cut off", reconnect: true };
/// The connection's token has expired: the client reconnects with a new one.
pub const EXPIRED: Close = Close { code: 4004, reason: "expired", reconnect: true };
/// The client sent nothing for longer than its protocol allows.
pub const SILENT: Close = Close { code: 4007, reason: "silent", reconnect: true };
/// An administrator closed the connection.
pub const DISCONNECTED: Close = Close { code: 4501, reason: "disconnected", reconnect: false };

/// All topics of a one-way connection have ended.
pub const ENDED: Close = Close { code: 4500, reason: "ended", reconnect: false };

/// All closes, for tables and tests.
pub const ALL: [Close; 16] = [
    DONE,
    DRAINING,
    PROTOCOL_ERROR,
    BINARY,
    NOT_UTF8,
    TOO_SLOW,
    TOO_BIG,
    BUSY,
    STALLED,
    RELOAD,
    EXPIRED,
    RESTARTED,
    CUT_OFF,
    SILENT,
    ENDED,
    DISCONNECTED,
];

/// Returns the close for a WebSocket protocol violation with this code.
pub fn for_code(code: u16) -> Close {
    ALL.into_iter().find(|close| close.code == code).unwrap_or(PROTOCOL_ERROR)
}
