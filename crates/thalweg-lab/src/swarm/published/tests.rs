use super::*;

/// Two subscribers, five events outstanding; `deliver` changes the events of the first, the second gets them as published.
fn check(deliver: impl FnOnce(&mut Vec<String>), expected: &str) {
    let mut topic = topic(5, 2);
    let (mut ledger, mut statistics) = (Ledger::new(2, Some(1)), SpanStatistics::default());
    let mut lines = Vec::new();
    topic.publish(1000, &mut lines);
    let lines = String::from_utf8(lines).unwrap();
    let intact: Vec<String> = lines.lines().map(str::to_owned).collect();
    let mut changed = intact.clone();
    deliver(&mut changed);
    for (subscription, events) in [changed, intact].iter().enumerate() {
        let events = events.join(",").into_bytes();
        let arrival =
            Arrival { subscription, is_reader: true, first: b"", events: &events, now_us: 1500 };
        topic.receive(arrival, &mut ledger, &mut statistics);
    }
    for subscription in 0..2 {
        ledger.close(subscription, topic.published());
    }
    assert_eq!(ledger.counts().to_string(), expected);
}

/// With so many outstanding, for so many readers.
fn topic(window: u32, readers: u32) -> Topic {
    Topic::new(0, Some(readers), &Settings { window, ..Settings::default() })
}

/// An event that the lab could have published.
fn forged(seq: u64, due_us: u64) -> String {
    let mut event = Vec::new();
    event::write(&mut event, Stamp { seq, due_us }, 128);
    String::from_utf8(event).unwrap()
}

#[test]
fn a_subject_that_misbehaves_is_caught() {
    check(|_| {}, "whole");
    check(|events| drop(events.remove(2)), "1 missing");
    check(|events| drop(events.pop()), "1 missing");
    check(|events| events.clear(), "5 missing");
    check(|events| events.insert(2, events[1].clone()), "1 duplicated");
    check(|events| events.swap(1, 2), "1 reordered");
    // A changed byte: damaged, and so the event itself never came.
    check(|events| events[3] = events[3].replacen("xx", "xy", 1), "1 missing, 1 corrupt");
    check(|events| events[0] = events[0].replacen("1000", "1001", 1), "1 missing, 1 corrupt");
    check(|events| events.push("{}".to_owned()), "1 corrupt");
    // Checksums hold: an event of another time, and one that is not published yet.
    check(|events| events[3] = forged(4, 1001), "1 missing, 1 corrupt");
    check(|events| events.push(forged(6, 1000)), "1 early");
}

#[test]
fn late_events_are_compared_however_many_are_outstanding() {
    let mut topic = topic(4, 1);
    let (mut ledger, mut statistics) = (Ledger::new(1, Some(1)), SpanStatistics::default());
    let mut received = 0;
    for burst in [3u64, 700, 5, 2000, 1] {
        let mut lines = Vec::new();
        for _ in 0..burst {
            topic.publish_on_schedule(1000 + topic.published(), &mut lines);
        }
        assert_eq!(topic.outstanding(), burst);
        assert_eq!(topic.waits_since_us(), Some(1000 + received));
        received += burst;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let events = &line[..line.len() - 1];
            let arrival =
                Arrival { subscription: 0, is_reader: true, first: b"", events, now_us: 5000 };
            let next = ledger.next(0).unwrap();
            assert!(topic.ring[topic.index(next)].matches(next, events).is_some(), "{next}");
            topic.receive(arrival, &mut ledger, &mut statistics);
        }
        assert_eq!((topic.waits_since_us(), topic.outstanding()), (None, 0));
    }
    assert_eq!(ledger.counts().to_string(), "whole");
    assert_eq!(statistics.traffic.events, received);
    // Exact to three digits.
    assert!((4000..4005).contains(&statistics.latency.quantile_us(1.0).unwrap()));
}

#[test]
fn the_window_moves_when_the_last_reader_has_an_event() {
    let mut topic = topic(1, 2);
    let (mut ledger, mut statistics) = (Ledger::new(3, Some(1)), SpanStatistics::default());
    let mut line = Vec::new();
    topic.publish(0, &mut line);
    line.pop();
    let mut arrive = |subscription, is_reader, topic: &mut Topic| {
        let arrival = Arrival { subscription, is_reader, first: b"", events: &line, now_us: 0 };
        topic.receive(arrival, &mut ledger, &mut statistics);
        topic.has_moved()
    };
    assert!(!arrive(0, true, &mut topic));
    assert!(!arrive(2, false, &mut topic), "nobody waits for one that will stop");
    assert!(arrive(1, true, &mut topic));
    assert!(!topic.has_moved(), "it is told once");
    topic.publish(0, &mut Vec::new());
    assert!(!topic.has_moved(), "the window is full");
}

/// Two outstanding, each for 1 ms, on one reader, for 100 ms: Little's law if the clock runs `fast` times too fast, and each
/// delivery counts as `counted`.
fn littles(fast: u64, counted: f64) -> f64 {
    let mut topic = topic(2, 1);
    let (mut ledger, mut statistics) = (Ledger::new(1, Some(1)), SpanStatistics::default());
    let mut lines = Vec::new();
    topic.publish(0, &mut lines);
    topic.begin_span();
    for number in 1..=100 {
        let events = String::from_utf8(lines.clone()).unwrap().trim().replace('\n', ",");
        let now_us = number * 1000 * fast;
        let events = events.as_bytes();
        let arrival = Arrival { subscription: 0, is_reader: true, first: b"", events, now_us };
        topic.receive(arrival, &mut ledger, &mut statistics);
        lines.clear();
        topic.publish(now_us, &mut lines);
    }
    littles_ratio(&[topic], statistics.traffic.events as f64 * counted, 100_000).unwrap()
}

/// 100 ms with one outstanding in each of two topics: of the first for 1 ms, of the second for 10 ms.
#[test]
fn littles_law_is_one_sum_over_unequal_topics() {
    let mut topics = [topic(1, 1), topic(1, 1)];
    let (mut ledger, mut statistics) = (Ledger::new(2, Some(1)), SpanStatistics::default());
    let mut lines = [Vec::new(), Vec::new()];
    for (topic, line) in topics.iter_mut().zip(&mut lines) {
        topic.publish(0, line);
        topic.begin_span();
    }
    for now_us in (1000..=100_000).step_by(1000) {
        for (subscription, each_us) in [(0, 1000), (1, 10_000)] {
            if now_us % each_us > 0 {
                continue;
            }
            let line = std::mem::take(&mut lines[subscription]);
            let events = line.trim_ascii_end();
            let arrival = Arrival { subscription, is_reader: true, first: b"", events, now_us };
            topics[subscription].receive(arrival, &mut ledger, &mut statistics);
            topics[subscription].publish(now_us, &mut lines[subscription]);
        }
    }
    assert_eq!((ledger.counts().to_string().as_str(), statistics.traffic.events), ("whole", 110));
    let ratio = littles_ratio(&topics, statistics.traffic.events as f64, 100_000).unwrap();
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
}

/// Two readers, three outstanding: the second reader has all of them, the first is told of a gap after its first and then gets
/// `then`. Returns the window's position and the ledger's text.
fn gap(missed: Option<u64>, then: &[u64]) -> (u64, String) {
    let mut topic = topic(3, 2);
    let (mut ledger, mut statistics) = (Ledger::new(2, Some(1)), SpanStatistics::default());
    let mut published = Vec::new();
    topic.publish(0, &mut published);
    let mut receive = |subscription, numbers: &[u64], topic: &mut Topic, lines: &[u8], gap| {
        let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
        let events = numbers.iter().map(|number| lines[*number as usize - 1]);
        let events = events.collect::<Vec<_>>().join(&b","[..]);
        let arrival =
            Arrival { subscription, is_reader: true, first: b"", events: &events, now_us: 9 };
        match gap {
            Some(missed) => topic.gap(arrival, missed, &mut ledger),
            None => topic.receive(arrival, &mut ledger, &mut statistics),
        }
        ledger.counts().to_string()
    };
    receive(1, &[1, 2, 3], &mut topic, &published, None);
    receive(0, &[1], &mut topic, &published, None);
    receive(0, &[], &mut topic, &published, Some(missed));
    let complete = topic.complete;
    topic.publish(10, &mut published);
    let last = topic.published();
    receive(1, &(4..=last).collect::<Vec<_>>(), &mut topic, &published, None);
    let counts = receive(0, then, &mut topic, &published, None);
    assert!(topic.complete <= last && (then.last() != Some(&last) || topic.is_settled()));
    (complete, counts)
}

#[test]
fn the_window_does_not_wait_for_events_in_an_announced_gap() {
    assert_eq!(gap(Some(1), &[3, 4, 5]), (2, "1 gap announced".to_owned()));
    assert_eq!(gap(Some(2), &[4, 5, 6]), (3, "1 gap announced".to_owned()));
    // No more than was published, whatever it says.
    assert_eq!(gap(Some(u64::MAX), &[4, 5, 6]), (3, "1 gap announced".to_owned()));
    assert_eq!(gap(None, &[4, 5, 6]), (3, "1 gap announced".to_owned()));
    // Some that were outstanding come all the same, and count for the window once.
    assert_eq!(gap(None, &[3, 4, 5, 6]), (3, "1 gap announced".to_owned()));
    assert_eq!(gap(None, &[2, 3, 4, 5, 6]), (3, "1 gap announced".to_owned()));
    assert_eq!(gap(None, &[4, 6]), (3, "1 missing, 1 gap announced".to_owned()));
}

#[test]
fn an_excused_connection_counts_once() {
    let mut topic = topic(1, 2);
    let (mut ledger, mut statistics) = (Ledger::new(2, Some(1)), SpanStatistics::default());
    let mut line = Vec::new();
    topic.publish(0, &mut line);
    line.pop();
    let arrival = |subscription, events| Arrival {
        subscription,
        is_reader: true,
        first: b"",
        events,
        now_us: 0,
    };
    topic.gap(arrival(0, &b""[..]), None, &mut ledger);
    assert!(!topic.is_due(), "the other reader does not have it");
    topic.receive(arrival(0, &line), &mut ledger, &mut statistics);
    assert!(!topic.is_due(), "nor now that the first has it after all");
    topic.receive(arrival(1, &line), &mut ledger, &mut statistics);
    assert!(topic.is_due());
}

#[test]
fn littles_law_holds_and_finds_a_broken_clock_and_a_broken_count() {
    assert!((littles(1, 1.0) - 1.0).abs() < 1e-9);
    assert!((littles(2, 1.0) - 2.0).abs() < 1e-9);
    assert!((littles(1, 0.5) - 0.5).abs() < 1e-9);
}
