//! The entries of users in the presence of a topic.

use serde_json::json;

use super::{EC, bearer, server, token};
use crate::harness::{Transport, wait_for};

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
