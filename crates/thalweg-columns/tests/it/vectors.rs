//! The golden vectors of `vectors/arrow.json`, whose README explains each case. The test makes every output from topic,
//! epoch, declaration and rows, and compares byte for byte.

use arrow_ipc::root_as_message;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_columns::Columns;

use crate::reading::read;

const PATH: &str = "vectors/arrow.json";

/// The output goes here if it differs from the file.
const MADE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/arrow.json");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    streams: Vec<Stream>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    what: String,
    topic: String,
    epoch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    declared: Option<Vec<String>>,
    columns: Vec<String>,
    begin: Vec<String>,
    frames: Vec<Frame>,
    no_rows: Vec<String>,
    close: Value,
    end: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    first: u64,
    rows: Vec<String>,
    values: Vec<Vec<Value>>,
    messages: Vec<String>,
}

impl Stream {
    /// The case's columns; `None` for a topic without events and declaration.
    fn schema(&self) -> Option<Columns> {
        let rows: Vec<&str> =
            self.frames.iter().flat_map(|frame| &frame.rows).map(String::as_str).collect();
        match &self.declared {
            Some(declared) => {
                let declared = Columns::declared(declared.iter().map(String::as_str));
                Some(declared.expect("a declaration"))
            }
            None => (!rows.is_empty()).then(|| Columns::infer(rows.join(",").as_bytes())),
        }
    }

    fn made(&self) -> Self {
        let metadata = [("thalweg.topic", &*self.topic), ("thalweg.epoch", &*self.epoch)];
        let close = self.close.to_string();
        let close = Some(("thalweg.close", &*close));
        let Some(columns) = self.schema() else {
            let (none, mut end) = (Columns::none(), Vec::new());
            none.write_schema(&[], &mut end);
            none.write_end(close, &mut end);
            return Self { end: messages(&end), ..self.clone() };
        };
        let (mut begin, mut no_rows, mut end) = (Vec::new(), Vec::new(), Vec::new());
        columns.write_schema(&metadata, &mut begin);
        columns.write_no_rows(None, &mut begin);
        columns.write_no_rows(None, &mut no_rows);
        columns.write_end(close, &mut end);
        let frame = |frame: &Frame| {
            let mut bytes = Vec::new();
            let rows = frame.rows.join(",");
            columns.write_rows(frame.first, rows.as_bytes(), &mut bytes).expect("rows that fit");
            let whole = read(&[&*begin, &bytes, &end].concat());
            let offsets: Vec<u64> = whole.rows().iter().map(|(offset, _)| *offset).collect();
            assert_eq!(offsets, (frame.first..).take(frame.rows.len()).collect::<Vec<_>>());
            let values = whole.rows().into_iter().map(|(_, cells)| cells).collect();
            Frame { values, messages: messages(&bytes), ..frame.clone() }
        };
        let kinds = columns.iter().map(|column| format!("{}:{}", column.name, column.kind));
        Self {
            columns: kinds.collect(),
            begin: messages(&begin),
            frames: self.frames.iter().map(frame).collect(),
            no_rows: messages(&no_rows),
            end: messages(&end),
            ..self.clone()
        }
    }
}

#[test]
fn streams_are_those_of_the_vectors() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/arrow.json");
    let file = std::fs::read_to_string(file).expect("the vectors");
    let vectors: Vectors = serde_json::from_str(&file).expect("vectors as README says");
    let made = Vectors { streams: vectors.streams.iter().map(Stream::made).collect() };
    let text = serde_json::to_string_pretty(&made).expect("JSON") + "\n";
    if made != vectors {
        std::fs::write(MADE, &text).expect("a folder to write to");
        panic!("{PATH} does not have what is made of its cases: that is in {MADE}, compare");
    }
    for stream in &made.streams {
        let frames = stream.frames.iter().flat_map(|frame| &frame.messages);
        let all = stream.begin.iter().chain(frames).chain(&stream.no_rows).chain(&stream.end);
        let whole = read(&all.flat_map(|hex| unhex(hex)).collect::<Vec<u8>>());
        let values = stream.frames.iter().flat_map(|frame| frame.values.clone());
        assert_eq!(
            whole.rows().into_iter().map(|(_, cells)| cells).collect::<Vec<_>>(),
            values.collect::<Vec<_>>(),
            "{}",
            stream.what
        );
    }
}

/// Messages in hexadecimal; the end of a stream is one, too.
fn messages(mut bytes: &[u8]) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(prefix) = bytes.first_chunk::<8>() {
        let metadata = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
        let body = match metadata {
            0 => 0,
            _ => root_as_message(&bytes[8..8 + metadata]).expect("a message").bodyLength() as usize,
        };
        let (message, rest) = bytes.split_at(8 + metadata + body);
        messages.push(message.iter().map(|byte| format!("{byte:02x}")).collect());
        bytes = rest;
    }
    assert!(bytes.is_empty());
    messages
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    digits.map(|two| u8::from_str_radix(two, 16).expect("hexadecimal")).collect()
}
