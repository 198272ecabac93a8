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
    /// The longest time without a message, in µs.
    pub silence_us_max: u64,
    #[serde(skip)]
    first_refusal: String,
    #[serde(skip)]
    first_end: String,
}

/// Faults that do not fail a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Refused connections.
    pub refused: bool,
    /// Connections that end early.
    pub ended_early: bool,
    /// Messages without an answer.
    pub unanswered: bool,
    /// Connections without a message.
    pub silent: bool,
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
        }
        is_endpoint.then_some(faults)
    }

    /// Returns the kind of each fault, and a sentence with the remedy.
    pub(super) fn sentences(&self, allowed: Allowed) -> Vec<(&'static str, String)> {
        let Faults { connections, refused, ended_early, asked, unanswered, silent, .. } = self;
        let of_connections = |count: &u64, what: &str, reason: &str, flag: &str| {
            let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            format!("{count} of {connections} connections {what}{reason}: {flag} allows this")
        };
        let all = [
            (
                "refused",
                refused,
                allowed.refused,
                of_connections(refused, "were refused", &self.first_refusal, "--allow-refused"),
            ),
            (
                "ended-early",
                ended_early,
                allowed.ended_early,
                of_connections(ended_early, "ended early", &self.first_end, "--allow-ended-early"),
            ),
            (
                "unanswered",
                unanswered,
                allowed.unanswered,
                format!(
                    "{unanswered} of {asked} messages were not answered: --allow-unanswered allows this"
                ),
            ),
            (
                "silent",
                silent,
                allowed.silent,
                of_connections(silent, "got no message", "", "--allow-silent"),
            ),
        ];
        all.into_iter()
            .filter(|(_, count, is_allowed, _)| **count > 0 && !is_allowed)
            .map(|(kind, _, _, sentence)| (kind, sentence))
            .collect()
    }
}
