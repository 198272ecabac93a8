//! A command is done or refused; a refusal is JSON and carries its id back, and published values are events.

#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use serde_json::{Value, value::RawValue};
use thalweg_server::{config::Limits, fuzzing::read_command};
use thalweg_wire::{command::ParsedCommand, event::push_json, limits::ID_BYTES_MAX};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    event_bytes: u8,
    text: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    let Input { event_bytes, text } = input;
    let limits = Limits { event_bytes: event_bytes.into(), ..Limits::default() };
    match read_command(text, &limits) {
        Ok(Some(published)) => check_events(&published, limits.event_bytes),
        Ok(None) => assert!(text.trim_start().starts_with('{'), "{text:?} is no command"),
        Err(answer) => check_refusal(text, &answer),
    }
});

fn check_events(joined: &[u8], event_bytes: usize) {
    let list = [b"[", joined, b"]"].concat();
    let events: Vec<&RawValue> = serde_json::from_slice(&list).expect("events are JSON");
    for event in events {
        let event = event.get().as_bytes();
        assert!(event.len() <= event_bytes);
        let mut again = Vec::new();
        push_json(event, event_bytes, &mut again).expect("an event is one");
        assert_eq!(again, event);
    }
}

fn check_refusal(text: &str, answer: &[u8]) {
    let answer: Value = match serde_json::from_slice(answer) {
        Ok(answer) => answer,
        // An id may be more than `Value` takes.
        Err(_) => {
            serde_json::from_slice::<&RawValue>(answer).expect("an answer is JSON");
            return;
        }
    };
    let error = &answer["error"];
    for part in ["code", "message"] {
        let part = error[part].as_str().expect("a text");
        assert!(!part.trim().is_empty());
    }
    // Where a name stands twice, it is no command, and none of the two is its id.
    if let Some(id) = ParsedCommand::parse(text).id {
        assert!(text.trim_start().starts_with('{'), "{text:?} has no members");
        assert_eq!(error.get("id"), serde_json::from_str(id.get()).ok().as_ref());
    } else {
        assert_eq!(error.get("id"), None);
    }
    if let Ok(Value::Object(asked)) = serde_json::from_str::<Value>(text)
        && text.matches("\"id\"").count() == 1
        && !text.contains('\\')
        && text.len() <= ID_BYTES_MAX
        && let Some(id) = asked.get("id")
    {
        assert_eq!(error.get("id"), Some(id));
    }
}
