//! Queries over topics that several nodes share.

use serde_json::{Value, json};

use super::{Nodes, Servers, wait_for};
use crate::harness::{Received, Transport};

const QUERY: &str =
    "max=SELECT window_start, max(speed), count(*) FROM tumble(cars, 1s) GROUP BY window_start";

/// Rows of five per second.
fn rows(range: std::ops::Range<u64>) -> String {
    let row = |nth: u64| format!("[{},{}]\n", nth * 37 % 100, 1_657_746_248_000 + nth * 200);
    range.map(row).collect()
}

#[test]
fn a_node_that_is_killed_inside_of_a_window_loses_and_repeats_no_row() {
    let Some(servers) = Servers::start(1) else { return };
    let columns = ["--topic", "cars,columns=speed:int time:time", "--query", QUERY];
    let mut nodes = Nodes::start_with(&servers, 3, "all=**", &columns);
    let (mut cursor, mut received) = ("earliest".to_owned(), Vec::new());
    for round in 0..6_u64 {
        let nth = (round % 3) as usize;
        // Each part ends in the middle of a window.
        for part in 0..4 {
            let from = 32 * round + 8 * part;
            let node = nodes.at((nth + 1 + part as usize % 2) % 3);
            node.post("cars", "application/x-ndjson", rows(from..from + 8)).published();
        }
        let expected = (32 * (round as usize + 1) - 1) / 5;
        let target = format!("/max?cursor={cursor}");
        let mut subscriber = nodes.at(nth).subscribe(Transport::WebSocket, &target);
        while received.len() < expected {
            match subscriber.news() {
                Received::Envelope(envelope) => {
                    cursor = envelope.position;
                    received.extend(envelope.events);
                }
                other => panic!("{other:?} in round {round}"),
            }
        }
        nodes.kill(nth);
        nodes.run(nth);
    }
    let row = |second: u64| {
        let speeds = (second * 5..second * 5 + 5).map(|nth| nth * 37 % 100);
        let start = format!("2022-07-13T21:04:{:02}Z", 8 + second);
        json!([start, speeds.max(), 5])
    };
    assert_eq!(received, (0..38).map(row).collect::<Vec<Value>>());
    // All nodes have the last rows at the same positions.
    let last = |nth: usize| nodes.at(nth).get("/v1/topics/max?limit=100").json();
    let page = wait_for("the last row", || {
        let page = last(0);
        (page["position"] == *cursor).then_some(page)
    });
    for nth in 1..3 {
        let other = wait_for("the last row", || {
            let page = last(nth);
            (page["position"] == *cursor).then_some(page)
        });
        let (events, others) = (page["events"].as_array(), other["events"].as_array());
        let (events, others) = (events.expect("events"), others.expect("events"));
        assert!(events.ends_with(others) || others.ends_with(events), "{page} {other}");
    }
}

#[test]
fn one_node_announces_a_pause_to_all() {
    let Some(servers) = Servers::start(1) else { return };
    let query = format!("{QUERY} EMIT AFTER WINDOW CLOSE AND TIMEOUT 300ms");
    let settings = ["--topic", "cars,columns=speed:int time:time", "--query", &query];
    let settings = [&settings[..], &["--time-node", "one", "--node"]].concat();
    let nodes = ["one", "two"]
        .map(|name| Nodes::start_with(&servers, 1, "all=**", &[&settings[..], &[name]].concat()));
    let mut subscribers =
        nodes.each_ref().map(|node| node.at(0).subscribe(Transport::Sse, "/max?cursor=earliest"));
    for seconds in [0..2, 2..3] {
        let rows = rows(seconds.start * 5..seconds.end * 5);
        nodes[1].at(0).post("cars", "application/x-ndjson", rows).published();
        for _ in seconds {
            let told = subscribers.each_mut().map(|subscriber| {
                loop {
                    let envelope = subscriber.envelope();
                    if !envelope.events.is_empty() {
                        break (envelope.position, envelope.events);
                    }
                }
            });
            assert_eq!(told[0], told[1]);
        }
    }
    // A reader of the source is not told.
    let page = nodes[0].at(0).get("/v1/topics/cars?limit=100").json();
    assert_eq!(page["events"].as_array().map(Vec::len), Some(15));
}
