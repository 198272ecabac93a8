//! Whatever a client asks for, the answer is JSON and carries the client's id.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use thalweg_wire::{
    Epoch, ErrorCode, Position, Topic,
    command::{Asked, Command, Published, refusal},
    event::push_json,
};

fuzz_target!(|text: &str| {
    let asked = Asked::parse(text);
    let id = asked.id.map(|id| id.get());
    match &asked.command {
        Ok(Command::Publish { topic, events }) => {
            for event in events {
                push_json(event.get().as_bytes(), &mut Vec::new()).expect("a part of JSON is JSON");
            }
            if let (Ok(topic), Some(epoch)) = (topic.parse::<Topic>(), Epoch::new(1)) {
                let position = Position { epoch, offset: 1 };
                let published = Published { topic, position, first: 1, count: 1 };
                check(id, "answer", &published.to_answer(asked.id));
            }
        }
        Err(message) => {
            check(id, "error", &refusal(ErrorCode::BadCommand, message, asked.id, None))
        }
    }
});

/// `answer` holds `id` as it was given, if one was.
fn check(id: Option<&str>, name: &str, answer: &[u8]) {
    let answer = std::str::from_utf8(answer).expect("an answer is UTF-8");
    match id {
        Some(id) => {
            let start = format!("{{\"{name}\":{{\"id\":{id},");
            assert!(answer.starts_with(&start), "{answer} does not start with {start}");
        }
        None => {
            let answer: Value = serde_json::from_str(answer).expect("an answer is JSON");
            assert_eq!(answer[name].get("id"), None);
        }
    }
}
