use std::sync::Arc;

use thalweg_columns::Columns;

use crate::{Plan, QueryError, explain, syntax::Statement};

/// Memory of the parsed form of a query for each byte of its text: of `1+1+1` an expression for each.
const PARSED_BYTES: usize = 400;

/// A query that was read. What its columns are is not known before it is planned.
#[derive(Debug, Clone)]
pub struct Query {
    statement: Arc<Statement>,
    text_bytes: usize,
}

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// When it is none, or has something in it that cannot run.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        Ok(Self { statement: Arc::new(Statement::parse(text)?), text_bytes: text.len() })
    }

    /// Memory of what was read, in bytes, at most. Clones share it.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Statement>() + self.text_bytes * PARSED_BYTES
    }

    /// The name of the topic that it reads.
    pub fn source(&self) -> &str {
        &self.statement.source.topic.value
    }

    /// Whether it begins with `EXPLAIN`.
    pub fn is_explain(&self) -> bool {
        self.statement.is_explain
    }

    /// The same for all that mean the same: its clauses in one form.
    pub fn canonical(&self) -> String {
        self.statement.canonical()
    }

    /// The same bytes for queries that mean the same, and for no others. (sqlparser does not write quotes within texts so
    /// that they can be told apart.)
    pub fn identity(&self) -> Vec<u8> {
        let mut bytes = self.canonical().into_bytes();
        for text in &self.statement.texts {
            bytes.push(0);
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    /// What it does with events of these columns.
    ///
    /// # Errors
    /// When it names what is not there, or types do not fit.
    pub fn plan(&self, columns: &Arc<Columns>) -> Result<Plan, QueryError> {
        Plan::new(&self.statement, columns)
    }

    /// The same for columns that were inferred from events and may change with others: a column that it names and no
    /// event had yet is NULL until one has it ([`Plan::absent`]).
    ///
    /// # Errors
    /// When types do not fit.
    pub fn plan_inferred(&self, columns: &Columns) -> Result<Plan, QueryError> {
        Plan::inferred(&self.statement, columns.clone(), Vec::new())
    }

    /// What it does with events of these columns, in words, a line for each part.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub fn explain(&self, columns: &Arc<Columns>) -> Result<String, QueryError> {
        Ok(explain::explain(&self.statement, &self.plan(columns)?))
    }
}
