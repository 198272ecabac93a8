//! `GET /v1/topics/{topic}` on each transport.

use serde_json::json;

use crate::harness::{Line, Server, Subscriber, Transport, offset, request};

#[test]
fn the_first_envelope_comes_at_once_and_is_empty() {
    let server = Server::start(&[]);
    for transport in Transport::ALL {
        let position = server.subscribe(transport, "/quiet").confirmed();
        assert_eq!(offset(&position), 0);
    }
    let published = server.publish("busy", 0..3);
    for transport in Transport::ALL {
        assert_eq!(server.subscribe(transport, "/busy").confirmed(), published.position);
    }
}

#[test]
fn events_arrive_as_they_are_published() {
    let server = Server::start(&[]);
    let mut subscribers = Transport::ALL.map(|transport| server.subscribe(transport, "/live"));
    for subscriber in &mut subscribers {
        subscriber.confirmed();
    }
    for number in 0..50 {
        let published = server.publish("live", number..number + 1);
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.numbers(1), (vec![number], published.position.clone()));
        }
    }
}

#[test]
fn latest_begins_with_the_next_event() {
    let server = Server::start(&[]);
    server.publish("t", 0..5);
    for (transport, target) in
        Transport::ALL.iter().flat_map(|each| [(*each, "/t"), (*each, "/t?cursor=latest")])
    {
        let mut subscriber = server.subscribe(transport, target);
        subscriber.confirmed();
        server.publish("t", 5..6);
        assert_eq!(subscriber.numbers(1).0, [5]);
    }
}

#[test]
fn earliest_is_everything_retained() {
    let server = Server::start(&[]);
    server.publish("t", 0..3);
    server.publish("t", 3..5);
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, "/t?cursor=earliest");
        assert_eq!(offset(&subscriber.confirmed()), 0);
        assert_eq!(subscriber.numbers(5).0, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn the_envelope_is_the_same_on_every_transport() {
    let server = Server::start(&[]);
    let position =
        server.post("cars", "application/x-ndjson", "{\"id\":7}\n{\"id\":8}").published();
    let position = position.position;
    let expected = format!(
        r#"{{"topic":"cars","position":"{position}","first":1,"events":[{{"id":7}},{{"id":8}}]}}"#
    );
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, "/cars?cursor=earliest");
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().text.trim_end(), expected);
    }
}

#[test]
fn an_sse_frame_carries_its_position_as_the_id() {
    let server = Server::start(&[]);
    server.publish("t", 0..2);
    let mut subscriber = server.subscribe(Transport::Sse, "/t?cursor=earliest");
    for _ in 0..2 {
        let envelope = subscriber.envelope();
        assert_eq!(envelope.id, Some(envelope.position));
    }
}

#[test]
fn the_query_names_a_transport_where_headers_cannot() {
    let server = Server::start(&[]);
    for (name, content_type) in
        [("sse", "text/event-stream"), ("http-streaming", "application/x-ndjson")]
    {
        let mut socket = server.connect();
        socket.send(format!(
            "GET /v1/topics/t?transport={name} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
        ));
        let head = socket.response_head();
        assert_eq!((head.status, head.header("content-type")), (200, Some(content_type)));
    }
}

#[test]
fn a_stream_is_not_cached_and_ends_with_its_connection() {
    let server = Server::start(&[]);
    for accept in ["text/event-stream", "application/x-ndjson"] {
        let mut socket = server.connect();
        socket.send(format!(
            "GET /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"
        ));
        let head = socket.response_head();
        assert!(head.header("cache-control").is_some_and(|value| value.contains("no-")));
        assert_eq!(head.header("connection"), Some("close"));
        assert_eq!(head.header("content-length"), None);
        assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    }
}

#[test]
fn a_request_without_a_transport_gets_the_list() {
    let server = Server::start(&[]);
    let sentence = server.get("/v1/topics/t").refused(406, "not_acceptable");
    for transport in ["websocket", "text/event-stream", "application/x-ndjson"] {
        assert!(sentence.to_lowercase().contains(transport), "{sentence}");
    }
}

fn refusal(target: &str, code: &str) -> String {
    let server = Server::start(&[]);
    let accept = [("Accept", "text/event-stream")];
    server.ask("GET", &format!("/v1/topics{target}"), &accept, "").refused(400, code)
}

#[test]
fn an_unknown_parameter_is_refused_with_the_nearest_right_name() {
    for (wrong, right) in [
        ("curser=earliest", "cursor"),
        ("polcy=skip", "policy"),
        ("intervall=1s", "interval"),
        ("transprot=sse", "transport"),
    ] {
        let sentence = refusal(&format!("/t?{wrong}"), "bad_parameter");
        assert!(sentence.contains(right), "{sentence}");
    }
    refusal("/t?policy=drop", "bad_parameter");
    refusal("/t?interval=soon", "bad_parameter");
    refusal("/t?transport=smoke", "bad_parameter");
}

#[test]
fn a_parameter_that_starts_with_an_underscore_is_ignored() {
    let server = Server::start(&[]);
    server.subscribe(Transport::Sse, "/t?_=1700000000&cursor=latest").confirmed();
}

#[test]
fn a_cursor_is_a_word_or_a_position() {
    for bad in ["first", "7", "ab.", ".7", "0.7", "AB.7", "ab.-1", "ab.7.8", "ab.9007199254740992"]
    {
        refusal(&format!("/t?cursor={bad}"), "bad_cursor");
    }
}

#[test]
fn subscribing_to_an_invalid_topic_is_refused() {
    for bad in ["/a//b", "/..", "/a%20b", "?topic=a%20b"] {
        refusal(bad, "bad_topic");
    }
}

#[test]
fn unicode_and_large_numbers_pass_through_untouched() {
    let server = Server::start(&[]);
    let event = r#"{"name":"Größe 🚗","big":123456789012345678901234567890,"small":1E-400}"#;
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, "/t");
        subscriber.confirmed();
        server.post("t", "application/json", event).published();
        let text = subscriber.envelope().text;
        assert!(text.contains(event), "{text}");
    }
}

#[test]
fn a_connection_is_kept_alive_until_it_subscribes() {
    let server = Server::start(&[]);
    for transport in Transport::ALL {
        let mut socket = server.connect();
        let topic = format!("alive/{transport:?}");
        for number in 0..3 {
            let body = number.to_string();
            let target = format!("/v1/topics/{topic}");
            socket.send(request("POST", &target, &[], body.as_bytes()));
            assert_eq!(socket.response().published().first, number + 1);
        }
        let target = format!("/v1/topics/{topic}?cursor=earliest");
        let line = Line::Http1(server.address);
        let mut subscriber = Subscriber::on(socket, line, transport, &target, &[]);
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().events[0], json!(0));
    }
}
