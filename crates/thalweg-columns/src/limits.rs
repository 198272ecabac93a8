//! Every bound of columns, with why.

/// Columns of one schema. Every stream begins with all of them, about 350 bytes each, which its server
/// holds until its peer has taken them; and every frame has some bytes for each. Events with more
/// members become one column of JSON.
pub const COLUMNS_MAX: usize = 256;

/// Bytes of all names of one schema, for the same reason.
pub const NAMES_BYTES_MAX: usize = 64 << 10;

/// Rows of a batch times its columns, where these are inferred: a column takes up to 8 bytes of a frame
/// for each row, also where the row has nothing for it. So 24 kB of `{}` would be 16 MB for each reader once
/// somebody has published an event of 256 members. Batches with more become one column of JSON. One
/// that is as large as batches are by default, and has a value for each column, has half of this at most.
pub const CELLS_MAX: usize = 1 << 20;

/// How often the schema of a topic may change, because rows came that do not fit. Each change ends the
/// streams of all readers, who come again. After that all events are one column of JSON, which
/// fits everything: a publisher cannot have readers come again for ever.
pub const CHANGES_MAX: u32 = 64;

/// Bytes of rows that a schema is inferred from, about: some thousand rows show what types there are,
/// and are read in a millisecond or two.
pub const INFERRED_BYTES: usize = 1 << 20;
