//! Topics whose events are the rows of queries: what they read, and their plans, as far as their columns are known.
//! Pure, but for the lock around those that clients ask for (`asked`).

mod asked;

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Plan, Query, QueryError};
use thalweg_wire::Topic;

use crate::config::{ASKED_TOPICS, Config, QueryConfig};

pub(crate) use asked::{AskedQueries, topic_of};

/// A topic whose events are the rows of a query.
#[derive(Debug, Clone)]
pub(crate) struct DerivedTopic {
    /// The topic of its rows.
    pub(crate) output: Topic,
    pub(crate) query: Query,
    /// The topic that it reads.
    pub(crate) source: Topic,
    /// Its plan, if the columns of its source are declared. Otherwise it is made when there are events.
    pub(crate) plan: Option<Arc<Plan>>,
}

/// Reads and plans the queries of a configuration. The columns of their rows are declared in it.
///
/// # Errors
/// The topic of a query that cannot run, and why.
pub(crate) fn prepare(config: &mut Config) -> Result<Vec<DerivedTopic>, (Topic, String)> {
    let mut waiting = Vec::new();
    for wanted in &config.queries {
        let derived = read(config, wanted).map_err(|error| (wanted.topic.clone(), error))?;
        waiting.push(derived);
    }
    // A query over another one's topic is planned after that.
    let mut planned = Vec::new();
    while !waiting.is_empty() {
        let is_waited_for = |source: &Topic| waiting.iter().any(|other| other.output == *source);
        let Some(next) = waiting.iter().position(|derived| !is_waited_for(&derived.source)) else {
            let topic = waiting.swap_remove(0).output;
            return Err((
                topic,
                "it reads its own rows, by way of other queries: that never ends".into(),
            ));
        };
        let mut derived = waiting.remove(next);
        if let Some(columns) = config.topic(&derived.source).columns {
            let plan = derived.query.plan(&columns);
            let plan = plan.map_err(|error| (derived.output.clone(), error.to_string()))?;
            if let Some(columns) = columns_of(&plan) {
                config.declare(&derived.output, columns);
            }
            derived.plan = Some(Arc::new(plan));
        }
        planned.push(derived);
    }
    Ok(planned)
}

/// The columns of a plan's rows.
pub(crate) fn columns_of(plan: &Plan) -> Option<Columns> {
    let declarations =
        plan.results().iter().map(|column| format!("{}:{}", column.name, column.kind));
    let declarations: Vec<String> = declarations.collect();
    // All that a plan may have can be declared.
    Columns::declared(declarations.iter().map(String::as_str)).ok()
}

fn read(config: &Config, wanted: &QueryConfig) -> Result<DerivedTopic, String> {
    let QueryConfig { topic, text } = wanted;
    let query = Query::parse(text).map_err(|error: QueryError| error.to_string())?;
    if query.is_explain() {
        return Err("EXPLAIN makes no rows: leave it out".into());
    }
    let source: Topic =
        query.source().parse().map_err(|error| format!("{}: {error}", query.source()))?;
    let is_twice = config.queries.iter().filter(|other| other.topic == *topic).count() > 1;
    let is_made = config.sources.iter().any(|source| source.topic == *topic);
    if is_twice || is_made || config.upstream(topic).is_some() {
        return Err("the topic has other events already: give the query one of its own".into());
    }
    if is_shared(config, topic) {
        return Err("a --stream means its topic: give the query one of its own".into());
    }
    check_source(config, &source)?;
    Ok(DerivedTopic { output: topic.clone(), query, source, plan: None })
}

/// Whether a topic can be queried.
///
/// # Errors
/// Why not.
pub(crate) fn check_source(config: &Config, source: &Topic) -> Result<(), String> {
    if is_shared(config, source) {
        return Err(format!("a --stream means {source}, and shared topics cannot be queried yet"));
    }
    if config.has_values(source) {
        return Err(format!(
            "{source} is a value topic, and queries are of topics in which every event counts"
        ));
    }
    if source.as_str().starts_with(ASKED_TOPICS) {
        return Err(format!(
            "{source} is another query that was asked for: give it a topic in the configuration"
        ));
    }
    Ok(())
}

fn is_shared(config: &Config, topic: &Topic) -> bool {
    config.streams.iter().any(|stream| stream.pattern.matches(topic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceConfig;

    fn prepared(queries: &[&str]) -> Result<Vec<String>, String> {
        let mut config = Config::default();
        config.sources.push(SourceConfig::parse("cars=cars").unwrap());
        let columns = Columns::declared(["speed:double", "time:time"]).unwrap();
        config.declare(&"cars".parse().unwrap(), columns);
        config.queries = queries.iter().map(|text| QueryConfig::parse(text).unwrap()).collect();
        let found = prepare(&mut config).map_err(|(topic, error)| format!("{topic}: {error}"))?;
        let shown = |derived: DerivedTopic| {
            let columns = derived.plan.as_deref().and_then(columns_of);
            let columns = columns.iter().flat_map(Columns::iter);
            let columns: Vec<String> =
                columns.map(|it| format!("{}:{}", it.name, it.kind)).collect();
            format!("{} of {}: {}", derived.output, derived.source, columns.join(" "))
        };
        Ok(found.into_iter().map(shown).collect())
    }

    #[test]
    fn queries_are_planned_in_the_order_in_which_they_read_each_other() {
        let queries = [
            "fast=SELECT * FROM max WHERE kmh > 90",
            "max=SELECT window_start, max(speed) kmh FROM tumble(cars, 1s) GROUP BY window_start",
            "other=SELECT a FROM unknown",
        ];
        let expected = [
            "max of cars: window_start:time kmh:double",
            "fast of max: window_start:time kmh:double",
            "other of unknown: ",
        ];
        let mut found = prepared(&queries).unwrap();
        found.sort_by_key(|line| expected.iter().position(|expected| expected == line));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_cannot_run_is_refused_with_its_topic() {
        for (queries, says) in [
            (&["a=SELECT sped FROM cars"][..], "a: line 1, column 8: there is no column sped"),
            (&["a=EXPLAIN SELECT speed FROM cars"], "a: EXPLAIN makes no rows"),
            (&["cars=SELECT speed FROM other"], "cars: the topic has other events already"),
            (&["a=SELECT x FROM b", "a=SELECT x FROM c"], "a: the topic has other events already"),
            (&["a=SELECT x FROM b", "b=SELECT x FROM a"], "it reads its own rows"),
            (&["a=SELECT x FROM a"], "a: it reads its own rows"),
        ] {
            let error = prepared(queries).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
