//! A running query: one more reader of its source's events, which makes the rows of its topic.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Counts, Plan, Running, Sink, limits};
use thalweg_wire::{Epoch, Offset};

use super::{
    pauses::Paused,
    query_start::{QueryStart, Step, block_from},
    topics::Topics,
};
use crate::{
    clock,
    config::PAUSE_MS_MIN,
    derived::{self, DerivedTopic},
    fanout::FeedKey,
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
    /// No other one of its shard has this number.
    pub(super) number: u64,
    /// There is a timer for it.
    pub(super) is_timed: bool,
    /// Its columns are those of its source's events.
    is_inferred: bool,
}

enum State {
    /// It is not known where it begins, and maybe its columns are not known.
    New(QueryStart),
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
    /// The topic has all rows from here on.
    begins: Option<Offset>,
}

impl<'a> Rows<'a> {
    fn of(batches: &'a mut DerivedBatches, now_us: u64) -> Self {
        Self { batches, now_us, bytes: 0, begins: None }
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
            number,
            is_timed: false,
            is_inferred: false,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }

    /// What has happened to its events.
    pub(super) fn counts(&self) -> Counts {
        match &self.state {
            State::Running(running) => running.counts(),
            State::New(_) | State::Failed => Counts::default(),
        }
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
            State::Running(running) if running.has_open_windows() => {
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
        let epoch = self.topic.is_shared.then(|| derived::epoch_of(&self.topic, feed.epoch()));
        if let (State::New(start), Some(epoch)) = (&mut self.state, epoch) {
            let (plan, is_fed) = (self.topic.plan.clone()?, topics.is_fed(&self.topic.source));
            match start.step(feed, is_fed, local.pauses.complete_from(), &plan) {
                Step::Read(from) => {
                    topics.recalls.want(input, from, None);
                    return Some(false);
                }
                Step::Begin(from, beginning) => {
                    if is_fed && topics.common.config.tells_time {
                        self.timeout_us = Some(waits_us(&plan).max(PAUSE_MS_MIN * 1000));
                    }
                    self.begin_at(topics, output, from, (epoch, beginning));
                }
            }
        }
        let local = topics.feeds.get(input)?;
        let feed = local.feed.as_ref()?;
        let (batches, away) = batches_from(feed, self.next);
        let head = feed.head();
        if let (Some(epoch), State::Running(_)) = (epoch, &self.state) {
            let here = batches.first().map_or(head, |batch| batch.start());
            let is_lost = away.is_none() && here > self.next;
            let complete_from = local.pauses.complete_from();
            if is_lost || self.next < complete_from {
                // Whoever has read what is lost here counts rows in another way: it begins anew, behind that.
                self.begin_at(topics, output, here.max(complete_from), (epoch, Beginning::Block));
                return Some(true);
            }
        }
        let mut pauses = local.pauses.since(self.next).collect::<Vec<_>>().into_iter().peekable();
        if let (State::New(_), Some(first)) = (&self.state, batches.first()) {
            self.begin(first, &batches);
        }
        let State::Running(running) = &mut self.state else { return Some(false) };
        let mut rows = Rows::of(topics.derived(output)?, now_us);
        let now_ms = wall_ms();
        let mut is_over = false;
        for batch in &batches {
            if batch.start() > self.next {
                running.lose();
            }
            let events = (batch.first().max(self.next)..).zip(batch.events_from(self.next));
            for (nth, (offset, event)) in events.enumerate() {
                while let Some((at, ms)) = pauses.next_if(|(at, _)| *at < offset) {
                    running.pause(at, ms, &mut rows);
                }
                running.take(offset, event, now_ms, &mut rows);
                self.next = offset + 1;
                is_over = rows.bytes >= BYTES_PER_TURN
                    || (nth % EVENTS_PER_LOOK == 0 && clock::now_us() >= until_us);
                if is_over {
                    break;
                }
            }
            if is_over {
                break;
            }
            self.next = self.next.max(batch.end());
        }
        if self.next >= head {
            for (at, ms) in pauses {
                running.pause(at, ms, &mut rows);
                self.next = at + 1;
            }
        }
        if !batches.is_empty() {
            self.read_us = now_us;
        } else if away.is_none() && self.next < head {
            // Nothing is left of what came before the head.
            running.lose();
            self.next = head;
        }
        if self.next >= head {
            running.settle();
        }
        let begins = rows.begins;
        if let Some(epoch) = epoch {
            self.follow_start(topics, output, (epoch, begins), head);
        }
        match away.filter(|away| self.next == *away) {
            Some(away) => {
                topics.recalls.want(input, away, None);
                Some(false)
            }
            None => Some(self.next < head && !batches.is_empty()),
        }
    }

    /// Begins the topic of a shared query's rows as soon as it is known from where on it has all of them. Where
    /// no events are left that could tell, it begins behind them.
    fn follow_start(
        &self,
        topics: &mut Topics,
        output: FeedKey,
        (epoch, begins): (Epoch, Option<Offset>),
        head: Offset,
    ) {
        let State::Running(running) = &self.state else { return };
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
        (epoch, beginning): (Epoch, Beginning),
    ) {
        let Some(plan) = self.topic.plan.clone() else { return };
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
                self.next = first.start();
                self.timeout_us = Some(waits_us(&plan));
                self.topic.plan = Some(Arc::clone(&plan));
                // Its publishers may have begun before this server was started.
                let running = Running::new(plan, Bounds::default(), Beginning::Anywhere);
                State::Running(Box::new(running))
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

/// The batches from an offset on that are read in a turn, and from where on they are not here, but can be read back.
fn batches_from(feed: &Feed, from: Offset) -> (Vec<Arc<Batch>>, Option<Offset>) {
    let (mut batches, mut bytes, mut at) = (Vec::new(), 0, from);
    while at < feed.head() && bytes < BYTES_PER_TURN {
        let batch = match feed.batch_at(at) {
            Some(batch) => batch,
            None if feed.is_away(at) => return (batches, Some(at)),
            // What is between them is lost.
            None => match feed.batches_from(at).next() {
                Some(batch) => batch,
                None => break,
            },
        };
        bytes += batch.event_bytes(at.max(batch.first()));
        at = batch.end();
        batches.push(Arc::clone(batch));
    }
    (batches, None)
}

/// How long a query's windows wait for more events, in µs.
fn waits_us(plan: &Plan) -> u64 {
    plan.timeout_ms().unwrap_or(plan.default_timeout_ms()).saturating_mul(1000)
}

/// The time of the day, in ms since 1970: what `now()` is.
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
