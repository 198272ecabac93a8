//! Every bound of columns, with its reason.

/// Columns of one schema. Every stream begins with all of them, about 350 bytes each, which the server holds until the
/// client has read them; every frame has a few bytes for each. Events with more members become one column of JSON.
pub const COLUMNS_MAX: usize = 256;

/// Bytes of all names of one schema, for the same reason.
pub const NAMES_BYTES_MAX: usize = 64 << 10;

/// Rows of a batch times its inferred columns: a column takes up to 8 bytes of a frame for each row, even for a null. Without
/// this bound, 24 kB of `{}` would become 16 MB for each reader after an event of 256 members. Larger batches become one column
/// of JSON. A batch of the default maximum size with a value for each column has at most half of this.
pub const CELLS_MAX: usize = 1 << 20;

/// Changes of a topic's schema by rows that do not fit. Each change ends the streams of all readers, who reconnect. After the
/// last change all events are one column of JSON, which fits everything, so a publisher cannot make readers reconnect forever.
pub const CHANGES_MAX: u32 = 64;

/// Approximate bytes of rows to infer a schema from: a few thousand rows show the types, and take a millisecond or two.
pub const INFERRED_BYTES: usize = 1 << 20;
