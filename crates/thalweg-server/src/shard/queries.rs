//! The queries that run on this shard, which is the home of their topics.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use slab::Slab;
use thalweg_wire::EndCode;

use super::{
    Common, demand::DemandChange, local_topic::Ending, running_query::RunningQuery, timers::Timers,
    topics::Topics,
};
use crate::{clock, config::ASKED_TOPICS, derived::DerivedTopic, fanout::FeedKey, metrics::Counts};

/// The longest time for which a timer is set, in µs.
const TIMER_US_MAX: u64 = 10_000_000;

/// How long all queries of a shard may take in a turn, in µs, before others get theirs. One event is read as a whole.
const TURN_US: u64 = 2_000;

/// All queries of a shard.
pub(super) struct Queries {
    common: Common,
    running: Slab<RunningQuery>,
    /// The queries that read a topic.
    by_input: HashMap<FeedKey, Vec<usize>>,
    /// Those whose rows are a topic.
    by_output: HashMap<FeedKey, usize>,
    /// Inputs with events that were not read yet.
    pending_inputs: VecDeque<FeedKey>,
    /// How often queries of some input have read.
    turns: usize,
    /// How many have been started.
    started: u64,
    /// When windows are closed because nothing has come: which query, and its number.
    pub(super) timers: Timers<(usize, u64)>,
    counts: Arc<Counts>,
}

impl Queries {
    pub(super) fn new(common: Common, counts: &Arc<Counts>) -> Self {
        Self {
            common,
            running: Slab::new(),
            by_input: HashMap::new(),
            by_output: HashMap::new(),
            pending_inputs: VecDeque::new(),
            turns: 0,
            started: 0,
            timers: Timers::default(),
            counts: Arc::clone(counts),
        }
    }

    /// Puts a query to work on its topic's home shard.
    pub(super) fn start(&mut self, topics: &mut Topics, topic: DerivedTopic, now_us: u64) {
        let output = topics.open_permanent(&topic.output).map(|(key, _)| key);
        let input = topics.open_input(&topic.source, now_us);
        let (Some(output), Some(input)) = (output, input) else {
            tracing::error!(topic = %topic.output, "too many topics: the query does not run");
            return;
        };
        self.run(topic, output, input, now_us);
    }

    /// A topic of this shard is wanted from now on, or no longer: runs the query that was asked for, or ends it.
    pub(super) fn demand_changed(
        &mut self,
        topics: &mut Topics,
        key: FeedKey,
        change: DemandChange,
        now_us: u64,
    ) {
        let topic = topics.feeds.get(key).map(|local| &local.topic);
        let Some(topic) = topic.filter(|topic| topic.as_str().starts_with(ASKED_TOPICS)) else {
            return;
        };
        match change {
            DemandChange::Start => {
                if self.by_output.contains_key(&key) {
                    return;
                }
                let asked = self.common.asked.find(topic);
                let input = asked.as_ref().and_then(|it| topics.open_queried(&it.source, now_us));
                match asked.zip(input) {
                    Some((asked, input)) => self.run(asked, key, input, now_us),
                    // Nobody makes its events: who subscribes by its name must ask for the query again.
                    None => topics.end(key, Ending::Told(EndCode::Gone), now_us),
                }
            }
            DemandChange::Stop => {
                self.end(topics, key);
                topics.forget(key, now_us);
            }
        }
    }

    /// Forgets queries that nobody reads.
    pub(super) fn sweep(&self, topics: &Topics, now_us: u64) {
        self.common.asked.forget_old(now_us, |topic| {
            let is_running = |key| self.by_output.contains_key(&key);
            topics.is_home_of(topic) && !topics.feeds.find(topic).is_some_and(is_running)
        });
    }

    fn run(&mut self, topic: DerivedTopic, output: FeedKey, input: FeedKey, now_us: u64) {
        self.started += 1;
        let query = RunningQuery::new(topic, output, self.started, now_us);
        let index = self.running.insert(query);
        self.by_output.insert(output, index);
        self.by_input.entry(input).or_default().push(index);
        self.counts.queries.add(1);
        self.has_input(input);
    }

    /// Ends the query whose rows are a topic.
    fn end(&mut self, topics: &mut Topics, output: FeedKey) {
        let Some(index) = self.by_output.remove(&output) else { return };
        let failed = self.running.remove(index).has_failed();
        self.counts.queries.sub(1);
        self.counts.queries_failed.sub(u64::from(failed));
        self.by_input.retain(|input, queries| {
            queries.retain(|query| *query != index);
            if queries.is_empty() {
                topics.close_queried(*input);
            }
            !queries.is_empty()
        });
    }

    /// A topic that queries may read has new events.
    pub(super) fn has_input(&mut self, key: FeedKey) {
        if self.by_input.contains_key(&key) && !self.pending_inputs.contains(&key) {
            self.pending_inputs.push_back(key);
        }
    }

    /// Whether there are events to read.
    pub(super) fn has_pending_inputs(&self) -> bool {
        !self.pending_inputs.is_empty()
    }

    /// Topics have ended, and others are there under their names, if there was room: from which key to
    /// which. Rows of another source's events are those of another topic.
    pub(super) fn follow(
        &mut self,
        topics: &mut Topics,
        moved: &[(FeedKey, Option<FeedKey>)],
        now_us: u64,
    ) {
        for (ended, opened) in moved {
            if let Some(index) = self.by_output.remove(ended) {
                self.running[index].output = *opened;
                self.by_output.extend(opened.map(|opened| (opened, index)));
                // What it has not read could not go anywhere.
                let reads = |(_, queries): &(_, &Vec<usize>)| queries.contains(&index);
                let inputs: Vec<FeedKey> =
                    self.by_input.iter().filter(reads).map(|(key, _)| *key).collect();
                inputs.into_iter().for_each(|input| self.has_input(input));
            }
            for index in self.by_input.remove(ended).into_iter().flatten() {
                let query = &mut self.running[index];
                let output = query.output(topics);
                let is_asked = query.topic.output.as_str().starts_with(ASKED_TOPICS);
                let Some(opened) = opened.filter(|_| !is_asked) else {
                    // Who has asked for it may ask again.
                    if let Some(output) = output {
                        self.end(topics, output);
                        topics.end(output, Ending::Told(EndCode::Gone), now_us);
                    }
                    continue;
                };
                self.counts.queries_failed.sub(u64::from(query.has_failed()));
                query.begin_anew();
                if let Some(output) = output {
                    topics.end(output, Ending::Restarted, now_us);
                }
                self.by_input.entry(opened).or_default().push(index);
                self.has_input(opened);
            }
        }
    }

    /// Lets queries read the new events of their inputs, for as long as they may in a turn. Each gets its part; those that
    /// had none are the first in the next turn.
    pub(super) fn take_inputs(&mut self, topics: &mut Topics, now_us: u64) {
        let until_us = now_us + TURN_US;
        for _ in 0..self.pending_inputs.len() {
            let Some(key) = self.pending_inputs.pop_front() else { return };
            let mut queries = self.by_input.get(&key).cloned().unwrap_or_default();
            // Another one is the first in each turn: when time is over the others get one event each.
            self.turns = self.turns.wrapping_add(1);
            let first = self.turns % queries.len().max(1);
            queries.rotate_left(first);
            let mut has_more = false;
            for index in queries {
                has_more |= self.take_input(topics, key, index, now_us, until_us).unwrap_or(false);
            }
            if has_more {
                self.pending_inputs.push_back(key);
            }
            if clock::now_us() >= until_us {
                return;
            }
        }
    }

    /// Returns whether there is more to read.
    fn take_input(
        &mut self,
        topics: &mut Topics,
        key: FeedKey,
        index: usize,
        now_us: u64,
        until_us: u64,
    ) -> Option<bool> {
        let query = self.running.get_mut(index)?;
        let (had_failed, before) = (query.has_failed(), query.counts());
        let has_more = query.read(topics, key, now_us, until_us)?;
        self.counts.queries_failed.add(u64::from(query.has_failed() && !had_failed));
        self.counts.queries_failed.sub(u64::from(had_failed && !query.has_failed()));
        self.set_timer(index, now_us);
        self.has_made(topics, index, before, now_us);
        Some(has_more)
    }

    /// Closes the windows of queries whose sources have paused.
    pub(super) fn tick(&mut self, topics: &mut Topics, now_us: u64) {
        while let Some((index, number)) = self.timers.take_due(now_us) {
            // It may have ended, and another have its place.
            let query = self.running.get_mut(index).filter(|query| query.number == number);
            let Some(query) = query else { continue };
            query.is_timed = false;
            let (Some(due_us), Some(output)) = (query.due_us(), query.output(topics)) else {
                continue;
            };
            if due_us > now_us {
                self.set_timer(index, now_us);
                continue;
            }
            let before = query.counts();
            query.close_all(topics, output, now_us);
            self.set_timer(index, now_us);
            self.has_made(topics, index, before, now_us);
        }
    }

    /// Looks at a query again when its windows may have waited for long enough, or a while before that: what is set stays until
    /// then, whatever becomes of the query.
    fn set_timer(&mut self, index: usize, now_us: u64) {
        let Some(query) = self.running.get_mut(index) else { return };
        if let Some(due_us) = query.due_us()
            && !std::mem::replace(&mut query.is_timed, true)
        {
            let at_us = due_us.clamp(now_us + 1, now_us + TIMER_US_MAX);
            self.timers.set(at_us, (index, query.number));
        }
    }

    /// A query has read, or closed windows: has its rows sealed in this turn.
    fn has_made(
        &mut self,
        topics: &mut Topics,
        index: usize,
        before: thalweg_query::Counts,
        now_us: u64,
    ) {
        let query = &mut self.running[index];
        query.log_missing(before, now_us);
        let (now, counts) = (query.counts(), &self.counts);
        counts.query_events.add(now.events.saturating_sub(before.events));
        counts.query_rows.add(now.rows.saturating_sub(before.rows));
        counts.query_late.add(now.late.saturating_sub(before.late));
        counts.query_ahead.add(now.ahead.saturating_sub(before.ahead));
        counts.query_refused.add(now.refused.saturating_sub(before.refused));
        counts.query_unreadable.add(now.unreadable.saturating_sub(before.unreadable));
        counts.query_without_time.add(now.without_time.saturating_sub(before.without_time));
        counts.query_changes.add(now.changes.saturating_sub(before.changes));
        counts.query_windows_lost.add(now.windows_lost.saturating_sub(before.windows_lost));
        counts.events_published.add(now.rows.saturating_sub(before.rows));
        if let Some(output) = query.output
            && topics.derived(output).is_some_and(|batches| !batches.is_empty())
        {
            topics.mark_due(output);
        }
    }
}
