//! Messages from the server to a subscriber.

use serde_json::Value;

use super::Transport;

#[derive(Debug, PartialEq)]
pub(crate) enum Received {
    Envelope(Envelope),
    Gap(Gap),
    /// A topic has ended: its name, its last position, and the code.
    TopicEnd(String, String, String),
    Heartbeat,
    /// Code, reason, and whether to reconnect, if the transport has that.
    Close(u16, String, Option<bool>),
    /// A complete reply to a WebSocket command.
    Answer(Value),
    Pong(Vec<u8>),
    /// A poll, or a reloaded document, was refused: status and code.
    Refused(u16, String),
    End,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) topic: String,
    pub(crate) position: String,
    pub(crate) first: u64,
    pub(crate) events: Vec<Value>,
    /// Value topics only.
    pub(crate) previous: Option<u64>,
    pub(crate) patch: Option<Value>,
    /// `id:` of Server-Sent Events.
    pub(crate) id: Option<String>,
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gap {
    pub(crate) topic: String,
    pub(crate) position: String,
    pub(crate) missed: Option<u64>,
    pub(crate) reason: String,
}

/// Returns the close with `code` in the form of this transport.
pub(crate) fn close(transport: Transport, code: u16, reason: &str, reconnect: bool) -> Received {
    let reconnect = (transport != Transport::WebSocket).then_some(reconnect);
    Received::Close(code, reason.to_owned(), reconnect)
}

impl Received {
    /// Parses the JSON of a message. `name` is for failures.
    pub(crate) fn parse(text: &[u8], id: Option<String>, name: &str) -> Self {
        let text = String::from_utf8(text.to_vec()).expect("the wire is UTF-8");
        let json: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{name}: {error} in {text:?}"));
        let string = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
        let (topic, position) = (string(&json["topic"]), string(&json["position"]));
        if let Some(first) = json["first"].as_u64() {
            let patch = json.get("patch").cloned();
            let events = json["events"].as_array().cloned();
            assert!(events.is_some() != patch.is_some(), "{name}: {text}");
            let (events, previous) = (events.unwrap_or_default(), json["previous"].as_u64());
            let envelope = Envelope { topic, position, first, events, previous, patch, id, text };
            return Self::Envelope(envelope);
        }
        if let Some(gap) = json.get("gap") {
            let (missed, reason) = (gap["missed"].as_u64(), string(&gap["reason"]));
            return Self::Gap(Gap { topic, position, missed, reason });
        }
        if let Some(end) = json.get("end") {
            return Self::TopicEnd(topic, position, string(&end["code"]));
        }
        if let Some(close) = json.get("close") {
            let code = close["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            let code = code.expect("a close code");
            return Self::Close(code, string(&close["reason"]), close["reconnect"].as_bool());
        }
        if json.get("heartbeat").is_some() {
            return Self::Heartbeat;
        }
        assert!(json.get("answer").or(json.get("error")).is_some(), "{name}: {text}");
        Self::Answer(json)
    }
}
