//! A page of a topic's history as JSON. Pure.

use thalweg_core::stream::{Cursor, Feed, JoinedKeys, Slice, Start};
use thalweg_wire::{Envelope, GapReason, KeyFilter, Offset, StartAt};

use crate::config::HISTORY_PAGE_BYTES;

/// A page of a topic's history as the JSON of docs/reference/http.md, "Reading", in three parts.
pub(crate) struct PageParts {
    pub(super) before: Vec<u8>,
    pub(super) events: Slice,
    pub(super) after: Vec<u8>,
    /// The number of missing events before the page, if it is known, and the reason.
    pub(super) gap: Option<(Option<Offset>, GapReason)>,
}

/// Returns at most `limit` events of a feed, or of its keys that a filter selects, from a start position on.
pub(super) fn page(
    feed: &impl Feed,
    filter: Option<&KeyFilter>,
    start: StartAt,
    limit: usize,
) -> PageParts {
    if feed.conflates() {
        return keyed_page(feed, filter, start, limit);
    }
    let (from, gap) = match feed.start(start) {
        // A cursor after the head gets the head: a client that reads on stops there.
        Start::At(cursor) => (cursor.next().max(feed.first_readable()).min(feed.head()), None),
        Start::OtherEpoch(cursor) => (cursor.next(), Some((None, GapReason::Epoch))),
        // A reader gets all retained events.
        Start::Lost(lost) => {
            let oldest = feed.first_retained();
            (oldest, Some((lost.missed(oldest), GapReason::Trimmed)))
        }
        Start::Unknown(_) => (feed.head(), Some((None, GapReason::Unknown))),
        Start::Backfill(_) => (feed.head(), None),
    };
    page_of(feed, from, gap, limit, from, feed.head())
}

/// Returns at most `limit` events from `from` on. An empty page ends at `reached`.
pub(super) fn page_of(
    feed: &impl Feed,
    from: Offset,
    gap: Option<(Option<Offset>, GapReason)>,
    limit: usize,
    reached: Offset,
    head: Offset,
) -> PageParts {
    let events = Slice::new(feed, from, limit, HISTORY_PAGE_BYTES);
    let offsets = events.offsets();
    let end = if events.first().is_none() { reached } else { events.end() };
    let envelope = Envelope {
        topic: feed.topic(),
        epoch: feed.epoch(),
        first: events.first().unwrap_or(end),
        last: end.saturating_sub(1),
        before: events.before(),
        offsets: offsets.as_deref(),
        keyed: None,
        events: &[],
    };
    let mut before = Vec::new();
    let events_at = envelope.write_around(&mut before);
    before.truncate(events_at);
    let head = feed.position_before(head);
    // The line break keeps the shell's prompt after curl on a line of its own.
    let after = format!("],\"head\":\"{head}\",\"gap\":{}}}\n", gap_json(gap));
    PageParts { before, events, after: after.into(), gap }
}

/// Returns the newest event of at most `limit` keys that changed from a start position on, in the order of the changes.
fn keyed_page(
    feed: &impl Feed,
    filter: Option<&KeyFilter>,
    start: StartAt,
    limit: usize,
) -> PageParts {
    let (cursor, gap) = match feed.start(start) {
        Start::At(cursor) => (cursor, None),
        Start::OtherEpoch(cursor) => (cursor, Some((None, GapReason::Epoch))),
        Start::Unknown(cursor) => (cursor, Some((None, feed.unknown_reason()))),
        Start::Lost(_) | Start::Backfill(_) => (Cursor::before(feed.head()), None),
    };
    let part = feed.state_part(&cursor, limit, filter).map(|(part, _)| part);
    let (from, head) = (cursor.next().min(feed.head()), feed.head());
    let mut joined = JoinedKeys::default();
    let mut to = part.as_ref().map_or(head, |part| part.to);
    for event in part.iter().flat_map(|part| &part.events) {
        // A reader without keys needs no removal.
        if from <= 1 && event.is_removal() {
            continue;
        }
        if !joined.push(event, HISTORY_PAGE_BYTES) {
            to = joined.end().unwrap_or(to);
            break;
        }
    }
    let envelope = joined.envelope((feed.topic(), feed.epoch()), (from, to), head);
    let mut before = Vec::new();
    envelope.write(&mut before);
    before.truncate(before.len() - 2);
    let head = feed.position_before(head);
    let after = format!("],\"head\":\"{head}\",\"gap\":{}}}\n", gap_json(gap));
    PageParts { before, events: Slice::default(), after: after.into(), gap }
}

fn gap_json(gap: Option<(Option<Offset>, GapReason)>) -> String {
    let Some((missed, reason)) = gap else { return "null".into() };
    let missed = missed.map_or("null".into(), |missed| missed.to_string());
    format!(r#"{{"missed":{missed},"reason":"{}"}}"#, reason.name())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thalweg_core::stream::{Batch, HistoryBounds, Log, Offsets, Payloads};

    use super::*;

    #[test]
    fn a_page_names_offsets_that_are_not_consecutive() {
        let bounds = HistoryBounds { events_max: 99, bytes_max: 1 << 20, age_us_max: u64::MAX };
        let (topic, epoch) = ("cars".parse().unwrap(), "9f".parse().unwrap());
        let mut feed = Log::new(topic, epoch, 1, Offsets::Stored, bounds);
        let mut push = |start, first, events: &[&str]| {
            let mut payloads = Payloads::default();
            for event in events {
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(event.as_bytes());
                    Ok::<_, ()>(())
                };
                payloads.push(write).unwrap();
            }
            feed.push(Arc::new(Batch::seal(start, first, payloads, 1)), 1);
        };
        push(1, 256, &["1", "2"]);
        push(258, 1024, &["3", "4"]);
        let json = |cursor: &str, limit| {
            let PageParts { before, mut events, after, .. } =
                page(&feed, None, cursor.parse().unwrap(), limit);
            let events = events.next_piece(99).unwrap_or_default();
            String::from_utf8([&before, &*events, &after].concat()).unwrap()
        };
        let end = "],\"head\":\"9f.1025\",\"gap\":null}\n";
        let head = |position: &str| format!(r#"{{"topic":"cars","position":"9f.{position}","#);
        let rest = r#""first":256,"after":0,"offsets":[256,257,1024],"events":[1,2,3"#;
        assert_eq!(json("9f.0", 3), head("1024") + rest + end);
        let rest = r#""first":257,"offsets":[257,1024,1025],"events":[2,3,4"#;
        assert_eq!(json("9f.256", 9), head("1025") + rest + end);
        let rest = r#""first":1024,"after":700,"events":[3"#;
        assert_eq!(json("9f.700", 1), head("1024") + rest + end);
        assert_eq!(json("9f.1025", 1), head("1025") + r#""first":1026,"events":["# + end);
    }
}
