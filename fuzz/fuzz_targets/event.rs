//! An event is one line of JSON and the value that was published.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use thalweg_wire::{
    event::{push_json, push_text},
    limits::EVENT_BYTES,
};

fuzz_target!(|published: &[u8]| {
    json(published);
    text(published);
});

fn json(published: &[u8]) {
    let mut event = b"before".to_vec();
    let value = serde_json::from_slice::<Value>(published);
    if push_json(published, EVENT_BYTES, &mut event).is_err() {
        assert_eq!(event, b"before");
        assert!(value.is_err() || published.len() > EVENT_BYTES);
        return;
    }
    let event = &event[b"before".len()..];
    assert!(!event.iter().any(|byte| matches!(byte, b'\n' | b'\r' | b'\t')));
    // `Value` refuses more than an event need be: numbers that no f64 holds, lone surrogates, more than 128 levels.
    if let Ok(value) = value {
        assert_eq!(serde_json::from_slice::<Value>(event).ok(), Some(value));
    }
    let mut again = Vec::new();
    push_json(event, EVENT_BYTES, &mut again).expect("an event is JSON");
    assert_eq!(again, event);
}

fn text(published: &[u8]) {
    let mut event = Vec::new();
    if push_text(published, EVENT_BYTES, &mut event).is_ok() {
        let text: String = serde_json::from_slice(&event).expect("an event is JSON");
        assert_eq!(text.as_bytes(), published);
        assert!(!event.contains(&b'\n') && !event.contains(&b'\r'));
    } else {
        assert!(std::str::from_utf8(published).is_err() || published.len() > EVENT_BYTES);
    }
}
