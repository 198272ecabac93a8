//! Every limit of the wire, with why. Sizes are in bytes.

/// Longest topic. Fits a NATS subject with room for a prefix, and a URL.
pub const TOPIC_BYTES_MAX: usize = 200;

/// Largest event as published. Larger things are documents to link to, and one
/// event is the least that a connection must finish once it has begun it.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// Largest message a subscriber may send over a WebSocket: one command with one
/// largest event, and some room for the command around it.
pub const COMMAND_BYTES_MAX: u32 = EVENT_BYTES_MAX as u32 + 4096;

/// Subscriptions on one connection. One walk visits them all.
pub const SUBSCRIPTIONS_MAX: usize = 256;

/// Largest offset: the largest integer that JavaScript's numbers hold exactly.
pub const OFFSET_MAX: u64 = (1 << 53) - 1;
