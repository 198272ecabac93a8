//! Commands and replies, independent of the protocol.

use std::sync::Arc;

use serde_json::value::RawValue;
use thalweg_core::{fanout::Terms, stream::Payloads};
use thalweg_wire::{
    Condition, KeyFilter, Position, StartAt, Topic, answer::Published, signalr::StreamId,
};

use crate::{
    access::{Right, Wanted, WantedKeys},
    rates::Act,
    refusal::Refusal,
    traces::Action,
};

/// A parsed and checked command.
pub(crate) struct Request {
    /// The id, which the reply repeats.
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) command: Result<Command, Refusal>,
    /// Length of the command.
    pub(crate) bytes: usize,
}

pub(crate) enum Command {
    Publish {
        topic: Topic,
        payloads: Payloads,
        /// The key of all events, if the client names one.
        key: Option<Box<str>>,
        condition: Option<Condition>,
        /// How long the keys stay, in µs.
        ttl_us: Option<u64>,
    },
    Subscribe {
        topic: Topic,
        start: StartAt,
        terms: Terms,
        /// The keys that the client gets.
        filter: Option<Arc<KeyFilter>>,
    },
    Unsubscribe {
        topic: Topic,
    },
    /// End the subscription that is this stream.
    Cancel {
        stream: StreamId,
    },
    Echo {
        data: Box<RawValue>,
    },
    Ack {
        topic: Topic,
        position: Position,
    },
    Refresh {
        token: Box<str>,
    },
}

/// The result of a command that is not refused.
pub(crate) enum Reply {
    Echo(Box<RawValue>),
    Published(Published),
    /// The subscription has a place in the topic: from `latest`, it gets the events that are published after this reply, or by the
    /// connection's next commands. The topic's first message follows this reply.
    Subscribed(Topic),
    /// A subscription has begun as a stream of the client, whose items are the reply.
    Streams,
    /// A subscription, which may be a stream, has ended.
    Unsubscribed(Topic, Option<StreamId>),
    Acked(Topic, Position),
    /// The remaining lifetime of the new token in seconds, if it expires.
    Refreshed(Option<u64>),
}

impl Request {
    /// Returns the command for the trace of its subject.
    pub(crate) fn action(&self) -> Action {
        match &self.command {
            Ok(Command::Publish { topic, payloads, key, .. }) => Action {
                key: key.as_deref().map(str::to_owned),
                ..Action::publish(topic, payloads)
            },
            Ok(Command::Subscribe { topic, start, .. }) => Action::subscription(topic, *start),
            Ok(Command::Unsubscribe { topic }) => Action::new("unsubscribe").on(topic),
            Ok(Command::Cancel { .. }) => Action::new("unsubscribe"),
            Ok(Command::Echo { .. }) => Action::new("echo"),
            Ok(Command::Ack { topic, position }) => {
                Action { position: Some(position.to_string()), ..Action::new("ack").on(topic) }
            }
            Ok(Command::Refresh { .. }) => Action::new("refresh"),
            Err(_) => Action::new("command"),
        }
    }

    /// Returns the actions that count against the client's rates.
    pub(crate) fn acts(&self) -> [(Act, u64); 3] {
        let events = match &self.command {
            Ok(Command::Publish { payloads, .. }) => payloads.count() as u64,
            _ => 0,
        };
        [(Act::Command, 1), (Act::Byte, self.bytes as u64), (Act::Publish, events)]
    }
}

impl Reply {
    /// Completes the line of a command with its result.
    pub(crate) fn complete(result: Result<&Self, &Refusal>, action: &mut Action) {
        match result {
            Ok(Self::Published(published)) => {
                action.position = Some(published.position.to_string());
            }
            Ok(Self::Unsubscribed(topic, _)) => action.topic = Some(topic.to_string()),
            Ok(_) => {}
            Err(refusal) => action.refuse(refusal),
        }
    }
}

impl Wanted for Command {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        let right = match self {
            Self::Publish { topic, key, .. } => Some(Right::Publish(topic, key.as_deref())),
            Self::Subscribe { topic, filter, .. } => {
                Some(Right::Subscribe(topic, filter.as_deref().into()))
            }
            Self::Ack { topic, .. } => Some(Right::Subscribe(topic, WantedKeys::Any)),
            Self::Unsubscribe { .. }
            | Self::Cancel { .. }
            | Self::Echo { .. }
            | Self::Refresh { .. } => None,
        };
        right.into_iter()
    }
}
