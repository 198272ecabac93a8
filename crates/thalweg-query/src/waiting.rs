//! A query over columns that are not known yet: each event says more of them.

use thalweg_columns::Columns;

use crate::{Plan, Query, QueryError};

/// A query that waits for events over which it can run.
#[derive(Debug)]
pub struct Waiting {
    query: Query,
    columns: Option<Columns>,
}

impl Waiting {
    /// A query that has seen no event.
    pub fn new(query: Query) -> Self {
        Self { query, columns: None }
    }

    /// Learns from an event: the plan with which the query begins at this one, or why it cannot run over events such as
    /// this one. `None`: the event says nothing new.
    pub fn take(&mut self, event: &[u8]) -> Option<Result<Plan, QueryError>> {
        let columns = match &self.columns {
            // Events that are neither objects nor arrays are skipped.
            None => Some(Columns::infer(event)).filter(Columns::are_of_rows)?,
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
