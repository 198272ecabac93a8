//! What is heard, counted: by all connections together, and for each how many
//! events and when the last.

use super::{json, timestamp};
use crate::measure::{Heard, Latency, Spread, Timestamps};
use crate::scenario::{JsonPath, places};
use crate::swarm::carrier::{Incoming, Kind, websocket};
use crate::swarm::tally::Tally;
use anyhow::anyhow;
use serde::de::IgnoredAny;

/// So often an event is parsed to see whether it is JSON: to parse all of them
/// would be most of the swarm's work.
const JSON_EVERY_US: u64 = 10_000;

/// What was heard since the span began.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    timestamp: Option<JsonPath>,
    /// Its latencies are those of timestamps.
    pub(super) tally: Tally,
    /// Between the events of a connection, both of them in the span.
    pub(super) intervals: Latency,
    /// Until an event, from the one before on the same connection, or from the span's
    /// beginning: the longest.
    pub(super) silence_us_max: u64,
    stamps: Timestamps,
    /// The first event without a timestamp.
    unstamped: Vec<u8>,
    text_events: u64,
    binary_events: u64,
    payload_bytes: u64,
    event_bytes_max: u64,
    json_tried: u64,
    json_found: u64,
    json_tried_us: u64,
    /// What is to be answered to pings and closes.
    pub(super) replies: Vec<u8>,
}

/// A connection's part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// In the span.
    pub(super) events: u64,
    /// When the last came; before the first, when the span began.
    pub(super) last_us: u64,
}

impl Pace {
    /// Of a connection that is listened to from then on.
    pub(super) fn since(begun_us: u64) -> Pace {
        Pace { events: 0, last_us: begun_us }
    }
}

/// One read's worth of hearing.
pub(super) struct Reading<'a> {
    recorder: &'a mut Recorder,
    /// When it was read, on the monotonic clock.
    now_us: u64,
    /// The same since 1970, where there are timestamps.
    real_ns: u64,
    events: u64,
}

impl Recorder {
    pub(super) fn new(timestamp: Option<JsonPath>) -> Recorder {
        Recorder { timestamp, ..Recorder::default() }
    }

    /// A new span begins.
    pub(super) fn reset(&mut self) {
        *self = Recorder { timestamp: self.timestamp.take(), ..Recorder::default() };
    }

    /// Something was read at `now_us`. `real_ns` tells the time since 1970 and is
    /// asked only if somebody wants to know.
    #[inline]
    pub(super) fn reading(&mut self, now_us: u64, real_ns: impl FnOnce() -> u64) -> Reading<'_> {
        let real_ns = if self.timestamp.is_some() { real_ns() } else { 0 };
        Reading { recorder: self, now_us, real_ns, events: 0 }
    }

    /// Enters everything that is no connection's into `heard`.
    pub(super) fn tell(&self, heard: &mut Heard) {
        let traffic = &self.tally.traffic;
        heard.events = traffic.events;
        heard.wire_bytes = traffic.wire_bytes;
        heard.signs_of_life = traffic.heartbeats;
        heard.text_events = self.text_events;
        heard.binary_events = self.binary_events;
        heard.payload_bytes = self.payload_bytes;
        heard.event_bytes_max = self.event_bytes_max;
        heard.json_tried = self.json_tried;
        heard.json_found = self.json_found;
        heard.intervals = Spread::of(&self.intervals);
        heard.timestamps = self.timestamp.is_some().then(|| Timestamps {
            latency: Spread::of(&self.tally.latency),
            ..self.stamps.clone()
        });
    }

    /// Refuses a path that no event had a time at; the error says where its values are.
    pub(super) fn expect_timestamps(&self) -> anyhow::Result<()> {
        let Timestamps { read, ahead, missing, .. } = self.stamps;
        match &self.timestamp {
            Some(path) if missing > 0 && read + ahead == 0 => {
                let places = places(&self.unstamped);
                let places = match places.as_slice() {
                    [] => "is no JSON with keys".to_owned(),
                    places => format!("has {}", places.join(", ")),
                };
                Err(anyhow!("no event has a time at {path}: the first {places}"))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn stamp(&mut self, payload: &[u8], real_ns: u64) {
        let Some(path) = &self.timestamp else { return };
        let made = json::find(payload, path.steps()).as_ref().and_then(timestamp::read);
        let Some((made_ns, unit)) = made else {
            if self.stamps.missing == 0 {
                self.unstamped = payload.to_vec();
            }
            self.stamps.missing += 1;
            return;
        };
        self.stamps.unit.get_or_insert(unit);
        match real_ns.checked_sub(made_ns) {
            Some(late_ns) => {
                self.stamps.read += 1;
                self.tally.latency.record(late_ns / 1000, 1);
            }
            None => {
                self.stamps.ahead += 1;
                let ahead_us = (made_ns - real_ns).div_ceil(1000);
                self.stamps.ahead_us_max = self.stamps.ahead_us_max.max(ahead_us);
            }
        }
    }

    fn try_json(&mut self, payload: &[u8]) {
        self.json_tried += 1;
        let is_json = serde_json::from_slice::<IgnoredAny>(payload).is_ok();
        self.json_found += u64::from(is_json);
    }
}

impl Reading<'_> {
    /// The read is over: how its connection is doing.
    #[inline]
    pub(super) fn finish(self, pace: &mut Pace) {
        if self.events == 0 {
            return;
        }
        let silence_us = self.now_us.saturating_sub(pace.last_us);
        self.recorder.silence_us_max = self.recorder.silence_us_max.max(silence_us);
        let intervals = &mut self.recorder.intervals;
        if pace.events > 0 {
            intervals.record(silence_us, 1);
        }
        if self.events > 1 {
            intervals.record(0, self.events - 1);
        }
        pace.last_us = self.now_us;
        pace.events += self.events;
        self.recorder.tally.traffic.events += self.events;
    }

    /// Counts what came, and answers what is to be answered.
    #[inline]
    pub(super) fn on_message(&mut self, incoming: Incoming<'_>) {
        let recorder = &mut *self.recorder;
        let signs_of_life = &mut recorder.tally.traffic.heartbeats;
        match incoming {
            Incoming::Message(kind, payload) => self.event(kind, payload),
            Incoming::SignOfLife => *signs_of_life += 1,
            Incoming::Ping(payload) => {
                *signs_of_life += 1;
                websocket::pong(payload, &mut recorder.replies);
            }
            Incoming::Close(payload) => websocket::close_back(payload, &mut recorder.replies),
        }
    }

    #[inline]
    fn event(&mut self, kind: Kind, payload: &[u8]) {
        self.events += 1;
        let recorder = &mut *self.recorder;
        match kind {
            Kind::Text => recorder.text_events += 1,
            Kind::Binary => recorder.binary_events += 1,
        }
        recorder.payload_bytes += payload.len() as u64;
        recorder.event_bytes_max = recorder.event_bytes_max.max(payload.len() as u64);
        if self.events == 1 && self.now_us - recorder.json_tried_us >= JSON_EVERY_US {
            recorder.json_tried_us = self.now_us;
            recorder.try_json(payload);
        }
        if recorder.timestamp.is_some() {
            recorder.stamp(payload, self.real_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Unit;

    /// Reads at these times (µs), with their events; the span began at 0.9 s.
    fn received(timestamp: Option<&str>, reads: &[(u64, &[&str])]) -> (Heard, Pace) {
        let (recorder, pace) = listen(timestamp, reads);
        let mut heard = Heard::default();
        recorder.tell(&mut heard);
        (heard, pace)
    }

    fn listen(timestamp: Option<&str>, reads: &[(u64, &[&str])]) -> (Recorder, Pace) {
        let mut recorder = Recorder::new(timestamp.map(|path| path.parse().unwrap()));
        let mut pace = Pace::since(900_000);
        for (now_us, events) in reads {
            let mut reading = recorder.reading(*now_us, || REAL_NS);
            for event in *events {
                reading.on_message(Incoming::Message(Kind::Text, event.as_bytes()));
            }
            reading.finish(&mut pace);
        }
        (recorder, pace)
    }

    const REAL_NS: u64 = 1_795_262_400_000_000_000;

    #[test]
    fn intervals_are_between_reads() {
        let reads: &[(u64, &[&str])] =
            &[(1_000_000, &["1", "2"]), (1_000_500, &[]), (1_003_000, &["[", "{}"])];
        let (heard, pace) = received(None, reads);
        assert_eq!((pace.events, pace.last_us), (4, 1_003_000));
        assert_eq!((heard.events, heard.payload_bytes, heard.event_bytes_max), (4, 5, 2));
        let max_us = 3000;
        assert_eq!(heard.intervals.map(|it| (it.p50_us, it.max_us / 10)), Some((0, max_us / 10)));
        // The second read came less than 10 ms after the first.
        assert_eq!((heard.json_tried, heard.json_found), (1, 1));
        assert_eq!(heard.timestamps, None);
    }

    #[test]
    fn nothing_reaches_back_before_the_span() {
        // From the beginning of the span to the first event is silence, and no interval.
        let (recorder, _) = listen(None, &[(1_000_000, &["1"]), (1_003_000, &["2"])]);
        assert_eq!(recorder.silence_us_max, 100_000);
        let intervals: Vec<_> = recorder.intervals.buckets().collect();
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
        let (heard, _) = received(Some("t"), &[(1_000_000, events)]);
        let stamps = heard.timestamps.unwrap();
        assert_eq!((stamps.read, stamps.ahead, stamps.missing), (2, 1, 3));
        assert!((7500..=7501).contains(&stamps.ahead_us_max), "{}", stamps.ahead_us_max);
        assert_eq!(stamps.unit, Some(Unit::Seconds));
        assert_eq!(stamps.latency.map(|it| (it.p50_us, it.max_us)), Some((0, 2000)));
    }

    #[test]
    fn a_path_that_matches_nothing_is_refused_with_those_that_there_are() {
        let check = |events: &[&str], expected: &str| {
            let (recorder, _) = listen(Some("t"), &[(1_000_000, events)]);
            let said = recorder.expect_timestamps().map_err(|error| error.to_string());
            assert_eq!(said.err().unwrap_or_default(), expected);
        };
        check(&[], "");
        check(&["{}", r#"{"t":1795262399}"#], "");
        check(&["[]"], "no event has a time at t: the first is no JSON with keys");
        check(
            &[r#"{"id":7,"data":[{"ts":1795262399,"a.b":"x"},{"c":1}]}"#, "{}"],
            "no event has a time at t: the first has data[0][\"a.b\"], data[0].ts, id",
        );
    }
}
