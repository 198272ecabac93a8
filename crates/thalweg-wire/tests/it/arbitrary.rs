//! Strategies for all messages of the wire.

use proptest::{collection::vec, prelude::*};
use thalweg_wire::{
    Before, Close, Envelope, Epoch, Gap, GapReason, Keyed, Offset, Position, Topic, close, limits,
};

pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        // A failing case becomes a named test.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) topic: Topic,
    pub(crate) epoch: Epoch,
    /// Offset of the last event; without events, of the event before the next.
    pub(crate) last: Offset,
    pub(crate) before: Before,
    pub(crate) offsets: Vec<Offset>,
    pub(crate) events: Vec<String>,
    /// The keys of the events, and `until`.
    pub(crate) keyed: Option<(Vec<String>, Option<Offset>)>,
    joined_keys: String,
    joined: String,
    names_offsets: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Missing {
    pub(crate) topic: Topic,
    pub(crate) position: Position,
    pub(crate) missed: Option<Offset>,
    pub(crate) reason: GapReason,
}

impl Batch {
    pub(crate) fn envelope(&self) -> Envelope<'_> {
        Envelope {
            topic: &self.topic,
            epoch: self.epoch,
            first: self.offsets.first().copied().unwrap_or(self.last + 1),
            last: self.last,
            before: self.before,
            offsets: self.names_offsets.then_some(&self.offsets),
            keyed: self
                .keyed
                .as_ref()
                .map(|(_, until)| Keyed { keys: self.joined_keys.as_bytes(), until: *until }),
            events: self.joined.as_bytes(),
        }
    }

    pub(crate) fn position(&self) -> Position {
        Position { epoch: self.epoch, offset: self.last }
    }

    pub(crate) fn json(&self) -> String {
        let mut json = Vec::new();
        self.envelope().write(&mut json);
        String::from_utf8(json).expect("UTF-8")
    }
}

impl Missing {
    pub(crate) fn gap(&self) -> Gap<'_> {
        let Self { topic, position, missed, reason } = self;
        Gap { topic, position: *position, missed: *missed, reason: *reason }
    }

    pub(crate) fn json(&self) -> String {
        let mut json = Vec::new();
        self.gap().write(&mut json);
        String::from_utf8(json).expect("UTF-8")
    }
}

pub(crate) fn batch() -> impl Strategy<Value = Batch> {
    let steps = prop_oneof![Just(vec![]), vec(Just(1_u64), 1..20), vec(1..1000_u64, 1..20)];
    let keyed = proptest::option::of((vec(".{0,5}", 20), proptest::option::of(offset())));
    (topic(), epoch(), offset(), before(), steps, vec(json(), 20), any::<bool>(), keyed).prop_map(
        |(topic, epoch, start, before, steps, events, names_offsets, keyed)| {
            // Backwards from the last: no offset exceeds the largest.
            let last = start.max(1 + steps.iter().sum::<u64>());
            let mut offset = last + 1;
            let mut offsets: Vec<Offset> = steps
                .iter()
                .map(|step| {
                    offset -= step;
                    offset
                })
                .collect();
            offsets.reverse();
            let is_consecutive = offsets.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            let last = offsets.last().copied().unwrap_or(last);
            let events: Vec<_> =
                events.into_iter().take(offsets.len()).map(|(_, event)| event).collect();
            let joined = events.join(",");
            let names_offsets = names_offsets || !is_consecutive;
            let keyed: Option<(Vec<String>, _)> =
                keyed.map(|(keys, until)| (keys.into_iter().take(events.len()).collect(), until));
            let keys = keyed.iter().flat_map(|(keys, _)| keys);
            let as_json = |key: &String| serde_json::to_string(key).expect("a string is JSON");
            let joined_keys = keys.map(as_json).collect::<Vec<_>>().join(",");
            Batch {
                topic,
                epoch,
                last,
                before,
                offsets,
                events,
                keyed,
                joined_keys,
                joined,
                names_offsets,
            }
        },
    )
}

fn before() -> impl Strategy<Value = Before> {
    let said = prop_oneof![offset().prop_map(Before::Event), offset().prop_map(Before::Version)];
    prop_oneof![Just(Before::Adjacent), said]
}

pub(crate) fn missing() -> impl Strategy<Value = Missing> {
    let reason = prop::sample::select(GapReason::ALL.to_vec());
    (topic(), epoch(), offset(), proptest::option::of(offset()), reason).prop_map(
        |(topic, epoch, offset, missed, reason)| {
            let position = Position { epoch, offset };
            Missing { topic, position, missed, reason }
        },
    )
}

pub(crate) fn closes() -> impl Strategy<Value = Close> {
    prop::sample::select(close::ALL.to_vec())
}

pub(crate) fn topic() -> impl Strategy<Value = Topic> {
    vec(prop_oneof!["[A-Za-z0-9_~.-]{1,12}", "[a.]{1,4}"], 1..8)
        .prop_map(|segments| segments.join("/"))
        .prop_filter_map("dot segments, or too long", |topic| topic.parse().ok())
}

pub(crate) fn epoch() -> impl Strategy<Value = Epoch> {
    (0..64_u32, any::<u64>())
        .prop_map(|(shift, value)| Epoch::new((value >> shift).max(1)).expect("not 0"))
}

pub(crate) fn offset() -> impl Strategy<Value = Offset> {
    (0..54_u32, any::<u64>()).prop_map(|(shift, value)| (value & limits::OFFSET_MAX) >> shift)
}

/// A JSON value as a publisher may send it, and the same without insignificant whitespace.
pub(crate) fn json() -> impl Strategy<Value = (String, String)> {
    let string = vec(
        prop_oneof![
            4 => r"[ !#-\[\]-~é🐦\u{7f}]{1,6}",
            1 => r#"\\["\\/bfnrt]"#,
            1 => r"\\u0[0-9a-fA-F]{3}",
            // Text that HTML or old JavaScript reads differently, and its neighbours.
            1 => r"</?script>|<!--|[\u{2027}-\u{202a}€]",
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
