//! A running query: one more reader of its source's events, which makes the rows of its topic.

use std::{cell::Cell, sync::Arc};

use thalweg_query::{
    Beginning, Bounds, Counts, Failure, Plan, Remains, Running, Sink, Waiting, limits,
};
use thalweg_wire::{Epoch, Offset};

use super::{
    Common,
    local_topic::LocalTopic,
    pauses::Paused,
    query_log::QueryLog,
    query_pace::{Overrun, QueryPace},
    query_start::{QueryStart, Step, block_from},
    topics::Topics,
};
use crate::{
    clock,
    config::{ASKED_TOPICS, PAUSE_MS_MIN, QUERY_BYTES},
    derived::{self, AskedQueries, DerivedTopic, MemoryShare},
    log_throttle::LogThrottle,
    metrics::QueryCost,
};
use thalweg_core::{
    fanout::FeedKey,
    stream::{Batch, DerivedBatches, Feed},
};

pub(super) struct RunningQuery {
    pub(super) topic: DerivedTopic,
    /// The topic of its rows; `None` once there is none, and it has ended.
    pub(super) output: Option<FeedKey>,
    /// The topic that it reads.
    pub(super) input: FeedKey,
    /// Among those that wait for their turn.
    pub(super) is_pending: bool,
    /// What it costs.
    pub(super) cost: Arc<QueryCost>,
    state: State,
    /// Groups of its earlier states, to be dropped.
    remains: Remains,
    /// The memory that it holds, in the account of its address.
    memory: MemoryShare,
    /// The queries that make room for it.
    asked: Arc<AskedQueries>,
    /// It was paused in the middle of an event, or of windows that it closes.
    is_paused: bool,
    /// The limit that it has exceeded, until that is told.
    overrun: Option<Overrun>,
    /// Its counts when it failed.
    last_counts: Counts,
    /// The next event that it reads.
    next: Offset,
    /// When the last event came, in µs.
    read_us: u64,
    /// When the rows are published that it makes now, in ms since 1970: when the event was that they are made of.
    published_ms: i64,
    /// How long after that all windows are closed, in µs; `None`: never.
    timeout_us: Option<u64>,
    /// The incarnation of its rows, if it is shared and has begun.
    epoch: Option<Epoch>,
    /// No other one of its shard has this number.
    pub(super) number: u64,
    /// There is a timer for it.
    pub(super) is_timed: bool,
    /// Its columns are those of its source's events.
    is_inferred: bool,
    /// Events over which it could not run.
    skipped: u64,
    /// Lines about them.
    failed: LogThrottle,
    log: QueryLog,
    bounds: Bounds,
}

enum State {
    /// It is not known where it begins, and maybe its columns are not known.
    New(QueryStart),
    /// Its columns are not known; whether there were events over which it cannot run.
    Waiting(Box<Waiting>, bool),
    Running(Box<Running>),
    /// It cannot run over the events that there are.
    Failed,
}

/// What there is to be read in a turn.
struct Unread {
    batches: Vec<Arc<Batch>>,
    /// From here on events are not here, but can be read back.
    away: Option<Offset>,
    head: Offset,
    /// Where the source has paused since, and for how many ms.
    pauses: Vec<(Offset, u64)>,
}

/// Rows on their way into a topic.
struct Rows<'a> {
    batches: &'a mut DerivedBatches,
    now_us: u64,
    /// When they are published: when the event was that they are made of.
    published_ms: i64,
    /// Bytes of those that are not sealed.
    unsealed_bytes: &'a Cell<usize>,
    /// The topic has all rows from here on.
    begins: Option<Offset>,
    /// The topic's columns are those of the query's plan.
    has_columns: bool,
}

impl<'a> Rows<'a> {
    fn of(
        batches: &'a mut DerivedBatches,
        unsealed_bytes: &'a Cell<usize>,
        published_ms: i64,
        now_us: u64,
    ) -> Self {
        unsealed_bytes.set(batches.unsealed_bytes());
        Self { batches, now_us, published_ms, unsealed_bytes, begins: None, has_columns: false }
    }

    /// The source has paused for so many ms since the event that they were made of.
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
            && let Some(columns) = derived::columns_asked(plan)
        {
            self.batches.set_columns(columns, self.now_us);
        }
    }
}

impl RunningQuery {
    /// A query that has read nothing.
    pub(super) fn new(
        common: &Common,
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
            asked: Arc::clone(&common.asked),
            is_paused: false,
            overrun: None,
            last_counts: Counts::default(),
            state: State::New(QueryStart::default()),
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
        }
    }

    /// Writes to the log what is missing from its rows, since its counts were these, for queries of the configuration: clients see
    /// what they have asked for.
    pub(super) fn log(&mut self, before: Counts, now_us: u64) {
        let now = self.counts();
        if now != before && !self.is_asked() {
            self.log.log(&self.topic, self.bounds, before, now, now_us);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed | State::Waiting(_, true))
    }

    /// Whether a client has asked for it.
    pub(super) fn is_asked(&self) -> bool {
        self.topic.output.as_str().starts_with(ASKED_TOPICS)
    }

    /// The limit that it has exceeded, if it has since this was last asked. If a client has asked for it, it has failed;
    /// one of the configuration goes on behind the event that cost too much.
    pub(super) fn take_overrun(&mut self) -> Option<Overrun> {
        self.overrun.take()
    }

    /// The memory that it holds, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let held = match &self.state {
            State::Running(running) => running.memory_bytes(),
            State::New(_) | State::Waiting(..) | State::Failed => 0,
        };
        size_of::<Self>() + held + self.topic.memory_bytes()
    }

    /// What has happened to its events.
    pub(super) fn counts(&self) -> Counts {
        let counts = match &self.state {
            State::Running(running) => running.counts(),
            State::New(_) | State::Waiting(..) => Counts::default(),
            State::Failed => self.last_counts,
        };
        Counts { events: counts.events + self.skipped, skipped: self.skipped, ..counts }
    }

    /// The topic of its rows, if that has not ended.
    pub(super) fn output(&self, topics: &Topics) -> Option<FeedKey> {
        let output = self.output?;
        let local = topics.feeds.get(output)?;
        (local.topic == self.topic.output && local.end.is_none()).then_some(output)
    }

    /// Its source is another one now.
    pub(super) fn begin_anew(&mut self) {
        self.set_state(State::New(QueryStart::default()));
        self.next = 1;
        (self.is_paused, self.last_counts) = (false, Counts::default());
        if self.is_inferred {
            self.topic.plan = None;
        }
    }

    /// It has another state from now on. The groups of the one before are left to be dropped.
    fn set_state(&mut self, state: State) {
        if let State::Running(running) = std::mem::replace(&mut self.state, state) {
            self.remains.append(running.into_remains());
        }
    }

    /// Takes the groups of its earlier states, to be dropped.
    pub(super) fn take_remains(&mut self) -> Remains {
        std::mem::take(&mut self.remains)
    }

    /// It is over: all its groups, to be dropped.
    pub(super) fn into_remains(mut self) -> Remains {
        self.set_state(State::Failed);
        self.remains
    }

    /// When its windows are closed if nothing comes, in µs.
    pub(super) fn due_us(&self) -> Option<u64> {
        match &self.state {
            State::Running(running) if running.waits() => {
                Some(self.read_us.saturating_add(self.timeout_us?))
            }
            _ => None,
        }
    }

    /// Nothing has come for long: begins to close its windows, and [`Self::read`] goes on with it. Of a shared query all nodes do
    /// so where its source's stream says that.
    pub(super) fn close_all(&mut self, topics: &mut Topics, output: FeedKey, now_us: u64) {
        self.read_us = now_us;
        // Others have kept it from reading what has come.
        if self.is_pending {
            return;
        }
        if self.topic.is_shared {
            let ms = self.timeout_us.unwrap_or_default() / 1000;
            let topic = self.topic.source.clone();
            return topics.tell_pause(Paused { topic, next: self.next, ms });
        }
        if let State::Running(running) = &mut self.state
            && let Some(batches) = topics.derived(output)
        {
            self.published_ms = clock::unix_ms();
            running.close_all(&mut Rows::of(batches, &Cell::new(0), self.published_ms, now_us));
            self.is_paused = true;
        }
    }

    /// Reads new events of its source, until there are no more, they are many, or it is `until_us`. Returns whether there are
    /// more here.
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
        let local = topics.feeds.get(input).filter(|local| local.topic == self.topic.source)?;
        let feed = local.feed.as_ref()?;
        let complete_from = local.pauses.complete_from();
        if let State::New(start) = &mut self.state
            && self.topic.is_shared
        {
            let (plan, is_fed) = (self.topic.plan.clone()?, topics.is_fed(&self.topic.source));
            match start.step(feed, is_fed, complete_from, &plan) {
                Step::Read(from) => {
                    topics.recalls.want(input, from, None);
                    return Some(false);
                }
                Step::Begin(from, beginning) => {
                    if is_fed && topics.common.config.tells_time {
                        self.timeout_us = Some(waits_us(&plan).max(PAUSE_MS_MIN * 1000));
                    }
                    let lead_ms = self.bounds.lead_ms;
                    self.epoch = Some(derived::epoch_of(&self.topic, lead_ms, feed.epoch()));
                    self.begin_at(topics, output, from, beginning);
                    return Some(true);
                }
            }
        }
        let unread = Unread::of(local, feed, self.next);
        if self.topic.is_shared && (unread.is_behind_loss(self.next) || self.next < complete_from) {
            // Whoever has read what is lost here counts rows in another way: it begins anew, behind that.
            let from = unread.start().max(complete_from);
            self.begin_at(topics, output, from, Beginning::Block);
            return Some(true);
        }
        if let (State::New(_), Some(first)) = (&self.state, unread.batches.first()) {
            self.begin(first);
        }
        self.wait(&unread, now_us, until_us);
        let begins = self.take(topics.derived(output)?, &unread, now_us, until_us);
        self.follow_plan(topics);
        self.follow_start(topics, output, begins, unread.head);
        if self.is_paused {
            return Some(true);
        }
        if let Some(away) = unread.away.filter(|away| self.next == *away) {
            topics.recalls.want(input, away, None);
            return Some(false);
        }
        Some(self.next < unread.head && !unread.batches.is_empty())
    }

    /// Goes on closing windows, and dropping those that are not emitted. Returns whether none is left.
    fn finish(&mut self, batches: &mut DerivedBatches, now_us: u64, until_us: u64) -> bool {
        let unsealed_bytes = Cell::new(0);
        let mut rows = Rows::of(batches, &unsealed_bytes, self.published_ms, now_us);
        self.work(&mut rows, until_us, |running, rows, pace, _| running.finish(rows, pace));
        !self.is_paused
    }

    /// Makes rows of events. Returns from where on the topic has all rows, if that is known now.
    fn take(
        &mut self,
        batches: &mut DerivedBatches,
        unread: &Unread,
        now_us: u64,
        until_us: u64,
    ) -> Option<Offset> {
        let is_asked = self.is_asked();
        let State::Running(running) = &self.state else { return None };
        let unsealed_bytes = Cell::new(0);
        let has_columns = is_asked && running.plan().schema().are_inferred();
        let rows = Rows::of(batches, &unsealed_bytes, self.published_ms, now_us);
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

    /// Works until it is done, or pauses, or has exceeded a limit.
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
        let is_asked = self.is_asked();
        let State::Running(running) = &mut self.state else { return };
        let asked = &*self.asked;
        let mut pace = QueryPace::new(until_us, rows.unsealed_bytes, &mut self.memory, asked);
        let done = step(running, rows, &mut pace, &mut self.next);
        let is_full = pace.is_full();
        self.published_ms = rows.published_ms;
        let held_bytes = running.memory_bytes();
        let overrun = match done {
            Err(failure) => Some(Overrun::Cost(failure)),
            Ok(_) if is_full => Some(Overrun::Memory),
            Ok(_) if asked.hold(&mut self.memory, held_bytes, clock::now_us()) => None,
            Ok(_) => Some(Overrun::Memory),
        };
        self.is_paused = done != Ok(true);
        if overrun.is_some() && is_asked {
            self.last_counts = running.counts();
            self.set_state(State::Failed);
            self.is_paused = false;
            // To shrink is always possible.
            let _ = self.memory.set(0);
        } else if overrun.is_some() {
            running.skip(rows);
        }
        self.overrun = overrun.or(self.overrun.take());
    }

    /// Begins the topic of a shared query's rows as soon as it is known from where on it has all of them. Where
    /// no events are left that could tell, it begins behind them.
    fn follow_start(
        &self,
        topics: &mut Topics,
        output: FeedKey,
        begins: Option<Offset>,
        head: Offset,
    ) {
        let (State::Running(running), Some(epoch)) = (&self.state, self.epoch) else { return };
        let behind = || (self.next >= head).then(|| running.first_place(self.next));
        if let Some(offset) = begins.or_else(behind) {
            topics.begin_derived(output, epoch, offset);
        }
    }

    /// Begins a shared query at an offset of its source, or at the first one behind it with which a block begins.
    fn begin_at(
        &mut self,
        topics: &mut Topics,
        output: FeedKey,
        from: Offset,
        beginning: Beginning,
    ) {
        let (Some(plan), Some(epoch)) = (self.topic.plan.clone(), self.epoch) else { return };
        if let State::Running(before) = &self.state {
            topics.counts.query_windows_lost.add(before.open_windows() as u64);
        }
        let running = Running::new(plan, self.bounds, beginning);
        self.next = block_from(from);
        let first = running.first_place(self.next);
        if first > limits::OFFSET_MAX {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            tracing::error!(%topic, %source, "the query ends: its source has come to offsets whose rows have none");
            self.set_state(State::Failed);
            return;
        }
        if running.is_numbered() {
            topics.begin_derived(output, epoch, first);
            if let Some(batches) = topics.derived(output) {
                batches.begin(first);
            }
        }
        self.set_state(State::Running(Box::new(running)));
    }

    /// Begins with the first events that are there, or waits for events that say what its columns are.
    fn begin(&mut self, first: &Batch) {
        self.next = first.start();
        match self.topic.plan.clone() {
            Some(plan) => self.run(plan),
            None => {
                self.is_inferred = true;
                let waiting = Waiting::new(self.topic.query.clone());
                self.set_state(State::Waiting(Box::new(waiting), false));
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
            tracing::warn!(%topic, %source, "no event has a column {absent} yet, which is NULL in the query until one has it: there are {known}");
        }
        self.topic.plan = Some(Arc::clone(&plan));
        // Its publishers may have begun before this server was started.
        let running = Running::new(plan, self.bounds, Beginning::Anywhere);
        self.set_state(State::Running(Box::new(running)));
    }

    /// Looks for an event over which the query can run, and begins with it.
    fn wait(&mut self, unread: &Unread, now_us: u64, until_us: u64) {
        let State::Waiting(waiting, has_failed) = &mut self.state else { return };
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
                            tracing::error!(%topic, %source, "the query does not run over these events, and waits for others: {error}");
                        }
                        *has_failed = true;
                    }
                    None => {}
                }
                self.skipped += 1;
                self.next = offset + 1;
                // To plan takes as long as hundreds of events, and so may to look for columns.
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

    /// Its columns may have become wider: whoever asks for it now is told so.
    fn follow_plan(&mut self, topics: &Topics) {
        let State::Running(running) = &self.state else { return };
        let plan = running.plan();
        if self.topic.plan.as_ref().is_some_and(|known| Arc::ptr_eq(known, plan)) {
            return;
        }
        if !self.is_asked() {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            let known = known_names(plan);
            tracing::info!(%topic, %source, "the columns of the query's source are wider now: {known}");
        }
        topics.common.asked.set_plan(&self.topic.output, plan);
        self.topic.plan = Some(Arc::clone(plan));
    }
}

/// The columns that a plan reads, in words.
fn known_names(plan: &Plan) -> String {
    let known = plan.schema().iter().map(|column| format!("{}:{}", column.name, column.kind));
    known.collect::<Vec<_>>().join(", ")
}

impl Unread {
    fn of(local: &LocalTopic, feed: &Feed, from: Offset) -> Self {
        let (head, pauses) = (feed.head(), local.pauses.since(from).collect());
        let mut unread = Self { batches: Vec::new(), away: None, head, pauses };
        let (mut bytes, mut at) = (0, from);
        while at < head && bytes < QUERY_BYTES {
            let batch = match feed.batch_at(at) {
                Some(batch) => batch,
                None if feed.is_away(at) => {
                    unread.away = Some(at);
                    break;
                }
                // What is between them is lost.
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

    /// Makes rows of the events, until there are no more or the pace says so. Returns whether nothing is left to do for those
    /// that were taken.
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
                    // Their rows are published then, and not with the event.
                    if !running.finish(rows, pace)? {
                        return Ok(false);
                    }
                }
                // Where that is not known, no event is ahead of it.
                rows.published_ms = batch.published_ms().unwrap_or(i64::MAX);
                let times_ms = (rows.published_ms, now_ms);
                match running.take_in_part(offset, event, times_ms, rows, pace) {
                    Ok(true) => *next = offset + 1,
                    // It is read again.
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
            // Nothing is left of what came before the head.
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

    /// Where the first batch starts; the head, if there is none.
    fn start(&self) -> Offset {
        self.batches.first().map_or(self.head, |batch| batch.start())
    }

    /// Whether events from an offset on are lost, up to the first batch or, without one, to the head.
    fn is_behind_loss(&self, from: Offset) -> bool {
        self.start() > from && (self.away.is_none() || !self.batches.is_empty())
    }
}

/// How long a query's windows wait for more events, in µs.
fn waits_us(plan: &Plan) -> u64 {
    plan.timeout_ms().unwrap_or(plan.default_timeout_ms()).saturating_mul(1000)
}
