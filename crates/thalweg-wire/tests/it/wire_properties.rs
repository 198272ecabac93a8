//! Properties of all messages of the wire.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, value::RawValue};
use thalweg_wire::{
    Format, Position, Topic,
    answer::Published,
    event::{member, push_json, push_text, push_value},
    incoming::{Incoming, Kind},
    limits::{EVENT_BYTES, TOPIC_BYTES_MAX},
};

use crate::arbitrary::{batch, config, epoch, json, missing, offset, topic};

/// Texts that look like JSON and mostly are not.
fn nearly_json() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        "[\\[\\]{}:,\" \n\r\t]",
        r#""[a\\ "]{0,4}""#,
        "[-+0-9.eE]{1,4}",
        "null|true|false|nul|NaN",
    ];
    vec(token, 0..8).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_topic_and_its_nats_image_are_one_to_one(topic in topic()) {
        let image = topic.to_nats_subject();
        prop_assert!(image.split('.').all(|token| !token.is_empty()), "{}", image);
        prop_assert_eq!(Topic::from_nats_subject(&image), Ok(topic));
    }

    #[test]
    fn an_image_and_its_topic_are_one_to_one(image in "[a./é]{0,6}") {
        if let Ok(topic) = Topic::from_nats_subject(&image) {
            prop_assert_eq!(topic.to_nats_subject(), image);
        }
    }

    #[test]
    fn a_topic_is_what_the_grammar_says(text in prop_oneof!["[a./~ é]{0,6}", "[ab/]{195,205}"]) {
        let is_segment = |segment: &str| {
            !matches!(segment, "" | "." | "..")
                && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b))
        };
        let is_topic = text.len() <= TOPIC_BYTES_MAX && text.split('/').all(is_segment);
        prop_assert_eq!(text.parse::<Topic>().is_ok(), is_topic);
    }

    #[test]
    fn a_position_is_read_as_it_is_printed(epoch in epoch(), offset in offset()) {
        let position = Position { epoch, offset };
        prop_assert_eq!(position.to_string().parse(), Ok(position));
        let mut written = Vec::new();
        epoch.write(&mut written);
        prop_assert_eq!(written.len(), epoch.text_len());
        prop_assert_eq!(String::from_utf8(written), Ok(epoch.to_string()));
    }

    #[test]
    fn a_position_is_printed_as_it_was_read(text in r"[0-9a-f]{0,17}\.?[0-9+]{0,17}") {
        if let Ok(position) = text.parse::<Position>() {
            prop_assert_eq!(position.to_string(), text);
        }
    }

    #[test]
    fn an_envelope_is_as_long_as_it_says_and_read_as_it_was_written(batch in batch()) {
        let envelope = batch.envelope();
        let json = batch.json();
        prop_assert_eq!(json.len(), envelope.len());
        prop_assert_eq!(envelope.is_empty(), batch.events.is_empty());

        let incoming = Incoming::parse(&json).expect("a message");
        prop_assert_eq!(incoming.topic.as_deref(), Some(batch.topic.as_str()));
        prop_assert_eq!(incoming.position.as_deref().map(str::parse), Some(Ok(batch.position())));
        let Kind::Events(read) = incoming.kind() else {
            return Err(TestCaseError::fail(json));
        };
        let events = batch.events.iter().map(String::as_str);
        prop_assert_eq!(read, batch.offsets.iter().copied().zip(events).collect::<Vec<_>>());
        prop_assert_eq!(incoming.until, batch.keyed.as_ref().and_then(|(_, until)| *until));
        let keys = incoming.keys.map(|keys| keys.iter().map(|key| key.to_string()).collect());
        prop_assert_eq!(keys, batch.keyed.map(|(keys, _)| keys));
    }

    #[test]
    fn framing_and_events_make_the_frame(batch in batch()) {
        const EARLIER: &[u8] = b"an earlier frame";
        let envelope = batch.envelope();
        for format in Format::all() {
            let mut frame = Vec::new();
            format.batch(&envelope, &mut frame);
            let mut out = EARLIER.to_vec();
            let before = format.around(&envelope, &mut out);
            prop_assert_eq!(before.is_some(), format.keeps_events(), "{:?}", format);
            let around = out.strip_prefix(EARLIER).expect("only appended to");
            match before {
                Some(before) => {
                    let (before, after) = around.split_at(before);
                    prop_assert_eq!([before, envelope.events, after].concat(), frame);
                }
                None => prop_assert_eq!(around, b"", "{:?} changes events", format),
            }
        }
    }

    #[test]
    fn a_gap_is_read_as_it_was_written(missing in missing()) {
        let json = missing.json();
        let incoming = Incoming::parse(&json).expect("a message");
        prop_assert_eq!(incoming.topic.as_deref(), Some(missing.topic.as_str()));
        prop_assert_eq!(incoming.position.as_deref().map(str::parse), Some(Ok(missing.position)));
        let Kind::Gap(gap) = incoming.kind() else { return Err(TestCaseError::fail(json)) };
        prop_assert_eq!((gap.missed, gap.reason), (missing.missed, missing.reason));
    }

    #[test]
    fn an_event_loses_insignificant_whitespace_and_nothing_else(
        (published, minified) in json(),
    ) {
        let mut event = Vec::new();
        prop_assert!(push_json(published.as_bytes(), EVENT_BYTES, &mut event).is_ok(), "{}", published);
        prop_assert!(!event.iter().any(|byte| b"\r\n\t".contains(byte)));
        let mut same = Vec::new();
        let parsed: &RawValue = serde_json::from_str(&published).expect("JSON");
        prop_assert!(push_value(parsed, EVENT_BYTES, &mut same).is_ok(), "{}", published);
        prop_assert_eq!(&same, &event);
        let value: Value = serde_json::from_str(&published).expect("JSON");
        prop_assert_eq!(serde_json::from_slice::<Value>(&event).expect("JSON"), value);
        prop_assert_eq!(String::from_utf8(event), Ok(minified));
    }

    #[test]
    fn an_answer_to_a_publish_is_json_with_its_members(
        topic in topic(), epoch in epoch(), first in offset(), count in 1..1000_u64, (id, _) in json(),
    ) {
        let position = Position { epoch, offset: first };
        let published = Published { topic, position, first, count };
        let members = serde_json::json!({
            "topic": published.topic.as_str(), "position": position.to_string(), "first": first, "count": count,
        });
        let told: Value = serde_json::from_slice(&published.to_json()).expect("JSON");
        prop_assert_eq!(&told, &members);
        let told: Value = serde_json::from_slice(&published.to_answer(None)).expect("JSON");
        prop_assert_eq!(&told["answer"], &members);
        let raw: &RawValue = serde_json::from_str(&id).expect("JSON");
        let told: Value = serde_json::from_slice(&published.to_answer(Some(raw))).expect("JSON");
        prop_assert_eq!(&told["answer"]["id"], &serde_json::from_str::<Value>(&id).expect("JSON"));
        prop_assert_eq!(&told["answer"]["position"], &members["position"]);
    }

    #[test]
    fn a_member_is_that_of_the_parsed_json(
        names in vec("[a\"\\\\é]{0,2}", 0..4), values in vec(json(), 4), spaces in 0..3_usize, name in "[a\"\\\\é]{0,2}",
    ) {
        let space = " ".repeat(spaces);
        let one = |(name, (value, _)): (&String, &(String, String))| {
            format!("{space}{}{space}:{space}{value}{space}", Value::from(name.as_str()))
        };
        let members: Vec<String> = names.iter().zip(&values).map(one).collect();
        let object = format!("{space}{{{}}}{space}", members.join(","));
        let expected: Value = serde_json::from_str(&object).expect("JSON");
        let found = member(object.as_bytes(), &name);
        let found = found.map(|json| serde_json::from_slice::<Value>(json).expect("JSON"));
        prop_assert_eq!(found.as_ref(), expected.get(&name), "{}", object);
    }

    #[test]
    fn an_event_is_json_or_nothing(text in nearly_json()) {
        let mut event = Vec::new();
        let is_accepted = push_json(text.as_bytes(), EVENT_BYTES, &mut event).is_ok();
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                prop_assert!(is_accepted);
                prop_assert_eq!(serde_json::from_slice::<Value>(&event).expect("JSON"), value);
            }
            // A number may be too large for serde_json's value, never for the wire.
            Err(error) if error.to_string().contains("out of range") => {}
            Err(_) => prop_assert!(!is_accepted && event.is_empty()),
        }
    }

    #[test]
    fn a_text_is_read_as_it_was_published(text in any::<String>()) {
        let mut event = Vec::new();
        prop_assert!(push_text(text.as_bytes(), EVENT_BYTES, &mut event).is_ok());
        prop_assert!(event.iter().all(|byte| *byte >= b' '));
        prop_assert_eq!(serde_json::from_slice::<String>(&event).expect("JSON"), text);
    }
}
