//! Vectors of commands and their answers.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use thalweg_wire::{
    ErrorCode, Offset, Topic,
    answer::{Published, done, echo, refreshed, refusal},
    command::{self, ParsedCommand},
    incoming::{Incoming, Kind},
};

use super::read;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Commands {
    commands: Vec<GoodCommand>,
    no_commands: Vec<BadCommand>,
    answers: Vec<Answer>,
    done: Vec<Done>,
    echoed: Vec<Echoed>,
    refreshed: Vec<Refreshed>,
    refusals: Vec<Refusal>,
}

#[derive(Deserialize)]
struct GoodCommand {
    text: String,
    id: Option<String>,
    #[serde(flatten)]
    command: Command,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    Publish {
        topic: String,
        events: Vec<String>,
        key: Option<String>,
        condition: Option<String>,
        ttl: Option<String>,
    },
    Subscribe {
        topic: String,
        cursor: Option<String>,
        policy: Option<String>,
        interval: Option<String>,
        window: Option<String>,
        #[serde(default)]
        keys: Vec<String>,
        prefix: Option<String>,
    },
    Unsubscribe {
        topic: String,
    },
    Echo {
        data: String,
    },
    Ack {
        topic: String,
        position: String,
    },
    Refresh {
        token: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BadCommand {
    text: String,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: Option<String>,
    published: Told,
    body: String,
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    id: Option<String>,
    topic: String,
    position: Option<String>,
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Echoed {
    id: Option<String>,
    data: String,
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refreshed {
    id: Option<String>,
    expires_in_s: Option<u64>,
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    code: ErrorCode,
    message: String,
    id: Option<String>,
    published: Option<Told>,
    json: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    topic: String,
    position: String,
    first: Offset,
    count: u64,
}

impl From<command::Command<'_>> for Command {
    fn from(command: command::Command<'_>) -> Self {
        match command {
            command::Command::Publish { topic, events, key, condition, ttl } => Self::Publish {
                topic: topic.into(),
                events: events.iter().map(|event| event.get().to_owned()).collect(),
                key: key.map(Cow::into_owned),
                condition: condition.map(Cow::into_owned),
                ttl: ttl.map(Cow::into_owned),
            },
            command::Command::Subscribe(subscribe) => Self::Subscribe {
                topic: subscribe.topic.into(),
                cursor: subscribe.cursor.map(Cow::into_owned),
                policy: subscribe.policy.map(Cow::into_owned),
                interval: subscribe.interval.map(Cow::into_owned),
                window: subscribe.window.map(Cow::into_owned),
                keys: subscribe.keys.into_iter().map(Cow::into_owned).collect(),
                prefix: subscribe.prefix.map(Cow::into_owned),
            },
            command::Command::Unsubscribe { topic } => Self::Unsubscribe { topic: topic.into() },
            command::Command::Echo { data } => Self::Echo { data: data.get().to_owned() },
            command::Command::Refresh { token } => Self::Refresh { token: token.into() },
            command::Command::Ack { topic, position } => {
                Self::Ack { topic: topic.into(), position: position.into() }
            }
        }
    }
}

impl Told {
    fn published(&self) -> Published {
        Published {
            topic: topic(&self.topic),
            position: self.position.parse().expect("a position"),
            first: self.first,
            count: self.count,
        }
    }
}

fn topic(text: &str) -> Topic {
    text.parse().expect("a topic")
}

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).expect("JSON")
}

/// Checks that `told` is `expected`, and parses as an answer or a refusal with these members.
fn check_told(told: Vec<u8>, expected: &str) {
    assert_eq!(String::from_utf8(told).expect("UTF-8"), expected);
    let incoming = Incoming::parse(expected).expect("a message");
    let (name, members) = match incoming.kind() {
        Kind::Answer(members) => ("answer", members),
        Kind::Error(members) => ("error", members),
        other => panic!("{expected} is read as {other:?}"),
    };
    assert!(expected.starts_with(&format!("{{\"{name}\":{members}")), "{expected}");
}

#[test]
fn commands() {
    let lists: Commands = read(include_str!("../../../../../vectors/commands.json"));
    for GoodCommand { text, id, command } in &lists.commands {
        let asked = ParsedCommand::parse(text);
        assert_eq!(asked.id.map(RawValue::get), id.as_deref(), "{text}");
        assert_eq!(asked.command.map(Command::from).as_ref(), Ok(command), "{text}");
    }
    for BadCommand { text, id } in &lists.no_commands {
        let asked = ParsedCommand::parse(text);
        assert_eq!(asked.id.map(RawValue::get), id.as_deref(), "{text}");
        assert!(asked.command.is_err(), "{text}: {asked:?}");
    }
    for Answer { id, published, body, answer } in &lists.answers {
        let published = published.published();
        assert_eq!(String::from_utf8(published.to_json()).expect("UTF-8"), *body);
        check_told(published.to_answer(id.as_deref().map(raw)), answer);
    }
    for Done { id, topic: name, position, answer } in &lists.done {
        let position = position.as_ref().map(|position| position.parse().expect("a position"));
        check_told(done(id.as_deref().map(raw), &topic(name), position), answer);
    }
    for Echoed { id, data, answer } in &lists.echoed {
        check_told(echo(id.as_deref().map(raw), raw(data)), answer);
    }
    for Refreshed { id, expires_in_s, answer } in &lists.refreshed {
        check_told(refreshed(id.as_deref().map(raw), *expires_in_s), answer);
    }
    for Refusal { code, message, id, published, json } in &lists.refusals {
        let published = published.as_ref().map(Told::published);
        let id = id.as_deref().map(raw);
        check_told(refusal(*code, message, id, published.as_ref()), json);
    }
}
