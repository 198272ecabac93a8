//! Running queries: each is one more reader of its source's events, and its rows are the events of its topic. The
//! home of that topic is this shard.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use slab::Slab;
use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Plan, Running, Sink};
use thalweg_wire::{EndCode, Offset};

use super::{Common, demand::DemandChange, local_topic::Ending, timers::Timers, topics::Topics};
use crate::{
    clock,
    config::ASKED_TOPICS,
    derived::DerivedTopic,
    fanout::FeedKey,
    metrics::Counts,
    stream::{Batch, DerivedBatches},
};

/// Bytes of events that a query reads in a turn, and of rows that it makes: what is left waits for the next one.
const BYTES_PER_TURN: usize = 1 << 19;

/// How long all queries of a shard may take in a turn, in µs, before others get theirs. One event is read as a whole.
const TURN_US: u64 = 2_000;

/// After so many events the clock is looked at.
const EVENTS_PER_LOOK: usize = 32;

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
    /// When windows are closed because nothing has come.
    pub(super) timers: Timers<usize>,
    counts: Arc<Counts>,
}

struct RunningQuery {
    topic: DerivedTopic,
    /// The topic of its rows; `None` once there is none, and it has ended.
    output: Option<FeedKey>,
    state: State,
    /// The next event that it reads.
    next: Offset,
    /// When the last event came, in µs.
    read_us: u64,
    /// How long after that all windows are closed, in µs.
    timeout_us: u64,
    /// There is a timer for it.
    is_timed: bool,
    /// Its columns are those of its source's events.
    is_inferred: bool,
}

enum State {
    /// It has seen no events, and maybe its columns are not known.
    New,
    Running(Box<Running>),
    /// It cannot run over the events that there are.
    Failed,
}

/// Rows on their way into a topic.
struct Rows<'a> {
    batches: &'a mut DerivedBatches,
    now_us: u64,
    /// Of those in this turn.
    bytes: usize,
}

impl Sink for Rows<'_> {
    fn row(&mut self, offset: Offset, row: &[u8]) {
        self.bytes += row.len();
        self.batches.push(offset, row, self.now_us);
    }

    fn lost(&mut self, offset: Offset) {
        self.batches.lose(offset, self.now_us);
    }
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
        let index = self.running.insert(RunningQuery {
            topic,
            output: Some(output),
            state: State::New,
            next: 1,
            read_us: now_us,
            timeout_us: 0,
            is_timed: false,
            is_inferred: false,
        });
        self.by_output.insert(output, index);
        self.by_input.entry(input).or_default().push(index);
        self.counts.queries.add(1);
        self.has_input(input);
    }

    /// Ends the query whose rows are a topic.
    fn end(&mut self, topics: &mut Topics, output: FeedKey) {
        let Some(index) = self.by_output.remove(&output) else { return };
        let failed = matches!(self.running.remove(index).state, State::Failed);
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
                let output = query.output.filter(|key| query.is_output(topics, *key));
                let Some(opened) = opened else {
                    // Who has asked for it may ask again.
                    if let Some(output) = output {
                        self.end(topics, output);
                        topics.end(output, Ending::Told(EndCode::Gone), now_us);
                    }
                    continue;
                };
                self.counts.queries_failed.sub(u64::from(matches!(query.state, State::Failed)));
                query.begin_anew();
                if let Some(output) = output {
                    topics.end(output, Ending::Restarted, now_us);
                }
                self.by_input.entry(*opened).or_default().push(index);
                self.has_input(*opened);
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
        let output = query.output.filter(|key| query.is_output(topics, *key))?;
        let local = topics.feeds.get(key).filter(|local| local.topic == query.topic.source)?;
        let feed = local.feed.as_ref()?;
        let (mut batches, mut bytes): (Vec<Arc<Batch>>, usize) = (Vec::new(), 0);
        for batch in feed.batches_from(query.next) {
            bytes += batch.event_bytes(query.next.max(batch.first()));
            batches.push(Arc::clone(batch));
            if bytes >= BYTES_PER_TURN {
                break;
            }
        }
        let (first, head) = (batches.first()?, feed.head());
        if let State::New = query.state {
            query.begin(first, &batches);
            self.counts.queries_failed.add(u64::from(matches!(query.state, State::Failed)));
        }
        let State::Running(running) = &mut query.state else { return Some(false) };
        let before = running.counts();
        let mut rows = Rows { batches: topics.derived(output)?, now_us, bytes: 0 };
        let now_ms = wall_ms();
        let mut is_over = false;
        for batch in &batches {
            if batch.start() > query.next {
                running.lose();
            }
            let events = (batch.first().max(query.next)..).zip(batch.events_from(query.next));
            for (nth, (offset, event)) in events.enumerate() {
                running.take(offset, event, now_ms, &mut rows);
                query.next = offset + 1;
                is_over = rows.bytes >= BYTES_PER_TURN
                    || (nth % EVENTS_PER_LOOK == 0 && clock::now_us() >= until_us);
                if is_over {
                    break;
                }
            }
            if is_over {
                break;
            }
            query.next = batch.end();
        }
        query.read_us = now_us;
        if running.has_open_windows() && !std::mem::replace(&mut query.is_timed, true) {
            self.timers.set(now_us.saturating_add(query.timeout_us), index);
        }
        let has_more = query.next < head;
        self.count(before, index);
        self.append(topics, output);
        Some(has_more)
    }

    /// Closes the windows of queries whose sources have paused.
    pub(super) fn tick(&mut self, topics: &mut Topics, now_us: u64) {
        while let Some(index) = self.timers.take_due(now_us) {
            // It may have ended.
            let Some(query) = self.running.get_mut(index) else { continue };
            query.is_timed = false;
            let output = query.output.filter(|key| query.is_output(topics, *key));
            let (State::Running(running), Some(output)) = (&mut query.state, output) else {
                continue;
            };
            if !running.has_open_windows() {
                continue;
            }
            let due_us = query.read_us.saturating_add(query.timeout_us);
            if due_us > now_us {
                query.is_timed = true;
                self.timers.set(due_us, index);
                continue;
            }
            let before = running.counts();
            let Some(batches) = topics.derived(output) else { continue };
            running.close_all(&mut Rows { batches, now_us, bytes: 0 });
            self.count(before, index);
            self.append(topics, output);
        }
    }

    /// Has the rows sealed in this turn.
    fn append(&self, topics: &mut Topics, output: FeedKey) {
        if topics.derived(output).is_some_and(|batches| !batches.is_empty()) {
            topics.mark_due(output);
        }
    }

    fn count(&self, before: thalweg_query::Counts, index: usize) {
        let State::Running(running) = &self.running[index].state else { return };
        let now = running.counts();
        let counts = &self.counts;
        counts.query_events.add(now.events - before.events);
        counts.query_rows.add(now.rows - before.rows);
        counts.query_late.add(now.late - before.late);
        counts.query_ahead.add(now.ahead - before.ahead);
        counts.query_refused.add(now.refused - before.refused);
        counts.query_unreadable.add(now.unreadable - before.unreadable);
        counts.query_without_time.add(now.without_time - before.without_time);
        counts.query_windows_lost.add(now.windows_lost - before.windows_lost);
        counts.events_published.add(now.rows - before.rows);
    }
}

impl RunningQuery {
    /// Whether the topic with this key is the one of its rows still.
    fn is_output(&self, topics: &Topics, key: FeedKey) -> bool {
        topics
            .feeds
            .get(key)
            .is_some_and(|local| local.topic == self.topic.output && local.end.is_none())
    }

    /// Its source is another one now.
    fn begin_anew(&mut self) {
        (self.state, self.next) = (State::New, 1);
        if self.is_inferred {
            self.topic.plan = None;
        }
    }

    /// Plans it, if its columns were not known, and begins with the first events that are there.
    fn begin(&mut self, first: &Batch, batches: &[Arc<Batch>]) {
        let plan = match &self.topic.plan {
            Some(plan) => Ok(Arc::clone(plan)),
            None => {
                self.is_inferred = true;
                self.infer(batches).map(Arc::new)
            }
        };
        self.state = match plan {
            Ok(plan) => {
                let is_first = first.start() <= 1;
                let beginning = if is_first { Beginning::First } else { Beginning::Anywhere };
                self.next = first.start();
                self.timeout_us =
                    plan.timeout_ms().unwrap_or(plan.default_timeout_ms()).saturating_mul(1000);
                self.topic.plan = Some(Arc::clone(&plan));
                State::Running(Box::new(Running::new(plan, Bounds::default(), beginning)))
            }
            Err(error) => {
                let (topic, source) = (&self.topic.output, &self.topic.source);
                tracing::error!(%topic, %source, "the query does not run over these events: {error}");
                State::Failed
            }
        };
    }

    fn infer(&self, batches: &[Arc<Batch>]) -> Result<Plan, String> {
        let events: Vec<Vec<u8>> = batches
            .iter()
            .map(|batch| batch.events_from(batch.first()).collect::<Vec<_>>().join(&b','))
            .collect();
        let columns = Columns::infer_from(events.iter().map(Vec::as_slice));
        let columns = columns.ok_or("there are no events")?;
        self.topic.query.plan(&Arc::new(columns)).map_err(|error| error.to_string())
    }
}

/// The time of the day, in ms since 1970: what `now()` is.
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
