//! The figures and settings that the overview page shows.

use serde_json::Value;
use thalweg_testing::wait_for;

use crate::harness::{Server, Transport};

fn topics(server: &Server, query: &str) -> Value {
    server.get(&format!("/overview/topics{query}")).json()
}

fn names(answer: &Value) -> Vec<&str> {
    let topics = answer["topics"].as_array().expect("topics");
    topics.iter().map(|topic| topic["topic"].as_str().expect("a name")).collect()
}

#[test]
fn topics_of_all_shards_have_their_figures() {
    let server = Server::start(&["--shards", "2", "--topic", "state,kind=value"]);
    for topic in ["a", "b", "c", "d", "state"] {
        server.publish(topic, 0..3);
    }
    let subscriber = server.subscribe(Transport::Sse, "/a");
    let answer = topics(&server, "?sort=topic");
    assert_eq!(names(&answer), ["a", "b", "c", "d", "state"]);
    let first = &answer["topics"][0];
    assert_eq!(first["events"], 3, "{first}");
    assert_eq!(first["kind"], "log");
    assert_eq!(first["subscribers"], 1);
    assert_eq!(first["gaps"], 0);
    assert!(first["age_ms"].is_u64() && first["memory_bytes"].as_u64() > Some(3), "{first}");
    assert_eq!(answer["topics"][4]["kind"], "value");
    assert_eq!(answer["all"]["topics"], 5);
    assert_eq!(answer["all"]["subscribers"], 1);
    assert_eq!(answer["limits"]["history_bytes"], 1 << 30);
    drop(subscriber);
}

/// Returns the answer once its figures are newer than the publish before the call.
fn rates(server: &Server, query: &str) -> Value {
    wait_for("rates", || {
        let answer = topics(server, query);
        let has_rate = |topic: &Value| topic["events_per_s"].as_f64() > Some(0.0);
        answer["topics"].as_array().is_some_and(|all| all.iter().any(has_rate)).then_some(answer)
    })
}

#[test]
fn rates_come_with_the_second_sample() {
    let server = Server::start(&[]);
    server.publish("busy", 0..1);
    server.publish("quiet", 0..1);
    let first = topics(&server, "");
    assert_eq!(first["topics"][0]["events_per_s"], Value::Null);
    server.publish("busy", 0..500);
    let second = rates(&server, "");
    assert_eq!(names(&second), ["busy", "quiet"]);
    assert!(second["topics"][0]["bytes_per_s"].as_f64() > Some(0.0), "{second}");
    assert!(!second["topics"][0]["trend"].as_array().expect("a trend").is_empty(), "{second}");
    assert_eq!(second["topics"][1]["events_per_s"], 0.0);
}

#[test]
fn a_gap_counts_for_its_topic() {
    let server = Server::start(&["--topic", "short,history-events=10,batch-events=1"]);
    server.publish("short", 0..100);
    server.publish("other", 0..1);
    let mut subscriber = server.subscribe(Transport::Sse, "/short?cursor=earliest");
    subscriber.confirmed();
    let _elsewhere = server.subscribe(Transport::Sse, "/short?cursor=9f.1");
    let gaps = wait_for("a gap", || {
        let answer = topics(&server, "?sort=-gaps");
        (answer["topics"][0]["gaps"] != 0).then_some(answer)
    });
    assert_eq!(names(&gaps), ["short", "other"]);
    assert_eq!(
        (gaps["topics"][0]["gaps"].as_u64(), gaps["all"]["gaps"].as_u64()),
        (Some(1), Some(1))
    );
}

#[test]
fn an_answer_has_one_page_of_a_search() {
    let server = Server::start(&[]);
    for number in 0..30 {
        server.publish(&format!("cars/{number:02}"), 0..1);
    }
    server.publish("news", 0..1);
    let answer = topics(&server, "?search=CARS/1&sort=-topic&limit=3");
    assert_eq!(names(&answer), ["cars/19", "cars/18", "cars/17"]);
    assert_eq!(
        (answer["matching"].as_u64(), answer["all"]["topics"].as_u64()),
        (Some(10), Some(31))
    );
    server.get("/overview/topics?sort=speed").refused(400, "bad_parameter");
    server.get("/overview/topics?limit=1001").refused(400, "bad_parameter");
    server.get("/overview/topics?prefix=a").refused(400, "bad_parameter");
    server.ask("POST", "/overview/topics", &[], "").refused(405, "method_not_allowed");
}

const ALL: (&str, &str) = ("Authorization", "Bearer all-secret");
const CARS: (&str, &str) = ("Authorization", "Bearer cars-secret");
const READER: (&str, &str) = ("Authorization", "Bearer reader-secret");

#[test]
fn only_inspectors_see_figures_and_settings_of_their_topics() {
    let server = Server::start(&[
        "--token",
        "all=all-secret,publish=**,inspect=**",
        "--token",
        "cars=cars-secret,inspect=cars/*",
        "--token",
        "reader=reader-secret,subscribe=**",
    ]);
    for topic in ["cars/1", "news"] {
        let published = server.ask("POST", &format!("/v1/topics/{topic}"), &[ALL], "1");
        assert_eq!(published.status, 200);
    }
    let seen = |holder| server.ask("GET", "/overview/topics?sort=topic", &[holder], "").json();
    assert_eq!(names(&seen(ALL)), ["cars/1", "news"]);
    let cars = seen(CARS);
    assert_eq!(names(&cars), ["cars/1"]);
    assert_eq!(cars["all"]["topics"], 1);
    server.ask("GET", "/overview/topics", &[READER], "").refused(403, "forbidden");
    server.get("/overview/topics").refused(401, "unauthorized");
    let settings =
        |holder, topic| server.ask("GET", &format!("/overview/settings/{topic}"), &[holder], "");
    assert_eq!(settings(CARS, "cars/1").status, 200);
    settings(CARS, "news").refused(403, "forbidden");
    settings(READER, "news").refused(403, "forbidden");
    let of = |topic| format!("/overview/subscribers/{topic}");
    assert_eq!(server.ask("GET", &of("cars/1"), &[CARS], "").json()["count"], 0);
    server.ask("GET", &of("news"), &[CARS], "").refused(403, "forbidden");
}

#[test]
fn subscribers_of_a_topic_are_shown_with_their_tokens_and_lags() {
    for shards in ["1", "2"] {
        let server = Server::start(&[
            "--shards",
            shards,
            "--token",
            "all=all-secret,publish=**,subscribe=**,inspect=**",
            "--token",
            "reader=reader-secret,subscribe=**",
        ]);
        let mut open =
            [(Transport::WebSocket, ALL), (Transport::Sse, READER), (Transport::Sse, READER)]
                .map(|(transport, token)| server.subscribe_with(transport, "/news", &[token]));
        open.iter_mut().for_each(|subscriber| _ = subscriber.next());
        let published = server.ask("POST", "/v1/topics/news", &[ALL], "1");
        assert_eq!(published.status, 200);
        open.iter_mut().for_each(|subscriber| _ = subscriber.next());
        let shown = server.ask("GET", "/overview/subscribers/news", &[ALL], "").json();
        assert_eq!(shown["count"], 3);
        let all = shown["subscribers"].as_array().expect("a list");
        let mut tokens: Vec<String> = all
            .iter()
            .map(|one| format!("{} {} {}", one["token"], one["transport"], one["lag"]))
            .collect();
        tokens.sort();
        let reader = r#""reader" "sse" 0"#;
        assert_eq!(tokens, [r#""all" "websocket" 0"#, reader, reader]);
        let none = server.ask("GET", "/overview/subscribers/nobody", &[ALL], "").json();
        assert_eq!(none, serde_json::json!({"count": 0, "subscribers": []}));
    }
}

#[test]
fn settings_say_where_they_come_from() {
    let server = Server::start(&[
        "--topic",
        "cars/*,history-age=90s",
        "--query",
        "slow=SELECT speed FROM \"cars/1\" WHERE speed < 9",
    ]);
    let answer = server.get("/overview/settings/cars/1").json();
    let settings = answer["settings"].as_array().expect("settings");
    let setting = |name: &str| {
        let setting = settings.iter().find(|setting| setting["name"] == name);
        let setting = setting.expect("a setting");
        [&setting["value"], &setting["from"]].map(|text| text.as_str().expect("a text").to_owned())
    };
    assert_eq!(setting("history-age"), ["90s", "cars/*"]);
    assert_eq!(setting("batch-bytes"), ["63KiB", "default"]);
    assert_eq!(answer["origin"], "published by clients");
    let rows = server.get("/overview/settings/slow").json();
    let origin = rows["origin"].as_str().expect("an origin");
    assert!(origin.starts_with("rows of the query SELECT speed"), "{origin}");
}

#[test]
fn connections_count_by_transport() {
    let server = Server::start(&[]);
    let open: Vec<_> = [Transport::WebSocket, Transport::Sse, Transport::Sse]
        .map(|transport| server.subscribe(transport, "/t"))
        .into();
    let count = |transport: &str| {
        let line = format!("thalweg_transport_connections{{transport=\"{transport}\"}} ");
        let text = server.get("/metrics").text();
        let line = text.lines().find_map(|found| found.strip_prefix(&*line).map(str::to_owned));
        line.expect("a metric")
    };
    let all = || ["websocket", "sse", "long-polling"].map(&count);
    wait_for("counts", || (all() == ["1", "2", "0"]).then_some(()));
    drop(open);
    wait_for("no connection", || (all() == ["0", "0", "0"]).then_some(()));
}
