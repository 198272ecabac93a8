//! Checks that a run from any block, and a run with any pauses, makes the same rows at the same offsets.

use std::sync::Arc;

use proptest::prelude::*;
use thalweg_query::{Beginning, Bounds, Failure, Query, Running, Unbroken};

use crate::running::{Made, columns};

const QUERIES: [&str; 4] = [
    "SELECT v FROM t WHERE v > 2",
    "SELECT window_start, k, sum(v), last(v) FROM tumble(t, 1s) GROUP BY window_start, k",
    "SELECT window_start, count(*) FROM hop(t, 500ms, 2s) GROUP BY window_start EMIT AFTER WINDOW CLOSE WITH DELAY 1s",
    "SELECT window_start, k, count(*) FROM tumble(t, 10s) GROUP BY window_start, k",
];

/// Queries that pause in the middle of an event: with overlapping windows, and with windows of many groups.
const LONG: [&str; 5] = [
    "SELECT v, k || k, window_start FROM hop(t, 100ms, 2s) WHERE v <> 3",
    "SELECT window_start, k, v, upper(k), max(v), count(*) FROM hop(t, 250ms, 2s) GROUP BY window_start, k, v HAVING max(v) < 5",
    "SELECT window_start, k, first(v), last(k), count(DISTINCT v), median(v) FROM tumble(t, 1s) GROUP BY window_start, k EMIT AFTER WINDOW CLOSE WITH DELAY 500ms",
    "SELECT now() - INTERVAL 1 s FROM hop(t, 500ms, 1s)",
    "SELECT * FROM t WHERE k LIKE '%1%'",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// Rows, offsets, announced losses, counts and failures do not depend on pauses, although the clock goes on meanwhile.
    #[test]
    fn a_run_that_pauses_makes_the_same_rows(
        steps in proptest::collection::vec((0..900_i64, -900..=0_i64, 0..12_u8, 0..6_i64), 1..200),
        closes in proptest::collection::btree_set(0..200_usize, 0..4),
        goes_on in proptest::collection::vec(any::<bool>(), 1..97),
        query in 0..LONG.len(),
        event_steps in prop_oneof![Just(400_000_u64), 20..200_u64],
        event_bytes in prop_oneof![Just(16_usize << 20), 40..400_usize],
        groups in prop_oneof![Just(10_000_usize), 1..40_usize],
        windows in prop_oneof![Just(1_000_usize), 1..10_usize],
    ) {
        let plan = Query::parse(LONG[query]).unwrap().plan(&columns(&["t:time", "k:string", "v:int"])).unwrap();
        let plan = Arc::new(plan);
        let mut ms = 1_657_746_248_000;
        let events: Vec<(i64, String)> = steps.iter().enumerate().map(|(index, (step, back, key, value))| {
            ms += step;
            let time_ms = match key {
                // Left-out events, in runs that are longer than the delay of an announcement.
                11 => ms + 86_400_000,
                _ if index % 80 >= 60 => ms + 3_600_001,
                _ if key % 3 == 0 => ms + back,
                _ => ms,
            };
            (ms, format!("[{time_ms},\"k{key}\",{value}]"))
        }).collect();
        let bounds = Bounds { event_steps, event_bytes, groups, windows, ..Bounds::default() };
        let run = |pauses: &[bool]| {
            let mut running = Running::new(Arc::clone(&plan), bounds, Beginning::First);
            let (mut made, mut now_ms, mut asked) = (Made::default(), 0, 0);
            let mut work = |now_ms: &mut i64| -> Result<(), Failure> {
                let mut pace = |_: u64, _: usize| {
                    asked += 1;
                    pauses[asked % pauses.len()]
                };
                for (index, (published_ms, event)) in events.iter().enumerate() {
                    let (offset, begun_ms) = (index as u64 + 1, *now_ms);
                    let mut times_ms = (*published_ms, begun_ms);
                    // No event begins while windows of an earlier event close.
                    let is_another_time = index % 2 == 0;
                    while is_another_time && !running.finish(&mut made, &mut pace)? {}
                    while !running.take_in_part(offset, event.as_bytes(), times_ms, &mut made, &mut pace)? {
                        if is_another_time {
                            times_ms = (times_ms.0 + 10_000_000, times_ms.1 + 1);
                        }
                    }
                    // An event keeps the times of its first call.
                    *now_ms = begun_ms + 10;
                    if closes.contains(&index) {
                        while !running.finish(&mut made, &mut pace)? {}
                        running.close_all(&mut made);
                    }
                }
                while !running.finish(&mut made, &mut pace)? {}
                Ok(())
            };
            let result = work(&mut now_ms);
            let mut counts = running.counts();
            // An event that comes again is read again.
            counts.steps = 0;
            (made, result, counts, running.held(), running.waits())
        };
        let whole = run(&[true]);
        prop_assert_eq!(&run(&goes_on), &whole);
        prop_assert_eq!(&run(&[false]), &whole);
        let is_grouped = query == 1 || query == 2;
        if whole.1.is_ok() && is_grouped {
            // The last event has opened a window, unless it had no room.
            prop_assert!(whole.4 || !closes.is_empty() || whole.2.refused() > 0);
            let is_announced = whole.0.0.iter().any(|(_, row)| row.is_none());
            prop_assert!(is_announced || whole.4 || whole.2.ahead + whole.2.refused() == 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_run_that_begins_later_makes_the_same_rows(
        steps in proptest::collection::vec((200..400_i64, -900..=0_i64, 0..60_u8, 0..6_i64), 1500..2000),
        pauses in proptest::collection::btree_set(0..2000_u64, 0..20),
        begin in 1..3_usize,
        query in 0..QUERIES.len(),
    ) {
        let plan = Query::parse(QUERIES[query]).unwrap().plan(&columns(&["t:time", "k:string", "v:int"])).unwrap();
        let plan = Arc::new(plan);
        let mut ms = 1_657_746_248_000;
        let events: Vec<(i64, String)> = (0..).zip(&steps).map(|(index, (step, back, key, value))| {
            ms += step / 10;
            // One in twenty is late where no event may be late.
            let back = if query == 2 || key % 20 == 0 { *back } else { 0 };
            // The first event of a later run belongs to a window that ended long before.
            let back = if query == 3 && index + 1 == 128 * begin { -11_000 } else { back };
            // One in fifteen has a clock that is wrong by a day: it is left out, and announced.
            let ahead = if key % 15 == 7 { 86_400_000 } else { 0 };
            (ms, format!("[{},\"{}\",{value}]", ms + back + ahead, key % 4))
        }).collect();
        let run = |from: usize| {
            let beginning = if from == 1 { Beginning::First } else { Beginning::Block };
            let mut running = Running::new(Arc::clone(&plan), Bounds::default(), beginning);
            let mut made = Made::default();
            // Pauses are between events.
            for (index, (published_ms, event)) in (0_u64..).zip(&events).skip(from - 1) {
                running.take(2 * index + 2, event.as_bytes(), *published_ms, 0, &mut made).unwrap();
                if pauses.contains(&index) {
                    running.pause(2 * index + 3, 10_000, &mut made);
                    running.finish(&mut made, &mut Unbroken).unwrap();
                }
            }
            made
        };
        let (all, later) = (run(1), run(128 * begin));
        // The first windows are incomplete; the run announces from where on it has all.
        let begins = later.1.unwrap_or(256 * begin as u64);
        prop_assert_eq!(later.1.is_some(), query > 0);
        let expected = all.0.iter().filter(|(offset, _)| *offset >= begins);
        prop_assert!(expected.eq(&later.0), "{begins} {:?}", later.0.first());
        prop_assert!(later.0.len() < all.0.len());
        prop_assert!(later.0.len() > 3);
        prop_assert!(query == 0 || later.0.iter().any(|(_, row)| row.is_none()));
    }
}
