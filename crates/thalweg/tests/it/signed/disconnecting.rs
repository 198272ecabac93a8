//! Connections that administrators close, and publishers whose token expires.

use serde_json::{Value, json};

use super::{EC, bearer, now_s, server, token};
use crate::harness::{Answer, Patience, Raw, Server, Transport, chunk, close};

#[test]
fn administrators_disconnect_others() {
    let root = ["--token", "root=s3cret,admin=true,publish=**"];
    // The name of a configured token is not a subject.
    let named = ["--token", "alice=own,subscribe=users/**"];
    let others = ["--shards", "2", "--token", "everybody,subscribe=open"];
    let server = server(&[&root[..], &named, &others].concat());
    let mut anybody = server.subscribe(Transport::WebSocket, "/open");
    anybody.confirmed();
    let open_with = |token: &str, target: &str, transport: Transport| {
        let headers = [("Authorization", &*bearer(token))];
        let mut subscriber = server.subscribe_with(transport, target, &headers);
        subscriber.confirmed();
        subscriber
    };
    let open = |subject: &str, transport: Transport| {
        let token = token(EC[0], None, json!({ "sub": subject }));
        open_with(&token, &format!("/users/{subject}/in"), transport)
    };
    let disconnect = |body: Value, token: &str| {
        let body = body.to_string();
        server.ask("POST", "/v1/admin/disconnect", &[("Authorization", token)], &body)
    };
    let (mut first, mut second) =
        (open("alice", Transport::WebSocket), open("alice", Transport::Sse));
    let (mut other, mut third) = (open("bob", Transport::WebSocket), open("bob", Transport::Sse));
    let mut own = open_with("own", "/users/alice/out", Transport::WebSocket);
    let alice = bearer(&token(EC[0], None, json!({})));
    disconnect(json!({ "subject": "alice" }), &alice).refused(403, "forbidden");
    server.ask("POST", "/v1/admin/disconnect", &[], "{}").refused(401, "unauthorized");
    for wrong in
        [json!({}), json!({ "subject": "a", "topics": "b" }), json!({ "topics": "a*" }), json!(1)]
    {
        disconnect(wrong, "Bearer s3cret").refused(400, "bad_command");
    }
    // A client without a token has no subject, not even an empty one.
    let nobody = disconnect(json!({ "subject": "" }), "Bearer s3cret");
    assert_eq!(nobody.json(), json!({ "disconnected": 0 }));
    let answer = disconnect(json!({ "subject": "alice" }), "Bearer s3cret");
    assert_eq!(answer.json(), json!({ "disconnected": 2 }));
    for (subscriber, transport) in
        [(&mut first, Transport::WebSocket), (&mut second, Transport::Sse)]
    {
        assert_eq!(subscriber.next(), close(transport, 4501, "disconnected", false));
    }
    for (name, ended) in [("bob", 0), ("", 0), ("alice", 1)] {
        let answer = disconnect(json!({ "token": name }), "Bearer s3cret");
        assert_eq!(answer.json(), json!({ "disconnected": ended }), "{name}");
    }
    assert_eq!(own.next(), close(Transport::WebSocket, 4501, "disconnected", false));
    let answer = disconnect(json!({ "topics": "users/*/in" }), "Bearer s3cret");
    assert_eq!(answer.json(), json!({ "disconnected": 2 }));
    for (subscriber, transport) in
        [(&mut other, Transport::WebSocket), (&mut third, Transport::Sse)]
    {
        assert_eq!(subscriber.next(), close(transport, 4501, "disconnected", false));
    }
    server.ask("POST", "/v1/topics/open", &[("Authorization", "Bearer s3cret")], "7");
    assert_eq!(anybody.numbers(1).0, [7]);
    server.has_said("disconnected");
}

/// Publishes lines without a pause, until the server ends the request with this answer. `act` runs
/// repeatedly, because the first call may come before the server has the head.
pub(super) fn publish_without_end(
    server: &Server,
    token: &str,
    mut meanwhile: impl FnMut(),
) -> Answer {
    let mut raw = Raw::connect(server.address);
    let head = format!(
        "POST /v1/topics/users/alice/out HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    raw.send(head);
    let lines = chunk(&"1\n".repeat(100));
    let mut patience = Patience::new();
    for nth in 0.. {
        if !raw.send(&lines) {
            break;
        }
        patience.check("the end of the publisher");
        if nth % 1000 == 0 {
            meanwhile();
        }
    }
    raw.answer()
}

#[test]
fn a_publisher_of_lines_ends_with_its_token_and_when_it_is_disconnected() {
    let server = server(&[
        "--token",
        "root=s3cret,admin=true",
        "--set",
        "limits.subject-rates.publishes=1000000000",
        "--set",
        "limits.subject-rates.bytes=100GiB",
    ]);
    let short = bearer(&token(EC[0], None, json!({ "exp": now_s() + 2 })));
    publish_without_end(&server, &short, || {}).refused(401, "unauthorized");
    let long = bearer(&token(EC[0], None, json!({})));
    for selection in [r#"{"subject":"alice"}"#, r#"{"topics":"users/*/out"}"#] {
        let mut disconnected = Vec::new();
        let ended = publish_without_end(&server, &long, || {
            let headers = [("Authorization", "Bearer s3cret")];
            let answer = server.ask("POST", "/v1/admin/disconnect", &headers, selection).json();
            // A disconnect of another subject has no effect.
            let other = r#"{"subject":"bob"}"#;
            server.ask("POST", "/v1/admin/disconnect", &headers, other);
            disconnected.push(answer["disconnected"].as_u64().expect("a number"));
        });
        ended.refused(403, "forbidden");
        assert_eq!(disconnected.iter().sum::<u64>(), 1, "{selection}");
    }
}
