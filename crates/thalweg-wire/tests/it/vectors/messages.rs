//! Vectors of messages to subscribers and of their frames.

use serde::Deserialize;
use thalweg_wire::{
    Before, Close, End, EndCode, Envelope, Format, Gap, GapReason, Keyed, Offset, Position, Topic,
    close,
    format::{forever_frame_document, forever_frame_opening, sse_ids, sse_retry},
    incoming::{Incoming, Kind},
};

use super::{read, text::Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Envelope {
        topic: String,
        position: String,
        first: Offset,
        previous: Option<Offset>,
        after: Option<Offset>,
        until: Option<Offset>,
        offsets: Option<Vec<Offset>>,
        keys: Option<Vec<Text>>,
        #[serde(default)]
        events: Vec<Text>,
        patch: Option<Text>,
    },
    Gap {
        topic: String,
        position: String,
        missed: Option<Offset>,
        reason: GapReason,
    },
    End {
        topic: String,
        position: String,
        code: EndCode,
        reason: String,
    },
    Heartbeat {},
    Close {
        code: u16,
        reason: String,
        reconnect: bool,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Messages {
    messages: Vec<Told>,
    patches: Vec<Patch>,
    column_closes: Vec<ColumnClose>,
}

#[derive(Deserialize)]
struct ColumnClose {
    close: CloseWithEnd,
    json: Text,
}

#[derive(Deserialize)]
struct CloseWithEnd {
    code: u16,
    reason: String,
    reconnect: bool,
    end: Option<EndFields>,
}

#[derive(Deserialize)]
struct EndFields {
    code: EndCode,
    reason: String,
}

#[derive(Deserialize)]
struct Patch {
    #[serde(flatten)]
    message: Message,
    json: Text,
    before: Text,
    after: Text,
}

#[derive(Deserialize)]
struct Told {
    #[serde(flatten)]
    message: Message,
    json: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frames {
    frames: Vec<Framed>,
    retries: Vec<Retry>,
    ids: Vec<Ids>,
    documents: Vec<Document>,
    chunks: Vec<Chunk>,
    last_chunks: Vec<LastChunk>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retry {
    ms: u64,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ids {
    cursors: Vec<String>,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    nonce: String,
    document: String,
    opening: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk {
    bytes: Text,
    chunk: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LastChunk {
    chunk: Text,
}

#[derive(Deserialize)]
struct Framed {
    #[serde(flatten)]
    message: Message,
    websocket: Text,
    sse: Text,
    sse_many: Text,
    ndjson: Text,
    forever_frame: Text,
}

impl Message {
    fn frame(&self, format: Format) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Envelope {
                topic,
                position,
                first,
                previous,
                after,
                until,
                offsets,
                keys,
                events,
                patch,
            } => {
                let keys: Option<Vec<_>> =
                    keys.as_ref().map(|keys| keys.iter().map(Text::bytes).collect());
                let keys = keys.map(|keys| keys.join(&b','));
                let topic: Topic = topic.parse().expect("a topic");
                let Position { epoch, offset } = position.parse().expect("a position");
                let events: Vec<_> = events.iter().map(Text::bytes).collect();
                let operations = patch.as_ref().map(|patch| operations(&patch.string()).into());
                let before = match (previous, after, patch) {
                    (None, None, None) => Before::Adjacent,
                    (None, Some(after), None) => Before::Event(*after),
                    (Some(previous), None, None) => Before::Version(*previous),
                    (Some(previous), None, Some(_)) => Before::Patched(*previous),
                    other => panic!("no envelope has {other:?}"),
                };
                let envelope = Envelope {
                    topic: &topic,
                    epoch,
                    first: *first,
                    last: offset,
                    before,
                    offsets: offsets.as_deref(),
                    keyed: keys.as_deref().map(|keys| Keyed { keys, until: *until }),
                    events: &operations.unwrap_or_else(|| events.join(&b',')),
                };
                format.batch(&envelope, &mut out);
            }
            Self::Gap { topic, position, missed, reason } => {
                let topic: Topic = topic.parse().expect("a topic");
                let position = position.parse().expect("a position");
                let gap = Gap { topic: &topic, position, missed: *missed, reason: *reason };
                format.gap(&gap, &mut out);
            }
            Self::End { topic, position, code, reason } => {
                assert_eq!(code.reason(), reason);
                let topic: Topic = topic.parse().expect("a topic");
                let position = position.parse().expect("a position");
                format.topic_end(&End { topic: &topic, position, code: *code }, &mut out);
            }
            Self::Heartbeat {} => format.heartbeat(&mut out),
            Self::Close { code, reason, reconnect } => {
                let close = close::for_code(*code);
                let expected = Close { code: *code, reason: close.reason, reconnect: *reconnect };
                assert_eq!((close, close.reason), (expected, reason.as_str()));
                format.close(close, &mut out);
            }
        }
        out
    }

    fn check_is_read_from(&self, json: &str) {
        let incoming = Incoming::parse(json).expect("a message");
        match (self, incoming.kind()) {
            (
                Self::Envelope { topic, position, first, previous, patch: Some(patch), .. },
                Kind::Patch(offset, read),
            ) => {
                assert_eq!(incoming.topic.as_deref(), Some(topic.as_str()));
                assert_eq!(incoming.position.as_deref(), Some(position.as_str()));
                assert_eq!((incoming.previous, offset), (*previous, *first));
                assert_eq!(read, patch.string());
            }
            (
                Self::Envelope {
                    topic,
                    position,
                    first,
                    previous,
                    after,
                    until,
                    offsets,
                    keys,
                    events,
                    patch: None,
                },
                Kind::Events(read),
            ) => {
                assert_eq!((incoming.previous, incoming.after), (*previous, *after));
                assert_eq!(incoming.until, *until);
                let keys = keys.as_ref().map(|keys| {
                    let parse = |key: &Text| serde_json::from_str(&key.string()).expect("a string");
                    keys.iter().map(parse).collect::<Vec<String>>()
                });
                let read_keys = incoming.keys.as_ref();
                let read_keys = read_keys
                    .map(|keys| keys.iter().map(|key| key.to_string()).collect::<Vec<_>>());
                assert_eq!(read_keys, keys);
                assert_eq!(incoming.topic.as_deref(), Some(topic.as_str()));
                assert_eq!(incoming.position.as_deref(), Some(position.as_str()));
                let consecutive = || (*first..).take(events.len()).collect();
                let offsets = offsets.clone().unwrap_or_else(consecutive);
                let events: Vec<_> = events.iter().map(Text::string).collect();
                let expected: Vec<_> =
                    offsets.into_iter().zip(events.iter().map(String::as_str)).collect();
                assert_eq!(read, expected);
            }
            (Self::Gap { topic, position, missed, reason }, Kind::Gap(gap)) => {
                assert_eq!(incoming.topic.as_deref(), Some(topic.as_str()));
                assert_eq!(incoming.position.as_deref(), Some(position.as_str()));
                assert_eq!((gap.missed, gap.reason), (*missed, *reason));
            }
            (Self::End { topic, position, code, reason }, Kind::End(end)) => {
                assert_eq!(incoming.topic.as_deref(), Some(topic.as_str()));
                assert_eq!(incoming.position.as_deref(), Some(position.as_str()));
                assert_eq!((&*end.code, &*end.reason), (code.name(), reason.as_str()));
            }
            (Self::Heartbeat {}, Kind::Heartbeat) => {}
            (Self::Close { code, reason, reconnect }, Kind::Close(close)) => {
                let read = (close.code, &*close.reason, close.reconnect);
                assert_eq!(read, (*code, reason.as_str(), *reconnect));
            }
            (_, read) => panic!("{json} is read as {read:?}"),
        }
    }
}

#[test]
fn messages() {
    let read = read(include_str!("../../../../../vectors/messages.json"));
    let Messages { messages, patches, column_closes } = read;
    for ColumnClose { close: CloseWithEnd { code, reason, reconnect, end }, json } in column_closes
    {
        let close = close::for_code(code);
        assert_eq!((close.code, close.reason, close.reconnect), (code, &*reason, reconnect));
        let ended = end.map(|EndFields { code, reason }| {
            assert_eq!(code.reason(), reason);
            code
        });
        let mut out = Vec::new();
        close.write_with_end(ended, &mut out);
        assert_eq!(out, json.bytes());
    }
    for Patch { message, json, before, after } in patches {
        let json = json.string();
        let line = message.frame(Format::NDJSON.with_patches());
        assert_eq!(String::from_utf8(line).expect("UTF-8"), format!("{json}\n"));
        message.check_is_read_from(&json);
        let Message::Envelope { patch: Some(patch), .. } = message else { panic!("{json}") };
        let parse = |text: &Text| serde_json::from_str(&text.string()).expect("JSON");
        let mut patched: serde_json::Value = parse(&before);
        let patch: json_patch::Patch = serde_json::from_str(&patch.string()).expect("a patch");
        json_patch::patch(&mut patched, &patch).expect("a patch of it");
        assert_eq!(patched, parse(&after));
    }
    for Told { message, json } in &messages {
        let json = json.string();
        let line = message.frame(Format::NDJSON);
        assert_eq!(String::from_utf8(line).expect("UTF-8"), format!("{json}\n"));
        message.check_is_read_from(&json);
    }
    check_closes(messages.iter().map(|told| &told.message));
    let ends = messages.iter().filter_map(|told| match told.message {
        Message::End { code, .. } => Some(code),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), EndCode::ALL, "every end has a vector");
    let contract = include_str!("../../../../../docs/reference/messages.md");
    let (_, section) = contract.split_once("\n## End\n").expect("a section about ends");
    let section = section.split("\n## ").next().expect("its text");
    for code in EndCode::ALL {
        assert!(section.contains(&format!("`{}`", code.name())), "{}", code.name());
    }
}

#[test]
fn frames() {
    let Frames { frames, retries, ids, documents, chunks, last_chunks } =
        read(include_str!("../../../../../vectors/frames.json"));
    for Framed { message, websocket, sse, sse_many, ndjson, forever_frame } in &frames {
        // The tests of `compression` cover compressed frames.
        for (format, expected) in [
            (Format::WEBSOCKET, websocket),
            (Format::SSE, sse),
            (Format::SSE_MANY, sse_many),
            (Format::NDJSON, ndjson),
            (Format::FOREVER_FRAME, forever_frame),
        ] {
            let framed = message.frame(format);
            assert!(
                framed == expected.bytes(),
                "{format:?} of {message:?}: {}",
                framed.escape_ascii()
            );
            if let Some(chunked) = format.chunked() {
                let size = format!("{:x}\r\n", framed.len());
                let chunk = [size.as_bytes(), &framed, b"\r\n"].concat();
                assert!(message.frame(chunked) == chunk, "{chunked:?} of {message:?}");
            }
        }
    }
    check_closes(frames.iter().map(|framed| &framed.message));

    for Retry { ms, text } in retries {
        let mut out = Vec::new();
        sse_retry(ms, &mut out);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), text);
    }
    for Ids { cursors, text } in ids {
        let mut out = Vec::new();
        sse_ids(cursors.iter().map(|cursor| cursor.parse().expect("a cursor")), &mut out);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), text);
    }
    for Document { nonce, document, opening } in documents {
        let mut out = Vec::new();
        forever_frame_document(&nonce, &mut out);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), document);
        let mut out = Vec::new();
        forever_frame_opening(&nonce, &mut out);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), opening);
    }
    let chunked = Format::NDJSON.chunked().expect("a stream");
    for Chunk { bytes, chunk } in chunks {
        let mut out = Vec::new();
        chunked.own(&mut out, |out| out.extend(bytes.bytes()));
        assert!(out == chunk.bytes(), "{}", out.escape_ascii());
    }
    for LastChunk { chunk } in last_chunks {
        let mut out = Vec::new();
        chunked.end(&mut out);
        assert_eq!(out, chunk.bytes());
    }
}

/// Checks that every close has a vector, in order.
fn check_closes<'a>(messages: impl Iterator<Item = &'a Message>) {
    let codes = messages.filter_map(|message| match message {
        Message::Close { code, .. } => Some(*code),
        _ => None,
    });
    assert_eq!(codes.collect::<Vec<_>>(), close::ALL.map(|close| close.code));
}

fn operations(patch: &str) -> &str {
    patch.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).expect("a list")
}
