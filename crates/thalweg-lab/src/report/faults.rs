//! Faults of an endpoint, which fail a run unless its options allow them. Only the lab's own load knows what should come, so
//! these are the faults that show without such knowledge.

use super::condition::Hit;
use super::row::Row;
use super::summary::Summary;
use crate::measure::{Reasons, Sample};
use serde::Serialize;

/// Faults in all samples of a row. Each is in the exit status and in JUnit's form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Connections that were begun.
    pub connections: u64,
    /// Connections that the endpoint refused.
    pub refused: u64,
    /// Connections that the endpoint ended before the end of a span, without completing a response.
    pub ended_early: u64,
    /// Messages of the lab that have an id.
    pub asked: u64,
    /// Messages of the lab whose id did not come back.
    pub unanswered: u64,
    /// Connections that stood in a whole span and got no message in it.
    pub silent: u64,
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
            faults.refused += received.refused.count;
            faults.ended_early += received.ended_early.count;
            faults.silent += u64::from(received.silent);
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
    fn sentences(&self, allowed: Allowed) -> Vec<(&'static str, String)> {
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

/// Returns the faults of all rows that are not allowed.
pub fn faults(summary: &Summary, allowed: Allowed) -> Vec<Hit> {
    let of_row = |part: &str, row: &Row| -> Vec<Hit> {
        let place = [part.to_owned(), row.cell.clone(), row.subject.clone()];
        let sentences = row.faults.iter().flat_map(|faults| faults.sentences(allowed));
        sentences
            .map(|(kind, reason)| Hit {
                row: Some(place.clone()),
                kind,
                reason,
                is_for_want: false,
            })
            .collect()
    };
    let parts = summary.parts.iter();
    parts.flat_map(|part| part.rows.iter().flat_map(|row| of_row(&part.name, row))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary_of_everything;
    use super::*;
    use crate::measure::{Exchanged, Received};

    #[test]
    fn faults_of_all_samples_are_told_unless_they_are_allowed() {
        let (_, mut summary) = summary_of_everything();
        let mut refused = Reasons::default();
        refused.add("503 Service Unavailable");
        let exchanged = Exchanged { sent: 12, answered: 7, unanswered: 3, latency: None };
        let received = Received {
            connections: 10,
            refused,
            silent: 2,
            exchanged: Some(exchanged),
            ..Received::default()
        };
        let sample = Sample { received: Some(received), ..Sample::default() };
        assert_eq!(Faults::new(&[&Sample::default()]), None);
        summary.parts[0].rows[1].faults = Faults::new(&[&sample, &Sample::default(), &sample]);
        let said = |allowed| -> Vec<String> {
            faults(&summary, allowed).iter().map(|hit| format!("{}: {hit}", hit.kind)).collect()
        };
        let row = "example · websocket 100 × 128 B W4 · limit again";
        let silent = Allowed { silent: true, ..Allowed::default() };
        assert_eq!(
            said(silent),
            [
                format!(
                    "refused: {row}: 2 of 20 connections were refused (503 Service Unavailable): \
                     --allow-refused allows this"
                ),
                format!(
                    "unanswered: {row}: 6 of 20 messages were not answered: --allow-unanswered \
                     allows this"
                ),
            ]
        );
        assert!(said(Allowed::default())[2].starts_with("silent: "));
        let all = Allowed { refused: true, ended_early: true, unanswered: true, silent: true };
        assert_eq!(said(all), Vec::<String>::new());
    }
}
