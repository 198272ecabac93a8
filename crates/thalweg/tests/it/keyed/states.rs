//! Queries with groups and without windows: their rows are a keyed topic.

use std::{collections::BTreeMap, time::Instant};

use serde_json::json;

use super::mirror::{Map, Mirror};
use crate::{
    durable::Directory,
    harness::{Received, Server, Subscriber, Transport},
};

const COLUMNS: [&str; 2] = ["--topic", "cars,columns=car:string speed:int"];
const QUERY: &str =
    "SELECT car, count(*) AS n, sum(speed) AS s FROM cars GROUP BY car HAVING sum(speed) >= 0";

/// The count and the sum of each car.
type Model = BTreeMap<String, (i64, i64)>;

fn publish(server: &Server, model: &mut Model, rows: &[(&str, i64)]) {
    let mut lines = String::new();
    for (car, speed) in rows {
        lines += &format!("{}\n", json!([car, speed]));
        let (count, sum) = model.entry((*car).to_owned()).or_default();
        (*count, *sum) = (*count + 1, *sum + speed);
    }
    server.post("cars", "application/x-ndjson", lines).published();
}

/// Returns the rows of the query.
fn expected(model: &Model) -> Map {
    let shown = model.iter().filter(|(_, (_, sum))| *sum >= 0);
    shown.map(|(car, (count, sum))| (car.clone(), json!([car, count, sum]))).collect()
}

fn follow(mirror: &mut Mirror, subscriber: &mut Subscriber, state: &Map) {
    while mirror.map != *state || !mirror.is_complete() {
        mirror.next(subscriber);
    }
}

fn asked(query: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("?query={}", query.bytes().map(byte).collect::<String>())
}

#[test]
fn groups_are_keys_over_every_transport_and_are_resumed_with_changes_only() {
    for shards in ["1", "2", "4"] {
        let configured = format!("by-car={QUERY}");
        let server =
            Server::start(&[&COLUMNS[..], &["--shards", shards, "--query", &configured]].concat());
        let mut model = Model::new();
        let cars: Vec<String> = (0..300).map(|car| format!("c{car}")).collect();
        let all: Vec<(&str, i64)> = cars.iter().map(|car| (&**car, 1)).collect();
        publish(&server, &mut model, &all);
        publish(&server, &mut model, &[("c1", 2), ("c2", -5), ("c3", 2)]);
        for target in ["/by-car".to_owned(), asked(QUERY)] {
            let mut clients: Vec<(Transport, Mirror, Subscriber)> = Vec::new();
            for transport in Transport::ALL {
                let mut subscriber = server.subscribe(transport, &target);
                let mut mirror = Mirror::default();
                follow(&mut mirror, &mut subscriber, &expected(&model));
                clients.push((transport, mirror, subscriber));
            }
            // One group changes, one no longer meets HAVING, and one meets it again.
            publish(&server, &mut model, &[("c1", 1), ("c3", -9), ("c2", 20), ("new", 0)]);
            for (transport, mirror, subscriber) in &mut clients {
                follow(mirror, subscriber, &expected(&model));
                assert!(mirror.gaps.is_empty(), "{transport:?}");
            }
            // The query goes on for the last subscriber, and the others come back.
            let (_, mut last, mut reader) = clients.pop().expect("a client");
            let kept: Vec<(Transport, Mirror, String)> = clients
                .into_iter()
                .map(|(transport, mirror, _)| (transport, mirror.kept(), mirror.position))
                .collect();
            publish(&server, &mut model, &[("c3", 20), ("c4", 1), ("new", -1)]);
            follow(&mut last, &mut reader, &expected(&model));
            for (transport, mut mirror, position) in kept {
                let separator = if target.starts_with('?') { '&' } else { '?' };
                let target = format!("{target}{separator}cursor={position}");
                let mut subscriber = server.subscribe(transport, &target);
                mirror.next(&mut subscriber);
                assert_eq!((&mirror.position, mirror.events), (&position, 0), "{transport:?}");
                follow(&mut mirror, &mut subscriber, &expected(&model));
                assert_eq!((mirror.events, mirror.gaps.len()), (3, 0), "{transport:?}: changes");
            }
            // The next target begins with the same groups.
            publish(&server, &mut model, &[("c3", -20), ("new", 1)]);
            follow(&mut last, &mut reader, &expected(&model));
        }
        assert_eq!(Mirror::read(&server, "by-car", 100).map, expected(&model));
        let refused = server.post("by-car?key=c1", "application/json", "1");
        refused.refused(409, "in_use");
    }
}

#[test]
fn a_key_changes_at_most_once_in_its_period() {
    let query = "total=SELECT count(*) AS n FROM cars";
    let server = Server::start(&[&COLUMNS[..], &["--query", query]].concat());
    let mut subscriber = server.subscribe(Transport::WebSocket, "/total");
    subscriber.confirmed();
    const EVENTS: i64 = 200;
    let begun = Instant::now();
    let mut model = Model::new();
    (0..EVENTS).for_each(|_| publish(&server, &mut model, &[("a", 1)]));
    let mut counts = Vec::new();
    while counts.last() != Some(&EVENTS) {
        let envelope = subscriber.envelope();
        assert!(envelope.text.contains(r#""keys":["[]"]"#), "{}", envelope.text);
        counts.extend(envelope.events.iter().filter_map(|row| row[0].as_i64()));
    }
    assert!(counts.is_sorted_by(|one, other| one < other), "{counts:?}");
    let periods = counts.len() as u128 - 1;
    assert!(begun.elapsed().as_millis() >= 200 * periods, "{counts:?}");
}

#[test]
fn endless_keys_are_bounded_and_counted() {
    let query = "by-car=SELECT car, count(*) AS n FROM cars GROUP BY car";
    let server = Server::start(&[&COLUMNS[..], &["--query", query]].concat());
    let cars: Vec<String> = (0..12_000).map(|car| format!("c{car}")).collect();
    let all: Vec<(&str, i64)> = cars.iter().map(|car| (&**car, 1)).collect();
    let mut model = Model::new();
    for round in 1..4 {
        publish(&server, &mut model, &all);
        server.has_counted("thalweg_query_refused_total", 2_000 * round);
    }
    let rows = cars[..10_000].iter().map(|car| (car.clone(), json!([car, 3])));
    let rows: Map = rows.collect();
    let mut subscriber = server.subscribe(Transport::Sse, "/by-car");
    let mut mirror = Mirror::default();
    follow(&mut mirror, &mut subscriber, &rows);
    server.await_metric("thalweg_keys", |keys| keys == 10_000.0);
    server.has_said("there would be more than 10000 groups");
}

/// A column gets a type to which groups cannot be converted. They begin again in another epoch.
#[test]
fn groups_that_cannot_be_kept_begin_again() {
    for shards in ["1", "2"] {
        let query = "kinds=SELECT kind, last(v) AS v, count(*) AS n FROM things GROUP BY kind";
        let server = Server::start(&["--shards", shards, "--query", query]);
        let put = |event: &str| server.post("things", "application/json", event).published();
        let mut subscriber = server.subscribe(Transport::WebSocket, "/kinds");
        let mut mirror = Mirror::confirmed(&mut subscriber);
        put(r#"{"kind":1,"v":7}"#);
        put(r#"{"kind":2,"v":7}"#);
        let numbers = [("1".to_owned(), json!([1, 7, 1])), ("2".to_owned(), json!([2, 7, 1]))];
        follow(&mut mirror, &mut subscriber, &Map::from(numbers));
        put(r#"{"kind":2,"v":"text"}"#);
        assert!(matches!(subscriber.news(), Received::Close(..)));
        let target = format!("/kinds?cursor={}", mirror.position);
        let mut subscriber = server.subscribe(Transport::WebSocket, &target);
        let mut mirror = mirror.kept();
        follow(&mut mirror, &mut subscriber, &Map::from([("2".to_owned(), json!([2, "text", 1]))]));
        assert_eq!(mirror.gaps.iter().map(|gap| &*gap.reason).collect::<Vec<_>>(), ["epoch"]);
        server.has_counted("thalweg_query_windows_lost_total", 1);
    }
}

/// A server that is started again counts all stored events again, in another epoch.
#[test]
fn groups_of_stored_events_are_counted_again_by_the_next_server() {
    let directory = Directory::new();
    let query = format!("by-car={QUERY}");
    let arguments = [&COLUMNS[..], &["--query", &query]].concat();
    let mut model = Model::new();
    let mut mirror = Mirror::default();
    for round in 0..3 {
        let server = directory.start(&arguments);
        let target = match round {
            0 => "/by-car".to_owned(),
            _ => format!("/by-car?cursor={}", mirror.position),
        };
        let mut subscriber = server.subscribe(Transport::Sse, &target);
        mirror = mirror.kept();
        publish(&server, &mut model, &[("a", 1), ("b", 2 - 3 * round), ("a", 3)]);
        follow(&mut mirror, &mut subscriber, &expected(&model));
        let gaps: Vec<&str> = mirror.gaps.iter().map(|gap| &*gap.reason).collect();
        assert_eq!(gaps, ["epoch"][..usize::from(round > 0)]);
        server.kill();
    }
}
