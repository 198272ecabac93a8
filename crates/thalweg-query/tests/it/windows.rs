//! Windows: their events, their closing, and left-out events.

use std::sync::Arc;

use thalweg_query::{Beginning, Bounds, Counts, Query, Running};

use crate::running::{Made, PUBLISHED_MS, begin, check, close_all, columns, made};

const COLUMNS: &[&str] = &["t:time", "k:string", "v:int"];

/// Events at these seconds and ms.
fn at(times: &[&str]) -> Vec<String> {
    times.iter().map(|time| format!(r#"["2022-07-13T21:00:{time}Z","a",1]"#)).collect()
}

fn texts(events: &[String]) -> Vec<&str> {
    events.iter().map(String::as_str).collect()
}

fn start(second: u32) -> String {
    format!("\"2022-07-13T21:00:{second:02}Z\"")
}

#[test]
fn a_window_closes_with_the_first_event_behind_it_and_what_comes_later_is_late() {
    let mut running = begin(
        "SELECT window_start, count(*) FROM tumble(t, 1s) GROUP BY window_start",
        COLUMNS,
        Bounds::default(),
    );
    let mut made = Made::default();
    let events = at(&["00.100", "00.900", "00.999", "01.000", "00.950", "01.500"]);
    let closed_after: Vec<usize> = events
        .iter()
        .enumerate()
        .map(|(index, event)| {
            running.take(index as u64 + 1, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
            made.0.len()
        })
        .collect();
    assert_eq!(closed_after, [0, 0, 0, 1, 1, 1]);
    assert_eq!(running.open_windows(), 1);
    close_all(&mut running, &mut made);
    assert_eq!(made.rows(), [format!("[{},3]", start(0)), format!("[{},2]", start(1))]);
    // The offset tells which event closed it.
    assert_eq!(made.0.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [1, 2]);
    running.take(7, at(&["01.700"])[0].as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    let expected = Counts { events: 7, late: 2, windows: 2, rows: 2, ..Counts::default() };
    assert_eq!(Counts { steps: 0, ..running.counts() }, expected);
    assert_eq!(running.held(), (0, 0));
}

#[test]
fn a_delay_waits_for_those_that_are_late() {
    let events = at(&["00.100", "01.000", "00.950", "02.499", "00.001", "02.500", "00.002"]);
    let query = "SELECT window_start, count(*) FROM tumble(t, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE WITH DELAY 1500ms AND TIMEOUT 3s";
    let expected =
        [format!("[{},3]", start(0)), format!("[{},1]", start(1)), format!("[{},2]", start(2))];
    check(query, COLUMNS, &texts(&events), &expected.each_ref().map(String::as_str));
    let older = query.replace("WINDOW CLOSE WITH DELAY", "WATERMARK AND DELAY");
    check(&older, COLUMNS, &texts(&events), &expected.each_ref().map(String::as_str));
}

#[test]
fn an_event_is_in_each_hopping_window_that_has_its_time() {
    let events = at(&["02.100", "03.900"]);
    let query = "SELECT window_start, window_end, sum(v) FROM hop(t, 1s, 3s) GROUP BY window_start, window_end";
    let expected: Vec<String> = [(0, 1), (1, 2), (2, 2), (3, 1)]
        .into_iter()
        .map(|(second, sum)| format!("[{},{},{sum}]", start(second), start(second + 3)))
        .collect();
    check(query, COLUMNS, &texts(&events), &texts(&expected));
    let rows = "SELECT window_start FROM hop(t, 1s, 2s)";
    let expected: Vec<String> = [1, 2, 2, 3].map(|second| format!("[{}]", start(second))).to_vec();
    check(rows, COLUMNS, &texts(&events), &texts(&expected));
}

#[test]
fn the_time_of_a_window_is_an_expression() {
    let events = [
        r#"["2022-07-13 21:00:00.100+00",1657746000100,1]"#,
        r#"["2022-07-13T23:00:00.9+02:00",1657746000900,2]"#,
        r#"["yesterday",null,3]"#,
        r#"["2022-07-13T21:00:01",1657746001000,4]"#,
    ];
    let columns = ["text:string", "ms:int", "v:int"];
    for time in [
        "CAST(text AS TIMESTAMP)",
        "text::timestamp",
        "CAST(ms AS TIMESTAMP)",
        "CAST(ms / 1000 * 1000 AS TIMESTAMP) + INTERVAL 1 ms",
        "DESCRIPTOR(CAST(ms AS TIMESTAMP))",
        "coalesce(CAST(text AS TIMESTAMP), CAST(ms AS TIMESTAMP))",
    ] {
        let query =
            format!("SELECT window_start, sum(v) FROM tumble(t, {time}, 1s) GROUP BY window_start");
        let expected = [format!("[{},3]", start(0)), format!("[{},4]", start(1))];
        check(&query, &columns, &events, &texts(&expected));
        let plan = Query::parse(&query).unwrap().plan(&crate::running::columns(&columns)).unwrap();
        assert_eq!(plan.time_ms(events[0].as_bytes()).map(|ms| ms / 1000), Some(1_657_746_000));
        assert_eq!(plan.time_ms(events[2].as_bytes()), None);
    }
    let hop = "SELECT window_start, sum(v) FROM hop(t, CAST(ms AS TIMESTAMP), 1s, 2s) GROUP BY window_start";
    let hopping = [(0, 7), (1, 4)].map(|(second, sum)| format!("[{},{sum}]", start(second)));
    let before = "[\"2022-07-13T20:59:59Z\",3]".to_owned();
    check(hop, &columns, &events, &texts(&[&[before][..], &hopping].concat()));
}

#[test]
fn an_event_without_a_time_is_in_no_window_and_counted() {
    let query = "SELECT window_start, count(*) FROM tumble(t, CAST(ms AS TIMESTAMP), 1s) GROUP BY window_start";
    let mut running = begin(query, &["ms:int"], Bounds::default());
    for (offset, ms) in ["null", "253402300800000", "9223372036854775807"].iter().enumerate() {
        running
            .take(
                offset as u64 + 1,
                format!("[{ms}]").as_bytes(),
                PUBLISHED_MS,
                0,
                &mut Made::default(),
            )
            .unwrap();
    }
    assert_eq!((running.counts().without_time, running.open_windows()), (3, 0));
}

#[test]
fn rows_of_a_window_come_in_the_order_of_their_keys() {
    let event = |key: &str, v: i32| format!(r#"["2022-07-13T21:00:00Z",{key},{v}]"#);
    let events = [
        event("\"b\"", 1),
        event("null", 2),
        event("\"a\"", 3),
        event("\"b\"", 4),
        event("\"aa\"", -5),
    ];
    let query = "SELECT k, sum(v), count(k), first(v), last(v), avg(v), min(v) FROM tumble(t, 1s) GROUP BY window_start, k HAVING count(*) < 9";
    check(
        query,
        COLUMNS,
        &texts(&events),
        &[
            "[null,2,0,2,2,2.0,2]",
            "[\"a\",3,1,3,3,3.0,3]",
            "[\"aa\",-5,1,-5,-5,-5.0,-5]",
            "[\"b\",5,2,1,4,2.5,1]",
        ],
    );
}

#[test]
fn an_aggregate_may_be_of_some_rows() {
    let events = at(&["00", "00.5", "00.9"]);
    let query = "SELECT count(*) FILTER (WHERE epoch_ms(t) % 1000 > 400), max(v) FILTER (WHERE v > 1) FROM tumble(t, 1s) GROUP BY window_start";
    check(query, COLUMNS, &texts(&events), &["[2,null]"]);
}

/// The instant of a day of 2026, in ms since 1970.
fn day(day: i64) -> i64 {
    1_767_225_600_000 + day * 86_400_000
}

/// Takes an event with its publication time and its own time.
fn published(running: &mut Running, made: &mut Made, published_ms: i64, time_ms: i64) {
    let offset = running.counts().events + 1;
    let event = format!(r#"[{time_ms},"a",1]"#);
    running.take(offset, event.as_bytes(), published_ms, 0, made).expect("within bounds");
}

#[test]
fn events_without_a_time_are_in_no_window_and_counted() {
    let query = "SELECT count(*) FROM tumble(t, 1s) GROUP BY window_start";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut made = Made::default();
    let [first, last] = [at(&["00"]), at(&["01"])].concat().try_into().expect("two");
    let events = [first, r#"[null,"a",1]"#.into(), r#"["x","a",1]"#.into(), last];
    for (offset, event) in (1..).zip(&events) {
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    }
    let counts = running.counts();
    assert_eq!((counts.without_time, counts.unreadable, counts.late), (2, 1, 0));
    assert_eq!(made.rows(), ["[1]"]);
}

#[test]
fn a_topic_that_pauses_for_days_loses_nothing() {
    let query = "SELECT window_start, count(*) FROM tumble(t, 1d) GROUP BY window_start";
    for days_between in [1, 2, 3, 40] {
        let mut running = begin(query, COLUMNS, Bounds::default());
        let mut made = Made::default();
        for number in 0..40 {
            let time_ms = day(number * days_between);
            published(&mut running, &mut made, time_ms + 10, time_ms);
        }
        close_all(&mut running, &mut made);
        assert_eq!((made.rows().len(), made.0.len()), (40, 40), "every {days_between} days");
        let expected = Counts { events: 40, windows: 40, rows: 40, ..Counts::default() };
        assert_eq!(Counts { steps: 0, ..running.counts() }, expected);
    }
}

#[test]
fn a_wrong_clock_decides_for_nobody_and_what_is_left_out_is_announced() {
    const FAR_MS: i64 = 4_070_908_800_000; // 2099
    let query = "SELECT window_start, sum(v) FROM tumble(t, 1s) GROUP BY window_start";
    let bounds = Bounds { lead_ms: 60_000, ..Bounds::default() };
    let mut running = begin(query, COLUMNS, bounds);
    let mut made = Made::default();
    let now = day(7);
    // The first event of all is wrong, and so are many consecutive events that agree.
    for _ in 0..20 {
        published(&mut running, &mut made, now, FAR_MS);
    }
    published(&mut running, &mut made, now, now);
    published(&mut running, &mut made, now + 100, now + 60_101);
    published(&mut running, &mut made, now + 1_000, now + 1_000);
    // As far ahead as allowed.
    published(&mut running, &mut made, now + 2_000, now + 62_000);
    close_all(&mut running, &mut made);
    let rows: Vec<bool> = made.0.iter().map(|(_, row)| row.is_some()).collect();
    assert_eq!(rows, [false, false, true, true, true], "{made:?}");
    let expected = Counts { events: 24, ahead: 21, windows: 3, rows: 3, ..Counts::default() };
    assert_eq!(Counts { steps: 0, ..running.counts() }, expected);
    // Also if no window ends any more: after some time, and without events.
    let before = made.0.len();
    for seconds in 3..13 {
        published(&mut running, &mut made, now + seconds * 1_000, FAR_MS);
    }
    assert_eq!(made.0.len(), before + 1);
    assert!(running.waits() && running.open_windows() == 0);
    close_all(&mut running, &mut made);
    assert_eq!(made.0.len(), before + 2);
    assert!(!running.waits() && made.0[before..].iter().all(|(_, row)| row.is_none()));
}

#[test]
fn windows_that_lost_events_are_announced_and_the_first_partial_one_is_left_out() {
    let query =
        Query::parse("SELECT window_start FROM tumble(t, 1s) GROUP BY window_start").unwrap();
    let plan = Arc::new(query.plan(&columns(COLUMNS)).unwrap());
    let mut running = Running::new(plan, Bounds::default(), Beginning::Anywhere);
    let mut made = Made::default();
    let mut offset = 255;
    let mut take = |running: &mut Running, time: &str, made: &mut Made| {
        offset += 1;
        running.take(offset, at(&[time])[0].as_bytes(), PUBLISHED_MS, 0, made).unwrap();
    };
    take(&mut running, "00.5", &mut made);
    take(&mut running, "01.5", &mut made);
    take(&mut running, "02.5", &mut made);
    assert_eq!(
        made.rows(),
        [format!("[{}]", start(1))],
        "the window of the first event is partial"
    );
    running.lose();
    take(&mut running, "02.7", &mut made);
    take(&mut running, "03.7", &mut made);
    running.lose();
    take(&mut running, "05.0", &mut made);
    take(&mut running, "06.0", &mut made);
    take(&mut running, "07.0", &mut made);
    let rows: Vec<Option<&str>> = made.0.iter().map(|(_, row)| row.as_deref()).collect();
    let (one, six) = (format!("[{}]", start(1)), format!("[{}]", start(6)));
    assert_eq!(rows, [Some(&*one), None, None, None, Some(&*six)]);
    let counts = running.counts();
    assert_eq!((counts.windows, counts.windows_partial, counts.windows_lost), (2, 1, 3));
}

/// Returns the counts of a run with these keys in each of its seconds, and its rows with their seconds.
fn run_of_keys(bounds: Bounds, keys: &[usize]) -> (Counts, Vec<Option<String>>) {
    let query = "SELECT window_start, count(*) FROM tumble(t, 1s) GROUP BY window_start, k";
    let mut running = begin(query, COLUMNS, bounds);
    let mut made = Made::default();
    let mut offset = 0;
    for (second, keys) in keys.iter().enumerate() {
        for key in 0..*keys {
            offset += 1;
            let event = format!(r#"["2022-07-13T21:00:{second:02}Z","key{key}",1]"#);
            running
                .take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made)
                .expect("within bounds");
            let (groups, bytes) = running.held();
            assert!(groups <= bounds.groups && bytes <= bounds.state_bytes + 600);
        }
    }
    close_all(&mut running, &mut made);
    assert_eq!(running.held(), (0, 0));
    (running.counts(), made.0.into_iter().map(|(_, row)| row).collect())
}

#[test]
fn a_window_with_too_many_groups_is_lost_as_a_whole_and_announced() {
    let bounds = Bounds { groups: 100, ..Bounds::default() };
    let (counts, made) = run_of_keys(bounds, &[100, 101, 2_000, 3]);
    let rows_of =
        |second: u32| made.iter().flatten().filter(|row| row.contains(&start(second))).count();
    assert_eq!([0, 1, 2, 3].map(rows_of), [100, 0, 0, 3]);
    assert_eq!(made.iter().filter(|row| row.is_none()).count(), 2);
    assert_eq!((counts.windows, counts.windows_lost, counts.full_groups), (2, 2, 2));
    assert_eq!((counts.refused(), counts.rows), (2, 103));
}

#[test]
fn a_window_with_too_much_state_is_lost_as_a_whole_and_announced() {
    let bounds = Bounds { state_bytes: 20_000, ..Bounds::default() };
    let (counts, made) = run_of_keys(bounds, &[10, 2_000, 5]);
    assert_eq!((made.len(), made.iter().flatten().count()), (16, 15));
    assert_eq!((counts.windows, counts.windows_lost, counts.full_state), (2, 1, 1));
    // Aggregated texts count while they are held.
    for function in ["last", "max", "first"] {
        let query = format!("SELECT {function}(k) FROM tumble(t, 1s) GROUP BY window_start, v");
        let mut running = begin(&query, COLUMNS, Bounds { state_bytes: 100_000, ..bounds });
        let mut made = Made::default();
        for offset in 1..=300_u64 {
            let text = if offset <= 100 { "short".to_owned() } else { "x".repeat(10_000) };
            let event = format!(r#"["2022-07-13T21:00:00Z","{text}",{}]"#, offset % 100);
            running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
            assert!(running.held().1 < 100_000);
        }
        close_all(&mut running, &mut made);
        let is_kept = function == "first";
        assert_eq!((made.rows().len(), running.held()), (if is_kept { 100 } else { 0 }, (0, 0)));
        assert_eq!(
            (made.0.len(), running.counts().refused()),
            if is_kept { (100, 0) } else { (1, 1) }
        );
    }
    let query = "SELECT count(*) FROM tumble(t, 1s) GROUP BY window_start, k";
    let mut running = begin(query, COLUMNS, bounds);
    let event = format!(r#"["2022-07-13T21:00:00Z","{}",1]"#, "x".repeat(60_000));
    running.take(1, event.as_bytes(), PUBLISHED_MS, 0, &mut Made::default()).unwrap();
    assert_eq!((running.held(), running.counts().full_state), ((0, 0), 1));
}

#[test]
fn windows_that_overlap_are_lost_until_the_others_have_room() {
    let bounds = Bounds { groups: 100, ..Bounds::default() };
    let query = "SELECT window_start, count(*) FROM hop(t, 1s, 3s) GROUP BY window_start, k";
    let mut running = begin(query, COLUMNS, bounds);
    let mut made = Made::default();
    for offset in 1..=400_u64 {
        let event = format!(r#"["2022-07-13T21:00:{:02}Z","key{}",1]"#, offset / 40, offset % 40);
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    }
    close_all(&mut running, &mut made);
    let counts = running.counts();
    assert!(counts.windows > 3 && counts.windows_lost > 3, "{counts:?}");
    // An emitted window has all of its events.
    let complete = |row: &&&str| row.ends_with(",3]");
    assert!(made.rows().iter().filter(complete).count() > 40, "{made:?}");
    assert_eq!(made.0.iter().filter(|(_, row)| row.is_none()).count() as u64, counts.windows_lost);
}

#[test]
fn an_event_without_room_for_its_window_is_announced() {
    let query = "SELECT window_start, count(*) FROM tumble(t, 1s) GROUP BY window_start EMIT AFTER WINDOW CLOSE WITH DELAY 10s";
    let mut running = begin(query, COLUMNS, Bounds { windows: 3, ..Bounds::default() });
    let mut made = Made::default();
    for (offset, second) in (1..).zip(["00", "01", "02", "03", "20"]) {
        running.take(offset, at(&[second])[0].as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    }
    assert_eq!((running.counts().full_windows, made.rows().len()), (2, 0));
    assert!(made.0.len() >= 4, "{made:?}");
}

#[test]
fn a_row_is_no_larger_than_an_event_and_a_long_text_is_null_where_it_is_read() {
    let query = "SELECT k, k AS b, k || k AS c, concat(k, k, k) d, k IS NULL FROM t";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut made = Made::default();
    for (offset, size) in [(1, 600_000), (2, 300_000), (3, 30_000), (4, 20_000)] {
        let event = format!(r#"["2022-07-13T21:00:00Z","{}",1]"#, "x".repeat(size));
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    }
    // The first is too large as a whole, and announced. In the second both texts are NULL, in the third one is.
    let sizes: Vec<Option<usize>> =
        made.0.iter().map(|(_, row)| Some(row.as_ref()?.len())).collect();
    assert_eq!(sizes, [None, Some(600_000 + 21), Some(120_000 + 21), Some(140_000 + 19)]);
    let counts = running.counts();
    assert_eq!((counts.large_rows, counts.refused(), counts.oversized), (1, 1, 5 + 1));
    // A window's row may be too large, too.
    let columns: Vec<String> = (0..18).map(|column| format!("last(k) AS c{column}")).collect();
    let query =
        format!("SELECT {} FROM tumble(t, 1s) GROUP BY window_start, v", columns.join(", "));
    let event =
        |v: i32, size: usize| format!(r#"["2022-07-13T21:00:00Z","{}",{v}]"#, "x".repeat(size));
    let events = [event(1, 10), event(2, 60_000), event(3, 10)];
    let made = made_of(&query, &events);
    let rows: Vec<bool> = made.0.iter().map(|(_, row)| row.is_some()).collect();
    assert_eq!(rows, [true, false, true]);
}

fn made_of(query: &str, events: &[String]) -> Made {
    made(query, COLUMNS, &texts(events))
}

#[test]
fn rows_that_are_lost_are_announced_without_windows_too() {
    let mut running = begin("SELECT v FROM t WHERE v > 0", COLUMNS, Bounds::default());
    let mut made = Made::default();
    let row = |v: i32| format!(r#"[null,"a",{v}]"#);
    running.take(1, row(1).as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    running.lose();
    running.take(9, row(0).as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    running.take(10, row(2).as_bytes(), PUBLISHED_MS, 0, &mut made).unwrap();
    assert_eq!(made.0, [(1, Some("[1]".into())), (2, None), (3, Some("[2]".into()))]);
    assert_eq!(running.counts().events, 3);
}

#[test]
fn a_window_is_where_its_time_is_also_before_1970() {
    let events = [r#"["1969-12-31T23:59:59.5Z","a",1]"#, r#"["1970-01-01T00:00:00Z","a",1]"#];
    let query = "SELECT window_start FROM tumble(t, 1s) GROUP BY window_start";
    assert_eq!(
        made(query, COLUMNS, &events).rows(),
        [r#"["1969-12-31T23:59:59Z"]"#, r#"["1970-01-01T00:00:00Z"]"#]
    );
}
