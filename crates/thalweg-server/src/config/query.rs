use thalweg_wire::Topic;

/// What the topics of queries begin with that clients ask for.
pub(crate) const ASKED_TOPICS: &str = "query/";

/// A topic whose events are the rows of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// The topic of its rows.
    pub topic: Topic,
    /// The query.
    pub text: String,
}

impl QueryConfig {
    /// Reads `TOPIC=SELECT …`.
    ///
    /// # Errors
    /// One sentence saying what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (topic, query) = text.split_once('=').ok_or(
            "a query is TOPIC=SELECT …, for instance \
             max-speed=SELECT window_start, max(speed) FROM tumble(cars, 1s) GROUP BY window_start",
        )?;
        let topic = topic.trim().parse().map_err(|error| format!("topic {topic:?}: {error}"))?;
        Ok(Self { topic, text: query.trim().to_owned() })
    }
}
