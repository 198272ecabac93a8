use std::sync::Arc;

use thalweg_columns::Columns;

use crate::{Plan, QueryError, explain, syntax::Statement};

/// Memory of a parsed query per byte of its text: `1+1+1` has an expression for each byte.
const PARSED_BYTES: usize = 400;

/// A parsed query. Planning determines its columns.
#[derive(Debug, Clone)]
pub struct Query {
    statement: Arc<Statement>,
    text_bytes: usize,
}

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    /// When the text is no query, or has a part that cannot run.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        Ok(Self { statement: Arc::new(Statement::parse(text)?), text_bytes: text.len() })
    }

    /// Returns the maximum memory of the parsed query, in bytes. Clones share it.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Statement>() + self.text_bytes * PARSED_BYTES
    }

    /// Returns the name of the source topic.
    pub fn source(&self) -> &str {
        &self.statement.source.topic.value
    }

    /// Returns whether the query begins with `EXPLAIN`.
    pub fn is_explain(&self) -> bool {
        self.statement.is_explain
    }

    /// Returns whether its rows are a state: one row for each group without a window, under the group's key, which changes with the
    /// events ([`crate::Sink::change`]).
    pub fn has_state(&self) -> bool {
        self.statement.has_state()
    }

    /// Returns the clauses in canonical form, equal for queries with the same meaning.
    pub fn canonical(&self) -> String {
        self.statement.canonical()
    }

    /// Returns bytes that are equal exactly for queries with the same meaning. (sqlparser writes quotes within texts
    /// ambiguously.)
    pub fn identity(&self) -> Vec<u8> {
        let mut bytes = self.canonical().into_bytes();
        for text in &self.statement.texts {
            bytes.push(0);
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    /// Returns the plan over these columns.
    ///
    /// # Errors
    /// When a name is unknown, or types do not fit.
    pub fn plan(&self, columns: &Arc<Columns>) -> Result<Plan, QueryError> {
        Plan::new(&self.statement, columns)
    }

    /// Returns the plan over inferred columns, which may change with further events: a column without values is NULL
    /// until an event has one ([`Plan::absent`]).
    ///
    /// # Errors
    /// When types do not fit.
    pub fn plan_inferred(&self, columns: &Columns) -> Result<Plan, QueryError> {
        Plan::inferred(&self.statement, columns.clone(), Vec::new())
    }

    /// Returns an explanation of the plan over these columns, one line per part.
    ///
    /// # Errors
    /// Those of [`Self::plan`].
    pub fn explain(&self, columns: &Arc<Columns>) -> Result<String, QueryError> {
        Ok(explain::explain(&self.statement, &self.plan(columns)?))
    }
}
