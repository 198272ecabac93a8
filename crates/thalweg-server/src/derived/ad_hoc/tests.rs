use std::net::IpAddr;

use super::*;

/// A query over two declared columns: all with numbers below ten take equal memory.
fn query(number: u32) -> (DerivedTopic, Arc<ParsedQuery>) {
    let columns = Arc::new(Columns::declared(["speed:double", "time:time"]).unwrap());
    let parsed = ParsedQuery::parse(&format!("SELECT speed + {number} AS x FROM cars")).unwrap();
    let plan = Some(Arc::new(parsed.query.plan(&columns).unwrap()));
    let (output, query, source) =
        (parsed.topic.clone(), parsed.query.clone(), parsed.source.clone());
    (DerivedTopic { output, query, source, plan, is_shared: false }, Arc::new(parsed))
}

/// Queries of addresses with room for four each.
fn room_for_four() -> (AdHocQueries, usize) {
    let bytes = query(0).0.memory_bytes();
    let limits = Limits { query_bytes_per_address: 4 * bytes, ..Limits::default() };
    (AdHocQueries::new(&[], &limits), bytes)
}

fn remember(queries: &AdHocQueries, number: u32, address: Option<Address>) -> Result<(), Refusal> {
    let (topic, parsed) = query(number);
    queries.add(topic, parsed, address, false, number.into())
}

fn known(queries: &AdHocQueries) -> Vec<u32> {
    let is_known = |number: &u32| queries.lock().contains_key(&query(*number).0.output);
    (0..10).filter(is_known).collect()
}

#[test]
fn queries_that_are_only_remembered_make_room_for_new_ones_of_their_address() {
    let address = |last: u8| Some(Address::from_ip(IpAddr::from([192, 0, 2, last])));
    for (own, other) in [(address(1), address(2)), (None, address(1)), (address(1), None)] {
        let (queries, _) = room_for_four();
        remember(&queries, 0, other).unwrap();
        for number in 1..=6 {
            remember(&queries, number, own).unwrap();
        }
        assert_eq!(
            known(&queries),
            [0, 3, 4, 5, 6],
            "the oldest of the same address are forgotten"
        );
    }
}

#[test]
fn queries_that_are_only_remembered_make_room_for_running_ones() {
    let (queries, bytes) = room_for_four();
    for number in 1..=4 {
        remember(&queries, number, None).unwrap();
    }
    let (_, mut memory) = queries.begin(&query(1).0.output, 4).unwrap();
    assert!(queries.hold(&mut memory, bytes + bytes / 2, 5));
    assert_eq!(known(&queries), [1, 4], "no more than needed are forgotten");
    assert!(queries.hold(&mut memory, 3 * bytes, 5));
    assert_eq!(known(&queries), [1]);
    assert!(!queries.hold(&mut memory, 3 * bytes + 1, 5), "running queries make room for nobody");
    assert_eq!(memory.bytes(), 3 * bytes, "it holds what it did");
    let refused = remember(&queries, 5, None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::TooManyQueries);
    // It ends, and is itself remembered.
    drop(memory);
    queries.end(&query(1).0.output, false, 5);
    for number in 6..=9 {
        remember(&queries, number, None).unwrap();
    }
    assert_eq!(known(&queries), [6, 7, 8, 9]);
}

#[test]
fn a_query_that_is_about_to_run_makes_room_for_nobody() {
    let (queries, bytes) = room_for_four();
    let (topic, parsed) = query(1);
    queries.add(topic, parsed, None, true, 0).unwrap();
    remember(&queries, 2, None).unwrap();
    let mut memory = queries.memory.share(None);
    assert!(!queries.hold(&mut memory, 4 * bytes, BEGINS_US - 1));
    assert_eq!(known(&queries), [1]);
    assert!(queries.hold(&mut memory, 4 * bytes, BEGINS_US), "its subscriber has not come");
}
