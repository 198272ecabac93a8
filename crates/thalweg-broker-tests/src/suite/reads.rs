//! Reads of stored records, and ends of topics.

use thalweg_broker::{Content, ReadRange, TopicRange, Unreadable};
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_testing::wait_for;
use thalweg_wire::{EndCode, Epoch, Offset};

use super::{Rig, node};
use crate::node::event_content;

fn events(records: &[(Offset, Payloads)]) -> Vec<(Offset, String)> {
    let text = |payloads: &Payloads| String::from_utf8_lossy(payloads.joined()).into_owned();
    records.iter().map(|(first, payloads)| (*first, text(payloads))).collect()
}

/// A range is read page by page, without holes and without records of other topics.
pub fn ranges<R: Rig>(rig: &mut R) {
    let node = node(rig);
    let mut expected = Vec::new();
    for nth in 0..100 {
        let (one, two) = (format!("[{nth},1]"), format!("[{nth},2]"));
        let stored = node.append("log/a", &[&one, &two], None).expect("stored");
        expected.extend([(stored.first, one), (stored.first + 1, two)]);
        node.append("log/b", &["0"], None).expect("stored");
    }
    let end = expected[199].0 + 1;
    assert_eq!(node.read_all("log/a", 0, end), expected);
    // From the middle of a record on, and until before another.
    let (from, until) = (expected[51].0, expected[150].0);
    assert_eq!(node.read_all("log/a", from, until), expected[51..150]);
    let page = node.read("log/a", from, until);
    assert_eq!(page.records[0].0, expected[50].0, "the record that has the event");
    assert!(page.stored_from <= expected[0].0 && page.head >= end, "{page:?}");
    // An empty range has no records, and says how far the stream is.
    let empty = node.read("log/a", end, 1);
    assert!(empty.records.is_empty() && empty.is_whole);
    assert!(empty.head >= end && empty.head <= end + 1024, "{} after {end}", empty.head);
    let three = node.append("log/a", &["1", "2", "3"], None).expect("stored").first;
    assert!(node.read("log/a", three + 2, three + 1).records.is_empty(), "within a record, too");
    let empty = node.read("log/empty", 0, end);
    assert!(empty.records.is_empty() && empty.is_whole && empty.newest == 0);
    let range = |epoch| ReadRange {
        stream: 0,
        topic: "log/a".parse().expect("a topic"),
        epoch,
        from: 0,
        until: end,
    };
    let other = Epoch::new(node.streams[0].epoch.get() + 1).expect("not 0");
    assert!(matches!(node.caller().read(range(other), false), Err(Unreadable)));
}

/// Lost records are holes in the pages of their topic, and records before them stay readable.
pub fn losses<R: Rig>(rig: &mut R) {
    let node = node(rig);
    let mut firsts = Vec::new();
    for nth in 0..40 {
        let event = format!("[{nth}]");
        firsts.push(node.append("log/a", &[&event, "0"], None).expect("stored").first);
        node.append("log/b", &["0"], None).expect("stored");
    }
    let end = firsts[39] + 2;
    let lost = firsts[10]..firsts[12];
    if !rig.lose(lost.clone()) {
        return;
    }
    let kept: Vec<_> = firsts.iter().copied().filter(|first| !lost.contains(first)).collect();
    for is_again in [false, true] {
        let pages = node.pages("log/a", 0, end);
        let records = pages.iter().flat_map(|(_, page)| &page.records);
        assert_eq!(records.map(|(first, _)| *first).collect::<Vec<_>>(), kept, "{is_again}");
        let holes: Vec<_> = pages.iter().flat_map(|(_, page)| page.holes.clone()).collect();
        let are_lost = |first: &Offset| holes.iter().any(|hole| hole.contains(first));
        assert!(firsts[10..12].iter().all(are_lost), "{holes:?} has not {lost:?}");
        assert!(!kept.iter().any(are_lost), "{holes:?} has more than {lost:?}");
        for (_, page) in &pages {
            assert!(page.stored_from <= firsts[0], "older events are unreadable: {page:?}");
            assert!(page.holes.is_sorted_by(|one, two| one.end < two.start), "{page:?}");
        }
    }
    let page = node.read("log/a", firsts[8], firsts[10]);
    assert_eq!((page.records.len(), page.holes), (2, vec![]), "the range ends before");
    // From within the hole on, also up to within it.
    for until in [firsts[11] + 1, end] {
        let page = node.read("log/a", firsts[11], until);
        let hole = page.holes.first().expect("a hole");
        assert_eq!(hole.start, firsts[11]);
        assert!(hole.end > firsts[11] && hole.end <= until.min(firsts[12]), "{page:?}");
        assert_eq!(
            page.records.first().map(|(first, _)| *first),
            kept.get(10).copied().filter(|first| *first < until)
        );
    }
    let page = node.read("log/a", firsts[12], end);
    assert_eq!((page.records[0].0, page.holes), (firsts[12], vec![]), "the range begins after");
}

/// The newest record of a value topic is read, also after records of other topics.
pub fn newest<R: Rig>(rig: &mut R) {
    let node = node(rig);
    assert_eq!(node.streams[1].kind, FeedKind::Value);
    assert!(node.newest("values/a").records.is_empty());
    for value in ["1", "2", "3"] {
        let stored = node.append("values/a", &[value], None).expect("stored");
        node.append("values/b", &["0"], None).expect("stored");
        let page = node.newest("values/a");
        assert_eq!(events(&page.records), [(stored.first, value.to_owned())]);
        assert!(page.is_whole && page.newest == stored.first, "{page:?}");
    }
    let end = node.append_content("values/a", Content::End(EndCode::Gone), None).expect("stored");
    let page = node.newest("values/a");
    assert_eq!((events(&page.records), page.newest), (vec![], end.first));
    let again = node.append("values/a", &["4"], None).expect("stored");
    assert_eq!(events(&node.newest("values/a").records), [(again.first, "4".to_owned())]);
    let newer = ReadRange {
        stream: 1,
        topic: "values/a".parse().expect("a topic"),
        epoch: node.streams[1].epoch,
        from: again.first + 1,
        until: 0,
    };
    let page = wait_for("a page", || node.caller().read(newer.clone(), true).ok());
    assert!(page.records.is_empty(), "it is older than `from`: {page:?}");
}

/// An end is delivered, and records before it are unreadable.
pub fn ends<R: Rig>(rig: &mut R) {
    let mut node = node(rig);
    let end = || Content::End(EndCode::Deleted);
    for event in ["1", "2"] {
        node.append("log/a", &[event], None).expect("stored");
    }
    let other = node.append("log/b", &["1"], None).expect("stored");
    let paused = node.append_content("log/b", Content::Paused(300), None).expect("stored");
    let ended = node.append_content("log/a", end(), None).expect("stored");
    let until = ended.first + 1;
    let page = node.read("log/a", 0, until);
    assert!(page.records.is_empty() && page.is_whole, "{page:?}");
    assert!(page.stored_from > ended.first, "{page:?}");
    assert_eq!(page.newest, ended.first);
    let again = node.append_content("log/a", event_content(&["3"]), None).expect("stored");
    let page = node.read("log/a", 0, again.first + 1);
    assert_eq!(events(&page.records), [(again.first, "3".to_owned())]);
    assert!(page.stored_from > ended.first && page.stored_from <= again.first, "{page:?}");
    // A range before the end has no records either.
    assert!(node.read("log/a", 0, ended.first).records.is_empty());
    let page = node.read("log/b", 0, until);
    assert_eq!(events(&page.records), [(other.first, "1".to_owned())]);
    assert_eq!((page.pauses, page.newest), (vec![(paused.first, 300)], paused.first));
    let records = node.records(6).into_iter();
    let delivered = records.map(|(_, topic, content)| format!("{topic} {content}"));
    let expected =
        ["log/a 1", "log/a 2", "log/b 1", "log/b paused: 300", "log/a ended: deleted", "log/a 3"];
    assert_eq!(delivered.collect::<Vec<_>>(), expected);
}

/// Each pause of a range is on a page: not before the records that precede it, and not after those that follow.
pub fn pauses<R: Rig>(rig: &mut R) {
    let node = node(rig);
    // Large, for pages with few records.
    let event = format!("\"{}\"", "x".repeat(node.streams[0].bytes_max.min(64 << 10) - 2));
    let (mut paused, mut end) = (Vec::new(), 0);
    for nth in 0..60 {
        node.append("log/a", &[&event], None).expect("stored");
        if nth % 3 == 0 {
            let pause = node.append_content("log/a", Content::Paused(300 + nth), None);
            paused.push((pause.expect("stored").first, 300 + nth));
        }
        end = node.append("log/b", &["0"], None).expect("stored").first;
    }
    let pages = node.pages("log/a", 0, end);
    assert_eq!(pages.iter().map(|(_, page)| page.records.len()).sum::<usize>(), 60);
    let mut known = Vec::new();
    for (nth, (_, page)) in pages.iter().enumerate() {
        // A pause behind the last record of a page may be on the next page again.
        known.extend(
            page.pauses.iter().filter(|pause| !known.contains(*pause)).copied().collect::<Vec<_>>(),
        );
        let next = pages.get(nth + 1).map_or(end, |(_, page)| page.records[0].0);
        let last = page.records.last().map_or(0, |(first, _)| *first);
        assert!(known.iter().all(|(at, _)| *at < next), "{known:?} before the record at {next}");
        let due = paused.iter().filter(|(at, _)| *at < last);
        assert!(due.clone().all(|pause| known.contains(pause)), "{known:?} at {last}: {paused:?}");
    }
    assert_eq!(known, paused);
}

/// The list has the topics with readable records, in the order of their names, also after a crash.
pub fn topics<R: Rig>(rig: &mut R) {
    let mut node = node(rig);
    let range = |patterns: &[&str], prefix: &str, after: &str, limit: usize| TopicRange {
        patterns: patterns.iter().map(|pattern| pattern.parse().expect("a pattern")).collect(),
        prefix: prefix.to_owned(),
        after: after.to_owned(),
        limit,
    };
    for nth in (0..30).rev() {
        node.append(&format!("log/{nth:02}"), &["1"], None).expect("stored");
    }
    for topic in ["values/a", "values/b", "log/ended", "values/ended", "log/again"] {
        node.append(topic, &["1"], None).expect("stored");
    }
    for topic in ["log/ended", "values/ended", "log/again"] {
        let end = Content::End(EndCode::Gone);
        node.append_content(topic, end, None).expect("stored");
    }
    node.append("log/again", &["2"], None).expect("stored");
    for life in 0..2 {
        let Some(all) = node.caller().topics(&range(&["**"], "", "", 100)) else { return };
        let mut expected: Vec<_> = (0..30).map(|nth| format!("log/{nth:02}")).collect();
        expected.extend(["log/again", "values/a", "values/b"].map(str::to_owned));
        assert_eq!(all, expected, "life {life}");
        let list = |range| node.caller().topics(&range).expect("a list");
        assert_eq!(list(range(&["**"], "", "", 3)), ["log/00", "log/01", "log/02"]);
        assert_eq!(list(range(&["**"], "", "log/28", 2)), ["log/29", "log/again"]);
        assert_eq!(list(range(&["**"], "log/1", "log/18", 5)), ["log/19"]);
        assert_eq!(list(range(&["values/*", "log/07"], "", "", 2)), ["log/07", "values/a"]);
        assert!(list(range(&["**"], "", "values/b", 5)).is_empty());
        assert!(list(range(&[], "", "", 5)).is_empty());
        drop(node);
        rig.restart();
        node = super::node(rig);
    }
}
