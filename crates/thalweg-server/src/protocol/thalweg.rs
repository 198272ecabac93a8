//! Thalweg's own protocol (docs/reference/messages.md): commands and answers are JSON objects.

use serde_json::value::RawValue;
use thalweg_core::stream::Payloads;
use thalweg_wire::{
    ErrorCode, StartAt, answer, close,
    command::{self, ParsedCommand},
    event,
    key::check_key,
};

use super::{
    command::{Command, Reply, Request},
    contract::{Inbound, Message, Messages, Protocol},
};
use crate::{refusal::Refusal, transport::parameters};

/// A connection with this protocol, which has no state.
#[derive(Debug)]
pub(crate) struct Thalweg;

impl Protocol for Thalweg {
    fn read(
        &mut self,
        record: Message<'_>,
        event_bytes_max: Option<usize>,
        _: &mut Messages<'_>,
    ) -> Inbound {
        match record {
            Message::Text(text) => Inbound::Request(read(text, event_bytes_max)),
            Message::Binary(_) => Inbound::Close(close::BINARY),
        }
    }

    fn reply(
        &mut self,
        id: Option<&RawValue>,
        reply: Result<&Reply, &Refusal>,
        out: &mut Messages<'_>,
    ) {
        match reply {
            // An ack without an id gets no answer.
            Ok(Reply::Acked(..)) if id.is_none() => {}
            Ok(reply) => out.text(&to_json(id, reply)),
            Err(refused) => out.text(&refused.to_json(id, None)),
        }
    }
}

/// Parses a command. `event_bytes_max` limits each event of a client that may publish. Without it the events are not
/// parsed, because they may be many.
pub(crate) fn read(text: &str, event_bytes_max: Option<usize>) -> Request {
    let ParsedCommand { id, command } = ParsedCommand::parse(text);
    let command = command
        .map_err(|message| Refusal::new(ErrorCode::BadCommand, message))
        .and_then(|command| check(command, event_bytes_max));
    Request { id: id.map(ToOwned::to_owned), command, bytes: text.len() }
}

/// Returns the JSON of docs/reference/http.md, "Commands", for the reply to the command with this id.
pub(crate) fn to_json(id: Option<&RawValue>, reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Echo(data) => answer::echo(id, data),
        Reply::Published(published) => published.to_answer(id),
        Reply::Subscribed(topic) | Reply::Unsubscribed(topic, _) => answer::done(id, topic, None),
        // A command of this protocol begins no stream.
        Reply::Streams => Vec::new(),
        Reply::Acked(topic, position) => answer::done(id, topic, Some(*position)),
        Reply::Refreshed(expires_in_s) => answer::refreshed(id, *expires_in_s),
    }
}

fn check(
    command: command::Command<'_>,
    event_bytes_max: Option<usize>,
) -> Result<Command, Refusal> {
    Ok(match command {
        command::Command::Publish { topic, events, key, condition, ttl } => {
            key.as_deref().map_or(Ok(()), check_key)?;
            let mut payloads = Payloads::default();
            if let Some(bytes_max) = event_bytes_max {
                for raw in events {
                    payloads.push(|out| event::push_value(raw, bytes_max, out))?;
                    key.iter().for_each(|key| payloads.push_key(key));
                }
            }
            let condition = condition.as_deref().map(parameters::condition).transpose()?;
            let ttl_us = ttl.as_deref().map(parameters::ttl_us).transpose()?;
            let key = key.map(Box::from);
            Command::Publish { topic: topic.parse()?, payloads, key, condition, ttl_us }
        }
        command::Command::Subscribe(command::Subscribe {
            topic,
            cursor,
            policy,
            interval,
            window,
            keys,
            prefix,
        }) => Command::Subscribe {
            topic: topic.parse()?,
            start: cursor.as_deref().map_or(Ok(StartAt::default()), parameters::start)?,
            terms: parameters::terms(policy.as_deref(), interval.as_deref(), window.as_deref())?,
            filter: parameters::filter(&keys, prefix.as_deref())?,
        },
        command::Command::Unsubscribe { topic } => Command::Unsubscribe { topic: topic.parse()? },
        command::Command::Echo { data } => {
            event::check_depth(data)?;
            Command::Echo { data: data.to_owned() }
        }
        command::Command::Refresh { token } => Command::Refresh { token: token.into() },
        command::Command::Ack { topic, position } => {
            Command::Ack { topic: topic.parse()?, position: position.parse()? }
        }
    })
}
