use crate::Plan;

/// Receives the output of a query. Offsets increase.
pub trait Sink {
    /// Announces that the run makes all rows from this offset on; some rows before it are missing, because the query
    /// began too late for them ([`crate::Beginning::Block`]). Called at most once, before any row.
    fn begins(&mut self, offset: u64);

    /// Receives a row as JSON.
    fn row(&mut self, offset: u64, row: &[u8]);

    /// Announces a missing row or window, which has this offset: some of its events are lost or have a time too far
    /// ahead, or a bound was reached.
    fn lost(&mut self, offset: u64);

    /// Receives the new row of a key, or the removal of its row. Only queries with a state
    /// ([`crate::Query::has_state`]) call this, and they call neither [`Self::row`] nor [`Self::lost`].
    fn change(&mut self, _offset: u64, _key: &str, _row: Option<&[u8]>) {}

    /// Announces wider inferred columns: rows from here on are those of this plan.
    fn widened(&mut self, _plan: &Plan) {}
}
