//! GraphQL over a WebSocket, with the subprotocol `graphql-transport-ws`
//! (<https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md>). Results are `payload.data` of the messages `next`. The
//! server does not confirm a subscription.

use super::foreign::ForeignProtocol;
use super::message::{Message, alone};
use crate::scenario::OpeningStep;
use crate::swarm::carrier::{Kind, websocket};
use serde::Deserialize;
use serde_json::{Value, json};

/// Without a ping of its own the client is idle, so the server's pings are answered only.
const PONG: &[u8] = b"{\"type\":\"pong\"}";

pub(super) const FOREIGN: ForeignProtocol = ForeignProtocol {
    subprotocol: Some("graphql-transport-ws"),
    event_path: "payload.data",
    opening,
    content,
};

#[derive(Deserialize)]
struct OperationMessage<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
}

fn opening(auth: Option<&str>, subscribe: &[String]) -> Vec<OpeningStep> {
    let payload = auth.map(|auth| format!(",\"payload\":{auth}")).unwrap_or_default();
    let mut steps = vec![
        OpeningStep::Send(format!("{{\"type\":\"connection_init\"{payload}}}")),
        OpeningStep::expect("type=connection_ack"),
    ];
    for (index, query) in subscribe.iter().enumerate() {
        // A payload is JSON; a query may begin with a brace, but not with a string in it.
        let payload = serde_json::from_str::<Value>(query)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({ "query": query }));
        let id = (index + 1).to_string();
        let message = json!({ "id": id, "type": "subscribe", "payload": payload });
        steps.push(OpeningStep::Send(message.to_string()));
    }
    steps
}

fn content<'a>(kind: Kind, message: &'a [u8], replies: &mut Vec<u8>) -> (Message<'a>, &'a [u8]) {
    let parsed = serde_json::from_slice::<OperationMessage<'_>>(message);
    alone(match parsed.map_or("", |parsed| parsed.kind) {
        "ping" => {
            websocket::text(PONG, replies);
            Message::Heartbeat
        }
        "pong" => Message::Heartbeat,
        "error" => Message::Ended(message),
        "complete" => Message::Done,
        _ => Message::Event(kind, message),
    })
}
