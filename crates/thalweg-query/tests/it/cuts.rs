//! Reading on from any block makes the same rows at the same offsets.

use std::sync::Arc;

use proptest::prelude::*;
use thalweg_query::{Beginning, Bounds, Query, Running};

use crate::running::{Made, columns};

const QUERIES: [&str; 4] = [
    "SELECT v FROM t WHERE v > 2",
    "SELECT window_start, k, sum(v), last(v) FROM tumble(t, 1s) GROUP BY window_start, k",
    "SELECT window_start, count(*) FROM hop(t, 500ms, 2s) GROUP BY window_start EMIT AFTER WINDOW CLOSE WITH DELAY 1s",
    "SELECT window_start, k, count(*) FROM tumble(t, 10s) GROUP BY window_start, k",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn whoever_begins_later_makes_the_same_rows(
        steps in proptest::collection::vec((200..400_i64, -900..=0_i64, 0..60_u8, 0..6_i64), 1500..2000),
        pauses in proptest::collection::btree_set(0..2000_u64, 0..20),
        begin in 1..3_usize,
        query in 0..QUERIES.len(),
    ) {
        let plan = Query::parse(QUERIES[query]).unwrap().plan(&columns(&["t:time", "k:string", "v:int"])).unwrap();
        let plan = Arc::new(plan);
        let mut ms = 1_657_746_248_000;
        let events: Vec<String> = (0..).zip(&steps).map(|(index, (step, back, key, value))| {
            ms += step / 10;
            // One in twenty is late where none may be.
            let back = if query == 2 || key % 20 == 0 { *back } else { 0 };
            // And the first event of who begins later is of a window that is long over.
            let back = if query == 3 && index + 1 == 128 * begin { -11_000 } else { back };
            format!("[{},\"{}\",{value}]", ms + back, key % 4)
        }).collect();
        let run = |from: usize| {
            let beginning = if from == 1 { Beginning::First } else { Beginning::Block };
            let mut running = Running::new(Arc::clone(&plan), Bounds::default(), beginning);
            let mut made = Made::default();
            // Pauses are between events.
            for (index, event) in (0_u64..).zip(&events).skip(from - 1) {
                running.take(2 * index + 2, event.as_bytes(), 0, &mut made);
                if pauses.contains(&index) {
                    running.pause(2 * index + 3, 10_000, &mut made);
                }
            }
            made
        };
        let (all, later) = (run(1), run(128 * begin));
        // Its first windows are those that are not complete: from where it says it has all there is.
        let begins = later.1.unwrap_or(256 * begin as u64);
        prop_assert_eq!(later.1.is_some(), query > 0);
        let expected = all.0.iter().filter(|(offset, _)| *offset >= begins);
        prop_assert!(expected.eq(&later.0), "{begins} {:?}", later.0.first());
        prop_assert!(later.0.len() < all.0.len());
        prop_assert!(later.0.len() > 3);
    }
}
