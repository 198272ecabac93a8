//! The answer to any request of a client is JSON and carries the client's id.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, value::RawValue};
use thalweg_wire::{
    Epoch, ErrorCode, Position, Topic,
    answer::{Published, done, echo, refusal},
    command::{Command, ParsedCommand},
    event::{EventError, push_json},
    limits::EVENT_BYTES,
};

fuzz_target!(|text: &str| {
    let ParsedCommand { id, command } = ParsedCommand::parse(text);
    match &command {
        Ok(Command::Publish { topic, events, .. }) => {
            for event in events {
                let pushed = push_json(event.get().as_bytes(), EVENT_BYTES, &mut Vec::new());
                assert!(matches!(pushed, Ok(()) | Err(EventError::TooDeep)), "JSON is of JSON");
            }
            if let (Ok(topic), Some(epoch)) = (topic.parse::<Topic>(), Epoch::new(1)) {
                let position = Position { epoch, offset: 1 };
                let published = Published { topic, position, first: 1, count: 1 };
                check(id, "answer", &published.to_answer(id));
            }
        }
        Ok(Command::Subscribe(subscribe)) => check_done(id, &subscribe.topic, None),
        Ok(Command::Unsubscribe { topic }) => check_done(id, topic, None),
        Ok(Command::Ack { topic, position }) => {
            if let Ok(position) = position.parse() {
                check_done(id, topic, Some(position));
            }
        }
        // Its answer says until when the token is good, which only a server knows.
        Ok(Command::Refresh { token }) => {
            assert!(text.len() >= token.len(), "a token is not made up")
        }
        Ok(Command::Echo { data }) => {
            let answer = echo(id, data);
            check(id, "answer", &answer);
            let end = format!("\"data\":{}}}}}", data.get());
            assert!(answer.ends_with(end.as_bytes()), "the data as it was given");
        }
        Err(message) => check(id, "error", &refusal(ErrorCode::BadCommand, message, id, None)),
    }
});

fn check_done(id: Option<&RawValue>, topic: &str, position: Option<Position>) {
    if let Ok(topic) = topic.parse() {
        check(id, "answer", &done(id, &topic, position));
    }
}

/// `answer` holds `id` as it was given, if one was.
fn check(id: Option<&RawValue>, name: &str, answer: &[u8]) {
    let answer = std::str::from_utf8(answer).expect("an answer is UTF-8");
    match id {
        Some(id) => {
            let start = format!("{{\"{name}\":{{\"id\":{id},");
            assert!(answer.starts_with(&start), "{answer} does not start with {start}");
        }
        // Data may be more than `Value` takes, but the beginning shows it.
        None => assert!(!answer.starts_with(&format!("{{\"{name}\":{{\"id\":")), "{answer}"),
    }
    if let Ok(answer) = serde_json::from_str::<Value>(answer) {
        assert_eq!(answer[name].get("id").is_some(), id.is_some());
    } else {
        serde_json::from_str::<&RawValue>(answer).expect("an answer is JSON");
    }
}
