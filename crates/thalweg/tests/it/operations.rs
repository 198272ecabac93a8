//! `/healthz`, `/metrics`, and unknown paths.

pub(crate) use crate::harness::metric;
use crate::harness::{Server, Transport, wait_for};

#[test]
fn healthz_says_ok() {
    let server = Server::start(&[]);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn metrics_are_prometheus_text_and_count_events() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let mut subscribers = Transport::ALL.map(|transport| server.subscribe(transport, "/t"));
        server.publish("t", 0..7);
        for subscriber in &mut subscribers {
            subscriber.confirmed();
            subscriber.numbers(7);
        }
        // The poll waits again.
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

/// Returns the sum of all samples of a family with this label.
fn labelled(text: &str, name: &str, label: &str) -> f64 {
    let of_it = |line: &&str| line.starts_with(name) && line.contains(label);
    let values = text.lines().filter(of_it).filter_map(|line| line.rsplit_once(' '));
    values.map(|(_, value)| value.parse::<f64>().expect("a number")).sum()
}

#[test]
fn metrics_have_the_delay_of_each_event_loop() {
    let server = Server::start(&["--shards", "2"]);
    for shard in ["0", "1"] {
        let label = format!("shard=\"{shard}\"");
        wait_for("two beats of the event loop, of which one is late", || {
            let text = server.get("/metrics").text();
            let all = format!("{label},le=\"+Inf\"");
            let beats = labelled(&text, "thalweg_loop_delay_seconds_bucket", &all);
            assert_eq!(labelled(&text, "thalweg_loop_delay_seconds_count", &label), beats);
            // A timer never fires early, and hardly ever in the microsecond in which it is due.
            let sum_s = labelled(&text, "thalweg_loop_delay_seconds_sum", &label);
            (beats >= 2.0 && sum_s > 0.0).then_some(())
        });
    }
    let text = server.get("/metrics").text();
    assert_eq!(text.matches("# TYPE thalweg_loop_delay_seconds histogram").count(), 1);
}

#[test]
fn metrics_have_the_time_from_publish_to_send() {
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
        // The event waited for more events of its batch.
        assert_eq!(took(&text, "0.262144"), 0.0, "{text}");
        assert!(labelled(&text, "thalweg_delivery_seconds_sum", "") >= 0.3 * (before + 1.0));
    }
    // A later subscriber has not waited.
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

/// Returns the metrics that the board and the alerts query: where, and which.
pub(crate) fn metrics_asked_for() -> Vec<(&'static str, String)> {
    let mut names = Vec::new();
    for file in ["grafana.json", "alerts.yaml"] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/").to_owned() + file;
        let text = std::fs::read_to_string(path).expect("a file");
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_name = |word: &&str| word.starts_with("thalweg_") || word.starts_with("process_");
        let found: Vec<_> = words.filter(is_name).map(|name| (file, name.to_owned())).collect();
        assert!(found.len() >= 10, "{file}: {found:?}");
        names.extend(found);
    }
    names
}

/// Fails for the first of these metrics that a server lacks: a panel for it would be empty, and an alert would never fire.
pub(crate) fn has_metrics<'a>(
    server: &Server,
    names: impl IntoIterator<Item = &'a (&'static str, String)>,
) {
    let text = server.get("/metrics").text();
    let samples: Vec<&str> =
        text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    for (file, name) in names {
        assert!(samples.contains(&name.as_str()), "{file}: {name}");
    }
}

#[test]
fn the_board_and_the_alerts_ask_for_metrics_that_there_are() {
    let server = Server::start(&["--demo"]);
    let names = metrics_asked_for();
    let is_of_a_broker =
        |name: &str| name.starts_with("thalweg_nats_") || name.starts_with("thalweg_disk_");
    has_metrics(&server, names.iter().filter(|(_, name)| !is_of_a_broker(name)));
}

#[test]
fn the_alerts_name_codes_that_there_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/alerts.yaml");
    let alerts = std::fs::read_to_string(path).expect("the alerts");
    let server = Server::start(&[]);
    let text = server.get("/metrics").text();
    let mut codes = 0;
    for line in alerts.lines().filter(|line| line.contains("expr:")) {
        let labels = line.split("code=").skip(1).filter_map(|rest| rest.split('"').nth(1));
        for code in labels.flat_map(|label| label.split('|')) {
            assert!(text.contains(&format!("code=\"{code}\"")), "{code}");
            codes += 1;
        }
    }
    assert!(codes >= 4, "{codes}");
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
