//! Every limit of the wire, with why. Sizes are in bytes.

/// Longest topic. Fits a NATS subject with room for a prefix, and a URL.
pub const TOPIC_BYTES_MAX: usize = 200;

/// Largest event as published, unless the server is told otherwise. Larger things are documents to link to, and one
/// event is the least that a connection must finish once it has begun it.
pub const EVENT_BYTES: usize = 1 << 20;

/// What a command has around its event: so much larger than an event may it be.
pub const COMMAND_ROOM_BYTES: usize = 4096;

/// Longest `id` of a command: it comes back whole with the answer. A UUID and more.
pub const ID_BYTES_MAX: usize = 256;

/// Arrays and objects within each other in an event. Readers give up on deeper ones at
/// different depths, or recurse until their stack ends.
pub const EVENT_DEPTH_MAX: usize = 128;

/// Characters of a peer's text that a message repeats: enough to know it by. What is said
/// of it is not to be longer than it.
pub const QUOTED_CHARS_MAX: usize = 64;

/// Longest sentence of a refusal. Those there are name a topic, or quote
/// [`QUOTED_CHARS_MAX`] characters, escaped, beside a list of what there is.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Longest message of a client who may not publish: its commands carry no events. A
/// `subscribe` with all it can say is a tenth of it.
pub const COMMAND_BYTES_MAX: usize = 16 << 10;

/// Bytes that such a client's compressed messages may be inflated to for each byte they came
/// as. Each is compressed by itself: a command of a few hundred bytes shrinks to a half at
/// best. Deflate goes to a thousandth.
pub const INFLATED_PER_BYTE: u32 = 4;

/// And so many besides, over the life of its connection: for a few that shrink better.
pub const INFLATED_BYTES: u32 = 64 << 10;

/// Subscriptions on one connection, unless the server is told otherwise. One
/// visit looks at them all.
pub const SUBSCRIPTIONS: usize = 256;

/// Most events that a subscription or a read may ask for from the newest one backwards: as many as one
/// read gives, and they are counted batch by batch.
pub const NEWEST_MAX: u32 = 10_000;

/// Largest offset: the largest integer that JavaScript's numbers hold exactly.
pub const OFFSET_MAX: u64 = (1 << 53) - 1;
