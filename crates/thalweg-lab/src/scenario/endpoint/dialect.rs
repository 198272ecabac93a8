//! Protocols on top of a transport that the lab speaks to an endpoint (`--dialect`).

use crate::scenario::ScenarioError;
use crate::scenario::error::unknown;
use serde::{Deserialize, Serialize};

/// A protocol that an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointDialect {
    /// Socket.IO 3 and later, over a WebSocket.
    Socketio,
    /// SignalR with JSON, over a WebSocket and without negotiation.
    Signalr,
    /// The subprotocol `graphql-transport-ws`.
    GraphqlWs,
    /// Centrifugo's bidirectional protocol with JSON.
    Centrifugo,
    /// Server-Sent Events.
    Sse,
    /// Answers of a language model: each connection makes one request after the other.
    LlmStream,
}

const NAMES: [(&str, EndpointDialect); 6] = [
    ("socketio", EndpointDialect::Socketio),
    ("signalr", EndpointDialect::Signalr),
    ("graphql-ws", EndpointDialect::GraphqlWs),
    ("centrifugo", EndpointDialect::Centrifugo),
    ("sse", EndpointDialect::Sse),
    ("llm-stream", EndpointDialect::LlmStream),
];

/// The query with which a Socket.IO client opens a WebSocket.
const SOCKETIO_QUERY: &str = "EIO=4&transport=websocket";

impl EndpointDialect {
    pub(super) fn parse(name: &str) -> Result<EndpointDialect, ScenarioError> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        let names = NAMES.map(|(name, _)| name);
        let (_, dialect) =
            found.ok_or_else(|| ScenarioError::new(unknown("dialect", name, &names)))?;
        Ok(*dialect)
    }

    /// Returns whether the dialect has messages that subscribe.
    pub(super) fn subscribes(self) -> bool {
        !matches!(self, EndpointDialect::Sse | EndpointDialect::LlmStream)
    }

    /// Returns whether a client can identify itself in the dialect's first message.
    pub(super) fn authenticates(self) -> bool {
        self.subscribes() && self != EndpointDialect::Signalr
    }

    /// Refuses a text of `--subscribe` that the dialect cannot send.
    pub(super) fn check_subscribe(self, text: &str) -> Result<(), ScenarioError> {
        let is_call = matches!(self, EndpointDialect::Socketio | EndpointDialect::Signalr);
        if is_call && invocation(text).is_none() {
            return Err(ScenarioError::new(format!(
                "--subscribe `{text}`: write a name, or a JSON array of the name and the arguments, such as \
                 '[\"join\", \"room\"]'"
            )));
        }
        Ok(())
    }

    /// Returns the path and query of a first request, from those of the URL.
    pub(crate) fn target(self, target: &str) -> String {
        if self != EndpointDialect::Socketio || target.contains("EIO=") {
            return target.to_owned();
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = if path == "/" { "/socket.io/" } else { path };
        let separator = if query.is_empty() { "" } else { "&" };
        format!("{path}?{query}{separator}{SOCKETIO_QUERY}")
    }
}

/// Returns the name and the arguments of `name` or `["name", …]`; `None` for another array.
pub(crate) fn invocation(text: &str) -> Option<Vec<serde_json::Value>> {
    if !text.starts_with('[') {
        return Some(vec![text.into()]);
    }
    let call: Vec<serde_json::Value> = serde_json::from_str(text).ok()?;
    call.first()?.is_string().then_some(call)
}
