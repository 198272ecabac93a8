//! A running query: a reader of its source's events that makes the rows of its topic.

use std::{cell::Cell, sync::Arc};

use thalweg_broker::LogThrottle;
use thalweg_core::{
    fanout::{FeedKey, Feeds},
    stream::{AnyFeed, Backfill as _, Batch, DerivedBatches, Feed as _},
};
use thalweg_query::{
    Beginning, Bounds, Counts, Failure, Plan, Remains, Running, Sink, Waiting, limits,
};
use thalweg_wire::{Epoch, Offset};

use super::{
    query_log::QueryLog,
    query_pace::{Overrun, QueryPace},
    query_start::{QueryStart, Step, block_from},
};
use crate::{
    clock,
    config::{AD_HOC_TOPICS, PAUSE_MS_MIN, QUERY_BYTES},
    derived::{self, AdHocQueries, DerivedTopic, MemoryShare},
    metrics::{self, QueryCost},
    shard::{
        broker::{Paused, Pauses},
        common::Common,
        topics::Topics,
    },
};

pub(super) struct RunningQuery {
    pub(super) topic: DerivedTopic,
    /// The topic of its rows. `None` after the topic has ended.
    pub(super) output: Option<FeedKey>,
    /// The topic that it reads.
    pub(super) input: FeedKey,
    /// Whether it is queued for its turn.
    pub(super) is_pending: bool,
    pub(super) cost: Arc<QueryCost>,
    state: QueryState,
    /// Groups of its earlier states, which are dropped in parts.
    remains: Remains,
    /// The memory that counts for its address.
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
    /// The epoch of a shared query's rows, once it has begun.
    epoch: Option<Epoch>,
    /// A number that is unique on the shard.
    pub(super) number: u64,
    /// Whether there is a timer.
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
    /// Its first offset is unknown, and its columns may be, too.
    New(QueryStart),
    /// Its columns are unknown. The flag says whether there were events that it cannot read.
    Waiting(Box<Waiting>, bool),
    Running(Box<Running>),
    /// It cannot read the events of its source.
    Failed,
}

/// The unread events of a turn.
struct Unread {
    batches: Vec<Arc<Batch>>,
    /// A backfill is needed from this offset on.
    backfill_from: Option<Offset>,
    head: Offset,
    /// The pauses of the source, in ms.
    pauses: Vec<(Offset, u64)>,
}

/// A sink for rows that a topic gets.
struct Rows<'a> {
    batches: &'a mut DerivedBatches,
    now_us: u64,
    /// The publish time of the event whose rows these are, in ms since 1970.
    published_ms: i64,
    /// Bytes of the unsealed rows.
    unsealed_bytes: &'a Cell<usize>,
    /// The topic has all rows from this offset on.
    begins: Option<Offset>,
    /// Whether the topic's columns follow the query's plan.
    has_columns: bool,
}

impl<'a> Rows<'a> {
    fn new(
        batches: &'a mut DerivedBatches,
        unsealed_bytes: &'a Cell<usize>,
        published_ms: i64,
        now_us: u64,
    ) -> Self {
        unsealed_bytes.set(batches.unsealed_bytes());
        Self { batches, now_us, published_ms, unsealed_bytes, begins: None, has_columns: false }
    }

    /// Advances the publish time by a pause of `ms`.
    fn pass(&mut self, ms: u64) {
        self.published_ms = self.published_ms.saturating_add_unsigned(ms);
    }
}

impl Sink for Rows<'_> {
    fn begins(&mut self, offset: Offset) {
        self.batches.begin(offset);
        self.begins = Some(offset);
    }

    fn row(&mut self, offset: Offset, row: &[u8]) {
        self.unsealed_bytes.set(self.unsealed_bytes.get() + row.len());
        self.batches.push(offset, row, self.published_ms, self.now_us);
    }

    fn lost(&mut self, offset: Offset) {
        self.batches.lose(offset, self.now_us);
    }

    fn widened(&mut self, plan: &Plan) {
        if self.has_columns
            && let Some(columns) = derived::ad_hoc_columns(plan)
        {
            self.batches.set_columns(columns, self.now_us);
        }
    }
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

    /// Takes the limit that the query has exceeded. An ad hoc query has failed. A configured query continues after
    /// the event that cost too much.
    pub(super) fn take_overrun(&mut self) -> Option<Overrun> {
        self.overrun.take()
    }

    /// Returns the memory that the query holds, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let held = match &self.state {
            QueryState::Running(running) => running.memory_bytes(),
            QueryState::New(_) | QueryState::Waiting(..) | QueryState::Failed => 0,
        };
        size_of::<Self>() + held + self.topic.memory_bytes()
    }

    /// Returns the counts of the query's events.
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

    /// Returns when the windows close without events, in µs.
    pub(super) fn due_us(&self) -> Option<u64> {
        match &self.state {
            QueryState::Running(running) if running.waits() => {
                Some(self.read_us.saturating_add(self.timeout_us?))
            }
            _ => None,
        }
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
            // A node that has read the lost events counts rows differently, so the query begins again after the
            // loss.
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
        if self.is_paused {
            return Some(true);
        }
        if let Some(from) = unread.backfill_from.filter(|from| self.next == *from) {
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

    /// Makes rows of events. Returns the offset from which on the topic has all rows, if it becomes known.
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
        let has_columns = is_ad_hoc && running.plan().schema().are_inferred();
        let rows = Rows::new(batches, &unsealed_bytes, self.published_ms, now_us);
        let mut rows = Rows { has_columns, ..rows };
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
        if overrun.is_some() && is_ad_hoc {
            self.last_counts = running.counts();
            self.set_state(QueryState::Failed);
            self.is_paused = false;
            // Less memory is always granted.
            let _ = self.memory.set(0);
        } else if overrun.is_some() {
            running.skip(rows);
        }
        self.overrun = overrun.or(self.overrun.take());
    }

    /// Begins the topic of a shared query when the offset from which on it has all rows is known. If no unread
    /// events could reveal it, the topic begins after them.
    fn follow_start(
        &self,
        topics: &mut Topics,
        output: FeedKey,
        begins: Option<Offset>,
        head: Offset,
    ) {
        let (QueryState::Running(running), Some(epoch)) = (&self.state, self.epoch) else { return };
        let behind = || (self.next >= head).then(|| running.first_place(self.next));
        if let Some(offset) = begins.or_else(behind) {
            topics.begin_derived(output, epoch, offset);
        }
    }

    /// Begins a shared query with the first block at or after an offset of its source.
    fn begin_at(
        &mut self,
        topics: &mut Topics,
        output: FeedKey,
        from: Offset,
        beginning: Beginning,
    ) {
        let (Some(plan), Some(epoch)) = (self.topic.plan.clone(), self.epoch) else { return };
        if let QueryState::Running(before) = &self.state {
            self.counts.query_windows_lost.add(before.open_windows() as u64);
        }
        let running = Running::new(plan, self.bounds, beginning);
        self.next = block_from(from);
        let first = running.first_place(self.next);
        if first > limits::OFFSET_MAX {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            tracing::error!(%topic, %source, "the query ends: its source has reached offsets that are too large to number its rows");
            self.set_state(QueryState::Failed);
            return;
        }
        if running.is_numbered() {
            topics.begin_derived(output, epoch, first);
            if let Some(batches) = topics.derived(output) {
                batches.begin(first);
            }
        }
        self.set_state(QueryState::Running(Box::new(running)));
    }

    /// Begins with the first events, or waits for events from which to infer the columns.
    fn begin(&mut self, first: &Batch) {
        self.next = first.start();
        match self.topic.plan.clone() {
            Some(plan) => self.run(plan),
            None => {
                self.is_inferred = true;
                let waiting = Waiting::new(self.topic.query.clone());
                self.set_state(QueryState::Waiting(Box::new(waiting), false));
            }
        }
    }

    fn run(&mut self, plan: Arc<Plan>) {
        self.timeout_us = Some(waits_us(&plan));
        let (topic, source) = (&self.topic.output, &self.topic.source);
        let absent: Vec<&str> = plan.absent().collect();
        if !absent.is_empty() {
            let absent = absent.join(", ");
            let known = known_names(&plan);
            tracing::warn!(%topic, %source, "no event has the columns {absent} yet, which the query reads as NULL: the events have {known}");
        }
        self.topic.plan = Some(Arc::clone(&plan));
        // Publishers may have begun before this server started.
        let running = Running::new(plan, self.bounds, Beginning::Anywhere);
        self.set_state(QueryState::Running(Box::new(running)));
    }

    /// Searches for an event that the query can read, and begins with it.
    fn wait(&mut self, unread: &Unread, now_us: u64, until_us: u64) {
        let QueryState::Waiting(waiting, has_failed) = &mut self.state else { return };
        for batch in &unread.batches {
            let events = (batch.first().max(self.next)..).zip(batch.events_from(self.next));
            for (offset, event) in events {
                match waiting.take(event) {
                    Some(Ok(plan)) => {
                        self.next = offset;
                        return self.run(Arc::new(plan));
                    }
                    Some(Err(error)) => {
                        let (topic, source) = (&self.topic.output, &self.topic.source);
                        if self.failed.take(1, now_us).is_some() {
                            tracing::error!(%topic, %source, "the query cannot read these events, and waits for others: {error}");
                        }
                        *has_failed = true;
                    }
                    None => {}
                }
                self.skipped += 1;
                self.next = offset + 1;
                // Planning and inferring take as long as hundreds of events.
                if clock::now_us() >= until_us {
                    return;
                }
            }
            self.next = self.next.max(batch.end());
        }
        if unread.is_behind_loss(self.next) {
            self.next = unread.head;
        }
    }

    /// Tells new clients about columns that have become wider.
    fn follow_plan(&mut self) {
        let QueryState::Running(running) = &self.state else { return };
        let plan = running.plan();
        if self.topic.plan.as_ref().is_some_and(|known| Arc::ptr_eq(known, plan)) {
            return;
        }
        if !self.is_ad_hoc() {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            let known = known_names(plan);
            tracing::info!(%topic, %source, "the columns of the query's source are wider now: {known}");
        }
        self.ad_hoc.set_plan(&self.topic.output, plan);
        self.topic.plan = Some(Arc::clone(plan));
    }
}

/// Returns the columns that a plan reads, each as `name:type`.
fn known_names(plan: &Plan) -> String {
    let known = plan.schema().iter().map(|column| format!("{}:{}", column.name, column.kind));
    known.collect::<Vec<_>>().join(", ")
}

impl Unread {
    fn new(feed: &AnyFeed, pauses: &Pauses, from: Offset) -> Self {
        let (head, pauses) = (feed.head(), pauses.since(from).collect());
        let mut unread = Self { batches: Vec::new(), backfill_from: None, head, pauses };
        let (mut bytes, mut at) = (0, from);
        while at < head && bytes < QUERY_BYTES {
            let batch = match feed.batch_at(at) {
                Some(batch) => batch,
                None if feed.needs_backfill(at) => {
                    unread.backfill_from = Some(at);
                    break;
                }
                // The events in between are lost.
                None => match feed.batches_from(at).next() {
                    Some(batch) => batch,
                    None => break,
                },
            };
            bytes += batch.event_bytes(at.max(batch.first()));
            at = batch.end();
            unread.batches.push(Arc::clone(batch));
        }
        unread
    }

    /// Makes rows of the events until there are none left or the pace is over. Returns whether no work is left for
    /// the events that were taken.
    fn take(
        &self,
        running: &mut Running,
        rows: &mut Rows<'_>,
        pace: &mut QueryPace<'_>,
        next: &mut Offset,
    ) -> Result<bool, Failure> {
        let now_ms = clock::unix_ms();
        let mut pauses = self.pauses.iter().copied().peekable();
        for batch in &self.batches {
            if batch.start() > *next {
                if !running.finish(rows, pace)? {
                    return Ok(false);
                }
                running.lose();
                *next = batch.start();
            }
            let events = (batch.first().max(*next)..).zip(batch.events_from(*next));
            for (offset, event) in events {
                while let Some((at, ms)) = pauses.next_if(|(at, _)| *at < offset) {
                    if !running.finish(rows, pace)? {
                        return Ok(false);
                    }
                    rows.pass(ms);
                    running.pause(at, ms, rows);
                    *next = at + 1;
                    // The rows of closed windows are published at the time of the pause, not of the event.
                    if !running.finish(rows, pace)? {
                        return Ok(false);
                    }
                }
                // If the time is unknown, no event is ahead of it.
                rows.published_ms = batch.published_ms().unwrap_or(i64::MAX);
                let times_ms = (rows.published_ms, now_ms);
                match running.take_in_part(offset, event, times_ms, rows, pace) {
                    Ok(true) => *next = offset + 1,
                    // The event is read again.
                    Ok(false) => {
                        *next = offset;
                        return Ok(false);
                    }
                    Err(failure) => {
                        *next = offset + 1;
                        return Err(failure);
                    }
                }
                if pace.is_over() {
                    return Ok(false);
                }
            }
            *next = (*next).max(batch.end());
        }
        if !running.finish(rows, pace)? {
            return Ok(false);
        }
        if self.is_behind_loss(*next) {
            // No event before the head is left.
            running.lose();
            *next = self.head;
        }
        if *next >= self.head {
            for (at, ms) in pauses {
                rows.pass(ms);
                running.pause(at, ms, rows);
                *next = at + 1;
                if !running.finish(rows, pace)? {
                    return Ok(false);
                }
            }
            running.settle();
        }
        Ok(true)
    }

    /// Returns where the first batch starts, or the head if there is none.
    fn start(&self) -> Offset {
        self.batches.first().map_or(self.head, |batch| batch.start())
    }

    /// Returns whether events from an offset on are lost, up to the first batch or, without one, to the head.
    fn is_behind_loss(&self, from: Offset) -> bool {
        self.start() > from && (self.backfill_from.is_none() || !self.batches.is_empty())
    }
}

/// Returns how long a query's windows wait for events, in µs.
fn waits_us(plan: &Plan) -> u64 {
    plan.timeout_ms().unwrap_or(plan.default_timeout_ms()).saturating_mul(1000)
}
