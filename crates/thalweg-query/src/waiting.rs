//! A query over columns that are not known yet: each event says more of them.

use thalweg_columns::Columns;

use crate::{Plan, Query, QueryError};

/// A query that waits for events over which it can run.
#[derive(Debug)]
pub struct Waiting {
    query: Query,
    columns: Option<Columns>,
    /// There was an event that has no columns.
    is_other: bool,
}

impl Waiting {
    /// A query that has seen no event.
    pub fn new(query: Query) -> Self {
        Self { query, columns: None, is_other: false }
    }

    /// Learns from an event: the plan with which the query begins at this one, or why it cannot run over events such as
    /// this one. `None`: the event says nothing new.
    pub fn take(&mut self, event: &[u8]) -> Option<Result<Plan, QueryError>> {
        let columns = match &self.columns {
            None => {
                let columns = Columns::infer(event);
                if !columns.are_of_rows() {
                    let is_known = std::mem::replace(&mut self.is_other, true);
                    return (!is_known).then(|| self.query.plan_inferred(&columns));
                }
                columns
            }
            Some(columns) => match &*columns.changes_for(event) {
                [] => return None,
                changes => columns.changed(changes)?,
            },
        };
        let plan = self.query.plan_inferred(&columns);
        self.columns = Some(columns);
        Some(plan)
    }
}
