//! A stream of columns as its peer reads it: the head's last fields, and messages of Arrow by Arrow's own reader.
//! They become the messages that a stream of lines would have.

use serde_json::{Value, json};
use thalweg_core::fanout::Subscribe;
use thalweg_wire::{Close, Offset, Position, StartAt, close};

use super::{
    deframe::Frame,
    published::Published,
    tally::{Situation, Tally},
};
use crate::columns_reading::{Stream, read};

#[derive(Debug)]
pub(super) struct ColumnsReader {
    pub(super) topic: usize,
    /// Whether its client named a position.
    is_resuming: bool,
    has_head: bool,
    /// Whether a whole response came instead of a stream.
    pub(super) is_refused: bool,
    /// Where it ends before it has begun.
    ended_at: Option<Position>,
    schema: Option<Vec<u8>>,
}

pub(super) struct Part {
    pub(super) frames: Vec<Frame>,
    pub(super) len: usize,
}

/// `MessageHeader` in Arrow's `Message.fbs`.
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

impl ColumnsReader {
    pub(super) fn new(subscribe: &[Subscribe]) -> Self {
        let topic = subscribe.first().map_or(usize::MAX, |subscribe| subscribe.feed as usize);
        let is_resuming =
            subscribe.first().is_some_and(|subscribe| matches!(subscribe.start, StartAt::After(_)));
        Self {
            topic,
            is_resuming,
            has_head: false,
            is_refused: false,
            ended_at: None,
            schema: None,
        }
    }

    pub(super) fn awaits_head(&self) -> bool {
        !self.has_head
    }

    /// Returns the end of the head. `None` while it is incomplete.
    pub(super) fn head(
        &mut self,
        bytes: &[u8],
        published: &Published,
        asked_to_close: Option<Close>,
        tally: &mut Tally,
    ) -> Option<Part> {
        let mut len = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        self.has_head = true;
        let fields = std::str::from_utf8(&bytes[..len]).expect("ASCII");
        let field = |name: &str| {
            let lines = fields.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
        };
        let Some(position) = field("thalweg-position") else {
            // It is closed before it has begun.
            let close = asked_to_close.expect("a close");
            assert!(!fields.starts_with("HTTP/1.1 200"), "a stream without a position");
            len += field("content-length").expect("a length").parse::<usize>().expect("a number");
            self.has_head = len <= bytes.len();
            self.is_refused = true;
            let mut json = Vec::new();
            close.write(&mut json);
            let json = String::from_utf8(json).expect("JSON");
            return self.has_head.then(|| Part { frames: vec![message(json)], len });
        };
        let resume = field("thalweg-resume");
        assert_eq!(resume.is_some(), self.is_resuming, "a resumption where none was asked for");
        tally.saw_if(Situation::ResumedChanged, resume == Some("schema"));
        tally
            .saw_if(Situation::ResumedLost, resume.is_some_and(|resume| resume.starts_with("gap")));
        let gap = resume.and_then(|resume| resume.strip_prefix("gap; "));
        let topic = &published.topic;
        if resume.is_some_and(|resume| resume.starts_with("end; code=")) {
            self.ended_at = Some(position.parse().expect("a position"));
            return Some(Part { frames: Vec::new(), len });
        }
        let json = match gap {
            Some(gap) => {
                let mut parts = gap.split("; ").filter_map(|part| part.split_once('='));
                let (_, reason) = parts.next().expect("a reason");
                let missed = parts.next().map_or("null", |(_, missed)| missed);
                format!(
                    r#"{{"topic":"{topic}","position":"{position}","gap":{{"missed":{missed},"reason":"{reason}"}}}}"#
                )
            }
            None => {
                let position: Position = position.parse().expect("a position");
                let next = position.offset + 1;
                format!(
                    r#"{{"topic":"{topic}","position":"{position}","first":{next},"events":[]}}"#
                )
            }
        };
        Some(Part { frames: vec![message(json)], len })
    }

    /// Returns the part at the front of `bytes`, up to a batch of rows. `None` while it is incomplete. `next` is the next event.
    pub(super) fn part(
        &mut self,
        bytes: &[u8],
        published: &Published,
        next: Option<Offset>,
        tally: &mut Tally,
    ) -> Option<Part> {
        let (mut len, mut schema_len) = (0, None);
        let mut kind = 0;
        while kind != RECORD_BATCH {
            let (message_len, message_kind) = first_message(&bytes[len..])?;
            if message_kind == SCHEMA {
                schema_len = Some(message_len);
            }
            (len, kind) = (len + message_len, message_kind);
        }
        let is_first = schema_len.is_some();
        assert!(!is_first || self.schema.is_none(), "a second schema in a stream");
        let (own, content) = bytes[..len].split_at(schema_len.unwrap_or_default());
        let schema = self.schema.as_deref().unwrap_or(own);
        let stream = read(&[schema, content, &END].concat());
        let ends = bytes[len..].starts_with(&END);
        if let Some(mut close) = close_of(content) {
            if bytes.len() < len + END.len() {
                return None;
            }
            assert!(ends, "words that are not the last");
            let is_topic_end = close["code"] == json!(close::ENDED.code);
            let after = |next| Position { epoch: published.epoch, offset: next - 1 };
            let mut frames: Vec<Frame> = is_topic_end
                .then(|| {
                    let position = self.ended_at.or(next.map(after)).expect("it has begun");
                    end(published, position, &close["end"])
                })
                .into_iter()
                .collect();
            close.as_object_mut().expect("an object").remove("end");
            frames.push(message(json!({ "close": close }).to_string()));
            return Some(Part { frames, len: len + END.len() });
        }
        assert!(!ends, "an end without a reason");
        let schema = &*self.schema.insert(schema.to_vec());
        let rows = stream.rows();
        let said = match rows.as_slice() {
            // This part has the schema only.
            [] if is_first => None,
            [] => Some(message(r#"{"heartbeat":{}}"#.to_owned())),
            rows => {
                tally.count(Situation::Columns, rows.len() as u64);
                let range = (rows[0].0, rows[rows.len() - 1].0);
                tally.received_rows(published.topic.as_str(), schema, range, content);
                Some(events(published, &stream, rows))
            }
        };
        Some(Part { frames: said.into_iter().collect(), len })
    }
}

fn message(json: String) -> Frame {
    Frame::Message { event: None, json, id: None }
}

fn end(published: &Published, position: Position, end: &Value) -> Frame {
    let topic = &published.topic;
    message(format!(r#"{{"topic":"{topic}","position":"{position}","end":{end}}}"#))
}

/// Returns rows as their events, word for word if they are right.
fn events(published: &Published, stream: &Stream, rows: &[(Offset, Vec<Value>)]) -> Frame {
    let said = rows.iter().map(|(offset, cells)| {
        let payload = published.payload(*offset);
        let event: Value = serde_json::from_str(payload).expect("JSON");
        match is_of(&event, cells, &stream.columns()) {
            true => payload.to_owned(),
            false => Value::from(cells.clone()).to_string(),
        }
    });
    let said = said.collect::<Vec<_>>().join(",");
    let (first, last) = (rows[0].0, rows[rows.len() - 1].0);
    let epoch = &stream.schema.metadata()["thalweg.epoch"];
    assert_eq!(stream.schema.metadata()["thalweg.topic"], published.topic.as_str());
    let before = published.event_before(first);
    let after = if before + 1 < first { format!(r#","after":{before}"#) } else { String::new() };
    message(format!(
        r#"{{"topic":"{}","position":"{epoch}.{last}","first":{first}{after},"events":[{said}]}}"#,
        published.topic,
    ))
}

/// Whether a row is an event.
fn is_of(event: &Value, cells: &[Value], columns: &[String]) -> bool {
    let name = |column: &String| column.split(':').next().expect("a name").to_owned();
    let cell = |index: usize| match event {
        _ if name(&columns[index]) == "value" => Some(event),
        Value::Array(elements) => elements.get(index),
        Value::Object(members) => members.get(&name(&columns[index])),
        _ => None,
    };
    let is_equal = |(index, read): (usize, &Value)| match (cell(index), read) {
        (None, read) => read.is_null(),
        (Some(Value::Number(own)), Value::Number(read)) => own.as_f64() == read.as_f64(),
        (Some(own), read) => own == read,
    };
    let is_whole = match event {
        Value::Array(elements) => elements.len() <= cells.len() || name(&columns[0]) == "value",
        _ => true,
    };
    is_whole && cells.iter().enumerate().all(is_equal)
}

/// Returns the length and the content of the message at the front.
fn first_message(bytes: &[u8]) -> Option<(usize, u8)> {
    let (prefix, rest) = bytes.split_first_chunk::<8>()?;
    assert_eq!(prefix[..4], [0xff; 4], "no message begins so");
    let metadata_len = u32::from_le_bytes(prefix[4..].try_into().expect("4 bytes")) as usize;
    assert!(metadata_len > 0 && metadata_len.is_multiple_of(8), "{metadata_len} bytes of metadata");
    let message = arrow_ipc::root_as_message(rest.get(..metadata_len)?).expect("a message");
    let body_len = message.bodyLength() as usize;
    let len = 8 + metadata_len + body_len;
    (bytes.len() >= len).then_some((len, message.header_type().0))
}

/// Returns why a stream ends, from the metadata of its last batch.
fn close_of(mut content: &[u8]) -> Option<Value> {
    loop {
        let (len, kind) = first_message(content)?;
        if kind == RECORD_BATCH {
            let metadata_len = u32::from_le_bytes(content[4..8].try_into().expect("4 bytes"));
            let message = arrow_ipc::root_as_message(&content[8..8 + metadata_len as usize]);
            let pairs = message.expect("a message").custom_metadata()?;
            let close = pairs.iter().find(|pair| pair.key() == Some("thalweg.close"))?;
            return serde_json::from_str(close.value()?).ok();
        }
        content = &content[len..];
    }
}
