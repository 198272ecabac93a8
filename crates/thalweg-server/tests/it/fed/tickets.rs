//! Tickets that a broker keeps: valid once, at any node.

use std::thread;

use thalweg_server::config::{Config, NamedToken, SignedBy};
use thalweg_token::{Key, Keys, Rights, SigningKey};

use super::{Streams, broker, history_with, json};
use crate::running::Running;

const PUBLISHER: &str = "Authorization: Bearer publish-secret";

/// A node with tokens.
fn guarded(streams: &Streams) -> Running {
    let mut config = Config { shards: 2, ..Config::default() };
    config.access.tokens = vec![
        NamedToken::new("publisher", "publish-secret", Rights::all()),
        NamedToken::new("subscriber", "subscribe-secret", Rights::to_subscribe()),
    ];
    Running::start(config, Some(broker(streams)))
}

fn ticket(node: &Running, token: &str) -> String {
    let answer = node.ask("POST", "/v1/tickets", &[token], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    json(&answer)["ticket"].as_str().expect("a ticket").to_owned()
}

#[test]
fn a_ticket_of_one_node_is_good_once_at_any_other() {
    let streams = Streams::new(&["**"]);
    let nodes = [guarded(&streams), guarded(&streams)];
    let headers = [PUBLISHER, "Content-Type: application/json"];
    assert_eq!(nodes[0].ask("POST", "/v1/topics/cars", &headers, "1").status, 200);
    history_with(&nodes[1], "cars", 1, &[PUBLISHER]);
    let read = |nth: usize, ticket: &str| {
        nodes[nth].get(&format!("/v1/topics/cars?limit=1&ticket={ticket}"), &[])
    };
    for (issuer, other) in [(0, 1), (1, 0), (0, 0)] {
        let ticket = ticket(&nodes[issuer], "Authorization: Bearer subscribe-secret");
        assert_eq!(read(other, &ticket).status, 200);
        for nth in [0, 1] {
            let again = read(nth, &ticket);
            assert_eq!(
                (again.status, &json(&again)["error"]["code"]),
                (401, &"unauthorized".into())
            );
        }
    }
    // It has its token's rights, and no more.
    let path = |ticket: String| format!("/v1/topics/cars?ticket={ticket}");
    let publishers = path(ticket(&nodes[0], PUBLISHER));
    let subscribers = path(ticket(&nodes[0], "Authorization: Bearer subscribe-secret"));
    assert_eq!(nodes[1].ask("POST", &publishers, &headers[1..], "2").status, 200);
    assert_eq!(nodes[1].ask("POST", &subscribers, &headers[1..], "3").status, 403);
    // Exactly one of simultaneous redemptions succeeds.
    for _ in 0..20 {
        let ticket = &ticket(&nodes[0], PUBLISHER);
        let statuses: Vec<u16> = thread::scope(|scope| {
            let reads: Vec<_> =
                (0..8).map(|nth| scope.spawn(move || read(nth % 2, ticket).status)).collect();
            reads.into_iter().map(|read| read.join().expect("an answer")).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    }
    assert_eq!(streams.tickets(), 0);
}

#[test]
fn a_ticket_carries_a_signed_tokens_rights_to_any_node() {
    const KEY: &str = "a secret of the tests, and of nobody else";
    let streams = Streams::new(&["**"]);
    let node = || {
        let mut config = Config { shards: 2, ..Config::default() };
        config.access.tokens = vec![NamedToken::new("publisher", "publish-secret", Rights::all())];
        let keys = Keys::new(vec![Key::secret(KEY, None).expect("a secret")]).expect("one key");
        config.access.signed = Some(SignedBy { keys, ..SignedBy::default() });
        Running::start(config, Some(broker(&streams)))
    };
    let nodes = [node(), node()];
    let headers = [PUBLISHER, "Content-Type: application/json"];
    for topic in ["users/alice/in", "users/bob/in"] {
        assert_eq!(nodes[0].ask("POST", &format!("/v1/topics/{topic}"), &headers, "1").status, 200);
        history_with(&nodes[1], topic, 1, &[PUBLISHER]);
    }
    let claims = r#"{"sub":"alice","exp":99999999999,"thalweg":{"subscribe":["users/{sub}/*"]}}"#;
    let claims = serde_json::from_str(claims).expect("claims");
    let token = SigningKey::new(KEY).expect("a key").sign(&claims, None).expect("a token");
    let bearer = format!("Authorization: Bearer {token}");
    let read = |nth: usize, topic: &str, ticket: &str| {
        nodes[nth].get(&format!("/v1/topics/{topic}?limit=1&ticket={ticket}"), &[]).status
    };
    let own = ticket(&nodes[0], &bearer);
    assert_eq!([1, 0, 1].map(|nth| read(nth, "users/alice/in", &own)), [200, 401, 401]);
    let others = ticket(&nodes[0], &bearer);
    assert_eq!([1, 1].map(|nth| read(nth, "users/bob/in", &others)), [403, 401]);
    // A subject has a hundred of them at a time.
    let issue = || nodes[0].ask("POST", "/v1/tickets", &[&*bearer], "").status;
    assert_eq!((0..98).filter(|_| issue() == 200).count(), 98);
    assert_eq!(issue(), 503);
}

#[test]
fn a_ticket_that_nobody_can_check_is_refused_and_no_other_request_is() {
    let streams = Streams::new(&["**"]);
    let node = guarded(&streams);
    let headers = [PUBLISHER, "Content-Type: application/json"];
    assert_eq!(node.ask("POST", "/v1/topics/cars", &headers, "1").status, 200);
    let kept = ticket(&node, PUBLISHER);
    streams.lose_tickets(true);
    let read = || node.get(&format!("/v1/topics/cars?limit=1&ticket={kept}"), &[]);
    let asked = node.ask("POST", "/v1/tickets", &[PUBLISHER], "");
    // The ticket may have been used: another try could not succeed, and a new ticket could.
    for (answer, code) in [(read(), "ticket_unknown"), (asked, "unavailable")] {
        assert_eq!((answer.status, &json(&answer)["error"]["code"]), (503, &code.into()));
    }
    assert_eq!(node.ask("POST", "/v1/topics/cars", &headers, "2").status, 200);
    streams.lose_tickets(false);
    assert_eq!(read().status, 200);
}
