//! Event streams, read by a parser that follows the standard alone.

mod parser;

use parser::{Event, Read, read};
use proptest::{collection::vec, prelude::*};
use thalweg_wire::{Format, StartAt, format::sse_ids, notice};

use crate::arbitrary::{Batch, Missing, batch, closes, config, epoch, missing, offset};

fn event(kind: &str, data: &str, last_event_id: &str) -> Event {
    let [kind, data, last_event_id] = [kind, data, last_event_id].map(str::to_owned);
    Event { kind, data, last_event_id }
}

/// Checks that the parser reads `stream` as these events: (type, data, id).
#[track_caller]
fn check(stream: &str, expected: &[(&str, &str, &str)]) -> Read {
    let expected: Vec<_> = expected.iter().map(|(kind, data, id)| event(kind, data, id)).collect();
    for ending in ["\n", "\r", "\r\n"] {
        let read = read(stream.replace('\n', ending).as_bytes());
        assert_eq!(read.events, expected, "with {ending:?}");
    }
    read(stream.as_bytes())
}

/// WHATWG HTML §9.2.1 and §9.2.6.
#[test]
fn the_parser_reads_the_examples_of_the_standard() {
    check(
        "data: This is the first message.\n\n\
         data: This is the second message, it\ndata: has two lines.\n\n\
         data: This is the third message.\n\n",
        &[
            ("message", "This is the first message.", ""),
            ("message", "This is the second message, it\nhas two lines.", ""),
            ("message", "This is the third message.", ""),
        ],
    );
    check(
        "event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n",
        &[("add", "73857293", ""), ("remove", "2153", ""), ("add", "113411", "")],
    );
    check("data: YHOO\ndata: +2\ndata: 10\n\n", &[("message", "YHOO\n+2\n10", "")]);
    check(
        ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        &[
            ("message", "first event", "1"),
            ("message", "second event", ""),
            ("message", " third event", ""),
        ],
    );
    check("data\n\ndata\ndata\n\ndata:\n", &[("message", "", ""), ("message", "\n", "")]);
    check("data:test\n\ndata: test\n\n", &[("message", "test", ""), ("message", "test", "")]);
}

#[test]
fn the_parser_reads_what_the_standard_only_describes() {
    check(
        "\u{feff}data:after a byte order mark\n\n",
        &[("message", "after a byte order mark", "")],
    );
    check("data:cut\n", &[]);
    check("event:x\n\ndata:of no type\n\n", &[("message", "of no type", "")]);
    check("id:1\ndata:a\n\nid:\u{0}2\ndata:b\n\n", &[("message", "a", "1"), ("message", "b", "1")]);
    check("data:a:b\nunknown:c\nDATA:d\n\n", &[("message", "a:b", "")]);
    assert_eq!(check("retry:1000\n\n", &[]).reconnection_ms, Some(1000));
    assert_eq!(check("retry:1000\nretry:1s\nretry:\nretry\n\n", &[]).reconnection_ms, Some(1000));
    assert_eq!(check("id:7\n\nid:8\n", &[]).last_event_id, "7");
}

#[derive(Debug, Clone)]
enum Message {
    Batch(Batch),
    Missing(Missing),
    Heartbeat,
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let message = prop_oneof![
        4 => batch().prop_map(Message::Batch),
        1 => missing().prop_map(Message::Missing),
        1 => Just(Message::Heartbeat),
    ];
    vec(message, 0..5)
}

fn start_at() -> impl Strategy<Value = StartAt> {
    let position = (epoch(), offset())
        .prop_map(|(epoch, offset)| StartAt::After(thalweg_wire::Position { epoch, offset }));
    prop_oneof![Just(StartAt::Latest), Just(StartAt::Earliest), position]
}

const HEARTBEAT: &str = match std::str::from_utf8(notice::HEARTBEAT) {
    Ok(json) => json,
    Err(_) => panic!("JSON is UTF-8"),
};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_stream_of_one_topic_is_read_with_its_positions(
        messages in messages(),
        close in closes(),
    ) {
        let mut stream = b"retry:1437\n".to_vec();
        let mut id = String::new();
        let mut expected = Vec::new();
        for message in &messages {
            match message {
                Message::Batch(batch) => {
                    Format::SSE.batch(&batch.envelope(), &mut stream);
                    id = batch.position().to_string();
                    expected.push(event("message", &batch.json(), &id));
                }
                Message::Missing(missing) => {
                    Format::SSE.gap(&missing.gap(), &mut stream);
                    id = missing.position.to_string();
                    expected.push(event("gap", &missing.json(), &id));
                }
                Message::Heartbeat => {
                    Format::SSE.heartbeat(&mut stream);
                    expected.push(event("heartbeat", HEARTBEAT, &id));
                }
            }
        }
        Format::SSE.close(close, &mut stream);
        let mut json = Vec::new();
        close.write(&mut json);
        expected.push(event("close", &String::from_utf8(json).expect("UTF-8"), &id));

        let read = read(&stream);
        prop_assert_eq!(read.events, expected);
        prop_assert_eq!(read.last_event_id, id);
        prop_assert_eq!(read.reconnection_ms, Some(1437));
    }

    #[test]
    fn a_stream_of_many_topics_is_read_with_all_cursors(
        messages in messages(),
        cursors in vec(vec(start_at(), 1..5), 5),
        close in closes(),
    ) {
        let mut stream = Vec::new();
        let mut id = String::new();
        let mut expected = Vec::new();
        for (message, cursors) in messages.iter().zip(cursors) {
            let mut next_id = Vec::new();
            for cursor in &cursors {
                if !next_id.is_empty() {
                    next_id.push(b',');
                }
                cursor.write(&mut next_id);
            }
            let next_id = String::from_utf8(next_id).expect("ASCII");
            match message {
                Message::Batch(batch) => {
                    Format::SSE_MANY.batch(&batch.envelope(), &mut stream);
                    prop_assert_eq!(read(&stream).events.len(), expected.len(), "it has an ending");
                    sse_ids(cursors, &mut stream);
                    id = next_id;
                    expected.push(event("message", &batch.json(), &id));
                    // An event without an id has the id of the event before.
                    Format::SSE_MANY.batch(&batch.envelope(), &mut stream);
                    stream.push(b'\n');
                    expected.push(event("message", &batch.json(), &id));
                }
                Message::Missing(missing) => {
                    Format::SSE_MANY.gap(&missing.gap(), &mut stream);
                    prop_assert_eq!(read(&stream).events.len(), expected.len(), "it has an ending");
                    sse_ids(cursors, &mut stream);
                    id = next_id;
                    expected.push(event("gap", &missing.json(), &id));
                }
                Message::Heartbeat => {
                    Format::SSE_MANY.heartbeat(&mut stream);
                    expected.push(event("heartbeat", HEARTBEAT, &id));
                }
            }
            prop_assert_eq!(&read(&stream).last_event_id, &id);
        }
        Format::SSE_MANY.close(close, &mut stream);
        let mut json = Vec::new();
        close.write(&mut json);
        expected.push(event("close", &String::from_utf8(json).expect("UTF-8"), &id));
        let read = read(&stream);
        prop_assert_eq!(read.events, expected);
        prop_assert_eq!(read.last_event_id, id);
    }
}
