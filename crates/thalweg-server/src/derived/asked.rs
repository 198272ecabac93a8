use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ring::digest::{SHA256, digest};
use thalweg_columns::Columns;
use thalweg_query::{Plan, Query};
use thalweg_wire::{ErrorCode, Topic};

use super::{DerivedTopic, columns_asked};
use crate::{config::ASKED_TOPICS, connection_limits::Address, refusal::Refusal};

/// How long a query is remembered that nobody reads, in µs: whoever asked for it has not subscribed yet, or comes again.
const REMEMBERED_US: u64 = 10_000_000;

/// The queries that clients have asked for, on all shards. Equal ones share one topic.
#[derive(Debug, Default)]
pub(crate) struct AskedQueries {
    /// Topics of the configuration's queries that are [shared](DerivedTopic::is_shared).
    shared: HashSet<Topic>,
    by_topic: Mutex<HashMap<Topic, Asked>>,
    max: usize,
    max_per_address: usize,
}

#[derive(Debug)]
struct Asked {
    topic: DerivedTopic,
    /// Who asked first, if that is counted.
    address: Option<Address>,
    /// When somebody last asked, in µs.
    asked_us: u64,
}

impl AskedQueries {
    pub(crate) fn new(configured: &[DerivedTopic], max: usize, max_per_address: usize) -> Self {
        let shared = configured.iter().filter(|derived| derived.is_shared);
        let shared = shared.map(|derived| derived.output.clone()).collect();
        Self { shared, by_topic: Mutex::default(), max, max_per_address }
    }

    /// Whether a topic has the rows of a query that is [shared](DerivedTopic::is_shared).
    pub(crate) fn is_shared(&self, topic: &Topic) -> bool {
        let is_asked = topic.as_str().starts_with(ASKED_TOPICS);
        self.shared.contains(topic)
            || is_asked && self.lock().get(topic).is_some_and(|asked| asked.topic.is_shared)
    }

    /// The plan of a query that somebody has asked for before, and does so again.
    pub(crate) fn again(&self, topic: &Topic, now_us: u64) -> Option<Arc<Plan>> {
        let mut asked = self.lock();
        let known = asked.get_mut(topic)?;
        known.asked_us = now_us;
        known.topic.plan.clone()
    }

    /// Remembers a query, which a client counted for `address` has asked for.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn add(
        &self,
        topic: DerivedTopic,
        address: Option<Address>,
        now_us: u64,
    ) -> Result<(), Refusal> {
        let mut asked = self.lock();
        let too_many = |message| Err(Refusal::new(ErrorCode::TooManyQueries, message));
        if asked.len() >= self.max {
            return too_many("the server runs no more queries: use one that runs, or try again");
        }
        let of_address = |known: &&Asked| address.is_some() && known.address == address;
        if asked.values().filter(of_address).count() >= self.max_per_address {
            return too_many("clients of one address ask for no more queries: end one of them");
        }
        asked.insert(topic.output.clone(), Asked { topic, address, asked_us: now_us });
        Ok(())
    }

    /// The columns of a query's rows.
    pub(crate) fn columns(&self, topic: &Topic) -> Option<Arc<Columns>> {
        if !topic.as_str().starts_with(ASKED_TOPICS) {
            return None;
        }
        let asked = self.lock();
        let plan = asked.get(topic)?.topic.plan.as_ref()?;
        columns_asked(plan).map(Arc::new)
    }

    /// The columns of a query's source have become wider, and it has another plan.
    pub(crate) fn set_plan(&self, topic: &Topic, plan: &Arc<Plan>) {
        if let Some(asked) = self.lock().get_mut(topic) {
            asked.topic.plan = Some(Arc::clone(plan));
        }
    }

    /// The query whose rows are a topic.
    pub(crate) fn find(&self, topic: &Topic) -> Option<DerivedTopic> {
        self.lock().get(topic).map(|asked| asked.topic.clone())
    }

    /// The topic that the query of a topic reads.
    pub(crate) fn source_of(&self, topic: &Topic) -> Option<Topic> {
        self.lock().get(topic).map(|asked| asked.topic.source.clone())
    }

    /// Forgets those of one shard that nobody reads, and nobody has asked for lately.
    pub(crate) fn forget_old(&self, now_us: u64, is_its: impl Fn(&Topic) -> bool) {
        let is_old = |asked: &Asked| now_us.saturating_sub(asked.asked_us) > REMEMBERED_US;
        self.lock().retain(|topic, asked| !is_its(topic) || !is_old(asked));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Asked>> {
        self.by_topic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The topic of a query's rows: the same for all that mean the same.
pub(crate) fn topic_of(query: &Query) -> Option<Topic> {
    let digest = digest(&SHA256, &query.identity());
    let short: String = digest.as_ref()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{ASKED_TOPICS}{short}").parse().ok()
}
