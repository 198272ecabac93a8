//! What holds for everything the wire can say.

use proptest::{collection::vec, prelude::*};
use serde_json::Value;
use thalweg_wire::{
    Envelope, Epoch, Framing, Gap, GapReason, Offset, Position, Topic,
    event::{push_json, push_text},
    incoming::{Incoming, Kind},
    limits::{OFFSET_MAX, TOPIC_BYTES_MAX},
};

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn topic() -> impl Strategy<Value = Topic> {
    vec(prop_oneof!["[A-Za-z0-9_~.-]{1,12}", "[a.]{1,4}"], 1..8)
        .prop_map(|segments| segments.join("/"))
        .prop_filter_map("dot segments, or too long", |topic| topic.parse().ok())
}

fn epoch() -> impl Strategy<Value = Epoch> {
    (0..64_u32, any::<u64>())
        .prop_map(|(shift, value)| Epoch::new((value >> shift).max(1)).expect("not 0"))
}

fn offset() -> impl Strategy<Value = Offset> {
    (0..54_u32, any::<u64>()).prop_map(|(shift, value)| (value & OFFSET_MAX) >> shift)
}

/// A JSON value as someone may publish it, and without its insignificant
/// whitespace.
fn json() -> impl Strategy<Value = (String, String)> {
    let string = vec(
        prop_oneof![
            4 => r"[ !#-\[\]-~é🐦\u{7f}\u{2028}]{1,6}",
            1 => r#"\\["\\/bfnrt]"#,
            1 => r"\\u0[0-9a-fA-F]{3}",
        ],
        0..6,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?";
    let scalar = prop_oneof![Just("null".to_owned()), "true|false", number, string.clone()];
    let spaced = (scalar, space(), space())
        .prop_map(|(scalar, before, after)| (format!("{before}{scalar}{after}"), scalar));
    spaced.prop_recursive(4, 30, 5, move |value| {
        let member = (space(), string.clone(), space(), value.clone()).prop_map(
            |(before, name, after, (published, minified))| {
                (format!("{before}{name}{after}:{published}"), format!("{name}:{minified}"))
            },
        );
        prop_oneof![
            (vec(value, 0..5), space()).prop_map(|(items, space)| list('[', &items, &space, ']')),
            (vec(member, 0..5), space()).prop_map(|(items, space)| list('{', &items, &space, '}')),
        ]
    })
}

fn space() -> impl Strategy<Value = String> {
    "[ \n\r\t]{0,3}"
}

fn list(open: char, items: &[(String, String)], space: &str, close: char) -> (String, String) {
    let (published, minified): (Vec<&str>, Vec<&str>) =
        items.iter().map(|(published, minified)| (published.as_str(), minified.as_str())).unzip();
    (
        format!("{space}{open}{space}{}{close}{space}", published.join(",")),
        format!("{open}{}{close}", minified.join(",")),
    )
}

/// What looks like JSON and mostly is none.
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
    fn an_envelope_is_as_long_as_it_says_and_read_as_it_was_written(
        topic in topic(),
        epoch in epoch(),
        start in offset(),
        steps in prop_oneof![Just(vec![]), vec(Just(1_u64), 1..20), vec(1..1000_u64, 1..20)],
        events in vec(json(), 20),
        names_offsets: bool,
    ) {
        // From the last backwards, so that none exceeds the largest.
        let last = start.max(1 + steps.iter().sum::<u64>());
        let mut offsets: Vec<Offset> = steps
            .iter()
            .scan(last + 1, |offset, step| { *offset -= step; Some(*offset) })
            .collect();
        offsets.reverse();
        let is_consecutive = offsets.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let last = offsets.last().copied().unwrap_or(last);
        let first = offsets.first().copied().unwrap_or(last + 1);
        let events: Vec<_> = events[..offsets.len()].iter().map(|(_, event)| event.as_str()).collect();
        let joined = events.join(",");
        let envelope = Envelope {
            topic: &topic,
            epoch,
            first,
            last,
            offsets: (names_offsets || !is_consecutive).then_some(&offsets),
            events: joined.as_bytes(),
        };
        let mut json = Vec::new();
        envelope.write(&mut json);
        prop_assert_eq!(json.len(), envelope.len());
        prop_assert_eq!(envelope.is_empty(), events.is_empty());

        let json = String::from_utf8(json).expect("UTF-8");
        let incoming = Incoming::parse(&json).expect("a message");
        prop_assert_eq!(incoming.topic, Some(topic.as_str()));
        let position = Position { epoch, offset: last };
        prop_assert_eq!(incoming.position.map(str::parse), Some(Ok(position)));
        let Kind::Events(read) = incoming.kind() else {
            return Err(TestCaseError::fail(json));
        };
        prop_assert_eq!(read, offsets.into_iter().zip(events).collect::<Vec<_>>());
    }

    #[test]
    fn a_gap_is_read_as_it_was_written(
        topic in topic(),
        epoch in epoch(),
        offset in offset(),
        missed in proptest::option::of(offset()),
        reason in prop_oneof![
            Just(GapReason::Slow), Just(GapReason::Trimmed), Just(GapReason::Epoch)
        ],
    ) {
        let position = Position { epoch, offset };
        let mut line = Vec::new();
        Framing::Ndjson.gap(&Gap { topic: &topic, position, missed, reason }, &mut line);
        let line = String::from_utf8(line).expect("UTF-8");
        let incoming = Incoming::parse(&line).expect("a message");
        prop_assert_eq!(incoming.topic, Some(topic.as_str()));
        prop_assert_eq!(incoming.position.map(str::parse), Some(Ok(position)));
        let Kind::Gap(gap) = incoming.kind() else { return Err(TestCaseError::fail(line)) };
        prop_assert_eq!((gap.missed, gap.reason), (missed, reason));
    }

    #[test]
    fn an_event_loses_insignificant_whitespace_and_nothing_else(
        (published, minified) in json(),
    ) {
        let mut event = Vec::new();
        prop_assert!(push_json(published.as_bytes(), &mut event).is_ok(), "{}", published);
        prop_assert!(!event.iter().any(|byte| b"\r\n\t".contains(byte)));
        let value: Value = serde_json::from_str(&published).expect("JSON");
        prop_assert_eq!(serde_json::from_slice::<Value>(&event).expect("JSON"), value);
        prop_assert_eq!(String::from_utf8(event), Ok(minified));
    }

    #[test]
    fn an_event_is_json_or_nothing(text in nearly_json()) {
        let mut event = Vec::new();
        let is_accepted = push_json(text.as_bytes(), &mut event).is_ok();
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                prop_assert!(is_accepted);
                prop_assert_eq!(serde_json::from_slice::<Value>(&event).expect("JSON"), value);
            }
            // A number may be too large for others, never for us.
            Err(error) if error.to_string().contains("out of range") => {}
            Err(_) => prop_assert!(!is_accepted && event.is_empty()),
        }
    }

    #[test]
    fn a_text_is_read_as_it_was_published(text in any::<String>()) {
        let mut event = Vec::new();
        prop_assert!(push_text(text.as_bytes(), &mut event).is_ok());
        prop_assert!(event.iter().all(|byte| *byte >= b' '));
        prop_assert_eq!(serde_json::from_slice::<String>(&event).expect("JSON"), text);
    }
}
