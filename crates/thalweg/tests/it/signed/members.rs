//! The entries of users in the presence of a topic.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{EC, bearer, server, token};
use crate::harness::{Subscriber, Transport, wait_for};

#[test]
fn no_user_takes_the_entry_of_another_one() {
    let server = server(&["--topic", "room,presence=connections"]);
    let token_of = |user: &str| {
        let rights = json!({"subscribe": ["room", "presence/room"]});
        token(EC[0], None, json!({"sub": user, "thalweg": rights}))
    };
    let subscribe = |user: &str, id: &str| {
        let headers = [("Authorization", &*bearer(&token_of(user)))];
        let target = format!("/room?member={id}");
        let mut subscriber = server.subscribe_with(Transport::Sse, &target, &headers);
        subscriber.envelope();
        subscriber
    };
    let _a = subscribe("a", "b~c");
    let _a_b = subscribe("a~b", "c");
    let authorization = bearer(&token_of("watch"));
    let keys = wait_for("both members", || {
        let headers = [("Authorization", &*authorization)];
        let listed = server.ask("GET", "/v1/topics/presence/room?limit=10", &headers, "").json();
        let keys = listed["keys"].as_array()?.clone();
        (keys.len() == 2).then_some(keys)
    });
    assert!(keys.contains(&json!("a~b~c")), "{keys:?}");
}

/// The client's own description is in its request: a token is what the application says of its user.
#[test]
fn the_description_in_a_token_is_the_one_that_others_see() {
    for shards in ["1", "2"] {
        let settings = ["--topic", "room,presence=users,presence-grace=0", "--shards", shards];
        let server = server(&settings);
        let token_of = |user: &str, info: Value| {
            let rights = json!({"subscribe": ["room", "presence/room"], "info": info});
            token(EC[0], None, json!({"sub": user, "thalweg": rights}))
        };
        let [ann, bob] = [json!({"name": "Ann", "age": 7}), json!("Bob")];
        let ann = bearer(&token_of("ann", ann));
        let ann = [("Authorization", &*ann)];
        let own = "info=%7B%22name%22%3A%22Boss%22%7D";
        let bob = bearer(&token_of("bob", bob));
        let ticket = server.ask("POST", "/v1/tickets", &[("Authorization", &bob)], "").json();
        let ticket = ticket["ticket"].as_str().expect("a ticket").to_owned();
        // A token without a description leaves it to the client.
        let eve = bearer(&token_of("eve", Value::Null));
        let eve = [("Authorization", &*eve)];
        let mut members: Vec<Subscriber> = vec![
            server.subscribe_with(Transport::Sse, &format!("/room?{own}"), &ann),
            server.subscribe(Transport::WebSocket, &format!("/room?{own}&ticket={ticket}")),
            server.subscribe_with(Transport::HttpStreaming, &format!("/room?{own}"), &eve),
        ];
        members.iter_mut().for_each(|member| drop(member.confirmed()));
        let listed = || {
            let page = server.ask("GET", "/v1/topics/presence/room?limit=10", &ann, "").json();
            let (keys, events) = (page["keys"].as_array()?, page["events"].as_array()?);
            let info = events.iter().map(|event| event["info"].clone());
            let listed: BTreeMap<&str, Value> =
                keys.iter().filter_map(Value::as_str).zip(info).collect();
            (listed.len() == 3).then(|| json!(listed))
        };
        let expected =
            json!({"ann": {"name": "Ann", "age": 7}, "bob": "Bob", "eve": {"name": "Boss"}});
        assert_eq!(wait_for("all members", listed), expected, "{shards}");
    }
}

/// A connection keeps its entry. The new description applies to its next subscription.
#[test]
fn another_token_changes_the_description_from_the_next_subscription_on() {
    let server = server(&["--topic", "room/**,presence=users,presence-grace=0"]);
    let token_of = |info: &str| {
        let rights = json!({"subscribe": ["room/**", "presence/**"], "info": info});
        token(EC[0], None, json!({"sub": "ann", "thalweg": rights}))
    };
    let first = bearer(&token_of("old"));
    let first = [("Authorization", &*first)];
    let mut ann = server.subscribe_with(Transport::WebSocket, "/room/1", &first);
    ann.confirmed();
    let refresh = json!({"command": "refresh", "id": 1, "token": token_of("new")}).to_string();
    assert!(ann.command(&refresh)["answer"].is_object());
    ann.command(r#"{"command":"subscribe","id":2,"topic":"room/2"}"#);
    let info = |room: u8| {
        let target = format!("/v1/topics/presence/room/{room}?limit=10");
        let page = server.ask("GET", &target, &first, "").json();
        page["events"].get(0).map(|event| event["info"].clone())
    };
    assert_eq!(wait_for("the second room", || info(2)), json!("new"));
    assert_eq!(wait_for("the first room", || info(1)), json!("old"));
}

#[test]
fn a_token_with_too_long_a_description_is_refused() {
    let server = server(&[]);
    let read = |length: usize| {
        let rights = json!({"subscribe": ["room"], "info": "x".repeat(length)});
        let token = bearer(&token(EC[0], None, json!({"thalweg": rights})));
        let headers = [("Authorization", &*token)];
        server.ask("GET", "/v1/topics/room?limit=1", &headers, "")
    };
    // Two quotes belong to it.
    read(1022).refused(404, "no_such_topic");
    let message = read(1023).refused(401, "unauthorized");
    assert!(message.contains("info has 1025 bytes as JSON: write at most 1024"), "{message}");
}
