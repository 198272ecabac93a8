//! What arrives: checked against what had to come and entered in the ledger, or, where
//! nobody knows what had to come, recorded.

mod due;

use super::carrier::Kind;
use super::event::number;
use super::generated::Rows;
use super::published::{Arrival, Topic};
use super::recorder::Recorder;
use super::socket::now_real_ns;
use super::span_statistics::SpanStatistics;
use super::timetable::Timetable;
use crate::measure::{Answer, Counts, Ledger, Received};
use crate::scenario::{Drive, JsonPath, Settings};
use crate::subject::topic_name;
use anyhow::anyhow;

/// How late a subscription's rows may be, next to the others', before they count
/// as missing.
const ROWS_LATE_US_MAX: u64 = 1_000_000;

/// What arrives, checked and counted.
#[derive(Debug)]
pub(super) struct Receiver {
    topic_names: Vec<String>,
    expected: Expected,
    /// Topics whose window has moved since something was published to them.
    moved: Vec<usize>,
    pub(super) ledger: Ledger,
    /// What came in since the span began.
    pub(super) statistics: SpanStatistics,
    /// When something last arrived.
    pub(super) received_us: u64,
    /// How many rows a subscription may be behind the furthest at the end: a
    /// second's.
    rows_slack: u64,
    /// Gaps that were announced to those that read at a trickle.
    pub(super) slow_gaps: u64,
    /// The first connection that opened, and the head of its response.
    pub(super) first_head: Option<(usize, Vec<u8>)>,
}

/// What the events are compared with.
#[derive(Debug)]
enum Expected {
    Published(Vec<Topic>),
    Rows(Rows),
    /// Of an external endpoint.
    Anything(Box<Recorder>),
    Nothing,
}

impl Receiver {
    /// A subject that generates its load begins at `start_us`.
    pub(super) fn new(settings: &Settings, drive: Drive, start_us: u64) -> Receiver {
        let Settings { topics, window, event_bytes, interval_us, .. } = *settings;
        let (expected, first) = match drive {
            Drive::PublishedLoad | Drive::Ceiling => {
                let topic = || Topic::new(window, settings.readers(), event_bytes);
                (Expected::Published((0..topics).map(|_| topic()).collect()), Some(1))
            }
            Drive::Ramp | Drive::Churn | Drive::Stampede if interval_us == 0 => {
                (Expected::Nothing, None)
            }
            Drive::GeneratedLoad | Drive::Ramp | Drive::Churn | Drive::Stampede => {
                let timetable = Timetable::new(settings, start_us);
                (Expected::Rows(Rows::new(timetable)), None)
            }
            _ => (Expected::Nothing, None),
        };
        Receiver::of(expected, first, settings)
    }

    /// Of an external endpoint, whose events have a timestamp at this path.
    pub(super) fn recording(timestamp: Option<JsonPath>, settings: &Settings) -> Receiver {
        let recorder = Recorder::new(timestamp, settings.connections);
        Receiver::of(Expected::Anything(Box::new(recorder)), None, settings)
    }

    fn of(expected: Expected, first: Option<u64>, settings: &Settings) -> Receiver {
        let Settings { connections, topics, .. } = *settings;
        Receiver {
            topic_names: (0..topics).map(topic_name).collect(),
            expected,
            moved: (0..topics as usize).rev().collect(),
            ledger: Ledger::new(connections as usize * topics as usize, first),
            statistics: SpanStatistics::default(),
            received_us: 0,
            slow_gaps: 0,
            rows_slack: u64::from(settings.batch)
                * (ROWS_LATE_US_MAX / settings.interval_us.max(1)).max(1),
            first_head: None,
        }
    }

    /// How many topics each connection subscribes to.
    pub(super) fn topic_count(&self) -> u32 {
        self.topic_names.len() as u32
    }

    /// The transport of a connection stands, with this head of a response, which says so.
    pub(super) fn opened(&mut self, connection: usize, head: &[u8], answer: Answer) {
        self.keep_first_head(connection, head);
        if let Some(recorder) = self.recorder() {
            recorder.opened(answer);
        }
    }

    /// Keeps the head of a response, if it is the first.
    pub(super) fn keep_first_head(&mut self, connection: usize, head: &[u8]) {
        self.first_head.get_or_insert_with(|| (connection, head.to_vec()));
    }

    /// Something was read from a connection now.
    #[inline]
    pub(super) fn begin_read(&mut self, now_us: u64) {
        self.received_us = now_us;
        if let Expected::Anything(recorder) = &mut self.expected {
            recorder.begin_read(now_us, now_real_ns);
        }
    }

    /// Everything in it has been received.
    #[inline]
    pub(super) fn end_read(&mut self, connection: usize) {
        if let Expected::Anything(recorder) = &mut self.expected {
            recorder.end_read(connection, &mut self.statistics);
        }
    }

    /// A connection has left, and another takes its place.
    pub(super) fn restart(&mut self, connection: usize) {
        let topics = self.topic_names.len();
        for topic in 0..topics {
            self.ledger.restart(connection * topics + topic);
        }
    }

    /// What an external endpoint has sent and done, if that is what is measured.
    #[inline]
    pub(super) fn recorder(&mut self) -> Option<&mut Recorder> {
        match &mut self.expected {
            Expected::Anything(recorder) => Some(recorder),
            _ => None,
        }
    }

    /// The span begins: what came before does not count, and no latency of what was
    /// due before `due_us`.
    pub(super) fn begin_span(&mut self, due_us: u64) {
        self.statistics.begin(due_us);
        self.topics().iter_mut().for_each(Topic::begin_span);
    }

    /// The span of an external endpoint begins.
    pub(super) fn begin_recording(&mut self, now_us: u64) {
        self.statistics.reset();
        if let Some(recorder) = self.recorder() {
            recorder.begin_span(now_us);
        }
    }

    /// The span of an external endpoint is over: what was received in it. The error is that no
    /// event has a time where it should be.
    pub(super) fn end_recording(&mut self, begun_us: u64, end_us: u64) -> anyhow::Result<Received> {
        let Receiver { expected: Expected::Anything(recorder), statistics, .. } = self else {
            return Ok(Received::default());
        };
        recorder.expect_timestamps()?;
        Ok(recorder.end_span(statistics, begun_us, end_us - begun_us))
    }

    /// The topics that the lab publishes to.
    #[inline]
    pub(super) fn topics(&mut self) -> &mut [Topic] {
        match &mut self.expected {
            Expected::Published(topics) => topics,
            _ => &mut [],
        }
    }

    /// A topic to which something is to be published.
    #[inline]
    pub(super) fn next_moved(&mut self) -> Option<(usize, &mut Topic)> {
        let index = self.moved.pop()?;
        self.topics().get_mut(index).map(|topic| (index, topic))
    }

    /// Nothing more will come: what the first `readers` connections should have
    /// and do not, is missing.
    pub(super) fn close_ledger(&mut self, readers: usize) -> Counts {
        match &self.expected {
            Expected::Published(topics) => {
                for subscription in 0..readers * topics.len() {
                    let last = topics[subscription % topics.len()].published();
                    self.ledger.close(subscription, last);
                }
            }
            Expected::Rows(_) => {
                let subscriptions = readers * self.topic_names.len();
                self.ledger.close_at_furthest(subscriptions, self.rows_slack);
            }
            Expected::Anything(_) | Expected::Nothing => {}
        }
        self.ledger.counts().clone()
    }

    #[inline]
    pub(super) fn topic_index(&self, topic: &[u8]) -> anyhow::Result<usize> {
        // A name ends with its number.
        let digits = topic.rsplit(|byte| *byte == b'/').next().and_then(number);
        let index = digits.and_then(|number| usize::try_from(number).ok());
        let is_asked_for = |index: &usize| {
            self.topic_names.get(*index).is_some_and(|name| name.as_bytes() == topic)
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
        events: &[u8],
    ) {
        let Receiver { expected, moved, ledger, statistics, received_us, topic_names, .. } = self;
        let subscription = connection * topic_names.len() + topic;
        match expected {
            Expected::Published(topics) => {
                let arrival = Arrival { subscription, is_reader, events, now_us: *received_us };
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

    /// A message came that is an event by itself.
    #[inline]
    pub(super) fn event(&mut self, connection: usize, kind: Kind, event: &[u8]) {
        if let Expected::Anything(recorder) = &mut self.expected {
            recorder.event(connection, kind, event, &mut self.statistics);
        }
    }

    /// The subject announced that a subscription will not get some events.
    #[cold]
    pub(super) fn gap(
        &mut self,
        connection: usize,
        topic: usize,
        is_reader: bool,
        missed: Option<u64>,
    ) {
        let Receiver { expected, moved, ledger, slow_gaps, received_us, topic_names, .. } = self;
        let subscription = connection * topic_names.len() + topic;
        match expected {
            // Who reads too slowly is told so.
            _ if !is_reader => {
                *slow_gaps += 1;
                ledger.excuse(subscription, missed);
            }
            Expected::Published(topics) => {
                let arrival =
                    Arrival { subscription, is_reader, events: b"", now_us: *received_us };
                topics[topic].gap(arrival, missed, ledger);
                if topics[topic].has_moved() {
                    moved.push(topic);
                }
            }
            _ => ledger.gap(subscription, missed),
        }
    }
}
