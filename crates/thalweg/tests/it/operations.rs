//! `/healthz`, `/metrics`, and paths that are not there.

pub(crate) use crate::harness::metric;
use crate::harness::{Server, Transport};

#[test]
fn healthz_says_ok() {
    let server = Server::start(&[]);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn metrics_are_prometheus_text_and_count_what_happens() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let mut subscribers = Transport::ALL.map(|transport| server.subscribe(transport, "/t"));
        server.publish("t", 0..7);
        for subscriber in &mut subscribers {
            subscriber.confirmed();
            subscriber.numbers(7);
        }
        // The poll is waiting again.
        server.await_connections(5);
        let response = server.get("/metrics");
        assert_eq!(response.status, 200);
        let content_type = response.header("content-type").unwrap_or_default().to_owned();
        assert!(
            content_type.starts_with("text/plain")
                || content_type.starts_with("application/openmetrics-text"),
            "{content_type}"
        );
        let text = response.text();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            let of_the_process = name.starts_with("process_");
            assert!(name.starts_with("thalweg_") || of_the_process, "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        let is = |name: &str, expected: f64| {
            assert_eq!(metric(&text, name), Some(expected), "{name} in\n{text}");
        };
        is("thalweg_events_published_total", 7.0);
        is("thalweg_connections", 5.0);
        assert!(metric(&text, "process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e5));
        assert!(metric(&text, "thalweg_subscribed_total").is_some_and(|value| value >= 5.0));
        for counter in ["accepted", "sends", "sent_bytes"] {
            let name = format!("thalweg_{counter}_total");
            assert!(metric(&text, &name).is_some_and(|value| value >= 3.0), "{name} in\n{text}");
        }
    }
}

/// All samples of one family with this label.
fn labelled(text: &str, name: &str, label: &str) -> f64 {
    let of_it = |line: &&str| line.starts_with(name) && line.contains(label);
    let values = text.lines().filter(of_it).filter_map(|line| line.rsplit_once(' '));
    values.map(|(_, value)| value.parse::<f64>().expect("a number")).sum()
}

#[test]
fn it_is_told_how_long_events_took_to_who_waited_for_them() {
    let server = Server::start(&["--topic", "slow/**,flush=300ms"]);
    let took = |text: &str, bound: &str| {
        labelled(text, "thalweg_delivery_seconds_bucket", &format!("le=\"{bound}\""))
    };
    let told = || server.get("/metrics").text();
    for transport in [Transport::WebSocket, Transport::Sse] {
        let before = took(&told(), "+Inf");
        let mut waiting = server.subscribe(transport, "/slow/t");
        waiting.confirmed();
        server.publish("slow/t", 0..1);
        waiting.numbers(1);
        let text = told();
        assert_eq!(took(&text, "+Inf"), before + 1.0, "{text}");
        // It waited for more events of its batch.
        assert_eq!(took(&text, "0.262144"), 0.0, "{text}");
        assert!(labelled(&text, "thalweg_delivery_seconds_sum", "") >= 0.3 * (before + 1.0));
    }
    // Who comes later has not waited.
    let before = took(&told(), "+Inf");
    let mut later = server.subscribe(Transport::WebSocket, "/slow/t?cursor=earliest");
    later.confirmed();
    later.numbers(2);
    assert_eq!(took(&told(), "+Inf"), before);
}

#[test]
fn topics_are_counted_by_the_patterns_of_the_configuration() {
    let server = Server::start(&["--topic", "cars/*,kind=log", "--shards", "2"]);
    let mut subscribers = ["/cars/a", "/cars/a", "/cars/b", "/other"]
        .map(|target| server.subscribe(Transport::WebSocket, target));
    subscribers.iter_mut().for_each(|subscriber| drop(subscriber.confirmed()));
    for topic in ["cars/a", "cars/b", "other"] {
        server.publish(topic, 0..3);
    }
    subscribers.iter_mut().for_each(|subscriber| drop(subscriber.numbers(3)));
    let is = |name: &str, of_cars: f64, of_others: f64| {
        crate::harness::wait_for(name, || {
            let text = server.get("/metrics").text();
            let of = |pattern: &str| labelled(&text, name, &format!("pattern=\"{pattern}\""));
            ([of("cars/*"), of("**")] == [of_cars, of_others]).then_some(())
        });
    };
    is("thalweg_pattern_topics", 2.0, 1.0);
    is("thalweg_pattern_subscriptions", 3.0, 1.0);
    is("thalweg_pattern_events_total", 6.0, 3.0);
    drop(subscribers);
    is("thalweg_pattern_subscriptions", 0.0, 0.0);
}

/// A panel that asks for what is not there shows nothing, and nobody is told.
#[test]
fn the_board_asks_for_metrics_that_there_are() {
    let server = Server::start(&["--demo"]);
    let text = server.get("/metrics").text();
    let samples: Vec<&str> =
        text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/grafana.json");
    let board = std::fs::read_to_string(path).expect("the board");
    let board: serde_json::Value = serde_json::from_str(&board).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let mut names = 0;
    for panel in panels {
        let targets = panel["targets"].as_array().into_iter().flatten();
        for expression in targets.map(|target| target["expr"].as_str().expect("an expression")) {
            let words = expression.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
            let is_name =
                |word: &&str| word.starts_with("thalweg_") || word.starts_with("process_");
            for name in words.filter(is_name) {
                assert!(samples.contains(&name), "{}: {name}", panel["title"]);
                names += 1;
            }
        }
    }
    assert!(names >= 10, "{names}");
}

#[test]
fn the_root_says_where_to_go() {
    let server = Server::start(&[]);
    let root = server.get("/");
    assert_eq!(root.status, 200);
    assert!(root.text().contains("/v1/topics/"), "{}", root.text());
}

#[test]
fn an_unknown_path_is_not_found() {
    let server = Server::start(&[]);
    for path in ["/v1", "/v2/topics/t", "/v1/topic/t", "/healthz/x", "/favicon.ico"] {
        server.get(path).refused(404, "not_found");
    }
}

#[test]
fn an_unknown_method_is_not_allowed() {
    let server = Server::start(&[]);
    for (method, path) in [
        ("PATCH", "/v1/topics/t"),
        ("PUT", "/v1/topics/t"),
        ("POST", "/v1/topics"),
        ("POST", "/healthz"),
        ("POST", "/metrics"),
    ] {
        server.ask(method, path, &[], "").refused(405, "method_not_allowed");
    }
}
