//! Every limit of queries, with its reason.

/// Characters of a query. A long handwritten query has a few hundred.
pub const TEXT_CHARS_MAX: usize = 4096;

/// Depth of nested brackets. Each level is a level of recursion when a query is parsed, planned, and evaluated.
pub const DEPTH_MAX: usize = 24;

/// Maximum number of operators in one expression. Each may need a level of recursion, as in 1 + 1 + 1. Values
/// of `IN` do not count.
pub const OPERATORS_MAX: usize = 100;

/// Nodes of all expressions of a query, which every event evaluates.
pub const NODES_MAX: usize = 400;

/// Maximum number of steps for checking expressions. A part may be checked several times: once per nesting
/// level in a query with groups, and twice in `BETWEEN`.
pub(crate) const STEPS_MAX: usize = 8_000;

/// Default bytes of a text that an expression reads or makes ([`Bounds::value_bytes`]). A longer one is NULL, and
/// counted. Texts to compare, search and group by have a few hundred bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// Bytes of a row: the default limit of events. A longer row is refused.
pub const ROW_BYTES_MAX: usize = 1 << 20;

/// Steps of one row's evaluation: an event's condition, the keys and aggregates of one of its windows, or the results
/// of one row. The evaluation does not pause; a step takes up to 10 ns in a release build, so all of them take up to a millisecond.
/// All [`NODES_MAX`] nodes of a query take one step each; the rest is for texts.
pub const ROW_STEPS_MAX: u64 = 100_000;

/// Bytes of all texts that one row's evaluation makes, because all of them may exist at the same time.
pub const ROW_TEXT_BYTES_MAX: usize = 1 << 20;

/// Steps of one event in all its windows: 4 ms in a release build, with pauses. [`NODES_MAX`] nodes in
/// [`OVERLAP_MAX`] windows take 25,600, and 130,000 if each calls a function.
pub const EVENT_STEPS_MAX: u64 = 400_000;

/// Additional steps of an event for each group of the windows that it closes.
pub const GROUP_STEPS_MAX: u64 = 2_000;

/// Maximum bytes of all rows that one event makes, including the rows of windows that it closes: twice the
/// memory of a query's windows.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// Steps of evaluating constants of a query, and bytes of their texts. Further constants are evaluated for each row.
pub(crate) const CONSTANT_STEPS_MAX: u64 = 20_000;
pub(crate) const CONSTANTS_BYTES_MAX: usize = 64 << 10;

/// Bytes of a text that planning evaluates. A larger text is made for each event.
pub(crate) const CONSTANT_BYTES_MAX: usize = 4096;

/// Approximate bytes of an allocation besides its content: header and rounding.
pub(crate) const ALLOCATION_BYTES: usize = 24;

/// Memory that the last row and key keep for the next ones, in bytes.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Number of groups that are dropped without a pause. This takes a few microseconds.
pub const DROPPED_GROUPS_PER_LOOK: usize = 32;

/// Steps of dropping a group, which has three allocations or more. These steps only decide when to pause, and
/// do not count toward any limit.
pub(crate) const DROP_STEPS: u64 = 16;

/// Bytes copied or compared per step.
pub(crate) const COPIED_BYTES_PER_STEP: usize = 64;

/// Bytes searched, hashed, escaped, or changed one by one per step.
pub(crate) const SCANNED_BYTES_PER_STEP: usize = 8;

/// Bytes of a row written per step.
pub(crate) const WRITTEN_BYTES_PER_STEP: usize = 16;

/// Steps of writing or parsing a number or a time.
pub(crate) const CONVERSION_STEPS: u64 = 16;

/// Steps of calling a function or joining texts, without the arguments.
pub(crate) const CALL_STEPS: u64 = 4;

/// Steps of finding a row's group in its window, and of each key. Steps of groups, of rows and of closing
/// groups decide when to pause, and count in the reported cost. No budget includes them, because other limits
/// bound their number.
pub(crate) const GROUP_STEPS: u64 = 8;

/// Steps of closing a group in the order of the keys.
pub(crate) const CLOSED_GROUP_STEPS: u64 = 32;

/// Steps of a row without its values. Each number or time takes [`CONVERSION_STEPS`].
pub(crate) const ROW_STEPS: u64 = 8;

/// Characters that `LIKE` examines per step.
pub const LIKE_CHARS_PER_STEP: u64 = 2;

/// Distinct values of one `count(DISTINCT x)` of a group. With more, the window is lost, as with too little memory: a
/// count of many values would need a sketch.
pub const DISTINCT_MAX: usize = 10_000;

/// Maximum number of values of a group for which `median` and `approx_percentile` are exact. More are merged into a digest,
/// this many at a time.
pub const EXACT_VALUES_MAX: usize = 128;

/// The least time between two emissions of changed groups without windows, in ms, and the default: people do not read faster.
pub const PERIOD_MS: i64 = 200;

/// Bytes of a group's key in a keyed topic. A longer key has no row, and is counted.
pub const KEY_BYTES_MAX: usize = 256;

/// The groups of a query without windows may take its memory divided by this. The rest is for their rows.
pub(crate) const GROUPS_PART: usize = 2;

/// Memory of a row in a keyed topic, besides the row and its key, in bytes.
pub(crate) const STATE_ROW_BYTES: usize = 256;

/// Centroids of a digest. One in the middle has 1 % of the values, and one at either end has fewer. The error of a rank is up to
/// twice that, because values are merged many times. A digest takes 3 KiB, and 4.7 KiB with the values to merge next.
pub(crate) const DIGEST_CENTROIDS: usize = 200;

/// Steps of adding a value to a digest. Every [`EXACT_VALUES_MAX`] values are sorted and merged together.
pub(crate) const DIGEST_STEPS: u64 = 16;

/// Steps of a digest's result, which are for pauses alone.
pub(crate) const DIGEST_RESULT_STEPS: u64 = 1_000;

/// The longest window, delay and timeout, in ms: ten years.
pub(crate) const INTERVAL_MS_MAX: i64 = 315_360_000_000;

/// Maximum number of windows of one event: the size of a hopping window divided by the distance between two
/// of them.
pub const OVERLAP_MAX: usize = 64;

/// Row offsets that each block of [`BLOCK_OFFSETS`] source offsets reserves, in a query with windows: enough
/// for all possible groups, and for the rows of the block itself.
pub(crate) const PLACES: u64 = 1 << 15;

/// The maximum of [`Bounds`]' groups of all open windows. It leaves enough offsets for their rows, for lost windows,
/// and for an announcement of each event of a block.
pub const GROUPS_MAX: usize =
    PLACES as usize - (OVERLAP_MAX + 1) * BLOCK_OFFSETS as usize - WINDOWS_MAX - OVERLAP_MAX;

/// Maximum number of open windows of a query: the sum of window size and delay, divided by the distance
/// between two windows. A query that needs more is refused.
pub const WINDOWS_MAX: usize = 1_000;

/// Maximum delay, in ms of publication time, before a left-out event is announced. If a window ends earlier,
/// it is announced then.
pub const ANNOUNCE_MS: i64 = 5_000;

/// Size of a block of source offsets, whose rows are numbered together. It equals the maximum number of
/// events in a broker message, so that a message is never split over blocks.
pub const BLOCK_OFFSETS: u64 = 256;

/// The bounds of a running query. Beyond a bound of memory a window is lost as a whole, and announced
/// ([`crate::Sink::lost`]); without windows a group has no row. Beyond a bound of cost the query fails
/// ([`crate::Failure`]). All bounds are counted and none is measured in time, so every run over the same events fails at
/// the same event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Groups of all open windows, or of a query without windows; at most [`GROUPS_MAX`].
    pub groups: usize,
    /// Memory of all groups, with keys and aggregated texts, in bytes. Without windows, groups have at most half of it, and their
    /// rows the rest.
    pub state_bytes: usize,
    /// Open windows.
    pub windows: usize,
    /// How far an event's time may be ahead of its publication, in ms. A wrong time would close all windows.
    pub lead_ms: i64,
    /// Bytes of a text that an expression reads or makes.
    pub value_bytes: usize,
    /// Steps of one row's evaluation.
    pub row_steps: u64,
    /// Bytes of the texts of one row's evaluation.
    pub row_text_bytes: usize,
    /// Steps of one event.
    pub event_steps: u64,
    /// Bytes of the rows of one event.
    pub event_bytes: usize,
}

impl Default for Bounds {
    /// Returns bounds for a few minutes of a few thousand devices, in a few megabytes.
    fn default() -> Self {
        Self {
            groups: 10_000,
            state_bytes: 8 << 20,
            // The windows of the newest event exist before older ones close.
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

/// Default for how far an event's time may be ahead of its publication, in ms: more than clocks differ, and less than
/// most wrong time zones.
pub const LEAD_MS: i64 = 3_600_000;

/// Default `TIMEOUT` in ms: the query waits for this time, or for the length of a window if that is longer,
/// before it closes its windows. Only a single server uses this, because several nodes would not agree on
/// the time.
pub const TIMEOUT_MS: u64 = 5_000;

/// Number of events that determine the current time together, for a query that begins at a block.
pub const SETTLING_EVENTS: u32 = 256;

/// The largest offset: the largest integer that JSON numbers hold exactly. A query with windows has 128 times the
/// offsets of its source and reaches this limit earlier.
pub const OFFSET_MAX: u64 = (1 << 53) - 1;
