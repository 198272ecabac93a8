//! Checks arrivals against expected events and enters them in the ledger; if the expected events are unknown, only records arrivals.

mod due;

use super::carrier::Kind;
use super::dialect::Version;
use super::event::number;
use super::generated::Rows;
use super::published::{Arrival, Topic};
use super::recorder::{EventValues, Recorder};
use super::socket::now_real_ns;
use super::span_statistics::SpanStatistics;
use super::timetable::Timetable;
use crate::measure::{Answer, Counts, Delays, Latency, Ledger, Received};
use crate::scenario::{Drive, Settings};
use crate::subject::topic_name;
use anyhow::anyhow;

/// How far a subscription's rows may be behind those of others before they count as missing, µs.
const ROWS_LATE_US_MAX: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Receiver {
    topic_names: Vec<String>,
    /// Number of topics per connection.
    each: usize,
    expected: Expected,
    /// Topics whose window has moved since something was published to them.
    moved: Vec<usize>,
    pub(super) ledger: Ledger,
    /// Arrivals since the span began.
    pub(super) statistics: SpanStatistics,
    /// The same for topics whose connections stay up in a stampede of others.
    pub(super) undisturbed: SpanStatistics,
    /// Topics with a lower number are disturbed.
    disturbed_max: usize,
    pub(super) received_us: u64,
    /// Number of rows that a subscription may be behind the furthest one at the end: those of a second.
    rows_slack: u64,
    /// Gaps that were announced to slow readers.
    pub(super) slow_gaps: u64,
    /// The first connection that opened, and the head of its response.
    pub(super) first_head: Option<(usize, Vec<u8>)>,
}

#[derive(Debug)]
enum Expected {
    Published(Vec<Topic>),
    Rows(Rows),
    /// From an external endpoint.
    Anything(Box<Recorder>),
    Nothing,
}

impl Receiver {
    /// Returns a receiver. A subject that generates its load begins at `start_us`; if the dialect `escapes`,
    /// events arrive as JSON strings.
    pub(super) fn new(settings: &Settings, drive: Drive, start_us: u64, escapes: bool) -> Receiver {
        let is_published =
            drive.is_published_load() || drive.is_connecting() && settings.events_per_s().is_some();
        let (expected, first) = match drive {
            _ if is_published => {
                // Later connections join once established, and begin with any event.
                let readers = drive.is_published_load().then(|| settings.readers());
                let topic = |number| {
                    let readers = readers.map(|reader| settings.subscribers_of(number, reader));
                    let topic = Topic::new(number, readers, settings);
                    if escapes { topic.escaped() } else { topic }
                };
                let topics = (0..settings.topics_in_all()).map(topic).collect();
                (Expected::Published(topics), drive.is_published_load().then_some(1))
            }
            Drive::Ramp | Drive::Churn | Drive::Stampede if settings.interval_us == 0 => {
                (Expected::Nothing, None)
            }
            Drive::GeneratedLoad | Drive::Ramp | Drive::Churn | Drive::Stampede => {
                let timetable = Timetable::new(settings, start_us);
                (Expected::Rows(Rows::new(timetable)), None)
            }
            _ => (Expected::Nothing, None),
        };
        Receiver::with_expected(expected, first, settings)
    }

    /// Returns a receiver for an external endpoint, whose events have these values.
    pub(super) fn recording(values: EventValues, settings: &Settings) -> Receiver {
        let recorder = Recorder::new(values, settings.connections);
        Receiver::with_expected(Expected::Anything(Box::new(recorder)), None, settings)
    }

    fn with_expected(expected: Expected, first: Option<u64>, settings: &Settings) -> Receiver {
        let Settings { connections, topics, .. } = *settings;
        let topics_in_all = settings.topics_in_all();
        Receiver {
            topic_names: (0..topics_in_all).map(topic_name).collect(),
            each: topics as usize,
            expected,
            moved: (0..topics_in_all as usize).rev().collect(),
            ledger: Ledger::new(connections as usize * topics as usize, first),
            statistics: SpanStatistics::default(),
            undisturbed: SpanStatistics::default(),
            disturbed_max: match settings.lost_keys {
                0 => usize::MAX,
                lost => lost as usize,
            },
            received_us: 0,
            slow_gaps: 0,
            rows_slack: u64::from(settings.batch)
                * (ROWS_LATE_US_MAX / settings.interval_us.max(1)).max(1),
            first_head: None,
        }
    }

    pub(super) fn topic_count(&self) -> u32 {
        self.each as u32
    }

    #[inline]
    pub(super) fn place(&self, topic: usize) -> usize {
        if self.is_keyed() { 0 } else { topic }
    }

    #[inline]
    fn is_keyed(&self) -> bool {
        self.topic_names.len() > self.each
    }

    /// Returns the subscriptions of this many connections. Number n is to topic n modulo the number of topics, even with keys.
    fn subscriptions(&self, connections: usize) -> std::ops::Range<usize> {
        0..connections * self.each
    }

    fn subscriptions_of(&self, connection: usize) -> std::ops::Range<usize> {
        connection * self.each..(connection + 1) * self.each
    }

    /// Records that the transport of a connection is open, with this head of a response.
    pub(super) fn opened(&mut self, connection: usize, head: &[u8], answer: Answer) {
        self.keep_first_head(connection, head);
        if let Some(recorder) = self.recorder() {
            recorder.opened(answer);
        }
    }

    pub(super) fn keep_first_head(&mut self, connection: usize, head: &[u8]) {
        self.first_head.get_or_insert_with(|| (connection, head.to_vec()));
    }

    #[inline]
    pub(super) fn begin_read(&mut self, now_us: u64) {
        self.received_us = now_us;
        if let Expected::Anything(recorder) = &mut self.expected {
            recorder.begin_read(now_us, now_real_ns);
        }
    }

    #[inline]
    pub(super) fn end_read(&mut self, connection: usize) {
        if let Expected::Anything(recorder) = &mut self.expected {
            recorder.end_read(connection, &mut self.statistics);
        }
    }

    /// Restarts the subscriptions of a connection that another one replaces.
    pub(super) fn restart(&mut self, connection: usize) {
        for subscription in self.subscriptions_of(connection) {
            self.ledger.restart(subscription);
        }
    }

    /// Adds a newly established connection, which gets everything published from now on.
    pub(super) fn join(&mut self, connection: usize) {
        for subscription in self.subscriptions_of(connection) {
            let topics = self.topics();
            let topic = subscription % topics.len().max(1);
            topics.get_mut(topic).into_iter().for_each(|found| found.join(subscription));
        }
    }

    pub(super) fn leave(&mut self, connection: usize, now_us: u64) {
        for subscription in self.subscriptions_of(connection) {
            let next = self.ledger.next(subscription);
            let topics = self.topics();
            let topic = subscription % topics.len().max(1);
            topics
                .get_mut(topic)
                .into_iter()
                .for_each(|found| found.leave(subscription, next, now_us));
        }
    }

    /// Returns whether every subscription of a connection has received something, except on topics without events.
    pub(super) fn has_all(&self, connection: usize) -> bool {
        let is_empty = |subscription: usize| match &self.expected {
            Expected::Published(topics) => topics[subscription % topics.len()].published() == 0,
            _ => true,
        };
        self.subscriptions_of(connection)
            .all(|subscription| self.ledger.next(subscription).is_some() || is_empty(subscription))
    }

    /// Returns the due time of the first event that a reader lacks.
    pub(super) fn waits_since_us(&mut self) -> Option<u64> {
        self.topics().iter().filter_map(Topic::waits_since_us).min()
    }

    /// Returns the recorder of an external endpoint, if one is measured.
    #[inline]
    pub(super) fn recorder(&mut self) -> Option<&mut Recorder> {
        match &mut self.expected {
            Expected::Anything(recorder) => Some(recorder),
            _ => None,
        }
    }

    /// Returns how late events of the span were so far; of messages that are answered, the answers.
    pub(super) fn latency(&self) -> &Latency {
        match &self.expected {
            Expected::Anything(recorder) => match &recorder.exchange {
                Some(exchange) => exchange.latency(),
                None => &self.statistics.latency,
            },
            _ => &self.statistics.latency,
        }
    }

    /// Begins the span: earlier arrivals do not count, nor do latencies of events due before `due_us`.
    pub(super) fn begin_span(&mut self, due_us: u64) {
        self.statistics.begin(due_us);
        self.topics().iter_mut().for_each(Topic::begin_span);
    }

    pub(super) fn begin_recording(&mut self, now_us: u64) {
        self.statistics.reset();
        if let Some(recorder) = self.recorder() {
            recorder.begin_span(now_us);
        }
    }

    /// Ends the span of an external endpoint. Fails if no message has a value at a configured path.
    pub(super) fn end_recording(&mut self, begun_us: u64, end_us: u64) -> anyhow::Result<Received> {
        let Receiver { expected: Expected::Anything(recorder), statistics, .. } = self else {
            return Ok(Received::default());
        };
        recorder.expect_values()?;
        Ok(recorder.end_span(statistics, begun_us, end_us - begun_us))
    }

    /// Returns how late published events were since the last call; only on undisturbed topics, if a stampede disturbs others.
    pub(super) fn take_delays(&mut self) -> Option<Delays> {
        let statistics = match self.disturbed_max {
            usize::MAX => &mut self.statistics,
            _ => &mut self.undisturbed,
        };
        Delays::new(&std::mem::take(&mut statistics.latency))
    }

    #[inline]
    pub(super) fn topics(&mut self) -> &mut [Topic] {
        match &mut self.expected {
            Expected::Published(topics) => topics,
            _ => &mut [],
        }
    }

    #[inline]
    pub(super) fn next_moved(&mut self) -> Option<(usize, &mut Topic)> {
        let index = self.moved.pop()?;
        self.topics().get_mut(index).map(|topic| (index, topic))
    }

    /// Closes the ledger: events that the first `readers` connections should have and lack are missing.
    pub(super) fn close_ledger(&mut self, readers: usize) -> Counts {
        match &self.expected {
            Expected::Published(topics) => {
                for subscription in self.subscriptions(readers) {
                    let last = topics[subscription % topics.len()].published();
                    self.ledger.close(subscription, last);
                }
            }
            Expected::Rows(_) => {
                let subscriptions = self.subscriptions(readers);
                self.ledger.close_at_furthest(subscriptions.end, self.rows_slack);
            }
            Expected::Anything(_) | Expected::Nothing => {}
        }
        self.ledger.counts().clone()
    }

    #[inline]
    pub(super) fn topic_index(&self, connection: usize, topic: &[u8]) -> anyhow::Result<usize> {
        // A name ends with its number.
        let digits = topic.rsplit(|byte| *byte == b'/').next().and_then(number);
        let index = digits.and_then(|number| usize::try_from(number).ok());
        let is_asked_for = |index: &usize| {
            let is_own = !self.is_keyed() || connection % self.topic_names.len() == *index;
            is_own && self.topic_names.get(*index).is_some_and(|name| name.as_bytes() == topic)
        };
        index
            .filter(is_asked_for)
            .ok_or_else(|| anyhow!("topic {} was not asked for", String::from_utf8_lossy(topic)))
    }

    #[inline]
    pub(super) fn receive(
        &mut self,
        connection: usize,
        topic: usize,
        is_reader: bool,
        (first, events): (&[u8], &[u8]),
    ) {
        let subscription = connection * self.each + self.place(topic);
        let Receiver { expected, moved, ledger, statistics, undisturbed, received_us, .. } = self;
        match expected {
            Expected::Published(topics) => {
                let statistics = if topic < self.disturbed_max { statistics } else { undisturbed };
                let now_us = *received_us;
                let arrival = Arrival { subscription, is_reader, first, events, now_us };
                topics[topic].receive(arrival, ledger, statistics);
                if topics[topic].has_moved() {
                    moved.push(topic);
                }
            }
            Expected::Rows(rows) => {
                rows.receive(subscription, events, *received_us, ledger, statistics);
            }
            Expected::Anything(_) | Expected::Nothing => {}
        }
    }

    #[inline]
    pub(super) fn receive_version(
        &mut self,
        connection: usize,
        topic: usize,
        is_reader: bool,
        version: Version<'_>,
    ) {
        let subscription = connection * self.each + self.place(topic);
        let Receiver { expected, moved, ledger, statistics, undisturbed, received_us, .. } = self;
        let Expected::Published(topics) = expected else { return ledger.corrupt() };
        let statistics = if topic < self.disturbed_max { statistics } else { undisturbed };
        let (first, events, now_us) = (&b""[..], &b""[..], *received_us);
        let arrival = Arrival { subscription, is_reader, first, events, now_us };
        topics[topic].receive_version(arrival, version, ledger, statistics);
        if topics[topic].has_moved() {
            moved.push(topic);
        }
    }

    #[inline]
    pub(super) fn event(&mut self, connection: usize, is_reader: bool, kind: Kind, event: &[u8]) {
        if let Expected::Anything(recorder) = &mut self.expected {
            if is_reader {
                recorder.event(connection, kind, event, &mut self.statistics);
            }
            return;
        }
        self.statistics.traffic.envelopes += 1;
        let topic = if self.is_keyed() { connection % self.topic_names.len() } else { 0 };
        self.receive(connection, topic, is_reader, (b"", event));
    }

    /// Handles the announcement that a subscription will not get some events.
    #[cold]
    pub(super) fn gap(
        &mut self,
        connection: usize,
        topic: usize,
        is_reader: bool,
        missed: Option<u64>,
    ) {
        let subscription = connection * self.each + self.place(topic);
        let Receiver { expected, moved, ledger, slow_gaps, received_us, .. } = self;
        match expected {
            // Slow readers get gaps.
            _ if !is_reader => {
                *slow_gaps += 1;
                ledger.excuse(subscription, missed);
            }
            Expected::Published(topics) => {
                let (first, events, now_us) = (&b""[..], &b""[..], *received_us);
                let arrival = Arrival { subscription, is_reader, first, events, now_us };
                topics[topic].gap(arrival, missed, ledger);
                if topics[topic].has_moved() {
                    moved.push(topic);
                }
            }
            _ => ledger.gap(subscription, missed),
        }
    }
}
