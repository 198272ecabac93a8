//! The cost of queries is bounded. A query ends with the limit that it exceeds, other clients are served
//! meanwhile, and its memory counts for its address.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use crate::harness::{Received, Server, Subscriber, Transport, metric, request, wait_for};

const COLUMNS: &str = "cars,columns=speed:double car:string time:time";

fn asked(query: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let encoded: String = query.bytes().map(byte).collect();
    format!("?query={encoded}&cursor=earliest")
}

fn row(speed: usize, car: &str, ms: usize) -> String {
    format!(r#"[{speed},"{car}","2022-07-13T21:09:{:02}.{:03}Z"]"#, ms / 1000, ms % 1000)
}

fn publish(server: &Server, rows: &[String]) {
    server.post("cars", "application/x-ndjson", rows.join("\n")).published();
}

fn ending(subscriber: &mut Subscriber) -> String {
    loop {
        match subscriber.next() {
            Received::TopicEnd(_, _, code) => return code,
            Received::Envelope(_) | Received::Gap(_) | Received::Heartbeat => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Doubles each `a` of `text` this many times.
fn doubled(text: &str, times: usize) -> String {
    (0..times).fold(text.to_owned(), |inner, _| format!("replace({inner}, 'a', 'aa')"))
}

#[test]
fn a_query_that_costs_too_much_ends_and_says_which_limit_it_was() {
    let columns: Vec<String> =
        (0..5).map(|column| format!("{} AS c{column}", doubled("car", 17))).collect();
    let likes = vec!["rpad LIKE '%a%a%aaaaaaaaaaaaaaaaaaaab'"; 22].join(" OR ");
    let likes = likes.replace("rpad", "car");
    let texts: Vec<String> =
        (0..17).map(|column| format!("car || '{column}' AS c{column}")).collect();
    let attacks = [
        (
            "query_row_steps",
            "aaaaaaaa".to_owned(),
            format!("SELECT {} FROM cars", columns.join(", ")),
        ),
        ("query_row_steps", "a".repeat(60_000), format!("SELECT speed FROM cars WHERE {likes}")),
        ("query_row_bytes", "x".repeat(65_500), format!("SELECT {} FROM cars", texts.join(", "))),
        (
            "query_event_steps",
            "x".repeat(900_000),
            "SELECT car, window_start FROM hop(cars, time, 1s, 64s)".to_owned(),
        ),
        (
            "query_event_steps",
            "aaaaaaaaaaaaaaaa".to_owned(),
            format!(
                "SELECT speed, {} AS x FROM tumble(cars, time, 1s) GROUP BY window_start, speed",
                doubled("max(car)", 10)
            ),
        ),
    ];
    for (code, text, query) in attacks {
        let server = Server::start(&["--topic", COLUMNS]);
        let mut rows: Vec<String> = vec![row(0, "first", 0)];
        // As many long texts as fit into a request.
        let long = (200_000 / text.len()).clamp(1, 400);
        rows.extend(
            (0..400).map(|speed| row(speed, if speed < long { &text } else { "b" }, 1_000)),
        );
        rows.push(row(0, "last", 2_000));
        let before = server.memory();
        let mut subscriber = server.subscribe(Transport::Sse, &asked(&query));
        publish(&server, &rows);
        assert_eq!(ending(&mut subscriber), code, "{query}");
        let grown = server.memory().saturating_sub(before);
        assert!(grown < 100 << 20, "{} MiB for {query}", grown >> 20);
        let metrics = server.get("/metrics").text();
        let counted = format!("thalweg_query_limits_total{{limit=\"{code}\"}} 1");
        assert!(metrics.contains(&counted), "{metrics}");
        server.has_said("an ad hoc query ends");
        server.has_said("most_expensive=\"query/");
        assert_eq!(
            (server.count("thalweg_queries"), server.count("thalweg_queries_failed")),
            (0, 0)
        );
    }
}

#[test]
fn a_query_of_the_configuration_loses_the_event_that_costs_too_much_and_goes_on() {
    let likes = vec!["car LIKE '%a%a%aaaaaaaaaaaaaaaaaaaab'"; 22].join(" OR ");
    let query = format!("none=SELECT speed FROM cars WHERE NOT ({likes})");
    let server = Server::start(&["--topic", COLUMNS, "--query", &query]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/none");
    subscriber.confirmed();
    publish(&server, &[row(1, "b", 0), row(2, &"a".repeat(60_000), 1), row(3, "b", 2)]);
    let (mut speeds, mut gaps) = (Vec::new(), 0);
    while speeds.len() < 2 {
        match subscriber.next() {
            Received::Envelope(envelope) => speeds.extend(envelope.events),
            Received::Gap(_) => gaps += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(speeds, [serde_json::json!([1.0]), serde_json::json!([3.0])]);
    assert_eq!(gaps, 1, "what is lost is announced");
    server.has_said("a query skips an event and drops its open windows");
    assert_eq!(server.count("thalweg_query_limits_total"), 1);
    assert_eq!(server.count("thalweg_queries_failed"), 0);
}

/// A window with thousands of groups takes many loop iterations to close, and other requests are answered in between.
#[test]
fn others_are_served_while_a_window_is_closed() {
    const GROUPS: usize = 4_000;
    const LOOKS: usize = 64;
    const ROWS: &str = "thalweg_query_rows_total";
    let costly: Vec<String> = (0..5)
        .map(|column| format!("upper(lower(max(car))) LIKE '%X{column}%Y%' AS c{column}"))
        .collect();
    let query = format!(
        "SELECT speed, {} FROM tumble(cars, time, 1s) GROUP BY window_start, speed \
         EMIT AFTER WINDOW CLOSE AND TIMEOUT 1h",
        costly.join(", ")
    );
    let server = Server::start(&["--shards", "1", "--topic", COLUMNS]);
    publish(&server, &[row(0, "first", 0)]);
    let mut subscriber = server.subscribe(Transport::Sse, &asked(&query));
    subscriber.confirmed();
    let car = "x".repeat(200);
    let rows: Vec<String> = (0..GROUPS).map(|speed| row(speed, &car, 1_000)).collect();
    publish(&server, &rows);
    server.has_counted("thalweg_query_events_total", GROUPS as u64 + 1);
    // The requests wait at the server, so that the test need not run while the server does.
    let last = row(0, "last", 2_000);
    let json_lines = [("Content-Type", "application/x-ndjson")];
    let mut requests = request("POST", "/v1/topics/cars", &json_lines, last.as_bytes());
    let look = request("GET", "/metrics", &[], b"");
    requests.extend(look.repeat(LOOKS));
    let mut socket = server.connect();
    socket.send(requests);
    socket.response().published();
    let rows = |text: &str| metric(text, ROWS).expect("a count") as usize;
    let mut seen = BTreeSet::new();
    while !seen.contains(&GROUPS) {
        seen.extend((0..LOOKS).map(|_| rows(&socket.response().text())));
        socket.send(look.repeat(LOOKS));
    }
    assert!(seen.range(1..GROUPS).next().is_some(), "answers come between rows: {seen:?}");
    server.has_counted(ROWS, GROUPS as u64);
    let mut count = 0;
    while count < GROUPS {
        count += subscriber.envelope().events.len();
    }
    assert_eq!(count, GROUPS);
}

#[test]
fn the_queries_of_an_address_share_a_memory_limit_that_metrics_show() {
    let server = Server::start(&["--shards", "2", "--topic", COLUMNS]);
    let before = server.memory();
    let subscribers: Vec<Subscriber> = (0..24)
        .map(|number| {
            let query = format!(
                "SELECT speed, last(concat(car, '{number}')), count(*) FROM tumble(cars, time, 1s) GROUP BY window_start, speed, car"
            );
            let mut subscriber = server.subscribe(Transport::Sse, &asked(&query));
            subscriber.confirmed();
            subscriber
        })
        .collect();
    assert_eq!(server.count("thalweg_queries"), 24);
    publish(&server, &[row(0, "first", 0)]);
    let rows: Vec<String> = (0..6_000)
        .map(|speed| row(speed, &format!("car-{speed}-{}", "x".repeat(60)), 1_000))
        .collect();
    rows.chunks(500).for_each(|rows| publish(&server, rows));
    // Each continuing query has read all of them.
    let left = wait_for("queries to end, and the others to have read all", || {
        let (left, memory) =
            (server.count("thalweg_queries"), server.count("thalweg_query_memory_bytes"));
        assert!(memory < 17 << 20, "{memory} bytes");
        let metrics = server.get("/metrics").text();
        let steps =
            metrics.lines().filter(|line| line.starts_with("thalweg_query_cost_steps_total{"));
        let has_read = |line: &str| {
            line.rsplit(' ')
                .next()
                .is_some_and(|steps| steps.parse::<u64>().is_ok_and(|steps| steps > 6_000 * 40))
        };
        (left < 24 && steps.clone().count() == left as usize && steps.clone().all(has_read))
            .then_some(left)
    });
    assert!((2..12).contains(&left), "{left}");
    server.has_said("the queries of its address use too much memory");
    let grown = server.memory().saturating_sub(before);
    // This includes the events, the code, and memory that the allocator keeps.
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    drop(subscribers);
    // Memory of ended queries is free again.
    wait_for("all to end", || (server.count("thalweg_queries") == 0).then_some(()));
    let query =
        "SELECT speed, count(*) FROM tumble(cars, time, 1s) GROUP BY window_start, speed, car";
    let limits = server.count("thalweg_query_limits_total");
    assert!((24 - left..24).contains(&limits), "{limits}");
    let mut subscriber = server.subscribe(Transport::Sse, &asked(query));
    subscriber.confirmed();
    publish(&server, &[row(0, "last", 2_000)]);
    let mut count = 0;
    while count < 6_000 {
        count += subscriber.envelope().events.len();
    }
    assert_eq!(server.count("thalweg_query_limits_total"), limits);
}

#[test]
fn only_queries_that_run_count_as_those_that_there_may_be() {
    let server = Server::start(&["--topic", COLUMNS, "--set", "limits.queries=1"]);
    let query = |number: u32| asked(&format!("SELECT speed + {number} FROM cars"));
    let get = |number: u32, accept: &str| {
        let headers = [("Accept", accept)];
        server.ask("GET", &format!("/v1/topics{}", query(number)), &headers, "")
    };
    // Explained queries do not run.
    for number in 0..8 {
        assert_eq!(get(number, "application/json").status, 200);
    }
    for number in 0..3 {
        let mut subscriber = server.subscribe(Transport::WebSocket, &query(number));
        subscriber.confirmed();
        let said = get(number + 1, "text/event-stream").refused(429, "too_many_queries");
        assert!(said.contains("its limit of ad hoc queries (1)"), "{said}");
        drop(subscriber);
        // The query runs for a second or two, and counts for ten.
        wait_for("the query to end", || (server.count("thalweg_queries") == 0).then_some(()));
    }
}

/// Returns a query of almost the maximum length, a different one for each number.
fn long_query(number: usize) -> String {
    let sums: Vec<String> =
        (0..120).map(|column| format!("speed + {number} * {column}.5 AS s{column}")).collect();
    format!("SELECT {} FROM cars", sums.join(", "))
}

/// Eleven such queries take all the memory of an address.
#[test]
fn queries_that_are_only_remembered_do_not_limit_others() {
    let server = Server::start(&["--shards", "2", "--topic", COLUMNS]);
    publish(&server, &[row(0, "first", 0)]);
    let query = "SELECT speed, last(car), count(*) FROM tumble(cars, time, 1s) GROUP BY window_start, speed, car";
    let mut subscriber = server.subscribe(Transport::Sse, &asked(query));
    subscriber.confirmed();
    for number in 0..24 {
        let path = format!("/v1/topics{}", asked(&long_query(number)));
        let said = server.ask("GET", &path, &[("Accept", "application/json")], "");
        assert_eq!(said.status, 200, "query {number}: {}", said.text());
    }
    // A running query takes some more megabytes.
    let rows: Vec<String> = (0..6_000)
        .map(|speed| row(speed, &format!("car-{speed}-{}", "x".repeat(60)), 1_000))
        .collect();
    rows.chunks(500).for_each(|rows| publish(&server, rows));
    publish(&server, &[row(0, "last", 2_000)]);
    let mut count = 0;
    while count < 6_000 {
        count += subscriber.envelope().events.len();
    }
    assert_eq!(server.count("thalweg_query_limits_total"), 0);
    // Another query may run meanwhile.
    let mut other = server.subscribe(Transport::Sse, &asked(&long_query(24)));
    other.confirmed();
    assert_eq!(server.count("thalweg_queries"), 2);
}

#[test]
fn reading_and_planning_queries_takes_a_part_of_the_time_however_many_ask() {
    const CLIENTS: usize = 50;
    let server = Server::start(&["--shards", "1", "--topic", COLUMNS]);
    let mut bystander = server.subscribe(Transport::WebSocket, "/cars");
    bystander.confirmed();
    let begun = Instant::now();
    let (answered, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, answered, is_over) = (&server, &answered, &is_over);
            scope.spawn(move || {
                for number in (0..).take_while(|_| !is_over.load(Relaxed)) {
                    let path =
                        format!("/v1/topics{}", asked(&long_query(client + CLIENTS * number)));
                    server.get(&path);
                    answered.fetch_add(1, Relaxed);
                }
            });
        }
        // Meanwhile other clients are served.
        let mut events = 0;
        while answered.load(Relaxed) < 4 * CLIENTS || events < 20 {
            assert_eq!(server.get("/healthz").status, 200);
            publish(&server, &[row(events, "c", 0)]);
            events += bystander.envelope().events.len();
        }
        is_over.store(true, Relaxed);
    });
    let elapsed_s = begun.elapsed().as_secs_f64();
    let planning_s = server.metric("thalweg_query_planning_seconds_total");
    let planned = server.count("thalweg_queries_planned_total");
    assert!(planned >= 4 * CLIENTS as u64, "{planned}");
    // A quarter of the time, the initial allowance, and one query in progress.
    let most_s = elapsed_s / 4.0 + 0.05 + 4.0 * planning_s / planned as f64;
    assert!(planning_s < most_s, "{planning_s} s of {elapsed_s} s");
    assert!(planning_s > 0.0);
}

#[test]
fn clients_that_come_back_with_one_query_have_it_read_and_planned_once() {
    let server = Server::start(&["--shards", "1", "--topic", COLUMNS]);
    let query = asked("SELECT speed FROM cars WHERE speed > 7");
    let mut subscribers: Vec<Subscriber> =
        (0..40).map(|_| server.subscribe(Transport::Sse, &query)).collect();
    for subscriber in &mut subscribers {
        subscriber.confirmed();
    }
    assert_eq!(server.count("thalweg_queries_planned_total"), 2);
}
