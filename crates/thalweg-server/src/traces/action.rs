use serde::Serialize;
use thalweg_core::stream::Payloads;
use thalweg_wire::{StartAt, Topic};

use crate::{config::AD_HOC_TOPICS, refusal::Refusal};

/// An action of a subject, as far as it is known. Members: `docs/reference/http.md`, "Trace".
#[derive(Debug, Default, Serialize)]
pub(crate) struct Action {
    pub(crate) what: &'static str,
    /// The number of the subscriber's connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<String>,
    /// Published events, and their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<usize>,
    /// The path of a request that has no topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The reason for which a connection or a subscription ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// Lines that were dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<u64>,
    /// The code of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
}

impl Action {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, ..Self::default() }
    }

    pub(crate) fn on(self, topic: &Topic) -> Self {
        Self { topic: Some(topic.to_string()), ..self }
    }

    /// Returns the subscription to a topic, which may have the rows of an ad hoc query.
    pub(crate) fn subscription(topic: &Topic, start: StartAt) -> Self {
        let what = if topic.as_str().starts_with(AD_HOC_TOPICS) { "query" } else { "subscribe" };
        let mut position = Vec::new();
        start.write(&mut position);
        let position = Some(String::from_utf8_lossy(&position).into_owned());
        Self { position, ..Self::new(what).on(topic) }
    }

    pub(crate) fn publish(topic: &Topic, payloads: &Payloads) -> Self {
        let (events, bytes) = (Some(payloads.count()), Some(payloads.joined().len()));
        Self { events, bytes, ..Self::new("publish").on(topic) }
    }

    /// Adds a connection's number, as the members of topics show it.
    pub(crate) fn by(self, serial: u64) -> Self {
        Self { connection: Some(format!("{serial:x}")), ..self }
    }

    /// Adds the code of a refusal, and the topic that the refusal is about.
    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.code = Some(refusal.code.name());
        let [_, _, topic] = refusal.about();
        if !topic.is_empty() {
            self.topic = Some(topic.to_owned());
        }
    }
}
