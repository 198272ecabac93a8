//! Every bound of queries, with why.

/// Characters of a query. A long one that people write has some hundred.
pub const TEXT_CHARS_MAX: usize = 4096;

/// Brackets within brackets. Each level is one of recursion when a query is parsed, planned, and run for
/// every event.
pub const DEPTH_MAX: usize = 24;

/// Operators of one expression: each may be one level of recursion, as in 1 + 1 + 1. Of many values
/// `IN` takes as many as there is room for.
pub const OPERATORS_MAX: usize = 100;

/// Nodes of all expressions of a query, which are visited for every event.
pub const NODES_MAX: usize = 400;

/// Steps in which expressions are checked: each part is looked at several times, in groups once for each level, and
/// what stands once may be needed twice (`BETWEEN`).
pub(crate) const STEPS_MAX: usize = 8_000;

/// Bytes of a text that an expression reads or makes, by default ([`Bounds::value_bytes`]). A longer one is NULL there, and
/// counted. Texts that people compare, search and group by have some hundred bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// Bytes of a row: as many as events have by default. A longer row is refused.
pub const ROW_BYTES_MAX: usize = 1 << 20;

/// Steps of one row's evaluation: an event's condition, the keys and aggregates of one of its windows, or the results of one
/// row. It is evaluated without a pause, and a step takes up to 10 ns in a release build, so this is a millisecond. All
/// [`NODES_MAX`] parts of a query take one step each; the rest is for texts.
pub const ROW_STEPS_MAX: u64 = 100_000;

/// Bytes of all texts that one row's evaluation makes: they may be there at the same time.
pub const ROW_TEXT_BYTES_MAX: usize = 1 << 20;

/// Steps of one event in all its windows: 4 ms in a release build, with pauses. [`NODES_MAX`] parts in [`OVERLAP_MAX`] windows take
/// 25,600, and 130,000 if each calls a function.
pub const EVENT_STEPS_MAX: u64 = 400_000;

/// Steps that an event may take in addition for each group of the windows that it closes.
pub const GROUP_STEPS_MAX: u64 = 1_000;

/// Bytes of all rows that one event makes, those of the windows that it closes included: twice what a query may hold in its
/// windows.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// Steps of evaluating what is constant in a query, and bytes of the texts that this makes. What is left then is evaluated for
/// each row.
pub(crate) const CONSTANT_STEPS_MAX: u64 = 20_000;
pub(crate) const CONSTANTS_BYTES_MAX: usize = 64 << 10;

/// Bytes of a text that is evaluated when a query is planned. A larger one is made for each event.
pub(crate) const CONSTANT_BYTES_MAX: usize = 4096;

/// What an allocation takes besides its bytes, about: its header, and rounding up.
pub(crate) const ALLOCATION_BYTES: usize = 24;

/// Memory that the last row and key keep for the next ones, in bytes.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Groups that are dropped without a pause: some microseconds.
pub const DROPPED_GROUPS_PER_LOOK: usize = 32;

/// Steps that dropping a group takes: it is three allocations or more. They only say when to pause.
pub(crate) const DROP_STEPS: u64 = 16;

/// Bytes that are copied or compared in one step.
pub(crate) const COPIED_BYTES_PER_STEP: usize = 64;

/// Bytes that are searched, hashed, escaped, or changed one by one in a step.
pub(crate) const SCANNED_BYTES_PER_STEP: usize = 8;

/// Bytes of a row that are written in one step.
pub(crate) const WRITTEN_BYTES_PER_STEP: usize = 16;

/// Steps of writing a number or a time as a text, or of reading one.
pub(crate) const CONVERSION_STEPS: u64 = 16;

/// Steps of calling a function, besides its arguments.
pub(crate) const CALL_STEPS: u64 = 4;

/// Steps of finding the group of a row in its window, and of each of its keys. These, and those of rows and of closing groups, say
/// when to pause and what a query has cost. They are no part of any budget: how many there may be is bounded otherwise.
pub(crate) const GROUP_STEPS: u64 = 8;

/// Steps of closing a group: it is taken out in the order of the keys.
pub(crate) const CLOSED_GROUP_STEPS: u64 = 32;

/// Steps of a row, besides its values. Each of those that is a number or a time takes [`CONVERSION_STEPS`].
pub(crate) const ROW_STEPS: u64 = 8;

/// Characters that `LIKE` looks at in one step.
pub(crate) const LIKE_CHARS_PER_STEP: u64 = 4;

/// The longest window, delay and timeout, in ms: ten years.
pub(crate) const INTERVAL_MS_MAX: i64 = 315_360_000_000;

/// Windows that one event is in: the size of a hopping window divided by its step.
pub const OVERLAP_MAX: usize = 64;

/// Places for rows that a block of [`BLOCK_OFFSETS`] offsets of the source may make, where rows are those
/// of windows: all groups that there may be, and those that the block itself makes.
pub(crate) const PLACES: u64 = 1 << 15;

/// Groups of all open windows that [`Bounds`] may allow, so that there are places enough for their rows, for windows that
/// are lost, and for what each event of a block may announce.
pub const GROUPS_MAX: usize =
    PLACES as usize - (OVERLAP_MAX + 1) * BLOCK_OFFSETS as usize - WINDOWS_MAX - OVERLAP_MAX;

/// Windows of a query that are open at a time: its size and its delay, in steps. A query that needs more is refused.
pub const WINDOWS_MAX: usize = 1_000;

/// An event that is left out is announced with the next window, or when events come that were published so much later, in
/// ms.
pub const ANNOUNCE_MS: i64 = 5_000;

/// Offsets of the source whose rows are counted together. It is what one message of a stream that several
/// nodes share has at most, so that rows of a message are numbered as a whole.
pub const BLOCK_OFFSETS: u64 = 256;

/// What a running query may have. Beyond a bound of what it holds a window is lost as a whole, and announced
/// ([`crate::Sink::lost`]). Beyond a bound of its cost it fails ([`crate::Failure`]): all are counted, and none is measured in
/// time, so that every run over the same events fails at the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Groups of all open windows; at most [`GROUPS_MAX`].
    pub groups: usize,
    /// Memory of all groups, their keys and the texts that their aggregates hold included, in bytes.
    pub state_bytes: usize,
    /// Open windows.
    pub windows: usize,
    /// An event's time may be so far ahead of when it was published, in ms. One that is wrong would close all windows.
    pub lead_ms: i64,
    /// Bytes of a text that an expression reads or makes.
    pub value_bytes: usize,
    /// Steps of one row's evaluation.
    pub row_steps: u64,
    /// Bytes of the texts that it makes.
    pub row_text_bytes: usize,
    /// Steps of one event.
    pub event_steps: u64,
    /// Bytes of the rows that it makes.
    pub event_bytes: usize,
}

impl Default for Bounds {
    /// Some minutes of some thousand devices, in a few megabytes.
    fn default() -> Self {
        Self {
            groups: 10_000,
            state_bytes: 8 << 20,
            // Those of the newest event are there before older ones are closed.
            windows: WINDOWS_MAX + OVERLAP_MAX,
            lead_ms: LEAD_MS,
            value_bytes: VALUE_BYTES_MAX,
            row_steps: ROW_STEPS_MAX,
            row_text_bytes: ROW_TEXT_BYTES_MAX,
            event_steps: EVENT_STEPS_MAX,
            event_bytes: EVENT_BYTES_MAX,
        }
    }
}

/// How far an event's time may be ahead of when it was published, in ms, if nobody says otherwise: more than clocks are
/// wrong by, and less than most wrong time zones.
pub const LEAD_MS: i64 = 3_600_000;

/// How long a query without `TIMEOUT` waits for more events before it closes its windows, in ms, or as long as a window if
/// that is longer. On one
/// machine only: several nodes would not agree on when that was.
pub const TIMEOUT_MS: u64 = 5_000;

/// Events that say together how far time had come before the first of them, for whoever begins at a block.
pub const SETTLING_EVENTS: u32 = 256;

/// The largest offset, as everywhere: what JSON numbers hold exactly. A query with windows has 128 times the offsets of its
/// source, so one that reads another one's rows comes to its end sooner: nobody should run it any further.
pub const OFFSET_MAX: u64 = (1 << 53) - 1;
