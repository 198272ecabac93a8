//! The topics of the demo page: answers that arrive word by word, numbers, and positions of cars.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    durable::Directory,
    harness::{Server, Subscriber, TlsClient, Transport, offset, wait_for},
};

const JSON: &str = "application/json";

fn question(id: &str, question: usize) -> String {
    json!({ "answer": id, "question": question }).to_string()
}

fn ask(server: &Server, id: &str, number: usize) {
    server.post("demo/questions", JSON, question(id, number)).published();
}

fn read_answer(server: &Server, transport: Transport, id: &str) -> Subscriber {
    server.subscribe(transport, &format!("/demo/answers/{id}?cursor=earliest"))
}

/// Receives events up to the first one that is enough. A gap fails the test. Returns them and the last position.
fn receive(
    subscriber: &mut Subscriber,
    is_enough: impl Fn(&Value) -> bool,
) -> (Vec<Value>, String) {
    let mut events = Vec::new();
    loop {
        let envelope = subscriber.envelope();
        events.extend(envelope.events);
        if events.last().is_some_and(&is_enough) {
            return (events, envelope.position);
        }
    }
}

fn has_index(least: u64) -> impl Fn(&Value) -> bool {
    move |event| event["index"].as_u64() >= Some(least)
}

fn is_end(event: &Value) -> bool {
    event["done"] == true
}

/// Checks that a whole answer came once and in order. Returns its text.
fn whole(events: &[Value]) -> String {
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["index"], index, "{events:?}");
        assert_eq!(is_end(event), index + 1 == events.len(), "{events:?}");
    }
    let text: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(events.len() > 100 && text.ends_with('.'), "{text}");
    text
}

/// Returns the events that the topic of an answer has; none if there is no topic.
fn stored(server: &Server, id: &str) -> Vec<Value> {
    let read = server.get(&format!("/v1/topics/demo/answers/{id}?limit=1000"));
    if read.status == 404 {
        return Vec::new();
    }
    read.json()["events"].as_array().expect("events").clone()
}

#[test]
fn a_question_is_answered_word_by_word_and_once() {
    let server = Server::start(&["--demo", "--shards", "2"]);
    // The page subscribes before it asks.
    let mut page = read_answer(&server, Transport::WebSocket, "aaaaaaaaaaaa");
    page.confirmed();
    for number in 0..3 {
        ask(&server, "aaaaaaaaaaaa", number);
    }
    let (events, _) = receive(&mut page, is_end);
    assert!(whole(&events).starts_with("Every event "));
    let mut other = read_answer(&server, Transport::Sse, "aaaaaaaaaaaa");
    assert_eq!(receive(&mut other, is_end).0, events);

    ask(&server, "aaaaaaaaaaaa", 1);
    ask(&server, "bbbbbbbbbbbb", 1);
    receive(&mut read_answer(&server, Transport::Sse, "bbbbbbbbbbbb"), has_index(5));
    assert_eq!(stored(&server, "aaaaaaaaaaaa"), events);
}

#[test]
fn an_answer_on_disk_continues_after_the_death_of_the_server() {
    let directory = Directory::new();
    let flags = ["--demo", "--store", "demo/**"];
    let server = directory.start(&flags);
    let ids = ["aaaaaaaaaaaa", "bbbbbbbbbbbb"];
    ids.iter().zip(2..).for_each(|(id, number)| ask(&server, id, number));
    let begun =
        ids.map(|id| receive(&mut read_answer(&server, Transport::WebSocket, id), has_index(10)));
    server.kill();

    let server = directory.start(&flags);
    for (id, (mut events, position)) in ids.into_iter().zip(begun) {
        let target = format!("/demo/answers/{id}?cursor={position}");
        let mut page = server.subscribe(Transport::WebSocket, &target);
        events.extend(receive(&mut page, is_end).0);
        whole(&events);
        assert_eq!(stored(&server, id), events);
    }
}

#[test]
fn more_questions_than_can_be_answered_harm_nobody() {
    let server = Server::start(&["--demo"]);
    let id = |number: usize| format!("{number:012}");
    // The demo listens.
    server.await_connections(1);
    let junk = ["5".to_owned(), question("short", 0), question(&id(0), 99), "{\"a\":1}".to_owned()];
    let questions = (0..400).map(|number| question(&id(number), number % 4));
    let lines: Vec<String> = junk.into_iter().chain(questions).collect();
    server.post("demo/questions", "application/x-ndjson", lines.join("\n")).published();
    server.has_said("the demo drops questions");
    let mut first = read_answer(&server, Transport::HttpStreaming, &id(0));
    receive(&mut first, has_index(20));
    let listed = server.get("/v1/topics?prefix=demo/answers/").json();
    let listed = listed["topics"].as_array().expect("topics").clone();
    let listed: Vec<&str> = listed.iter().filter_map(|topic| topic["topic"].as_str()).collect();
    let expected: Vec<String> = (0..32).map(|n| format!("demo/answers/{}", id(n))).collect();
    assert_eq!(listed, expected, "only so many at once");
    server.publish("other", 0..3);
    // The next ones follow when those are done.
    receive(&mut first, is_end);
    receive(&mut read_answer(&server, Transport::Sse, &id(32)), has_index(0));
}

#[test]
fn questions_are_answered_over_tls() {
    let server = Server::start(&["--demo", "--tls-self-signed"]);
    let raw = || TlsClient::raw(server.address);
    let body = question("aaaaaaaaaaaa", 0);
    let headers = [("Content-Type", JSON), ("Host", "localhost")];
    let mut asking = raw();
    asking.ask("POST", "/v1/topics/demo/questions", &headers, &body);
    assert_eq!(asking.answer().status, 200);
    wait_for("the first word", || {
        let mut reading = raw();
        reading.ask("GET", "/v1/topics/demo/answers/aaaaaaaaaaaa?limit=1", &headers[1..], "");
        (reading.answer().status == 200).then_some(())
    });
}

#[test]
fn the_topic_of_questions_may_end_and_may_not_exist_yet() {
    let server = Server::start(&["--demo", "--set", "existing-topics-only=true"]);
    for id in ["aaaaaaaaaaaa", "bbbbbbbbbbbb"] {
        ask(&server, id, 0);
        wait_for("the first word", || stored(&server, id).first().cloned());
        assert_eq!(server.ask("DELETE", "/v1/topics/demo/questions", &[], "").status, 204);
    }
}

#[test]
fn without_rights_for_everybody_the_demo_answers_nothing_and_says_so_once() {
    for rights in ["subscribe=**", "publish=**", "subscribe=demo/questions,publish=demo/questions"]
    {
        let server = Server::start(&["--demo", "--token", &format!("everybody,{rights}")]);
        server.has_said("the demo answers no questions");
        assert_eq!(server.said().matches("the demo ").count(), 1, "{}", server.said());
    }
    let rights = "everybody,subscribe=demo/**,publish=demo/**";
    let server = Server::start(&["--demo", "--token", rights]);
    ask(&server, "aaaaaaaaaaaa", 0);
    wait_for("the first word", || stored(&server, "aaaaaaaaaaaa").first().cloned());
}

#[test]
fn numbers_on_disk_run_for_subscribers_only_and_continue_after_a_kill() {
    const IDLE: &str = "thalweg_sources_idle";
    let directory = Directory::new();
    let flags = ["--demo", "--store", "demo/**", "--shards", "2"];
    let server = directory.start(&flags);
    let all_idle = server.metric(IDLE);
    let mut page = server.subscribe(Transport::WebSocket, "/demo/numbers");
    page.confirmed();
    let number = |event: &Value| event["seq"].as_u64().expect("a number");
    let (events, _) = receive(&mut page, |event| number(event) >= 5);
    assert_eq!(number(&events[0]), 1);
    server.await_metric(IDLE, |idle| idle == all_idle - 1.0);
    drop(page);
    server.await_metric(IDLE, |idle| idle == all_idle);

    let mut page = server.subscribe(Transport::WebSocket, "/demo/numbers");
    page.confirmed();
    let (mut events, position) = receive(&mut page, |_| true);
    server.kill();
    let server = directory.start(&flags);
    let mut page = server.subscribe(Transport::Sse, &format!("/demo/numbers?cursor={position}"));
    let mut before = offset(&position);
    // Numbers from before the kill may come first. Offsets of a topic on disk leave numbers out.
    while !events.iter().any(|event| number(event) == 1) {
        let envelope = page.envelope();
        let json: Value = serde_json::from_str(&envelope.text).expect("JSON");
        assert_eq!(json["after"].as_u64().unwrap_or(envelope.first - 1), before, "{envelope:?}");
        before = offset(&envelope.position);
        events.extend(envelope.events);
    }
    let numbers: Vec<u64> = events.iter().map(number).collect();
    let are_complete = numbers.windows(2).all(|two| two[1] == two[0] + 1 || two[1] == 1);
    assert!(are_complete, "{numbers:?}");
}

#[test]
fn each_car_has_one_position_a_second() {
    let server = Server::start(&["--demo", "--shards", "2"]);
    let mut page = server.subscribe(Transport::WebSocket, "/car-positions?cursor=earliest");
    let mut rows = Vec::new();
    while rows.len() < 300 {
        rows.extend(page.envelope().events);
    }
    for second in rows.chunks_exact(100) {
        let cars: HashSet<&str> = second.iter().filter_map(|row| row[1].as_str()).collect();
        assert_eq!(cars.len(), 100, "{second:?}");
        assert!(second.iter().all(|row| row[0] == second[0][0]), "{second:?}");
        for row in second {
            let at = |column: usize| row[column].as_f64().expect("a number");
            assert!((16.6..=17.1).contains(&at(2)) && (54.1..=54.6).contains(&at(3)), "{row}");
            assert!((0.0..=130.0).contains(&at(4)), "{row}");
        }
    }
}
