//! The faults of all rows, as hits beside those of thresholds.

use super::row::Row;
use super::summary::Summary;
use super::threshold::Hit;

/// Returns the faults of all rows, except for the kinds that are allowed, e.g. `refused`.
pub fn faults(summary: &Summary, allowed: &[&str]) -> Vec<Hit> {
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
    use crate::measure::{Exchanged, Reasons, Received, Sample, Sequenced};
    use crate::report::Faults;

    #[test]
    fn faults_of_all_samples_are_reported_unless_they_are_allowed() {
        let (_, mut summary) = summary_of_everything();
        let mut refused = Reasons::default();
        refused.add("503 Service Unavailable");
        let exchanged = Exchanged { sent: 12, answered: 7, unanswered: 3, latency: None };
        let received = Received {
            connections: 10,
            refused,
            silent: 2,
            exchanged: Some(exchanged),
            sequenced: Some(Sequenced {
                read: 98,
                lost: 2,
                duplicated: 1,
                reordered: 3,
                ..Sequenced::default()
            }),
            ..Received::default()
        };
        let sample = Sample { received: Some(received), ..Sample::default() };
        assert_eq!(Faults::new(&[&Sample::default()]), None);
        summary.parts[0].rows[1].faults = Faults::new(&[&sample, &Sample::default(), &sample]);
        let reported = |allowed: &[&str]| -> Vec<String> {
            faults(&summary, allowed).iter().map(|hit| format!("{}: {hit}", hit.kind)).collect()
        };
        let row = "example · websocket 100 × 128 B W4 · limit again";
        assert_eq!(
            reported(&["silent", "lost", "duplicated", "reordered"]),
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
        let by_default = reported(&[]);
        let kinds = by_default.iter().filter_map(|line| Some(line.split_once(':')?.0));
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, ["refused", "unanswered", "silent", "lost", "duplicated", "reordered"]);
        assert!(by_default[3].ends_with("4 of 200 messages were lost: --allow-lost allows this"));
        assert_eq!(reported(&kinds), Vec::<String>::new());
    }
}
