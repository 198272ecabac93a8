//! A text is read record by record: each is a message or an error, and a completion repeats the id of its message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, value::RawValue};
use thalweg_wire::{
    limits::ID_BYTES_MAX,
    signalr::{
        HubMessage, Invocation, Outcome, StreamId, accept_handshake, completion, record_len,
    },
};

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
