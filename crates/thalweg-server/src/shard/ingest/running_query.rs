//! A running query: a reader of its source's events that makes the rows of its topic.
//!
//! - `start`: its start, and its columns
//! - `unread`: events in
//! - `rows`: rows out

mod rows;
mod start;
mod unread;

use std::{cell::Cell, sync::Arc};

use thalweg_broker::LogThrottle;
use thalweg_core::{
    fanout::{FeedKey, Feeds as _},
    stream::{DerivedBatches, Feed as _},
};
use thalweg_query::{
    Beginning, Bounds, Counts, Failure, Plan, Remains, Running, Sink as _, Waiting,
};
use thalweg_wire::{Epoch, Offset};

use super::{
    query_log::QueryLog,
    query_pace::{Overrun, QueryPace},
    query_start::{QueryStart, Step, first_counted},
};
use crate::{
    clock,
    config::{AD_HOC_TOPICS, PAUSE_MS_MIN},
    derived::{self, AdHocQueries, DerivedTopic, MemoryShare},
    metrics::{self, QueryCost},
    shard::{broker::Paused, common::Common, topics::Topics},
};
use rows::Rows;
use unread::Unread;

pub(super) struct RunningQuery {
    pub(super) topic: DerivedTopic,
    /// The topic of its rows. `None` after the topic has ended.
    pub(super) output: Option<FeedKey>,
    pub(super) input: FeedKey,
    /// Whether it is queued for its turn.
    pub(super) is_pending: bool,
    pub(super) cost: Arc<QueryCost>,
    state: QueryState,
    /// Groups of its earlier states, which are dropped in parts.
    remains: Remains,
    /// The memory that counts towards the limit of its address.
    memory: MemoryShare,
    /// The queries that may have to make room for its memory.
    ad_hoc: Arc<AdHocQueries>,
    /// Whether it paused within an event or within windows to close.
    is_paused: bool,
    /// The limit that it has exceeded, until the caller takes it.
    overrun: Option<Overrun>,
    /// Its counts when it failed.
    last_counts: Counts,
    /// The next offset to read.
    next: Offset,
    /// When the last event arrived, in µs.
    read_us: u64,
    /// The publish time of the event whose rows it makes now, in ms since 1970.
    published_ms: i64,
    /// How long all windows wait for an event, in µs. `None`: forever.
    timeout_us: Option<u64>,
    /// The least time between two emissions of changed groups, in µs. `None`: the query has windows, or no groups.
    period_us: Option<u64>,
    /// When groups were last emitted, in µs.
    emitted_us: u64,
    /// Whether its groups have begun again, until the caller takes it. The rows of before are wrong.
    has_restarted: bool,
    /// The epoch of a shared query's rows, once it has begun.
    epoch: Option<Epoch>,
    /// A number that is unique on the shard.
    pub(super) number: u64,
    pub(super) is_timed: bool,
    /// Whether its columns are inferred from the source's events.
    is_inferred: bool,
    /// The number of events that it could not read.
    skipped: u64,
    /// Throttles the log lines about these events.
    failed: LogThrottle,
    log: QueryLog,
    bounds: Bounds,
    /// Whether this node tells the others about pauses.
    tells_time: bool,
    counts: Arc<metrics::Counts>,
}

enum QueryState {
    /// The first offset of the query is unknown, and its columns may be, too.
    New(QueryStart),
    /// The columns are unknown. The flag says whether there were events that the query cannot read.
    Waiting(Box<Waiting>, bool),
    Running(Box<Running>),
    /// The query cannot read the events of its topic.
    Failed,
}

impl RunningQuery {
    pub(super) fn new(
        common: &Common,
        counts: &Arc<metrics::Counts>,
        topic: DerivedTopic,
        [output, input]: [FeedKey; 2],
        memory: MemoryShare,
        (number, now_us): (u64, u64),
    ) -> Self {
        Self {
            cost: common.metrics.queries.begin(&topic.output),
            topic,
            output: Some(output),
            input,
            is_pending: false,
            memory,
            ad_hoc: Arc::clone(&common.ad_hoc),
            is_paused: false,
            overrun: None,
            last_counts: Counts::default(),
            state: QueryState::New(QueryStart::default()),
            remains: Remains::default(),
            next: 1,
            read_us: now_us,
            published_ms: 0,
            timeout_us: None,
            period_us: None,
            emitted_us: 0,
            has_restarted: false,
            epoch: None,
            number,
            is_timed: false,
            is_inferred: false,
            skipped: 0,
            failed: LogThrottle::default(),
            log: QueryLog::default(),
            bounds: common.config.query_bounds(),
            tells_time: common.config.tells_time,
            counts: Arc::clone(counts),
        }
    }

    /// Logs the losses of a configured query since `before`. Clients see the losses of ad hoc queries.
    pub(super) fn log(&mut self, before: Counts, now_us: u64) {
        let now = self.counts();
        if now != before && !self.is_ad_hoc() {
            self.log.log(&self.topic, self.bounds, before, now, now_us);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, QueryState::Failed | QueryState::Waiting(_, true))
    }

    /// Returns whether this is an ad hoc query.
    pub(super) fn is_ad_hoc(&self) -> bool {
        self.topic.output.as_str().starts_with(AD_HOC_TOPICS)
    }

    /// Takes the limit that the query has exceeded. If there is one, an ad hoc query has failed, and a configured
    /// query continues after the event that cost too much.
    pub(super) fn take_overrun(&mut self) -> Option<Overrun> {
        self.overrun.take()
    }

    /// Returns whether its groups have begun again since the last call. Their topic must end.
    pub(super) fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.has_restarted)
    }

    /// Returns whether its rows are those of groups without windows.
    pub(super) fn has_state(&self) -> bool {
        self.topic.query.has_state()
    }

    /// Continues with another topic for its rows, if there is one. A state is emitted again there.
    pub(super) fn set_output(&mut self, output: Option<FeedKey>) {
        self.output = output;
        if let QueryState::Running(running) = &mut self.state {
            running.emit_again();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let held = match &self.state {
            QueryState::Running(running) => running.memory_bytes(),
            QueryState::New(_) | QueryState::Waiting(..) | QueryState::Failed => 0,
        };
        size_of::<Self>() + held + self.topic.memory_bytes()
    }

    pub(super) fn counts(&self) -> Counts {
        let counts = match &self.state {
            QueryState::Running(running) => running.counts(),
            QueryState::New(_) | QueryState::Waiting(..) => Counts::default(),
            QueryState::Failed => self.last_counts,
        };
        Counts { events: counts.events + self.skipped, skipped: self.skipped, ..counts }
    }

    /// Returns the topic of the query's rows, unless the topic has ended.
    pub(super) fn output(&self, topics: &Topics) -> Option<FeedKey> {
        let output = self.output?;
        let is_its = topics.topic(output)? == &self.topic.output && !topics.is_ended(output);
        is_its.then_some(output)
    }

    /// Begins again, because the source is another topic now.
    pub(super) fn begin_again(&mut self) {
        self.set_state(QueryState::New(QueryStart::default()));
        self.next = 1;
        (self.is_paused, self.last_counts) = (false, Counts::default());
        if self.is_inferred {
            self.topic.plan = None;
        }
    }

    /// Sets the state. The groups of the previous state are dropped later.
    fn set_state(&mut self, state: QueryState) {
        if let QueryState::Running(running) = std::mem::replace(&mut self.state, state) {
            self.remains.append(running.into_remains());
        }
    }

    pub(super) fn take_remains(&mut self) -> Remains {
        std::mem::take(&mut self.remains)
    }

    /// Returns all groups, for a query that is over.
    pub(super) fn into_remains(mut self) -> Remains {
        self.set_state(QueryState::Failed);
        self.remains
    }

    /// Returns when the windows close if no event comes, or when changed groups are due, in µs.
    pub(super) fn due_us(&self) -> Option<u64> {
        let QueryState::Running(running) = &self.state else { return None };
        // Without a topic nothing can be emitted.
        self.output?;
        let due_us = match self.period_us {
            Some(period_us) => self.emitted_us.saturating_add(period_us),
            None => self.read_us.saturating_add(self.timeout_us?),
        };
        running.waits().then_some(due_us)
    }

    /// Begins to close the windows, because no event has arrived for a long time. [`Self::read`] continues. All nodes
    /// close the windows of a shared query where the source's stream has a pause.
    pub(super) fn close_all(&mut self, topics: &mut Topics, output: FeedKey, now_us: u64) {
        self.read_us = now_us;
        // The query may have unread events, because other queries ran first.
        if self.is_pending {
            return;
        }
        if self.topic.is_shared {
            let ms = self.timeout_us.unwrap_or_default() / 1000;
            let topic = self.topic.source.clone();
            return topics.send_pause(Paused { topic, next: self.next, ms });
        }
        if let QueryState::Running(running) = &mut self.state
            && let Some(batches) = topics.derived(output)
        {
            self.published_ms = clock::unix_ms();
            running.close_all(&mut Rows::new(batches, &Cell::new(0), self.published_ms, now_us));
            self.is_paused = true;
        }
    }

    /// Reads new events of the source until there are no more, enough are read, or it is `until_us`. Returns whether
    /// this shard has more events.
    pub(super) fn read(
        &mut self,
        topics: &mut Topics,
        input: FeedKey,
        now_us: u64,
        until_us: u64,
    ) -> Option<bool> {
        let output = self.output(topics)?;
        if self.is_paused && !self.finish(topics.derived(output)?, now_us, until_us) {
            return Some(true);
        }
        topics.topic(input).filter(|topic| **topic == self.topic.source)?;
        if !self.topic.is_shared && self.next == 1 && topics.is_broker_topic(input) {
            self.next = first_counted(topics.feed(input)?, self.is_ad_hoc());
        }
        let (feed, pauses) = (topics.feed(input)?, topics.pauses(input)?);
        let complete_from = pauses.complete_from();
        if let QueryState::New(start) = &mut self.state
            && self.topic.is_shared
        {
            let (plan, is_broker_topic) = (self.topic.plan.clone()?, topics.is_broker_topic(input));
            match start.step(feed, is_broker_topic, complete_from, &plan) {
                Step::Read(from) => {
                    topics.want_backfill(input, from, None);
                    return Some(false);
                }
                Step::Begin(from, beginning) => {
                    if is_broker_topic && self.tells_time {
                        self.timeout_us = Some(waits_us(&plan).max(PAUSE_MS_MIN * 1000));
                    }
                    let lead_ms = self.bounds.lead_ms;
                    self.epoch = Some(derived::epoch_of(&self.topic, lead_ms, feed.epoch()));
                    self.begin_at(topics, output, from, beginning);
                    return Some(true);
                }
            }
        }
        let unread = Unread::new(feed, pauses, self.next);
        if self.topic.is_shared && (unread.is_behind_loss(self.next) || self.next < complete_from) {
            // A node that has read the lost events counts rows differently, so the query begins again after the loss.
            let from = unread.start().max(complete_from);
            self.begin_at(topics, output, from, Beginning::Block);
            return Some(true);
        }
        if let (QueryState::New(_), Some(first)) = (&self.state, unread.batches.first()) {
            self.begin(first);
        }
        self.wait(&unread, now_us, until_us);
        let begins = self.take(topics.derived(output)?, &unread, now_us, until_us);
        self.follow_plan();
        self.follow_start(topics, output, begins, unread.head);
        // Even if it pauses: a query that is always behind emits, too.
        if !self.has_restarted {
            self.emit_changes(topics, output, now_us, until_us);
        }
        if self.is_paused {
            return Some(true);
        }
        // Events before the backfill may be lost. Their loss is counted when the backfill has come.
        let is_next = |from: &Offset| self.next == *from || unread.batches.is_empty();
        if let Some(from) = unread.backfill_from.filter(is_next) {
            topics.want_backfill(input, from, None);
            return Some(false);
        }
        Some(self.next < unread.head && !unread.batches.is_empty())
    }

    /// Continues to close and drop windows. Returns whether none is left.
    fn finish(&mut self, batches: &mut DerivedBatches, now_us: u64, until_us: u64) -> bool {
        let unsealed_bytes = Cell::new(0);
        let mut rows = Rows::new(batches, &unsealed_bytes, self.published_ms, now_us);
        self.work(&mut rows, until_us, |running, rows, pace, _| running.finish(rows, pace));
        !self.is_paused
    }

    /// Emits the groups without windows that have changed, if the last emission is long enough ago.
    fn emit_changes(&mut self, topics: &mut Topics, output: FeedKey, now_us: u64, until_us: u64) {
        let is_ad_hoc = self.is_ad_hoc();
        let QueryState::Running(running) = &mut self.state else { return };
        let Some(period_us) = self.period_us.filter(|_| running.waits()) else { return };
        if now_us < self.emitted_us.saturating_add(period_us) {
            return;
        }
        self.emitted_us = now_us;
        self.published_ms = clock::unix_ms();
        running.emit_changes(self.published_ms, topics.has_room_for_rows(is_ad_hoc));
        if let Some(batches) = topics.derived(output) {
            self.finish(batches, now_us, until_us);
        }
        if let QueryState::Running(running) = &mut self.state
            && running.take_refused()
        {
            self.has_no_room(now_us);
        }
    }

    /// Ends an ad hoc query with a new row that has no room. New rows of a configured query wait for the next change of their group.
    fn has_no_room(&mut self, now_us: u64) {
        if self.is_ad_hoc() {
            self.overrun = Some(Overrun::Memory);
            return self.fail();
        }
        if self.failed.take(1, now_us).is_some() {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            tracing::warn!(%topic, %source, "new rows of the query are left out, because the rows of groups of all queries take too much memory: group by fewer keys, or set limits.history-bytes to a larger size");
        }
    }

    /// Ends the work of an ad hoc query that exceeds a limit.
    fn fail(&mut self) {
        if let QueryState::Running(running) = &self.state {
            self.last_counts = running.counts();
        }
        self.set_state(QueryState::Failed);
        self.is_paused = false;
        // Less memory is always granted.
        let _ = self.memory.set(0);
    }

    /// Makes rows from events. Returns the offset from which the topic has all rows, if it becomes known.
    fn take(
        &mut self,
        batches: &mut DerivedBatches,
        unread: &Unread,
        now_us: u64,
        until_us: u64,
    ) -> Option<Offset> {
        let is_ad_hoc = self.is_ad_hoc();
        let QueryState::Running(running) = &self.state else { return None };
        let unsealed_bytes = Cell::new(0);
        let mut rows = Rows::new(batches, &unsealed_bytes, self.published_ms, now_us);
        let plan = running.plan();
        rows.has_columns = is_ad_hoc && plan.schema().are_inferred() && !plan.has_state();
        if !rows.batches.has_columns() {
            rows.widened(running.plan());
        }
        self.work(&mut rows, until_us, |running, rows, pace, next| {
            unread.take(running, rows, pace, next)
        });
        if !unread.batches.is_empty() {
            self.read_us = now_us;
        }
        rows.begins
    }

    /// Runs a step until it is done, pauses, or exceeds a limit.
    fn work(
        &mut self,
        rows: &mut Rows<'_>,
        until_us: u64,
        step: impl FnOnce(
            &mut Running,
            &mut Rows<'_>,
            &mut QueryPace<'_>,
            &mut Offset,
        ) -> Result<bool, Failure>,
    ) {
        let is_ad_hoc = self.is_ad_hoc();
        let QueryState::Running(running) = &mut self.state else { return };
        let ad_hoc = &*self.ad_hoc;
        let mut pace = QueryPace::new(until_us, rows.unsealed_bytes, &mut self.memory, ad_hoc);
        let done = step(running, rows, &mut pace, &mut self.next);
        let is_full = pace.is_full();
        self.published_ms = rows.published_ms;
        let held_bytes = running.memory_bytes();
        let overrun = match done {
            Err(failure) => Some(Overrun::Cost(failure)),
            Ok(_) if is_full => Some(Overrun::Memory),
            Ok(_) if ad_hoc.hold(&mut self.memory, held_bytes, clock::now_us()) => None,
            Ok(_) => Some(Overrun::Memory),
        };
        self.is_paused = done != Ok(true);
        if overrun.is_some() && !is_ad_hoc {
            running.skip(rows);
            if overrun == Some(Overrun::Memory) && running.plan().has_state() {
                running.lose();
            }
        }
        self.has_restarted |= running.take_restart();
        if overrun.is_some() && is_ad_hoc {
            self.fail();
        }
        self.overrun = overrun.or(self.overrun.take());
    }
}

/// Returns how long a query's windows wait for events, in µs.
fn waits_us(plan: &Plan) -> u64 {
    plan.timeout_ms().unwrap_or(plan.default_timeout_ms()).saturating_mul(1000)
}
