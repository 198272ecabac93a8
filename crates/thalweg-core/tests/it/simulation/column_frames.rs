//! Checks how often frames of columns are made: never while a shard keeps one, and again only after a drop.

use std::collections::BTreeSet;

use thalweg_core::{fanout::Scratch, stream::Offsets};
use thalweg_wire::Offset;

use super::{oracle::Visit, tally::Situation};

/// The frames that existed before a visit to a reader of columns.
pub(super) struct Made {
    topic: usize,
    kept: BTreeSet<Offset>,
    too_large: BTreeSet<Offset>,
    frames: u64,
    /// Whether its reader is within a frame of a batch that has left the history.
    is_outlived: bool,
}

impl Made {
    pub(super) fn before(
        topic: usize,
        is_outlived: bool,
        visit: &Visit<'_>,
        scratch: &Scratch,
    ) -> Self {
        let (kept, too_large) = visit.published[topic].column_frames();
        Self { topic, kept, too_large, frames: scratch.columns().frames, is_outlived }
    }

    pub(super) fn check(self, visit: &mut Visit<'_>, scratch: &Scratch) {
        let Self { topic, kept, too_large, frames, is_outlived } = self;
        let published = &visit.published[topic];
        if published.offsets() == Offsets::Stored {
            // Other servers, and backfills, have batches of their own.
            return;
        }
        let (kept_now, too_large_now) = published.column_frames();
        let made: Vec<Offset> = kept_now.difference(&kept).copied().collect();
        let refused = too_large_now.difference(&too_large).count();
        let frames = (scratch.columns().frames - frames) as usize;
        // Some frames are known to be too large before they are made. A frame of a batch that has left the history
        // may have left with it.
        let most = made.len() + refused + usize::from(is_outlived);
        let is_right = (made.len()..=most).contains(&frames);
        assert!(is_right, "{frames} made of {}, and these are there: {made:?}", published.topic);
        assert!(!made.iter().any(|end| too_large.contains(end)), "too large, and made again");
        visit.tally.saw_if(Situation::ColumnsMade, !made.is_empty());
        visit.tally.count(Situation::ColumnsTooLarge, refused as u64);
        for end in made {
            visit.tally.made_columns(topic, end);
        }
    }
}
