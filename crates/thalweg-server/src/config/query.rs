use thalweg_query::Query;
use thalweg_wire::Topic;

/// The prefix of topics of ad hoc queries.
pub(crate) const AD_HOC_TOPICS: &str = "query/";

/// The prefix of those whose rows are a state, so that the name of a topic tells its kind.
pub(crate) const AD_HOC_STATES: &str = "query/keyed/";

/// A topic whose events are the rows of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// The topic of its rows.
    pub topic: Topic,
    /// The query.
    pub text: String,
    has_state: bool,
}

impl QueryConfig {
    /// Returns a query for a topic. The server checks it when it starts.
    pub fn new(topic: Topic, text: String) -> Self {
        let has_state = Query::parse(&text).is_ok_and(|query| query.has_state());
        Self { topic, text, has_state }
    }

    /// Returns whether its rows are a state: one row for each group.
    pub(crate) fn has_state(&self) -> bool {
        self.has_state
    }
}
