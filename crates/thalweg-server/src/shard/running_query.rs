//! A running query: one more reader of its source's events, which makes the rows of its topic.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use thalweg_query::{Beginning, Bounds, Counts, Plan, Running, Sink, Waiting, limits};
use thalweg_wire::{Epoch, Offset};

use super::{
    local_topic::LocalTopic,
    pauses::Paused,
    query_start::{QueryStart, Step, block_from},
    topics::Topics,
};
use crate::{
    clock,
    config::{ASKED_TOPICS, PAUSE_MS_MIN},
    derived::{self, DerivedTopic},
    fanout::FeedKey,
    log_throttle::LogThrottle,
    stream::{Batch, DerivedBatches, Feed},
};

/// Bytes of events that a query reads in a turn, and of rows that it makes: what is left waits for the next one.
const BYTES_PER_TURN: usize = 1 << 19;

/// After so many events the clock is looked at.
const EVENTS_PER_LOOK: usize = 32;

pub(super) struct RunningQuery {
    pub(super) topic: DerivedTopic,
    /// The topic of its rows; `None` once there is none, and it has ended.
    pub(super) output: Option<FeedKey>,
    state: State,
    /// The next event that it reads.
    next: Offset,
    /// When the last event came, in µs.
    read_us: u64,
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
    /// Lines about events over which it cannot run, values that cannot be read, and events without a time.
    failed: LogThrottle,
    unreadable: LogThrottle,
    without_time: LogThrottle,
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
    /// Of those in this turn.
    bytes: usize,
    /// The topic has all rows from here on.
    begins: Option<Offset>,
    /// The topic's columns are those of the query's plan.
    has_columns: bool,
}

impl<'a> Rows<'a> {
    fn of(batches: &'a mut DerivedBatches, now_us: u64) -> Self {
        Self { batches, now_us, bytes: 0, begins: None, has_columns: false }
    }
}

impl Sink for Rows<'_> {
    fn begins(&mut self, offset: Offset) {
        self.batches.begin(offset);
        self.begins = Some(offset);
    }

    fn row(&mut self, offset: Offset, row: &[u8]) {
        self.bytes += row.len();
        self.batches.push(offset, row, self.now_us);
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
    pub(super) fn new(topic: DerivedTopic, output: FeedKey, number: u64, now_us: u64) -> Self {
        Self {
            topic,
            output: Some(output),
            state: State::New(QueryStart::default()),
            next: 1,
            read_us: now_us,
            timeout_us: None,
            epoch: None,
            number,
            is_timed: false,
            is_inferred: false,
            skipped: 0,
            failed: LogThrottle::default(),
            unreadable: LogThrottle::default(),
            without_time: LogThrottle::default(),
        }
    }

    /// Writes to the log what rows are missing since `before`, for queries of the configuration: clients see what
    /// they have asked for.
    pub(super) fn log_missing(&mut self, before: Counts, now_us: u64) {
        if self.is_asked() {
            return;
        }
        let now = self.counts();
        let (topic, source) = (&self.topic.output, &self.topic.source);
        let unreadable = now.unreadable.saturating_sub(before.unreadable);
        if let Some(values) = self.unreadable.take(unreadable, now_us) {
            tracing::warn!(%topic, %source, values, "values are NULL in the query, because they are not of their columns' types");
        }
        let without_time = now.without_time.saturating_sub(before.without_time);
        if let Some(events) = self.without_time.take(without_time, now_us) {
            tracing::warn!(%topic, %source, events, "events are in no window, because they have no time: a text as in RFC 3339, or a number in a column that is declared as time_s, time_ms, time_us or time_ns");
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed | State::Waiting(_, true))
    }

    /// Clients have asked for it.
    fn is_asked(&self) -> bool {
        self.topic.output.as_str().starts_with(ASKED_TOPICS)
    }

    /// What has happened to its events.
    pub(super) fn counts(&self) -> Counts {
        let counts = match &self.state {
            State::Running(running) => running.counts(),
            State::New(_) | State::Waiting(..) | State::Failed => Counts::default(),
        };
        let (events, refused) = (counts.events + self.skipped, counts.refused + self.skipped);
        Counts { events, refused, ..counts }
    }

    /// The topic of its rows, if that has not ended.
    pub(super) fn output(&self, topics: &Topics) -> Option<FeedKey> {
        let output = self.output?;
        let local = topics.feeds.get(output)?;
        (local.topic == self.topic.output && local.end.is_none()).then_some(output)
    }

    /// Its source is another one now.
    pub(super) fn begin_anew(&mut self) {
        (self.state, self.next) = (State::New(QueryStart::default()), 1);
        if self.is_inferred {
            self.topic.plan = None;
        }
    }

    /// When its windows are closed if nothing comes, in µs.
    pub(super) fn due_us(&self) -> Option<u64> {
        match &self.state {
            State::Running(running) if running.open_windows() > 0 => {
                Some(self.read_us.saturating_add(self.timeout_us?))
            }
            _ => None,
        }
    }

    /// Nothing has come for long: closes its windows. Of a shared query all nodes do so where its source's stream says that.
    pub(super) fn close_all(&mut self, topics: &mut Topics, output: FeedKey, now_us: u64) {
        if self.topic.is_shared {
            let ms = self.timeout_us.unwrap_or_default() / 1000;
            self.read_us = now_us;
            let topic = self.topic.source.clone();
            return topics.tell_pause(Paused { topic, next: self.next, ms });
        }
        if let State::Running(running) = &mut self.state
            && let Some(batches) = topics.derived(output)
        {
            running.close_all(&mut Rows::of(batches, now_us));
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
                    self.epoch = Some(derived::epoch_of(&self.topic, feed.epoch()));
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
        if let Some(away) = unread.away.filter(|away| self.next == *away) {
            topics.recalls.want(input, away, None);
            return Some(false);
        }
        Some(self.next < unread.head && !unread.batches.is_empty())
    }

    /// Makes rows of events. Returns from where on the topic has all rows, if that is known now.
    fn take(
        &mut self,
        rows: &mut DerivedBatches,
        unread: &Unread,
        now_us: u64,
        until_us: u64,
    ) -> Option<Offset> {
        let is_asked = self.is_asked();
        let State::Running(running) = &mut self.state else { return None };
        let has_columns = is_asked && running.plan().schema().are_inferred();
        let mut rows = Rows { has_columns, ..Rows::of(rows, now_us) };
        if !rows.batches.has_columns() {
            rows.widened(running.plan());
        }
        let mut pauses = unread.pauses.iter().copied().peekable();
        let (now_ms, mut taken) = (wall_ms(), 0);
        'all: for batch in &unread.batches {
            if batch.start() > self.next {
                running.lose();
            }
            let events = (batch.first().max(self.next)..).zip(batch.events_from(self.next));
            for (offset, event) in events {
                while let Some((at, ms)) = pauses.next_if(|(at, _)| *at < offset) {
                    running.pause(at, ms, &mut rows);
                }
                running.take(offset, event, now_ms, &mut rows);
                self.next = offset + 1;
                taken += 1;
                let is_time = || taken % EVENTS_PER_LOOK == 1 && clock::now_us() >= until_us;
                if rows.bytes >= BYTES_PER_TURN || is_time() {
                    break 'all;
                }
            }
            self.next = self.next.max(batch.end());
        }
        if unread.is_behind_loss(self.next) {
            // Nothing is left of what came before the head.
            running.lose();
            self.next = unread.head;
        }
        if self.next >= unread.head {
            for (at, ms) in pauses {
                running.pause(at, ms, &mut rows);
                self.next = at + 1;
            }
            running.settle();
        }
        if !unread.batches.is_empty() {
            self.read_us = now_us;
        }
        rows.begins
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
        let running = Running::new(plan, Bounds::default(), beginning);
        self.next = block_from(from);
        let first = running.first_place(self.next);
        if first > limits::OFFSET_MAX {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            tracing::error!(%topic, %source, "the query ends: its source has come to offsets whose rows have none");
            self.state = State::Failed;
            return;
        }
        if running.is_numbered() {
            topics.begin_derived(output, epoch, first);
            if let Some(batches) = topics.derived(output) {
                batches.begin(first);
            }
        }
        self.state = State::Running(Box::new(running));
    }

    /// Begins with the first events that are there, or waits for events that say what its columns are.
    fn begin(&mut self, first: &Batch) {
        self.next = first.start();
        match self.topic.plan.clone() {
            Some(plan) => self.run(plan),
            None => {
                self.is_inferred = true;
                let waiting = Waiting::new(self.topic.query.clone());
                self.state = State::Waiting(Box::new(waiting), false);
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
        let running = Running::new(plan, Bounds::default(), Beginning::Anywhere);
        self.state = State::Running(Box::new(running));
    }

    /// Looks for an event over which the query can run, and begins with it.
    fn wait(&mut self, unread: &Unread, now_us: u64, until_us: u64) {
        let State::Waiting(waiting, has_failed) = &mut self.state else { return };
        let mut taken = 0;
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
                taken += 1;
                if taken % EVENTS_PER_LOOK == 0 && clock::now_us() >= until_us {
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
        while at < head && bytes < BYTES_PER_TURN {
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

/// The time of the day, in ms since 1970: what `now()` is.
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
