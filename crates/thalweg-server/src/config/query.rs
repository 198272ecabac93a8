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
    /// Reads `TOPIC=SELECT …`. The topic may be percent-encoded, as in a path: it ends at the first `=`.
    ///
    /// # Errors
    /// One sentence saying what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (topic, query) = text.split_once('=').ok_or(
            "a query is TOPIC=SELECT …, for instance \
             max-speed=SELECT window_start, max(speed) FROM tumble(cars, 1s) GROUP BY window_start",
        )?;
        let topic =
            Topic::from_path(topic.trim()).map_err(|error| format!("topic {topic:?}: {error}"))?;
        Ok(Self { topic, text: query.trim().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_with_an_equals_sign_is_encoded() {
        let parse =
            |text| QueryConfig::parse(text).map(|query| (query.topic.to_string(), query.text));
        let both = |topic: &str, text: &str| Ok((topic.to_owned(), text.to_owned()));
        assert_eq!(parse("a%3Db = SELECT x = 1"), both("a=b", "SELECT x = 1"));
        assert_eq!(parse("a@b:c|d+e=SELECT 1"), both("a@b:c|d+e", "SELECT 1"));
        assert!(parse("a%2Fb=SELECT 1").unwrap_err().contains("%2F"));
    }
}
