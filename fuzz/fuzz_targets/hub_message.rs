//! A text is read record by record: each is a message or an error, and a completion repeats the id of its message.
//! The command of an invocation is accepted or refused, and publishes only events.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, value::RawValue};
use thalweg_server::{config::Limits, fuzzing::read_hub_command};
use thalweg_wire::{
    event::push_json,
    limits::ID_BYTES_MAX,
    signalr::{
        HubMessage, Invocation, Outcome, StreamId, accept_handshake, completion, record_len,
    },
};

/// Short enough for the fuzzer to find longer events.
const EVENT_BYTES_MAX: usize = 64;

fuzz_target!(|text: &str| {
    let mut rest = text;
    while !rest.is_empty() {
        let (record, after) = rest.split_at(record_len(rest));
        assert!(!record.is_empty(), "reading ends");
        let is_ended = record.ends_with('\u{1e}');
        assert_eq!(record.matches('\u{1e}').count(), usize::from(is_ended));
        assert!(is_ended || after.is_empty(), "only the last record may be unfinished");
        if accept_handshake(record).is_ok() {
            assert!(is_ended && record.contains("json"));
        }
        match HubMessage::parse(record) {
            Ok(_) if !is_ended => panic!("an unfinished record is no message"),
            Ok(HubMessage::Invocation(invocation)) => check_invocation(&invocation),
            Ok(HubMessage::Cancel(id)) => check_id(id),
            Ok(HubMessage::Ping | HubMessage::Close | HubMessage::Ignored) | Err(_) => {}
        }
        rest = after;
    }
});

fn check_invocation(invocation: &Invocation<'_>) {
    assert!(!invocation.is_stream || invocation.id.is_some(), "a stream has an id");
    for argument in &invocation.arguments {
        serde_json::from_str::<&RawValue>(argument.get()).expect("an argument is JSON");
    }
    if let Some(id) = invocation.id {
        check_id(id);
    }
    check_command(invocation);
}

fn check_command(invocation: &Invocation<'_>) {
    let limits = Limits { event_bytes: EVENT_BYTES_MAX, ..Limits::default() };
    match read_hub_command(invocation, &limits) {
        Ok(Some(published)) => {
            assert!(invocation.target == "Publish" && !invocation.is_stream);
            check_events(&published, &invocation.arguments[1..]);
        }
        Ok(None) => {
            assert!(["Subscribe", "Unsubscribe", "Ack"].contains(&&*invocation.target));
        }
        Err((code, message)) => {
            assert!(!message.trim().is_empty());
            let Some(id) = invocation.id else { return };
            let mut out = Vec::new();
            completion(id, Outcome::Error(&format!("{}: {message}", code.name())), &mut out);
            let text = String::from_utf8(out).expect("UTF-8");
            assert_eq!(record_len(&text), text.len(), "one record");
            serde_json::from_str::<&RawValue>(&text[..text.len() - 1]).expect("JSON");
        }
    }
    if invocation.has_uploads {
        assert!(read_hub_command(invocation, &limits).is_err(), "uploads are not supported");
    }
}

/// Checks that each argument is published as one event.
fn check_events(joined: &[u8], arguments: &[&RawValue]) {
    let list = [b"[", joined, b"]"].concat();
    let events: Vec<&RawValue> = serde_json::from_slice(&list).expect("events are JSON");
    assert_eq!(events.len(), arguments.len());
    for (event, argument) in events.into_iter().zip(arguments) {
        let event = event.get().as_bytes();
        assert!(event.len() <= EVENT_BYTES_MAX);
        for json in [event, argument.get().as_bytes()] {
            let mut again = Vec::new();
            push_json(json, EVENT_BYTES_MAX, &mut again).expect("an event");
            assert_eq!(again, event);
        }
    }
}

fn check_id(id: &RawValue) {
    assert!(id.get().len() <= ID_BYTES_MAX && id.get().len() > 2);
    let mut out = Vec::new();
    completion(id, Outcome::Error("\u{1e}\n\"no\""), &mut out);
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(record_len(&text), text.len(), "one record");
    // An id may have half of a surrogate pair, which is no text here.
    if let Ok(same) = serde_json::from_str::<String>(id.get()) {
        let value: Value = serde_json::from_str(&text[..text.len() - 1]).expect("JSON");
        assert_eq!(value["invocationId"], same);
    }
    if let Some(stream) = StreamId::parse(id) {
        assert_eq!(id.get(), format!("\"{}\"", stream.number()));
    }
}
