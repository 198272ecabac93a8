//! A query over columns that are still unknown.

use thalweg_columns::Columns;

use crate::{Plan, Query, QueryError};

/// A query that waits for events that show the columns of its topic.
#[derive(Debug)]
pub struct Waiting {
    query: Query,
    columns: Option<Columns>,
    /// Whether an event without columns came.
    is_other: bool,
}

impl Waiting {
    /// Returns a query before its first event.
    pub fn new(query: Query) -> Self {
        Self { query, columns: None, is_other: false }
    }

    /// Takes an event: returns the plan that begins with this event, or the reason why the query cannot run over such
    /// events. `None`: the event adds no information.
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
