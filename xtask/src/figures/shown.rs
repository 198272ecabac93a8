//! The runs that a page shows.

use std::collections::BTreeMap;

use super::archived::Metric;
use super::block_kind::{BEGIN, BlockKind, content};

/// The metrics that the blocks of a page show of each run, and how often a block of the page still names the run.
#[derive(Debug, Default)]
pub(super) struct Shown(BTreeMap<String, ShownRun>);

#[derive(Debug, Default)]
pub(super) struct ShownRun {
    blocks: usize,
    pub(super) by_cell: Vec<Metric>,
    pub(super) pooled: Vec<Metric>,
}

impl Shown {
    pub(super) fn new(text: &str) -> Shown {
        let mut shown = Shown::default();
        let mut is_code = false;
        for line in text.lines() {
            is_code ^= line.trim_start().starts_with("```");
            let words = line.strip_prefix(BEGIN).filter(|_| !is_code);
            let Some((what, of)) = words.and_then(content) else { continue };
            let Some(BlockKind::Compared { is_pooled, metrics }) = BlockKind::parse(what) else {
                continue;
            };
            for name in of.split_whitespace() {
                let run = shown.0.entry(name.to_owned()).or_default();
                run.blocks += 1;
                // A table has the pool below its cells.
                run.pooled.extend(&metrics);
                if !is_pooled {
                    run.by_cell.extend(&metrics);
                }
            }
        }
        shown
    }

    /// Returns what a page shows of a run, if this is the last block that names the run.
    pub(super) fn take_last(&mut self, name: &str) -> Option<&ShownRun> {
        let run = self.0.get_mut(name)?;
        run.blocks -= 1;
        (run.blocks == 0).then_some(&*run)
    }
}
