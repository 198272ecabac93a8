//! Messages to an external endpoint, and their answers: every message carries an id of its own, and a message on the same
//! connection that holds that id anywhere is its answer. A round trip needs no timestamp and no other clock. Pure.

use super::event::number;
use crate::measure::{Exchanged, Latency, RoundTrips, Spread};
use memchr::memmem::Finder;
use std::ops::Range;

/// Digits of an id. A JSON number of this length is exact in any parser (2^53).
pub(super) const ID_DIGITS: usize = 15;
/// Range of the first digits of ids. Each sample draws its own from this range.
const OWN: Range<u64> = 100_000..1_000_000;
/// The number of values of the other digits, which count from 0.
const COUNTED: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Exchange {
    /// First digits of the ids.
    own: u64,
    finder: Finder<'static>,
    /// Number of the next message that wants an answer.
    next: u64,
    /// Messages of the span that want an answer; the last has the number before `next`.
    asked: Vec<AskedMessage>,
    /// Messages of the span.
    sent: u64,
    answered: u64,
    /// Time from sending to answer, of each answered message.
    round_trips_us: Vec<u64>,
    /// Time from due to answer.
    latency: Latency,
}

#[derive(Clone, Copy, Debug)]
struct AskedMessage {
    connection: u32,
    is_answered: bool,
    due_us: u64,
    sent_us: u64,
}

impl Exchange {
    pub(super) fn new() -> Exchange {
        let own = fastrand::u64(OWN);
        Exchange {
            own,
            finder: Finder::new(&own.to_string()).into_owned(),
            next: 0,
            asked: Vec::new(),
            sent: 0,
            answered: 0,
            round_trips_us: Vec::new(),
            latency: Latency::default(),
        }
    }

    /// Begins the span: earlier messages do not count, and neither do their answers.
    pub(super) fn begin_span(&mut self) {
        self.asked.clear();
        self.round_trips_us.clear();
        self.latency.clear();
        (self.sent, self.answered) = (0, 0);
    }

    pub(super) fn next_id(&self) -> u64 {
        self.own * COUNTED + self.next % COUNTED
    }

    /// Records that a message was sent on a connection; if `has_id`, with the next id.
    pub(super) fn sent(&mut self, connection: usize, has_id: bool, due_us: u64, sent_us: u64) {
        self.sent += 1;
        if has_id {
            self.next += 1;
            let connection = connection as u32;
            self.asked.push(AskedMessage { connection, is_answered: false, due_us, sent_us });
        }
    }

    /// Finds the sent message that a message on this connection answers.
    #[inline]
    pub(super) fn receive(&mut self, connection: usize, message: &[u8], now_us: u64) {
        let Exchange { finder, next, asked, .. } = self;
        let first = *next - asked.len() as u64;
        for at in finder.find_iter(message) {
            let counted = message.get(at + finder.needle().len()..at + ID_DIGITS);
            let place = counted.and_then(number).and_then(|sample| sample.checked_sub(first));
            let Some(asked) = place.and_then(|place| asked.get_mut(usize::try_from(place).ok()?))
            else {
                continue;
            };
            if asked.connection as usize != connection || asked.is_answered {
                continue;
            }
            asked.is_answered = true;
            self.answered += 1;
            self.round_trips_us.push(now_us.saturating_sub(asked.sent_us));
            self.latency.record(now_us.saturating_sub(asked.due_us), 1);
        }
    }

    pub(super) fn unanswered(&self) -> u64 {
        self.asked.len() as u64 - self.answered
    }

    pub(super) fn latency(&self) -> &Latency {
        &self.latency
    }

    pub(super) fn mean_us(&self) -> Option<f64> {
        let count = self.round_trips_us.len();
        (count > 0).then(|| self.round_trips_us.iter().sum::<u64>() as f64 / count as f64)
    }

    /// Returns the results of the span of this length.
    pub(super) fn end_span(&mut self, span_us: u64) -> (Exchanged, Option<RoundTrips>, Latency) {
        let exchanged = Exchanged {
            sent: self.sent,
            answered: self.answered,
            unanswered: self.unanswered(),
            latency: Spread::new(&self.latency),
        };
        let round_trips = RoundTrips::new(std::mem::take(&mut self.round_trips_us), span_us);
        (exchanged, round_trips, std::mem::take(&mut self.latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three messages that want an answer were sent on connections 0, 1 and 0 again.
    fn exchange() -> (Exchange, [String; 3]) {
        let mut exchange = Exchange::new();
        exchange.sent(9, true, 0, 0);
        exchange.begin_span();
        let ids = [(0, 1000), (1, 1010), (0, 1020)].map(|(connection, due_us)| {
            let id = exchange.next_id().to_string();
            exchange.sent(connection, true, due_us, due_us + 5);
            id
        });
        (exchange, ids)
    }

    #[test]
    fn messages_with_an_id_anywhere_are_answers() {
        let (mut exchange, [a, b, c]) = exchange();
        assert!(a.len() == ID_DIGITS && a.parse::<f64>().unwrap() < 2f64.powi(53));
        exchange.sent(0, false, 0, 0);
        exchange.receive(0, format!("{{\"of\":[\"x{c}\",{a}]}}").as_bytes(), 2000);
        assert_eq!(exchange.unanswered(), 1);
        exchange.receive(1, b.as_bytes(), 2010);
        let (exchanged, trips, latency) = exchange.end_span(1_000_000);
        assert_eq!((exchanged.sent, exchanged.answered, exchanged.unanswered), (4, 3, 0));
        let trips = trips.unwrap();
        assert_eq!((trips.count, trips.p50_us, trips.max_us), (3, 995, 995));
        assert_eq!(latency.quantile_us(1.0), Some(1000));
    }

    #[test]
    fn messages_without_an_id_are_no_answers() {
        let (mut exchange, [a, b, _]) = exchange();
        let own = &a[..6];
        let before = format!("{own}{:09}", 0);
        let never = format!("{own}{:09}", 4);
        // From another connection, cut off, from before the span, and never sent.
        for message in [&*b, &a[..14], own, &before, &never, "", "x"] {
            exchange.receive(0, message.as_bytes(), 2000);
        }
        assert_eq!(exchange.unanswered(), 3);
        exchange.receive(0, a.as_bytes(), 2000);
        exchange.receive(0, a.as_bytes(), 3000);
        assert_eq!(exchange.unanswered(), 2);
        assert_eq!(exchange.mean_us(), Some(995.0), "an answer comes once");
    }
}
