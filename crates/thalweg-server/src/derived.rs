//! Derived topics, whose events are the rows of queries, with their sources and, if columns are known, plans. Pure,
//! except for the lock around ad hoc queries (`ad_hoc`).

mod ad_hoc;
mod memory;

use std::sync::Arc;

use ring::digest::{SHA256, digest};
use thalweg_columns::Columns;
use thalweg_query::{Plan, Query, QueryError};
use thalweg_wire::{Epoch, Topic};

use crate::config::{AD_HOC_TOPICS, Config, QueryConfig, SharedTopics};

pub(crate) use ad_hoc::{AdHocQueries, NoBeginning, ParsedQuery};
pub(crate) use memory::MemoryShare;

/// A topic whose events are the rows of a query.
#[derive(Debug, Clone)]
pub(crate) struct DerivedTopic {
    pub(crate) output: Topic,
    pub(crate) query: Query,
    pub(crate) source: Topic,
    /// The plan, if the source's columns are declared. Otherwise it is made when events come.
    pub(crate) plan: Option<Arc<Plan>>,
    /// Whether nodes share its source, directly or through such a query, so that each makes the same rows at the same positions. Not
    /// so if the rows are a state, which depends on where a node begins: each server begins an epoch of its own.
    pub(crate) is_shared: bool,
}

impl DerivedTopic {
    /// Returns the approximate memory of its text and plan, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.query.memory_bytes() + self.plan.as_ref().map_or(0, |plan| plan.memory_bytes())
    }
}

/// Parses and plans the queries of a configuration, and declares the columns of their rows in it.
///
/// # Errors
/// Returns the topic of a query that cannot run, and the reason.
pub(crate) fn prepare(
    config: &mut Config,
    shared: &SharedTopics,
) -> Result<Vec<DerivedTopic>, (Topic, String)> {
    let mut waiting = Vec::new();
    for wanted in &config.queries {
        let derived =
            read(config, shared, wanted).map_err(|error| (wanted.topic.clone(), error))?;
        waiting.push(derived);
    }
    // A query over another query's topic is planned after that one.
    let mut planned = Vec::new();
    while !waiting.is_empty() {
        let is_waited_for = |source: &Topic| waiting.iter().any(|other| other.output == *source);
        let Some(next) = waiting.iter().position(|derived| !is_waited_for(&derived.source)) else {
            let topic = waiting.swap_remove(0).output;
            return Err((
                topic,
                "this query reads its own rows, directly or through other queries: remove the cycle".into(),
            ));
        };
        let mut derived = waiting.remove(next);
        let is_its = |other: &DerivedTopic| other.output == derived.source && other.is_shared;
        derived.is_shared |= planned.iter().any(is_its);
        let refused = |error: String| (derived.output.clone(), error);
        if let Some(columns) = config.topic(&derived.source).columns {
            let plan = derived.query.plan(&columns);
            let plan = plan.map_err(|error| refused(error.to_string()))?;
            if let Some(columns) = columns_of(&plan) {
                config.declare(&derived.output, columns);
            }
            derived.plan = Some(Arc::new(plan));
        } else if derived.is_shared {
            return Err(refused(undeclared(&derived.source)));
        }
        derived.is_shared &= !derived.query.has_state();
        planned.push(derived);
    }
    Ok(planned)
}

pub(crate) fn columns_of(plan: &Plan) -> Option<Columns> {
    let declarations =
        plan.results().iter().map(|column| format!("{}:{}", column.name, column.type_name()));
    let declarations: Vec<String> = declarations.collect();
    // Every type of a plan can be declared.
    Columns::declared(declarations.iter().map(String::as_str)).ok()
}

/// Returns the columns of an ad hoc query's rows, if they are those of its plan. Unchanged events have inferred
/// columns, like their source.
pub(crate) fn ad_hoc_columns(plan: &Plan) -> Option<Columns> {
    let is_inferred = plan.is_whole() && plan.schema().are_inferred();
    if is_inferred { None } else { columns_of(plan) }
}

fn read(
    config: &Config,
    shared: &SharedTopics,
    wanted: &QueryConfig,
) -> Result<DerivedTopic, String> {
    let QueryConfig { topic, text, .. } = wanted;
    let query = Query::parse(text).map_err(|error: QueryError| error.to_string())?;
    if query.is_explain() {
        return Err("a query in the settings cannot be an EXPLAIN: remove the word EXPLAIN".into());
    }
    let source: Topic =
        query.source().parse().map_err(|error| format!("{}: {error}", query.source()))?;
    let is_twice = config.queries.iter().filter(|other| other.topic == *topic).count() > 1;
    let is_made = config.sources.iter().any(|source| source.topic == *topic);
    if is_twice || is_made || config.upstream(topic).is_some() {
        return Err("another query, a source or an upstream already writes to this topic: choose another topic for the query".into());
    }
    check_source(config, shared, &source)?;
    let is_shared = is_in_stream(config, shared, &source);
    Ok(DerivedTopic { output: topic.clone(), query, source, plan: None, is_shared })
}

/// Checks that a topic can be queried.
///
/// # Errors
/// Returns the reason why it cannot be queried.
pub(crate) fn check_source(
    config: &Config,
    shared: &SharedTopics,
    source: &Topic,
) -> Result<(), String> {
    if !config.has_rows(shared, source) {
        return Err(format!(
            "{source} is a value topic or a keyed topic, and queries read only log topics: choose a topic of kind=log"
        ));
    }
    if source.as_str().starts_with(AD_HOC_TOPICS) {
        return Err(format!(
            "{source} has the rows of an ad hoc query: configure this query with a topic, and read that topic"
        ));
    }
    Ok(())
}

/// Returns whether several nodes share a topic, because it is in a stream.
pub(crate) fn is_in_stream(config: &Config, shared: &SharedTopics, topic: &Topic) -> bool {
    !config.is_derived(topic) && shared.kind(topic, config.keys(topic).is_some()).is_some()
}

/// Returns the error for a shared topic without declared columns: nodes could infer different ones.
pub(crate) fn undeclared(source: &Topic) -> String {
    format!(
        "servers share the topic {source}, so each must declare its columns: --topic '{source},columns=NAME:TYPE …'"
    )
}

/// Returns the epoch of a shared query's rows: equal on all nodes with the same events and the same limit of lead time.
pub(crate) fn epoch_of(derived: &DerivedTopic, lead_ms: i64, source: Epoch) -> Epoch {
    let mut bytes = derived.query.identity();
    let plan = derived.plan.as_deref();
    bytes.extend(plan.iter().flat_map(|plan| plan.signature().into_bytes()));
    bytes.extend(lead_ms.to_le_bytes());
    bytes.extend(source.to_string().into_bytes());
    let digest = digest(&SHA256, &bytes);
    let number = digest.as_ref()[..6].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Epoch::new(number).unwrap_or(source)
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
        let query = |text: &&str| {
            let (topic, text) = text.split_once('=').unwrap();
            QueryConfig::new(topic.parse().unwrap(), text.to_owned())
        };
        config.queries = queries.iter().map(query).collect();
        let found = prepare(&mut config, &SharedTopics::default())
            .map_err(|(topic, error)| format!("{topic}: {error}"))?;
        let shown = |derived: DerivedTopic| {
            let columns = derived.plan.as_deref().and_then(columns_of);
            let columns = columns.iter().flat_map(Columns::iter);
            let columns: Vec<String> =
                columns.map(|column| format!("{}:{}", column.name, column.kind)).collect();
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
    fn queries_that_cannot_run_are_refused_with_their_topic() {
        for (queries, says) in [
            (&["a=SELECT sped FROM cars"][..], "a: line 1, column 8: there is no column sped"),
            (
                &["a=EXPLAIN SELECT speed FROM cars"],
                "a: a query in the settings cannot be an EXPLAIN",
            ),
            (
                &["cars=SELECT speed FROM other"],
                "cars: another query, a source or an upstream already writes to this topic",
            ),
            (
                &["a=SELECT x FROM b", "a=SELECT x FROM c"],
                "a: another query, a source or an upstream already writes to this topic",
            ),
            (&["a=SELECT x FROM b", "b=SELECT x FROM a"], "this query reads its own rows"),
            (&["a=SELECT x FROM a"], "a: this query reads its own rows"),
            (
                &["a=SELECT count(*) AS n FROM cars", "b=SELECT n FROM a"],
                "b: a is a value topic or a keyed topic, and queries read only log topics",
            ),
        ] {
            let error = prepared(queries).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
