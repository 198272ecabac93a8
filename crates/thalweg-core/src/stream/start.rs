use thalweg_wire::Offset;

use super::{Cursor, Lost};

/// The beginning of a subscription. The caller tells the subscriber before it sends any event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this cursor, without a loss. Confirm it ([`super::Feed::confirmed_after`]).
    At(Cursor),
    /// The position is older than the history. Announce a gap of known size and continue where the policy says.
    Lost(Lost),
    /// The position is of another epoch: announce a gap of unknown size, and continue at this cursor, the oldest retained event.
    OtherEpoch(Cursor),
    /// A part of the state is not here, and the subscriber may lack it, for example the newest version of a value. Announce a
    /// gap ([`super::Feed::unknown_reason`]), and continue at this cursor.
    Unknown(Cursor),
    /// A backfill from this offset on must come first ([`super::Next::Backfill`]). Ask again after it.
    Backfill(Offset),
}
