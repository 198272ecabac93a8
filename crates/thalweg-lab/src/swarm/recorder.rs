//! Counts what an external endpoint sends and does: over all connections, and for each its events and the time of the last. The expected
//! events are unknown, so there is no ledger, latency only if events have a timestamp, and losses only if they have a number.
//!
//! - `timestamp`: timestamps of events; `sequence`: their numbers

mod sequence;
mod timestamp;

use super::carrier::Kind;
use super::exchange::Exchange;
use super::json_value;
use super::span_statistics::SpanStatistics;
use crate::measure::{Answer, Latency, Received, Responses, Sequenced, Spread, Timestamps};
use crate::scenario::{JsonPath, places};
use anyhow::anyhow;
use sequence::Sequence;
use serde::de::IgnoredAny;

/// Interval at which an event is tested for JSON: parsing all events would be most of the swarm's work.
const JSON_EVERY_US: u64 = 10_000;

/// Records of connections since the first was dialed, other records since the span began.
#[derive(Debug)]
pub(super) struct Recorder {
    values: EventValues,
    /// Time from dialing a connection until it was established.
    set_up: Latency,
    received: Received,
    connections: Vec<ConnectionRecord>,
    /// For each connection, if events have numbers.
    sequences: Vec<Sequence>,
    span: SpanRecord,
    read: ReadRecord,
    /// The exchange of a connection to which messages are sent.
    pub(super) exchange: Option<Box<Exchange>>,
}

/// Values that a recorder reads.
#[derive(Clone, Debug, Default)]
pub(super) struct EventValues {
    /// Place of the time in an event.
    pub(super) timestamp: Option<JsonPath>,
    /// Place of the number in an event.
    pub(super) sequence: Option<JsonPath>,
    /// Place of the event in a message.
    pub(super) event: &'static str,
    /// Whether each event belongs to the response to a request.
    pub(super) has_responses: bool,
}

#[derive(Debug, Default)]
struct SpanRecord {
    /// Intervals between events of a connection, both of them in the span.
    intervals: Latency,
    /// The longest silence before an event: since the previous one of the connection, or since the span began.
    silence_us_max: u64,
    /// The longest silence that ended since the last look.
    silence_us_recent: u64,
    stamps: Timestamps,
    /// The first event without a timestamp.
    unstamped: Vec<u8>,
    sequenced: Sequenced,
    /// The first event without a number.
    unnumbered: Vec<u8>,
    completed: u64,
    first_events: Latency,
    responses: Latency,
    text_events: u64,
    binary_events: u64,
    payload_bytes: u64,
    event_bytes_max: u64,
    json_tried: u64,
    json_found: u64,
    json_tried_us: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ConnectionRecord {
    dialed_us: u64,
    /// Events in the span.
    events: u64,
    /// Time of the last event; before the first, the beginning of the span.
    last_us: u64,
    /// Whether an event has come since the connection was dialed.
    has_event: bool,
    is_standing: bool,
    /// Whether the connection was established and has ended.
    is_over: bool,
}

/// One read.
#[derive(Clone, Copy, Debug, Default)]
struct ReadRecord {
    /// On the monotonic clock.
    now_us: u64,
    /// The same time since 1970, if events have timestamps.
    real_ns: u64,
    events: u64,
}

impl Recorder {
    /// Returns a recorder for this many connections, whose events have these values.
    pub(super) fn new(values: EventValues, connections: u32) -> Recorder {
        Recorder {
            values,
            set_up: Latency::default(),
            received: Received { connections, ..Received::default() },
            connections: Vec::new(),
            sequences: Vec::new(),
            span: SpanRecord::default(),
            read: ReadRecord::default(),
            exchange: None,
        }
    }

    /// Records that a connection is dialed, possibly again; connections are numbered from 0, in this order.
    pub(super) fn dialed(&mut self, index: usize, now_us: u64) {
        let connection =
            ConnectionRecord { dialed_us: now_us, last_us: now_us, ..ConnectionRecord::default() };
        match self.connections.get_mut(index) {
            Some(before) => *before = connection,
            None => self.connections.push(connection),
        }
        if self.values.sequence.is_some() {
            self.sequences.resize_with(self.connections.len(), Sequence::default);
            self.sequences[index] = Sequence::default();
        }
    }

    /// Records that a connection has left, and another takes its place.
    pub(super) fn replaced(&mut self, index: usize) {
        self.received.connections += 1;
        if let Some(connection) = self.connections.get_mut(index) {
            connection.is_standing = false;
        }
    }

    pub(super) fn dialed_us(&self, index: usize) -> Option<u64> {
        self.connections.get(index).map(|connection| connection.dialed_us)
    }

    /// Records that the transport of a connection is open.
    pub(super) fn opened(&mut self, answer: Answer) {
        if self.received.answer.status.is_empty() {
            self.received.answer = answer;
        }
    }

    /// Records that a connection is established.
    pub(super) fn reached(&mut self, index: usize, address: String, now_us: u64) {
        self.received.established += 1;
        if self.received.answer.address.is_empty() {
            self.received.answer.address = address;
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.is_standing = true;
        self.set_up.record(now_us - connection.dialed_us, 1);
    }

    /// Records a refused connection.
    pub(super) fn refused(&mut self, reason: &str) {
        self.received.refused.add(reason);
    }

    pub(super) fn ended(&mut self, index: usize, how: &str) {
        self.received.ended_early.add(how);
        if let Some(connection) = self.connections.get_mut(index) {
            (connection.is_standing, connection.is_over) = (false, true);
        }
    }

    /// Records that the response of a connection was complete.
    pub(super) fn completed(&mut self, index: usize, now_us: u64) {
        self.received.completed += 1;
        self.span.completed += 1;
        if let Some(connection) = self.connections.get_mut(index) {
            (connection.is_standing, connection.is_over) = (false, true);
            self.span.responses.record(now_us - connection.dialed_us, 1);
        }
    }

    /// Leaves a connection that reads slowly from now on out of all figures.
    pub(super) fn slowed(&mut self, index: usize) {
        self.received.slow.get_or_insert_default().connections += 1;
        if let Some(connection) = self.connections.get_mut(index) {
            connection.is_standing = false;
        }
    }

    /// Records that the endpoint has ended a connection that reads slowly.
    pub(super) fn ended_slow(&mut self) {
        self.received.slow.get_or_insert_default().ended += 1;
    }

    /// Returns why the endpoint, to which no connection is established, cannot be measured.
    pub(super) fn why_nobody(&self) -> Option<String> {
        let Received { refused, ended_early, completed, .. } = &self.received;
        let has_completed_all = ended_early.count == 0 && *completed > 0;
        match self.received.established {
            0 => Some(format!("established no connection: {refused}")),
            _ if *completed > 0 && self.values.has_responses => None,
            _ if has_completed_all => {
                Some(format!("completed every response before the span ({completed} connections)"))
            }
            _ => Some(format!("ended every connection before the span: {ended_early}")),
        }
    }

    pub(super) fn begin_span(&mut self, now_us: u64) {
        self.span = SpanRecord::default();
        if let Some(exchange) = &mut self.exchange {
            exchange.begin_span();
        }
        for connection in &mut self.connections {
            (connection.events, connection.last_us) = (0, now_us);
        }
        self.sequences.iter_mut().for_each(Sequence::begin_span);
    }

    /// Begins a read. `real_ns` returns the time since 1970, and is called only if needed.
    #[inline]
    pub(super) fn begin_read(&mut self, now_us: u64, real_ns: impl FnOnce() -> u64) {
        let real_ns = if self.values.timestamp.is_some() { real_ns() } else { 0 };
        self.read = ReadRecord { now_us, real_ns, events: 0 };
    }

    /// Ends the read and updates its connection.
    #[inline]
    pub(super) fn end_read(&mut self, index: usize, statistics: &mut SpanStatistics) {
        let (ReadRecord { now_us, events, .. }, Some(connection)) =
            (self.read, self.connections.get_mut(index))
        else {
            return;
        };
        if events == 0 {
            return;
        }
        if !std::mem::replace(&mut connection.has_event, true) {
            self.span.first_events.record(now_us - connection.dialed_us, 1);
        }
        let silence_us = now_us.saturating_sub(connection.last_us);
        self.span.silence_us_max = self.span.silence_us_max.max(silence_us);
        self.span.silence_us_recent = self.span.silence_us_recent.max(silence_us);
        if connection.events > 0 {
            self.span.intervals.record(silence_us, 1);
        }
        if events > 1 {
            self.span.intervals.record(0, events - 1);
        }
        connection.last_us = now_us;
        connection.events += events;
        statistics.traffic.events += events;
    }

    /// Returns the longest silence of a connection since the last call, whether it has ended or lasts.
    pub(super) fn take_silence_us(&mut self, now_us: u64) -> u64 {
        let standing = self.connections.iter().filter(|connection| connection.is_standing);
        let lasting = standing.map(|connection| now_us.saturating_sub(connection.last_us)).max();
        std::mem::take(&mut self.span.silence_us_recent).max(lasting.unwrap_or(0))
    }

    #[inline]
    pub(super) fn event(
        &mut self,
        connection: usize,
        kind: Kind,
        payload: &[u8],
        statistics: &mut SpanStatistics,
    ) {
        self.read.events += 1;
        if let Some(exchange) = &mut self.exchange {
            exchange.receive(connection, payload, self.read.now_us);
        }
        let span = &mut self.span;
        match kind {
            Kind::Text => span.text_events += 1,
            Kind::Binary => span.binary_events += 1,
        }
        span.payload_bytes += payload.len() as u64;
        span.event_bytes_max = span.event_bytes_max.max(payload.len() as u64);
        if self.read.events == 1 && self.read.now_us - span.json_tried_us >= JSON_EVERY_US {
            span.json_tried_us = self.read.now_us;
            span.json_tried += 1;
            let is_json = serde_json::from_slice::<IgnoredAny>(payload).is_ok();
            span.json_found += u64::from(is_json);
        }
        if self.values.timestamp.is_some() {
            self.stamp(payload, statistics);
        }
        if self.values.sequence.is_some() {
            self.number(connection, payload);
        }
    }

    #[inline]
    fn number(&mut self, connection: usize, payload: &[u8]) {
        let (Some(path), counts) = (&self.values.sequence, &mut self.span.sequenced) else {
            return;
        };
        let number = json_value::find(payload, path.steps()).and_then(|value| value.whole());
        match (number, self.sequences.get_mut(connection)) {
            (Some(number), Some(sequence)) => sequence.receive(number, counts),
            _ => {
                if counts.missing == 0 {
                    self.span.unnumbered = payload.to_vec();
                }
                counts.missing += 1;
            }
        }
    }

    #[inline]
    fn stamp(&mut self, payload: &[u8], statistics: &mut SpanStatistics) {
        let (Some(path), stamps) = (&self.values.timestamp, &mut self.span.stamps) else { return };
        let made = json_value::find(payload, path.steps()).as_ref().and_then(timestamp::read);
        let Some((made_ns, unit)) = made else {
            if stamps.missing == 0 {
                self.span.unstamped = payload.to_vec();
            }
            stamps.missing += 1;
            return;
        };
        stamps.unit.get_or_insert(unit);
        let real_ns = self.read.real_ns;
        match real_ns.checked_sub(made_ns) {
            Some(late_ns) => {
                stamps.read += 1;
                statistics.latency.record(late_ns / 1000, 1);
            }
            None => {
                stamps.ahead += 1;
                let ahead_us = (made_ns - real_ns).div_ceil(1000);
                stamps.ahead_us_max = stamps.ahead_us_max.max(ahead_us);
            }
        }
    }

    /// Returns everything that was recorded by the end of a span of `span_us`.
    pub(super) fn end_span(
        &self,
        statistics: &SpanStatistics,
        begun_us: u64,
        span_us: u64,
    ) -> Received {
        let span = &self.span;
        let has_lasting = self.connections.iter().any(|connection| connection.is_standing);
        let lasted = || {
            let is_counted = move |connection: &&ConnectionRecord| match has_lasting {
                true => connection.is_standing,
                false => connection.is_over,
            };
            self.connections.iter().filter(is_counted)
        };
        let events = || lasted().map(|connection| connection.events);
        let is_silent = |connection: &&ConnectionRecord| {
            connection.is_standing && connection.dialed_us < begun_us && connection.events == 0
        };
        let end_us = begun_us + span_us;
        let still = lasted().map(|connection| end_us.saturating_sub(connection.last_us));
        Received {
            span_us,
            set_up: Spread::new(&self.set_up),
            events: statistics.traffic.events,
            wire_bytes: statistics.traffic.wire_bytes,
            signs_of_life: statistics.traffic.heartbeats,
            text_events: span.text_events,
            binary_events: span.binary_events,
            payload_bytes: span.payload_bytes,
            event_bytes_max: span.event_bytes_max,
            json_tried: span.json_tried,
            json_found: span.json_found,
            intervals: Spread::new(&span.intervals),
            timestamps: self.values.timestamp.is_some().then(|| Timestamps {
                latency: Spread::new(&statistics.latency),
                ..span.stamps.clone()
            }),
            sequenced: self.values.sequence.is_some().then(|| {
                let lost = || self.sequences.iter().map(|sequence| sequence.lost);
                Sequenced {
                    losers: lost().filter(|lost| *lost > 0).count() as u32,
                    lost_max: lost().max().unwrap_or(0),
                    ..span.sequenced
                }
            }),
            responses: self.values.has_responses.then(|| Responses {
                completed: span.completed,
                first_event: Spread::new(&span.first_events),
                total: Spread::new(&span.responses),
            }),
            events_per_connection_min: events().min().unwrap_or(0),
            events_per_connection_max: events().max().unwrap_or(0),
            silence_us_max: still.max().unwrap_or(0).max(span.silence_us_max),
            silent: self.connections.iter().filter(is_silent).count() as u32,
            // Requests whose response has not begun are not judged.
            connections: match self.values.has_responses {
                true => self.received.established + self.received.refused.count as u32,
                false => self.received.connections,
            },
            ..self.received.clone()
        }
    }

    /// Refuses a path at which no event had a value; the error lists paths that have one.
    pub(super) fn expect_values(&self) -> anyhow::Result<()> {
        let SpanRecord { stamps, sequenced, unstamped, unnumbered, .. } = &self.span;
        let EventValues { timestamp, sequence, event, .. } = &self.values;
        for (path, what, read, missing, lacking) in [
            (timestamp, "time", stamps.read + stamps.ahead, stamps.missing, unstamped),
            (sequence, "number", sequenced.read, sequenced.missing, unnumbered),
        ] {
            let Some(path) = path.as_ref().filter(|_| read == 0 && missing > 0) else { continue };
            let places = places(lacking);
            let of_event = places.iter().filter_map(|place| place.strip_prefix(event));
            let mut of_event: Vec<&str> =
                of_event.map(|place| place.strip_prefix('.').unwrap_or(place)).collect();
            of_event.retain(|place| !place.is_empty());
            let places = match of_event.as_slice() {
                [] => "is no JSON with keys".to_owned(),
                places => format!("has {}", places.join(", ")),
            };
            return Err(anyhow!("no message has a {what} at {path}: the first {places}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::TimestampUnit;

    /// Reads at these times (µs), with their events; the span began at 0.9 s.
    fn received(timestamp: Option<&str>, reads: &[(u64, &[&str])]) -> Received {
        let (recorder, statistics) = listen(timestamp, reads);
        recorder.end_span(&statistics, 900_000, 103_000)
    }

    fn listen(timestamp: Option<&str>, reads: &[(u64, &[&str])]) -> (Recorder, SpanStatistics) {
        let values = EventValues {
            timestamp: timestamp.map(|path| path.parse().unwrap()),
            ..EventValues::default()
        };
        let mut recorder = Recorder::new(values, 1);
        let mut statistics = SpanStatistics::default();
        recorder.dialed(0, 0);
        recorder.reached(0, String::new(), 7);
        recorder.begin_span(900_000);
        for (now_us, events) in reads {
            recorder.begin_read(*now_us, || REAL_NS);
            for event in *events {
                recorder.event(0, Kind::Text, event.as_bytes(), &mut statistics);
            }
            recorder.end_read(0, &mut statistics);
        }
        (recorder, statistics)
    }

    #[test]
    fn silent_connections_and_complete_responses_are_counted() {
        let mut recorder = Recorder::new(EventValues::default(), 4);
        let mut statistics = SpanStatistics::default();
        for index in 0..3 {
            recorder.dialed(index, 0);
            recorder.reached(index, String::new(), 7);
        }
        recorder.begin_span(900_000);
        recorder.begin_read(950_000, || 0);
        recorder.event(0, Kind::Text, b"x", &mut statistics);
        recorder.end_read(0, &mut statistics);
        recorder.completed(1, 955_000);
        // A connection that begins in the span may still get its first message.
        recorder.dialed(3, 960_000);
        recorder.reached(3, String::new(), 970_000);
        let received = recorder.end_span(&statistics, 900_000, 103_000);
        assert_eq!((received.silent, received.completed, received.ended_early.count), (1, 1, 0));
    }

    const REAL_NS: u64 = 1_795_262_400_000_000_000;

    #[test]
    fn intervals_are_between_reads() {
        let reads: &[(u64, &[&str])] =
            &[(1_000_000, &["1", "2"]), (1_000_500, &[]), (1_003_000, &["[", "{}"])];
        let received = received(None, reads);
        assert_eq!(received.events_per_connection_max, 4);
        assert_eq!((received.events, received.payload_bytes, received.event_bytes_max), (4, 5, 2));
        let max_us = 3000;
        assert_eq!(
            received.intervals.map(|interval| (interval.p50_us, interval.max_us / 10)),
            Some((0, max_us / 10))
        );
        // The second read came less than 10 ms after the first.
        assert_eq!((received.json_tried, received.json_found), (1, 1));
        assert_eq!(received.timestamps, None);
    }

    #[test]
    fn records_never_begin_before_the_span() {
        // From the beginning of the span to the first event is silence, and no interval.
        let (recorder, _) = listen(None, &[(1_000_000, &["1"]), (1_003_000, &["2"])]);
        assert_eq!(recorder.span.silence_us_max, 100_000);
        let intervals: Vec<_> = recorder.span.intervals.buckets().collect();
        assert_eq!(intervals.iter().map(|(_, count)| count).sum::<u64>(), 1);
        assert!((3000..3010).contains(&intervals[0].0), "{intervals:?}");
    }

    #[test]
    fn timestamps_are_late_ahead_or_missing() {
        let events: &[&str] = &[
            r#"{"t":1795262399.998}"#,
            r#"{"t":1795262400.0075}"#,
            r#"{"t":17}"#,
            r#"{"u":1795262399}"#,
            "not JSON",
            r#"{"t":"2026-11-21T12:00:00Z"}"#,
        ];
        let received = received(Some("t"), &[(1_000_000, events)]);
        let stamps = received.timestamps.unwrap();
        assert_eq!((stamps.read, stamps.ahead, stamps.missing), (2, 1, 3));
        assert!((7500..=7501).contains(&stamps.ahead_us_max), "{}", stamps.ahead_us_max);
        assert_eq!(stamps.unit, Some(TimestampUnit::Seconds));
        assert_eq!(stamps.latency.map(|latency| (latency.p50_us, latency.max_us)), Some((0, 2000)));
    }

    #[test]
    fn the_error_for_an_unmatched_path_lists_the_paths_of_the_event() {
        let check = |events: &[&str], expected: &str| {
            let (recorder, _) = listen(Some("t"), &[(1_000_000, events)]);
            let refusal = recorder.expect_values().map_err(|error| error.to_string());
            assert_eq!(refusal.err().unwrap_or_default(), expected);
        };
        check(&[], "");
        check(&["{}", r#"{"t":1795262399}"#], "");
        check(&["[]"], "no message has a time at t: the first is no JSON with keys");
        check(
            &[r#"{"id":7,"data":[{"ts":1795262399,"a.b":"x"},{"c":1}]}"#, "{}"],
            "no message has a time at t: the first has data[0][\"a.b\"], data[0].ts, id",
        );
    }
}
