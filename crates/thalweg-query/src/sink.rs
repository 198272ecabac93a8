use crate::Plan;

/// Takes what a query makes. Offsets increase.
pub trait Sink {
    /// All rows from this offset on are made; of those before it some are not, because the query began too late for
    /// them ([`crate::Beginning::Block`]). Comes once at most, before any row.
    fn begins(&mut self, offset: u64);

    /// A row, as JSON.
    fn row(&mut self, offset: u64, row: &[u8]);

    /// A row, or a window, is not emitted: events that were in it are lost, or left out because their times are too far
    /// ahead, or a bound was reached. It has this offset all the same.
    fn lost(&mut self, offset: u64);

    /// Columns that were inferred are wider now: rows from here on are those of this plan.
    fn widened(&mut self, _plan: &Plan) {}
}
