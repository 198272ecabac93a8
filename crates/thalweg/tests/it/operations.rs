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
