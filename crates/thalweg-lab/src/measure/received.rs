//! Results of an endpoint that does not cooperate. There is no ledger, because the lab does not know what should have come.

use super::Latency;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of distinct reasons; further ones are only counted.
const REASONS_MAX: usize = 8;

/// Everything that one sample received from an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Connections that were planned.
    pub connections: u32,
    /// Connections that were established.
    #[serde(rename = "stood")]
    pub established: u32,
    /// Connections that the endpoint refused: its limit, if it accepted others.
    pub refused: Reasons,
    /// Connections that were established, and ended before the end of the span.
    pub ended_early: Reasons,
    /// Connections whose response was complete before the end of the span, such as an answer of a language model.
    #[serde(default)]
    pub completed: u32,
    /// Connections that were open for the whole span and got no message in it.
    #[serde(default)]
    pub silent: u32,
    /// From connecting to the last byte of the answer's head, TLS included.
    pub set_up: Option<Spread>,
    /// Answer of the endpoint on its first established connection.
    pub answer: Answer,
    /// Length of the measured span.
    pub span_us: u64,
    /// Events that came in the span.
    pub events: u64,
    /// Those of them that were text; over HTTP all are.
    pub text_events: u64,
    /// Those of them that were binary WebSocket messages.
    pub binary_events: u64,
    /// The bytes of these events, without framing.
    pub payload_bytes: u64,
    /// Bytes that came, with framing and, where there is TLS, as encrypted.
    pub wire_bytes: u64,
    /// The largest event.
    pub event_bytes_max: u64,
    /// Pings, pongs, comments and empty lines.
    pub signs_of_life: u64,
    /// Fewest events in the span on one of the connections that lasted.
    pub events_per_connection_min: u64,
    /// Most events in the span on one of these connections.
    pub events_per_connection_max: u64,
    /// Between one event and the next on the same connection; events that one read brings have no time between them.
    pub intervals: Option<Spread>,
    /// The longest time in the span for which a connection that lasted had no event.
    pub silence_us_max: u64,
    /// Events that the lab tried to parse as JSON, a small part of all.
    pub json_tried: u64,
    /// Those of them that were JSON.
    pub json_found: u64,
    /// Set if events should have a timestamp.
    pub timestamps: Option<Timestamps>,
    /// Set if events should have a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequenced: Option<Sequenced>,
    /// Set if each connection makes one request after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<Responses>,
    /// Set if some connections read slowly. They are in no other figure of the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowReaders>,
    /// Set if the lab sends messages to the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanged: Option<Exchanged>,
}

/// Answer of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Where it was reached, e.g. `[::1]:8080`.
    pub address: String,
    /// E.g. `200 OK`.
    pub status: String,
    /// The `Server` header.
    pub server: Option<String>,
    /// The `Content-Type` header.
    pub content_type: Option<String>,
    /// The WebSocket's subprotocol.
    pub subprotocol: Option<String>,
    /// Agreed compression: the WebSocket's extension, or the content coding.
    #[serde(default)]
    pub compression: Option<String>,
    /// Whether an HTTP answer came in chunks.
    pub is_chunked: bool,
}

/// Timestamps of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamps {
    /// From a timestamp to when the event was read, on the machine's clock.
    pub latency: Option<Spread>,
    /// Events that are in `latency`.
    pub read: u64,
    /// Events with a timestamp later than their reading, from another clock or a coarse one. They are not in `latency`.
    pub ahead: u64,
    /// How far the furthest was ahead.
    pub ahead_us_max: u64,
    /// Events without a timestamp at the place that was named.
    pub missing: u64,
    /// The format of the first timestamp, which limits the precision of latencies.
    pub unit: Option<TimestampUnit>,
}

/// Messages that an endpoint was sent in the span, and their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchanged {
    /// Messages that were sent.
    pub sent: u64,
    /// Those of them whose id came back on the same connection.
    pub answered: u64,
    /// Messages whose id had not come back when no id had come for a long time. Messages without an id are in neither count.
    pub unanswered: u64,
    /// From when a message was due to when its id came back; of the answered ones.
    pub latency: Option<Spread>,
}

/// Numbers of events, which rise by one from event to event of a connection. Losses from before the span do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequenced {
    /// Events with a number.
    pub read: u64,
    /// Events without a number at the place that was named.
    pub missing: u64,
    /// Numbers between two that came, which did not come.
    pub lost: u64,
    /// Events whose number had come before.
    pub duplicated: u64,
    /// Events that came after one with a higher number.
    pub reordered: u64,
    /// Connections that lost an event, of those that were not replaced.
    pub losers: u32,
    /// Most events that one of them lost.
    pub lost_max: u64,
}

/// Responses to the requests that connections make, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// Responses that were completed in the span.
    pub completed: u64,
    /// From connecting to the first event.
    pub first_event: Option<Spread>,
    /// From connecting to the end of a complete response.
    pub total: Option<Spread>,
}

/// Connections that read slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowReaders {
    /// The number of these connections.
    pub connections: u32,
    /// Connections of these that the endpoint ended.
    pub ended: u32,
}

/// How a timestamp is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimestampUnit {
    /// Since 1970.
    Seconds,
    /// Since 1970.
    Milliseconds,
    /// Since 1970.
    Microseconds,
    /// Since 1970.
    Nanoseconds,
    /// `2026-11-21T12:00:00.123Z`.
    Rfc3339,
}

/// A few quantiles of a histogram, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Half are no longer.
    pub p50_us: u64,
    /// 99 of 100 are no longer.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

impl Spread {
    /// Returns the spread of the recorded values; `None` if nothing was recorded.
    pub fn new(histogram: &Latency) -> Option<Spread> {
        let at = |share| histogram.quantile_us(share);
        Some(Spread { p50_us: at(0.5)?, p99_us: at(0.99)?, max_us: at(1.0)? })
    }
}

/// Reasons, and how many connections they happened to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasons {
    /// Connections it happened to.
    pub count: u64,
    /// The reasons in the order in which they were first met, with their counts; if there are many, the first of them.
    pub first: Vec<(String, u64)>,
}

impl Reasons {
    /// Counts one more connection with this reason.
    pub fn add(&mut self, reason: &str) {
        self.count += 1;
        if let Some((_, count)) = self.first.iter_mut().find(|(known, _)| known == reason) {
            *count += 1;
        } else if self.first.len() < REASONS_MAX {
            self.first.push((reason.to_owned(), 1));
        }
    }
}

/// `7× 503 Service Unavailable: full; 1× the connection was reset`.
impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reported = 0;
        for (index, (reason, count)) in self.first.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{count}× {reason}")?;
            reported += count;
        }
        match self.count - reported.min(self.count) {
            0 => Ok(()),
            others => write!(f, "; {others}× for other reasons"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_bounded() {
        let mut reasons = Reasons::default();
        assert_eq!(reasons.to_string(), "");
        for reason in ["full", "reset", "full"] {
            reasons.add(reason);
        }
        assert_eq!(reasons.to_string(), "2× full; 1× reset");
        for number in 0..100 {
            reasons.add(&format!("reason {number}"));
        }
        assert_eq!((reasons.count, reasons.first.len()), (103, REASONS_MAX));
        assert!(reasons.to_string().ends_with("; 94× for other reasons"), "{reasons}");
    }

    #[test]
    fn a_spread_is_of_something() {
        let mut histogram = Latency::default();
        assert_eq!(Spread::new(&histogram), None);
        histogram.record(0, 99);
        histogram.record(700, 1);
        assert_eq!(Spread::new(&histogram), Some(Spread { p50_us: 0, p99_us: 0, max_us: 700 }));
    }
}
