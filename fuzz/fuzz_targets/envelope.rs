//! A subscriber reads from an envelope, in any framing, what went in.

#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use thalweg_wire::{
    Before, Envelope, Epoch, Format, Offset, Topic,
    event::push_json,
    incoming::{Incoming, Kind},
    limits::{EVENT_BYTES, OFFSET_MAX},
    websocket::text_header,
};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    topic: &'a str,
    epoch: u64,
    first: u64,
    /// As published, each so many offsets after the one before it.
    events: Vec<(u8, &'a [u8])>,
    with_offsets: bool,
}

fuzz_target!(|input: Input<'_>| {
    let (Ok(topic), Some(epoch)) = (input.topic.parse::<Topic>(), Epoch::new(input.epoch)) else {
        return;
    };
    let first = 1 + input.first % (OFFSET_MAX / 2);
    let mut offset = first;
    let mut offsets = Vec::new();
    let mut events = Vec::new();
    let mut joined = Vec::new();
    for (step, published) in input.events {
        let mut event = Vec::new();
        if push_json(published, EVENT_BYTES, &mut event).is_ok() {
            if !events.is_empty() {
                joined.push(b',');
                offset += if input.with_offsets { 1 + u64::from(step) } else { 1 };
            }
            joined.extend(&event);
            offsets.push(offset);
            events.push((offset, String::from_utf8(event).expect("JSON is UTF-8")));
        }
    }
    let envelope = Envelope {
        topic: &topic,
        epoch,
        first,
        last: if events.is_empty() { first - 1 } else { offset },
        offsets: (input.with_offsets && !events.is_empty()).then_some(&offsets),
        before: Before::Adjacent,
        keyed: None,
        events: &joined,
    };
    check(&envelope, &events);
});

fn check(envelope: &Envelope<'_>, events: &[(Offset, String)]) {
    let mut json = Vec::new();
    envelope.write(&mut json);
    assert_eq!(json.len(), envelope.len());
    assert!(!json.contains(&b'\n') && !json.contains(&b'\r'));

    let text = std::str::from_utf8(&json).expect("an envelope is UTF-8");
    let incoming = Incoming::parse(text).expect("an envelope is JSON");
    let position = format!("{}.{}", envelope.epoch, envelope.last);
    assert_eq!(incoming.topic.as_deref(), Some(envelope.topic.as_str()));
    assert_eq!(incoming.position.as_deref(), Some(&*position));
    let Kind::Events(read) = incoming.kind() else { panic!("{text} is no batch") };
    let events: Vec<_> = events.iter().map(|(offset, event)| (*offset, &**event)).collect();
    assert_eq!(read, events);

    let mut websocket = Vec::new();
    text_header(json.len(), &mut websocket);
    websocket.extend(&json);
    for (format, expected) in [
        (Format::WEBSOCKET, websocket),
        (Format::SSE, format!("data:{text}\nid:{position}\n\n").into_bytes()),
        (Format::SSE_MANY, format!("data:{text}\n").into_bytes()),
        (Format::NDJSON, format!("{text}\n").into_bytes()),
    ] {
        let mut frame = Vec::new();
        format.batch(envelope, &mut frame);
        assert_eq!(frame, expected, "{format:?}");
    }
}
