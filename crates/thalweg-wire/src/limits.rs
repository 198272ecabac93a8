//! Every limit of the wire, with its reason. Sizes are in bytes.

/// Longest topic. Such a topic fits a URL, and a NATS subject with a prefix.
pub const TOPIC_BYTES_MAX: usize = 200;

/// Largest published event by default. Publish a link to anything larger: a connection must finish each event that it
/// has begun to send.
pub const EVENT_BYTES: usize = 1 << 20;

/// The size of a command without its event: the largest command is the largest event plus this.
pub const COMMAND_ROOM_BYTES: usize = 4096;

/// Longest `id` of a command, which the answer repeats: more than a UUID.
pub const ID_BYTES_MAX: usize = 256;

/// Depth of nested arrays and objects in an event. JSON parsers reject deeper ones at different depths, or recurse
/// until their stack overflows.
pub const EVENT_DEPTH_MAX: usize = 128;

/// Characters of a peer's text that an error message repeats: enough to recognize the text. The message does not grow
/// with the text.
pub const QUOTED_CHARS_MAX: usize = 64;

/// Longest error message. Messages name a topic, or quote [`QUOTED_CHARS_MAX`] escaped characters beside a list of allowed words.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Longest message of a client without the right to publish: its commands carry no events. A `subscribe` with every
/// parameter takes a tenth of this.
pub const COMMAND_BYTES_MAX: usize = 16 << 10;

/// Inflated bytes per compressed byte that such a client may send. Each message is compressed alone: a command of a few
/// hundred bytes shrinks to half its size at best, while deflate can shrink data to a thousandth.
pub const INFLATED_PER_BYTE: u32 = 4;

/// Inflated bytes beyond that ratio over the life of a connection, for a few messages that compress better.
pub const INFLATED_BYTES: u32 = 64 << 10;

/// Subscriptions on one connection by default. One visit of the connection examines them all.
pub const SUBSCRIPTIONS: usize = 256;

/// Maximum number of newest events that a subscription or a read may request: as many as one read returns. The server counts them
/// batch by batch.
pub const NEWEST_MAX: u32 = 10_000;

/// Largest offset: the largest integer that JavaScript's numbers hold exactly.
pub const OFFSET_MAX: u64 = (1 << 53) - 1;

/// Maximum bytes of the description of a client for other members of its topics, from the client or from its token.
pub const MEMBER_INFO_BYTES: usize = 1024;

/// Maximum keys of a filter. A page for a filter looks up each of them.
pub const FILTER_KEYS_MAX: usize = 100;

/// Maximum bytes of a filter's keys: they fit a URL, and each connection may have such a filter.
pub const FILTER_BYTES_MAX: usize = 4 << 10;
