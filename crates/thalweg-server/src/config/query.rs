use thalweg_wire::Topic;

/// The prefix of topics of ad hoc queries.
pub(crate) const AD_HOC_TOPICS: &str = "query/";

/// A topic whose events are the rows of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// The topic of its rows.
    pub topic: Topic,
    /// The query.
    pub text: String,
}
