use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use ring::digest::{SHA256, digest};
use thalweg_columns::Columns;
use thalweg_query::{Plan, Query};
use thalweg_wire::{ErrorCode, Topic};

use super::{
    DerivedTopic, ad_hoc_columns,
    memory::{MemoryShare, QueryMemory},
};
use crate::{
    config::{AD_HOC_STATES, AD_HOC_TOPICS, Limits},
    connection_limits::Address,
    refusal::Refusal,
};

/// How long a query that does not run is remembered, in µs, because its client may subscribe by the topic's name.
const REMEMBERED_US: u64 = 10_000_000;

/// How long a query of a new subscription counts as running, in µs, until its owner shard has started it.
const BEGINS_US: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct ParsedQuery {
    pub(crate) query: Query,
    /// The topic of its rows.
    pub(crate) topic: Topic,
    pub(crate) source: Topic,
}

impl ParsedQuery {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let query = Query::parse(text)?;
        let source = query.source().parse()?;
        let topic = topic_of(&query).ok_or_else(Refusal::draining)?;
        Ok(Self { query, topic, source })
    }
}

type TextHash = [u8; 32];

/// The ad hoc queries of all shards. Equal queries share one topic.
#[derive(Debug)]
pub(crate) struct AdHocQueries {
    /// Topics of the configuration's [shared](DerivedTopic::is_shared) queries.
    shared: HashSet<Topic>,
    by_topic: Mutex<HashMap<Topic, KnownQuery>>,
    /// Queries that are remembered or in use, by text, so that a query of many clients that reconnect together is
    /// parsed once.
    by_text: Mutex<HashMap<TextHash, Weak<ParsedQuery>>>,
    memory: QueryMemory,
    /// Maximum number of running queries, and of remembered ones.
    max: usize,
    max_per_address: usize,
}

#[derive(Debug)]
struct KnownQuery {
    topic: DerivedTopic,
    /// The text as first received.
    parsed: Arc<ParsedQuery>,
    /// The address of the first client, if it counts.
    address: Option<Address>,
    /// The time of the last request for it, in µs.
    requested_us: u64,
    phase: Phase,
    /// The memory of its plan.
    memory: MemoryShare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The query does not run.
    Remembered,
    /// A subscription is about to start it.
    Begins,
    Runs,
}

impl KnownQuery {
    /// Returns whether it counts as running.
    fn counts(&self, now_us: u64) -> bool {
        match self.phase {
            Phase::Remembered => false,
            Phase::Begins => now_us.saturating_sub(self.requested_us) < BEGINS_US,
            Phase::Runs => true,
        }
    }
}

impl Default for AdHocQueries {
    fn default() -> Self {
        Self::new(&[], &Limits::default())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoBeginning {
    /// The query is unknown, or forgotten.
    Unknown,
    TooMany,
}

impl AdHocQueries {
    pub(crate) fn new(configured: &[DerivedTopic], limits: &Limits) -> Self {
        let shared = configured.iter().filter(|derived| derived.is_shared);
        let shared = shared.map(|derived| derived.output.clone()).collect();
        Self {
            shared,
            by_topic: Mutex::default(),
            by_text: Mutex::default(),
            memory: QueryMemory::new(limits.query_bytes_per_address),
            max: limits.queries,
            max_per_address: limits.queries_per_address,
        }
    }

    /// Returns whether a topic has the rows of a [shared](DerivedTopic::is_shared) query.
    pub(crate) fn is_shared(&self, topic: &Topic) -> bool {
        let is_ad_hoc = topic.as_str().starts_with(AD_HOC_TOPICS);
        self.shared.contains(topic)
            || is_ad_hoc && self.lock().get(topic).is_some_and(|query| query.topic.is_shared)
    }

    /// Returns the parsed query of this text, if a client still has it.
    pub(crate) fn parsed(&self, text: &str) -> Option<Arc<ParsedQuery>> {
        lock(&self.by_text).get(&hash(text))?.upgrade()
    }

    /// Parses a query. Fails when it is invalid.
    pub(crate) fn parse(&self, text: &str) -> Result<Arc<ParsedQuery>, Refusal> {
        if let Some(parsed) = self.parsed(text) {
            return Ok(parsed);
        }
        let parsed = Arc::new(ParsedQuery::parse(text)?);
        let mut by_text = lock(&self.by_text);
        if by_text.len() >= 2 * self.max {
            by_text.retain(|_, parsed| parsed.strong_count() > 0);
        }
        by_text.insert(hash(text), Arc::downgrade(&parsed));
        Ok(parsed)
    }

    /// Returns the plan of a known query for another request; `begins`: the client subscribes. Fails when the query does not
    /// run and the maximum number of queries runs, so that the client learns this before it subscribes.
    pub(crate) fn again(
        &self,
        topic: &Topic,
        begins: bool,
        now_us: u64,
    ) -> Result<Option<Arc<Plan>>, Refusal> {
        let mut queries = self.lock();
        let Some(known) = queries.get(topic) else { return Ok(None) };
        if !known.counts(now_us) {
            self.check_count(&queries, known.address, now_us)?;
        }
        let Some(known) = queries.get_mut(topic) else { return Ok(None) };
        known.requested_us = now_us;
        if begins && known.phase == Phase::Remembered {
            known.phase = Phase::Begins;
        }
        Ok(known.topic.plan.clone())
    }

    /// Remembers the query of a client that counts for `address`; `begins`: the client subscribes. Fails when too many queries
    /// run, or those of the address hold too much memory.
    pub(crate) fn add(
        &self,
        topic: DerivedTopic,
        parsed: Arc<ParsedQuery>,
        address: Option<Address>,
        begins: bool,
        now_us: u64,
    ) -> Result<(), Refusal> {
        let mut queries = self.lock();
        // Another client may have sent the query while this client waited for the columns of the source.
        let known = queries.get_mut(&topic.output);
        if let Some(known) = known.filter(|known| !begins || known.counts(now_us)) {
            known.requested_us = now_us;
            return Ok(());
        }
        self.check_count(&queries, address, now_us)?;
        self.forget_oldest(&mut queries, address, now_us);
        let mut memory = self.memory.share(address);
        if !hold(&mut queries, &mut memory, topic.memory_bytes(), now_us) {
            let message = "the queries of this IP address use too much memory: end one of them, or group by fewer keys";
            return Err(Refusal::new(ErrorCode::TooManyQueries, message));
        }
        let phase = if begins { Phase::Begins } else { Phase::Remembered };
        let output = topic.output.clone();
        let known = KnownQuery { topic, parsed, address, requested_us: now_us, phase, memory };
        queries.insert(output, known);
        Ok(())
    }

    fn check_count(
        &self,
        queries: &HashMap<Topic, KnownQuery>,
        address: Option<Address>,
        now_us: u64,
    ) -> Result<(), Refusal> {
        let too_many = |message: String| Err(Refusal::new(ErrorCode::TooManyQueries, message));
        let running = || queries.values().filter(|known| known.counts(now_us));
        if running().count() >= self.max {
            return too_many(format!(
                "the server has reached its limit of ad hoc queries ({}): use the text of a query that already runs, or try again",
                self.max
            ));
        }
        let of_address = |known: &&KnownQuery| address.is_some() && known.address == address;
        if running().filter(of_address).count() >= self.max_per_address {
            return too_many(format!(
                "this address has reached its limit of ad hoc queries ({}): end one of them",
                self.max_per_address
            ));
        }
        Ok(())
    }

    /// Forgets the oldest query that does not run, if the maximum number is remembered, in total or for an address.
    fn forget_oldest(
        &self,
        queries: &mut HashMap<Topic, KnownQuery>,
        address: Option<Address>,
        now_us: u64,
    ) {
        let idle = |known: &KnownQuery| !known.counts(now_us);
        let is_its = |known: &KnownQuery| address.is_some() && known.address == address;
        let of_address = queries.values().filter(|known| idle(known) && is_its(known)).count();
        let is_full = queries.values().filter(|known| idle(known)).count() >= self.max;
        let oldest = queries.iter().filter(|(_, known)| {
            idle(known) && (is_its(known) && of_address >= self.max_per_address || is_full)
        });
        let oldest = oldest.min_by_key(|(_, known)| known.requested_us);
        if let Some(topic) = oldest.map(|(topic, _)| topic.clone()) {
            queries.remove(&topic);
        }
    }

    /// Starts the query of a topic on the topic's owner shard. Returns the query, and a share of its address's memory. Fails
    /// when the query is unknown, or the maximum number of queries runs.
    pub(crate) fn begin(
        &self,
        topic: &Topic,
        now_us: u64,
    ) -> Result<(DerivedTopic, MemoryShare), NoBeginning> {
        let mut queries = self.lock();
        let known = queries.get(topic).ok_or(NoBeginning::Unknown)?;
        if !known.counts(now_us) {
            let checked = self.check_count(&queries, known.address, now_us);
            checked.map_err(|_| NoBeginning::TooMany)?;
        }
        let known = queries.get_mut(topic).ok_or(NoBeginning::Unknown)?;
        known.phase = Phase::Runs;
        Ok((known.topic.clone(), known.memory.sibling()))
    }

    /// Records the end of a topic's query. The query is remembered for a while, unless it would fail again.
    pub(crate) fn end(&self, topic: &Topic, has_failed: bool, now_us: u64) {
        let mut queries = self.lock();
        if has_failed {
            queries.remove(topic);
        } else if let Some(known) = queries.get_mut(topic) {
            (known.phase, known.requested_us) = (Phase::Remembered, now_us);
        }
    }

    pub(crate) fn columns(&self, topic: &Topic) -> Option<Arc<Columns>> {
        if !topic.as_str().starts_with(AD_HOC_TOPICS) {
            return None;
        }
        let queries = self.lock();
        let plan = queries.get(topic)?.topic.plan.as_ref()?;
        ad_hoc_columns(plan).map(Arc::new)
    }

    /// Sets the new plan after the columns of a query's source have become wider.
    pub(crate) fn set_plan(&self, topic: &Topic, plan: &Arc<Plan>) {
        if let Some(query) = self.lock().get_mut(topic) {
            query.topic.plan = Some(Arc::clone(plan));
        }
    }

    pub(crate) fn source_of(&self, topic: &Topic) -> Option<Topic> {
        self.lock().get(topic).map(|query| query.parsed.source.clone())
    }

    /// Forgets queries that do not run and that no client has requested recently.
    pub(crate) fn forget_old(&self, now_us: u64) {
        let is_old = |query: &KnownQuery| now_us.saturating_sub(query.requested_us) > REMEMBERED_US;
        self.lock().retain(|_, query| query.phase == Phase::Runs || !is_old(query));
    }

    /// Lets a running query hold this many bytes. Returns `false`, and keeps its previous share, if its address has no room.
    #[must_use]
    pub(crate) fn hold(&self, memory: &mut MemoryShare, bytes: usize, now_us: u64) -> bool {
        // Mostly there is room, and no lock is needed.
        memory.set(bytes) || hold(&mut self.lock(), memory, bytes, now_us)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, KnownQuery>> {
        lock(&self.by_topic)
    }
}

/// Lets a query hold this many bytes, if there is room. Forgets the oldest queries of its address that do not run.
fn hold(
    queries: &mut HashMap<Topic, KnownQuery>,
    memory: &mut MemoryShare,
    bytes: usize,
    now_us: u64,
) -> bool {
    while !memory.set(bytes) {
        let idle = queries
            .iter()
            .filter(|(_, known)| !known.counts(now_us) && known.memory.is_sibling(memory));
        let oldest = idle.min_by_key(|(_, known)| known.requested_us);
        let Some(topic) = oldest.map(|(topic, _)| topic.clone()) else { return false };
        queries.remove(&topic);
    }
    true
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash(text: &str) -> TextHash {
    digest(&SHA256, text.as_bytes()).as_ref().try_into().unwrap_or_default()
}

/// Returns the topic of a query's rows, equal for all queries with the same meaning.
fn topic_of(query: &Query) -> Option<Topic> {
    let digest = digest(&SHA256, &query.identity());
    let short: String = digest.as_ref()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    let prefix = if query.has_state() { AD_HOC_STATES } else { AD_HOC_TOPICS };
    format!("{prefix}{short}").parse().ok()
}

#[cfg(test)]
mod tests;
