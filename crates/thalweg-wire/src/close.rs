//! Why a server ends a connection: code, reason and retry advice in one place.

/// An orderly end. Table: `docs/wire.md`, "Close".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close {
    /// RFC 6455 §7.4 close code.
    pub code: u16,
    /// One short phrase.
    pub reason: &'static str,
    /// Whether the subscriber should come back with its cursor.
    pub reconnect: bool,
}

/// Answer to the subscriber's own close.
pub const DONE: Close = Close { code: 1000, reason: "done", reconnect: false };
/// The server shuts down.
pub const DRAINING: Close = Close { code: 1001, reason: "draining", reconnect: true };
/// A malformed WebSocket frame.
pub const PROTOCOL_ERROR: Close = Close { code: 1002, reason: "protocol error", reconnect: false };
/// A binary message.
pub const BINARY: Close = Close { code: 1003, reason: "binary not accepted", reconnect: false };
/// A text message that is not UTF-8.
pub const NOT_UTF8: Close = Close { code: 1007, reason: "not utf-8", reconnect: false };
/// A message was begun and not finished in time.
pub const TOO_SLOW: Close = Close { code: 1008, reason: "too slow", reconnect: false };
/// A message over the size limit.
pub const TOO_BIG: Close = Close { code: 1009, reason: "too big", reconnect: false };
/// Unfinished messages hold all the memory that they may.
pub const BUSY: Close = Close { code: 1013, reason: "busy", reconnect: true };
/// A frame partly sent could not be finished in time.
pub const STALLED: Close = Close { code: 4002, reason: "stalled", reconnect: true };
/// It goes on in another response: a forever frame has grown large, or a stream of columns cannot go on
/// with its schema, or has lost events.
pub const RELOAD: Close = Close { code: 4003, reason: "reload", reconnect: true };
/// A stream that others keep was lost or replaced: a topic's offsets mean other events now.
pub const RESTARTED: Close = Close { code: 4005, reason: "restarted", reconnect: true };
/// The server hears nothing of what others store for it, and another server may.
pub const CUT_OFF: Close = Close { code: 4006, reason: "cut off", reconnect: true };
/// Its token has ended: it comes back with another one.
pub const EXPIRED: Close = Close { code: 4004, reason: "expired", reconnect: true };
/// An administrator has ended it.
pub const DISCONNECTED: Close = Close { code: 4501, reason: "disconnected", reconnect: false };

/// All topics of a one-way connection have ended.
pub const ENDED: Close = Close { code: 4500, reason: "ended", reconnect: false };

/// All of them, for tables and tests.
pub const ALL: [Close; 15] = [
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
    ENDED,
    DISCONNECTED,
];

/// The close for a WebSocket protocol violation that calls for `code`.
pub fn for_code(code: u16) -> Close {
    ALL.into_iter().find(|close| close.code == code).unwrap_or(PROTOCOL_ERROR)
}
