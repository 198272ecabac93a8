use thalweg_wire::Offset;

use super::{Cursor, Lost};

/// How a subscription begins. The caller tells the subscriber before it sends any event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this cursor, and nothing is lost. Confirm it ([`super::Feed::write_confirmation`]).
    At(Cursor),
    /// The position is older than the history. Announce a gap of known size and go on where
    /// the policy says.
    Lost(Lost),
    /// The position is of another epoch, so nobody knows how much was missed. Announce a gap
    /// of unknown size and go on at this cursor, the oldest event that is retained.
    OtherEpoch(Cursor),
    /// Of a value topic: its newest version is not here, and the subscriber may have had one, or would
    /// have been sent one. Announce that the value is unknown, and go on at this cursor.
    Unknown(Cursor),
    /// It cannot be said yet: what is stored elsewhere must be looked at ([`super::Next::Away`]), from
    /// this offset on. Ask again then.
    Away(Offset),
}
