//! The queries whose topics this shard owns.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use slab::Slab;
use thalweg_core::fanout::FeedKey;
use thalweg_query::Remains;
use thalweg_wire::EndCode;

use super::{query_pace::Overrun, running_query::RunningQuery};
use crate::{
    audit::AuditLines,
    clock,
    config::{AD_HOC_TOPICS, QUERIES_US, QUERY_DROPS_US, QUERY_US_MIN},
    derived::{DerivedTopic, MemoryShare, NoBeginning},
    metrics::Counts,
    shard::{
        common::{Common, push_once},
        message::Ending,
        timers::Timers,
        topics::{DemandChange, Topics},
    },
};

/// The longest time for which a timer is set, in µs.
const TIMER_US_MAX: u64 = 10_000_000;

pub(super) struct Queries {
    common: Common,
    running: Slab<RunningQuery>,
    /// The queries that read a topic.
    by_input: HashMap<FeedKey, Vec<usize>>,
    /// The query that makes a topic's rows.
    by_output: HashMap<FeedKey, usize>,
    /// Queries with unread events or unfinished work, in turn.
    pending: VecDeque<usize>,
    /// Groups of ended queries, which are dropped in parts. Their memory no longer counts for their addresses.
    remains: Remains,
    /// Throttles the log lines about queries that exceed limits.
    lines: AuditLines,
    started: u64,
    /// The index and number of each query, due when its windows close even without events.
    timers: Timers<(usize, u64)>,
    counts: Arc<Counts>,
}

impl Queries {
    pub(super) fn new(common: Common, counts: &Arc<Counts>) -> Self {
        Self {
            common,
            running: Slab::new(),
            by_input: HashMap::new(),
            by_output: HashMap::new(),
            pending: VecDeque::new(),
            remains: Remains::default(),
            lines: AuditLines::default(),
            started: 0,
            timers: Timers::default(),
            counts: Arc::clone(counts),
        }
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        self.timers.next_us()
    }

    pub(super) fn start(&mut self, topics: &mut Topics, topic: DerivedTopic, now_us: u64) {
        let output = topics.open_permanent(&topic.output).map(|(key, _)| key);
        let input = topics.open_input(&topic.source, now_us);
        let (Some(output), Some(input)) = (output, input) else {
            tracing::error!(topic = %topic.output, "the query does not run, because there are too many topics: raise limits.topics");
            return;
        };
        self.run(topic, [output, input], MemoryShare::default(), now_us);
    }

    /// Starts or ends an ad hoc query as the demand for its topic changes.
    pub(super) fn demand_changed(
        &mut self,
        topics: &mut Topics,
        key: FeedKey,
        change: DemandChange,
        now_us: u64,
    ) {
        let Some(topic) =
            topics.topic(key).filter(|topic| topic.as_str().starts_with(AD_HOC_TOPICS))
        else {
            return;
        };
        match change {
            DemandChange::Start => {
                if self.by_output.contains_key(&key) {
                    return;
                }
                let ad_hoc = self.common.ad_hoc.begin(topic, now_us);
                let begun = ad_hoc.and_then(|(ad_hoc, memory)| {
                    let input = topics.open_queried(&ad_hoc.source, now_us);
                    let Some(input) = input else {
                        self.common.ad_hoc.end(&ad_hoc.output, false, now_us);
                        return Err(NoBeginning::TooMany);
                    };
                    Ok((ad_hoc, input, memory))
                });
                match begun {
                    Ok((ad_hoc, input, memory)) => self.run(ad_hoc, [key, input], memory, now_us),
                    // A client that subscribes by the topic's name must register the query again, which gives it
                    // the reason.
                    Err(NoBeginning::Unknown | NoBeginning::TooMany) => {
                        topics.end(key, Ending::Ended(EndCode::Gone), now_us);
                    }
                }
            }
            DemandChange::Stop => {
                self.end(topics, key, now_us);
                topics.forget(key, now_us);
            }
        }
    }

    /// Forgets ad hoc queries that nobody reads.
    pub(super) fn sweep(&self, now_us: u64) {
        self.common.ad_hoc.forget_old(now_us);
    }

    fn run(
        &mut self,
        topic: DerivedTopic,
        [output, input]: [FeedKey; 2],
        memory: MemoryShare,
        now_us: u64,
    ) {
        self.started += 1;
        let number = (self.started, now_us);
        let query =
            RunningQuery::new(&self.common, &self.counts, topic, [output, input], memory, number);
        let index = self.running.insert(query);
        self.by_output.insert(output, index);
        self.by_input.entry(input).or_default().push(index);
        self.counts.queries.add(1);
        self.wake(index);
    }

    /// Ends the query that makes a topic's rows.
    fn end(&mut self, topics: &mut Topics, output: FeedKey, now_us: u64) {
        let Some(index) = self.by_output.remove(&output) else { return };
        let query = self.running.remove(index);
        let has_failed = query.has_failed();
        if query.is_pending {
            self.pending.retain(|pending| *pending != index);
        }
        self.common.metrics.queries.end(&query.topic.output, &query.cost);
        if query.is_ad_hoc() {
            self.common.ad_hoc.end(&query.topic.output, has_failed, now_us);
        }
        self.remains.append(query.into_remains());
        self.counts.queries.sub(1);
        self.counts.queries_failed.sub(u64::from(has_failed));
        self.by_input.retain(|input, queries| {
            queries.retain(|query| *query != index);
            if queries.is_empty() {
                topics.close_queried(*input);
            }
            !queries.is_empty()
        });
    }

    /// Queues the queries that read a topic with new events.
    pub(super) fn has_input(&mut self, key: FeedKey) {
        let Self { by_input, running, pending, .. } = self;
        for index in by_input.get(&key).into_iter().flatten() {
            if let Some(query) = running.get_mut(*index) {
                push_once(pending, &mut query.is_pending, *index);
            }
        }
    }

    /// Queues a query that has work.
    fn wake(&mut self, index: usize) {
        if let Some(query) = self.running.get_mut(index) {
            push_once(&mut self.pending, &mut query.is_pending, index);
        }
    }

    /// Returns whether there are events to read, windows to close, or groups to drop.
    pub(super) fn has_pending_inputs(&self) -> bool {
        !self.pending.is_empty() || !self.remains.is_empty()
    }

    /// Moves queries from topics that have ended to the topics that now have their names, if there was room. A query
    /// with a new source restarts its topic.
    pub(super) fn follow(
        &mut self,
        topics: &mut Topics,
        moved: &[(FeedKey, Option<FeedKey>)],
        now_us: u64,
    ) {
        for (ended, opened) in moved {
            if let Some(index) = self.by_output.remove(ended) {
                self.running[index].set_output(*opened);
                self.by_output.extend(opened.map(|opened| (opened, index)));
                // The query drops its unread events, which have no topic to go to.
                self.wake(index);
            }
            for index in self.by_input.remove(ended).into_iter().flatten() {
                let query = &mut self.running[index];
                let (output, is_ad_hoc) = (query.output(topics), query.is_ad_hoc());
                let Some(opened) = opened.filter(|_| !is_ad_hoc) else {
                    // The client may register the query again.
                    if let Some(output) = output {
                        self.end(topics, output, now_us);
                        topics.end(output, Ending::Ended(EndCode::Gone), now_us);
                    }
                    continue;
                };
                self.counts.queries_failed.sub(u64::from(query.has_failed()));
                query.begin_again();
                query.input = opened;
                if let Some(output) = output {
                    topics.end(output, Ending::Restarted, now_us);
                }
                self.by_input.entry(opened).or_default().push(index);
                self.wake(index);
            }
        }
    }

    /// Lets queries read new events and continue unfinished work, within the time that all of them may use in a turn.
    /// Each gets its share. Queries that got no share come first in the next turn.
    pub(super) fn take_inputs(&mut self, topics: &mut Topics, now_us: u64) {
        let end_us = now_us + QUERIES_US;
        let mut begun_us = self.drop_remains(now_us);
        if begun_us >= end_us {
            return;
        }
        for waiting in (1..=self.pending.len()).rev() {
            let Some(index) = self.pending.pop_front() else { return };
            let part_us = (end_us - begun_us) / waiting as u64;
            let until_us = end_us.min(begun_us + part_us.max(QUERY_US_MIN));
            if let Some(query) = self.running.get_mut(index) {
                query.is_pending = false;
            }
            if self.take_input(topics, index, now_us, until_us).unwrap_or(false) {
                self.wake(index);
            }
            let now_us = clock::now_us();
            if let Some(query) = self.running.get(index) {
                query.cost.busy_us.add(now_us.saturating_sub(begun_us));
            }
            if now_us >= end_us {
                return;
            }
            begun_us = now_us;
        }
    }

    /// Drops groups of ended queries for a limited time. Returns the time at the end, in µs.
    fn drop_remains(&mut self, now_us: u64) -> u64 {
        if self.remains.is_empty() {
            return now_us;
        }
        let mut at_us = now_us;
        self.remains.drop_while(|_| {
            at_us = clock::now_us();
            at_us < now_us + QUERY_DROPS_US
        });
        at_us
    }

    /// Lets a query read its events. Returns whether there is more to do.
    fn take_input(
        &mut self,
        topics: &mut Topics,
        index: usize,
        now_us: u64,
        until_us: u64,
    ) -> Option<bool> {
        let query = self.running.get_mut(index)?;
        let (had_failed, before) = (query.has_failed(), query.counts());
        let input = query.input;
        let has_more = query.read(topics, input, now_us, until_us);
        let overrun = query.take_overrun();
        self.remains.append(query.take_remains());
        self.counts.queries_failed.add(u64::from(query.has_failed() && !had_failed));
        self.counts.queries_failed.sub(u64::from(had_failed && !query.has_failed()));
        self.set_timer(index, now_us);
        self.has_made(topics, index, before, now_us);
        if let Some(overrun) = overrun {
            self.has_overrun(topics, index, overrun, now_us);
        }
        self.restart(topics, index, now_us);
        has_more
    }

    /// Ends the topic of a state that has begun again. Its subscribers reconnect, to another topic of this name.
    fn restart(&mut self, topics: &mut Topics, index: usize, now_us: u64) {
        let Some(query) = self.running.get_mut(index) else { return };
        if let (true, Some(output)) = (query.take_restart(), query.output) {
            if query.is_ad_hoc() {
                self.end(topics, output, now_us);
            }
            topics.end(output, Ending::Restarted, now_us);
        }
    }

    /// Logs and counts that a query has exceeded a limit. An ad hoc query ends.
    fn has_overrun(&mut self, topics: &mut Topics, index: usize, overrun: Overrun, now_us: u64) {
        let query = &self.running[index];
        let (code, is_ad_hoc) = (overrun.code(), query.is_ad_hoc());
        self.counts.count_overrun(code);
        if let Some(left_out) = self.lines.take(now_us) {
            let (topic, source) = (&query.topic.output, &query.topic.source);
            let most_expensive = self.common.metrics.queries.most_expensive();
            let what = match (is_ad_hoc, query.has_state()) {
                (true, _) => "an ad hoc query ends",
                (false, false) => "a query skips an event and drops its open windows",
                (false, true) => "a query skips an event, or its groups begin again",
            };
            let code = code.name();
            tracing::warn!(%topic, %source, code, left_out, most_expensive, "{what}: {overrun}");
        }
        if is_ad_hoc && let Some(output) = query.output {
            self.end(topics, output, now_us);
            topics.end(output, Ending::Ended(code), now_us);
        }
    }

    /// Closes the windows of queries whose sources have paused, and wakes queries with changed groups.
    pub(super) fn tick(&mut self, topics: &mut Topics, now_us: u64) {
        while let Some((index, number)) = self.timers.take_due(now_us) {
            // The query may have ended, and another may have its index.
            let query = self.running.get_mut(index).filter(|query| query.number == number);
            let Some(query) = query else { continue };
            query.is_timed = false;
            if query.has_state() {
                // It emits its groups when it reads.
                self.wake(index);
                continue;
            }
            let (Some(due_us), Some(output)) = (query.due_us(), query.output(topics)) else {
                continue;
            };
            if due_us > now_us {
                self.set_timer(index, now_us);
                continue;
            }
            let before = query.counts();
            query.close_all(topics, output, now_us);
            self.wake(index);
            self.set_timer(index, now_us);
            self.has_made(topics, index, before, now_us);
        }
    }

    /// Sets a timer for the time at which a query's windows have waited long enough, or for an earlier check. A
    /// timer is never removed.
    fn set_timer(&mut self, index: usize, now_us: u64) {
        let Some(query) = self.running.get_mut(index) else { return };
        if let Some(due_us) = query.due_us()
            && !std::mem::replace(&mut query.is_timed, true)
        {
            let at_us = due_us.clamp(now_us + 1, now_us + TIMER_US_MAX);
            self.timers.set(at_us, (index, query.number));
        }
    }

    /// Counts the work of a query, and marks its topic to be sealed in this turn.
    fn has_made(
        &mut self,
        topics: &mut Topics,
        index: usize,
        before: thalweg_query::Counts,
        now_us: u64,
    ) {
        let query = &mut self.running[index];
        query.log(before, now_us);
        let (now, counts) = (query.counts(), &self.counts);
        counts.query_events.add(now.events.saturating_sub(before.events));
        counts.query_rows.add(now.rows.saturating_sub(before.rows));
        counts.query_late.add(now.late.saturating_sub(before.late));
        counts.query_ahead.add(now.ahead.saturating_sub(before.ahead));
        counts.query_refused.add(now.refused().saturating_sub(before.refused()));
        counts.query_oversized.add(now.oversized.saturating_sub(before.oversized));
        let without_result = now.without_result.saturating_sub(before.without_result);
        counts.query_without_result.add(without_result);
        query.cost.without_result.add(without_result);
        let steps = now.steps.saturating_sub(before.steps);
        counts.query_steps.add(steps);
        query.cost.steps.add(steps);
        query.cost.memory_bytes.set(query.memory_bytes() as u64);
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
