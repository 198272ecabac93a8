//! The cost of each query.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use thalweg_wire::Topic;

use super::Metric;

/// How many of the most expensive queries the log names when a query exceeds a limit.
const NAMED: usize = 3;

/// The cost of one query. Only the thread of its shard writes it.
#[derive(Debug, Default)]
pub(crate) struct QueryCost {
    /// Steps of its evaluation.
    pub(crate) steps: Metric,
    /// Its CPU time in µs.
    pub(crate) busy_us: Metric,
    /// Its memory in bytes.
    pub(crate) memory_bytes: Metric,
    /// Casts, operations, functions and sums without a result.
    pub(crate) without_result: Metric,
}

/// The costs of all running queries, by topic. The limit of queries bounds them.
#[derive(Debug, Default)]
pub(crate) struct QueryCosts {
    by_topic: Mutex<BTreeMap<Topic, Arc<QueryCost>>>,
}

impl QueryCosts {
    /// Begins to count a query.
    pub(crate) fn begin(&self, topic: &Topic) -> Arc<QueryCost> {
        let cost = Arc::<QueryCost>::default();
        self.lock().insert(topic.clone(), Arc::clone(&cost));
        cost
    }

    /// Ends a query's counts. Another query may have begun with the same topic.
    pub(crate) fn end(&self, topic: &Topic, cost: &Arc<QueryCost>) {
        let mut costs = self.lock();
        if costs.get(topic).is_some_and(|known| Arc::ptr_eq(known, cost)) {
            costs.remove(topic);
        }
    }

    /// Returns the costs of all queries: topic, steps, time in µs, memory in bytes, and operations without a result.
    pub(super) fn all(&self) -> Vec<(Topic, [u64; 4])> {
        let of = |(topic, cost): (&Topic, &Arc<QueryCost>)| {
            let QueryCost { steps, busy_us, memory_bytes, without_result } = &**cost;
            (topic.clone(), [steps, busy_us, memory_bytes, without_result].map(Metric::get))
        };
        self.lock().iter().map(of).collect()
    }

    /// Returns the queries with the most steps, for the log.
    pub(crate) fn most_expensive(&self) -> String {
        let mut all = self.all();
        all.sort_by_key(|(_, [steps, ..])| std::cmp::Reverse(*steps));
        let said = all.iter().take(NAMED).map(|(topic, [steps, busy_us, bytes, ..])| {
            format!("{topic} ({steps} steps, {} ms, {bytes} bytes)", busy_us / 1000)
        });
        said.collect::<Vec<_>>().join(", ")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Topic, Arc<QueryCost>>> {
        self.by_topic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
