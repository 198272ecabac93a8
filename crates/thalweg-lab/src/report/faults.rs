//! Faults of an endpoint, which fail a run unless its options allow them. Only the lab's own load knows what should come, so
//! these are the faults that show without such knowledge.

use crate::measure::{Reasons, Sample};
use serde::Serialize;

/// Faults in all samples of a row. Each affects the exit status and the JUnit XML.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Connections that were begun.
    pub connections: u64,
    /// Those of them that were established.
    pub connected: u64,
    /// Connections that the endpoint refused.
    pub refused: u64,
    /// Connections that the endpoint ended before the end of a span, without completing a response.
    pub ended_early: u64,
    /// Messages of the lab that have an id.
    pub asked: u64,
    /// Messages of the lab whose id did not come back.
    pub unanswered: u64,
    /// Connections that were open for a whole span and got no message in it.
    pub silent: u64,
    /// Events with a number.
    pub numbered: u64,
    /// Numbers of events that did not come.
    pub lost: u64,
    /// Events whose number had come before.
    pub duplicated: u64,
    /// Events that came after one with a higher number.
    pub reordered: u64,
    /// The longest time without a message, in µs.
    pub silence_us_max: u64,
    #[serde(skip)]
    first_refusal: String,
    #[serde(skip)]
    first_end: String,
}

impl Faults {
    /// Returns the faults in the samples of one subject in one cell; `None` if it is no endpoint.
    pub(super) fn new(samples: &[&Sample]) -> Option<Faults> {
        let mut faults = Faults::default();
        let mut is_endpoint = false;
        let first = |known: &mut String, reasons: &Reasons| {
            if let (true, Some((reason, _))) = (known.is_empty(), reasons.first.first()) {
                known.clone_from(reason);
            }
        };
        for received in samples.iter().filter_map(|sample| sample.received.as_ref()) {
            is_endpoint = true;
            faults.connections += u64::from(received.connections);
            faults.connected += u64::from(received.established);
            faults.refused += received.refused.count;
            faults.ended_early += received.ended_early.count;
            faults.silent += u64::from(received.silent);
            faults.silence_us_max = faults.silence_us_max.max(received.silence_us_max);
            first(&mut faults.first_refusal, &received.refused);
            first(&mut faults.first_end, &received.ended_early);
            if let Some(exchanged) = received.exchanged {
                faults.asked += exchanged.answered + exchanged.unanswered;
                faults.unanswered += exchanged.unanswered;
            }
            if let Some(sequenced) = received.sequenced {
                faults.numbered += sequenced.read;
                faults.lost = faults.lost.saturating_add(sequenced.lost);
                faults.duplicated += sequenced.duplicated;
                faults.reordered += sequenced.reordered;
            }
        }
        is_endpoint.then_some(faults)
    }

    /// Returns the kind of each fault that is not allowed, and a sentence with the remedy.
    pub(super) fn sentences(&self, allowed: &[&str]) -> Vec<(&'static str, String)> {
        let Faults { connections, asked, numbered, .. } = self;
        let because = |reason: &str| match reason {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let refused = format!("connections were refused{}", because(&self.first_refusal));
        let ended = format!("connections ended early{}", because(&self.first_end));
        let sent = &(numbered.saturating_add(self.lost));
        let all: [(&str, u64, &u64, &str); 7] = [
            ("refused", self.refused, connections, &refused),
            ("ended-early", self.ended_early, connections, &ended),
            ("unanswered", self.unanswered, asked, "messages were not answered"),
            ("silent", self.silent, connections, "connections got no message"),
            ("lost", self.lost, sent, "messages were lost"),
            ("duplicated", self.duplicated, numbered, "messages repeated a number"),
            ("reordered", self.reordered, numbered, "messages came out of order"),
        ];
        all.into_iter()
            .filter(|(kind, count, ..)| *count > 0 && !allowed.contains(kind))
            .map(|(kind, count, total, what)| {
                (kind, format!("{count} of {total} {what}: --allow-{kind} allows this"))
            })
            .collect()
    }
}
