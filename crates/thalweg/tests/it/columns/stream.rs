//! A stream that is read frame by frame. Each frame is decoded with the schema only, because every frame is complete.

use std::time::Duration;

use arrow_ipc::{MessageHeader, root_as_message};
use serde_json::{Map, Value};

use super::reading::{self, Stream};
use crate::harness::{Patience, Response, Server, Socket, request};

pub(super) const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// The end of a stream (Arrow Columnar Format 1.5, "IPC Streaming Format").
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

#[derive(Debug)]
pub(super) struct Columns {
    pub(super) socket: Socket,
    pub(super) head: Response,
    /// The schema, and the messages before the first batch: dictionaries without strings.
    preamble: Option<Vec<u8>>,
    /// Its columns without the offsets, as `name:type`.
    pub(super) columns: Vec<String>,
    /// `<epoch>.<offset>` of the last row, or the start of the stream.
    pub(super) cursor: String,
    /// The code of the topic's end, if it has ended.
    pub(super) ended_by: Option<String>,
}

/// The offset of an event, and its values by column, without nulls.
pub(super) type Row = (u64, Value);

#[derive(Debug, PartialEq)]
pub(super) enum StreamItem {
    Rows(Vec<Row>),
    /// A batch without rows: a confirmation or a heartbeat.
    NoRows,
    /// The close: code, reason, reconnect. Stream and response are complete.
    Close(u64, String, bool),
    /// The connection broke inside of the body.
    Cut,
}

struct Message {
    bytes: Vec<u8>,
    header: MessageHeader,
    rows: i64,
    close: Option<String>,
}

impl Columns {
    /// Requests `target`, the part of the path after `/v1/topics/`.
    pub(super) fn open(server: &Server, target: &str) -> Self {
        Self::open_on(server.connect(), target)
    }

    pub(super) fn open_on(mut socket: Socket, target: &str) -> Self {
        let accept = [("Accept", MEDIA_TYPE)];
        socket.send(request("GET", &format!("/v1/topics/{target}"), &accept, b""));
        Self::answered(socket)
    }

    pub(super) fn answered(mut socket: Socket) -> Self {
        let mut head = socket.response_head();
        if head.status != 200 {
            head.body = socket.body(&head);
            panic!("refused: {head:?} {}", head.text());
        }
        Self::taken(socket, head)
    }

    pub(super) fn taken(socket: Socket, head: Response) -> Self {
        assert_eq!(head.header("content-type"), Some(MEDIA_TYPE), "{head:?}");
        let cursor = head.header("thalweg-position").expect("where it begins").to_owned();
        Self { socket, head, preamble: None, columns: Vec::new(), cursor, ended_by: None }
    }

    /// `Thalweg-Resume`.
    pub(super) fn resume(&self) -> Option<&str> {
        self.head.header("thalweg-resume")
    }

    pub(super) fn next(&mut self) -> StreamItem {
        let mut frame = Vec::new();
        let mut dictionaries = 0;
        loop {
            let Some(message) = self.message() else { return StreamItem::Cut };
            frame.extend_from_slice(&message.bytes);
            match message.header {
                MessageHeader::Schema => assert!(self.preamble.is_none(), "one schema"),
                MessageHeader::DictionaryBatch => dictionaries += 1,
                MessageHeader::RecordBatch if message.close.is_some() => {
                    let before = frame.len() - message.bytes.len();
                    assert!(
                        self.preamble.is_some() || before > 0,
                        "a schema before the last words"
                    );
                    return self.end(&message.close.unwrap_or_default());
                }
                MessageHeader::RecordBatch if self.preamble.is_none() => {
                    frame.truncate(frame.len() - message.bytes.len());
                    self.columns = self.read(&frame).columns();
                    assert_eq!((message.rows, dictionaries), (0, self.dictionaries()), "it begins");
                    self.preamble = Some(frame);
                    return StreamItem::NoRows;
                }
                MessageHeader::RecordBatch if message.rows == 0 => {
                    assert_eq!(dictionaries, 0, "a batch without rows needs none");
                    return StreamItem::NoRows;
                }
                MessageHeader::RecordBatch => {
                    assert_eq!(dictionaries, self.dictionaries(), "each dictionary is replaced");
                    return StreamItem::Rows(self.rows(&frame));
                }
                other => panic!("no message of a stream: {other:?}"),
            }
        }
    }

    /// Returns the next rows. It skips batches without rows.
    pub(super) fn rows_next(&mut self) -> Vec<Row> {
        let mut patience = Patience::new();
        loop {
            match self.next() {
                StreamItem::Rows(rows) => return rows,
                StreamItem::NoRows => patience.check("rows"),
                other => panic!("rows were due, not {other:?}"),
            }
        }
    }

    pub(super) fn take(&mut self, count: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        while rows.len() < count {
            rows.extend(self.rows_next());
        }
        assert_eq!(rows.len(), count);
        rows
    }

    /// Does the same after the confirmation.
    pub(super) fn take_after_confirmation(&mut self, count: usize) -> Vec<Row> {
        assert_eq!(self.next(), StreamItem::NoRows, "a stream begins without rows");
        self.take(count)
    }

    /// Skips rows and batches without rows. Returns the next other item.
    pub(super) fn last_words(&mut self) -> StreamItem {
        loop {
            match self.next() {
                StreamItem::Rows(_) | StreamItem::NoRows => {}
                last => return last,
            }
        }
    }

    pub(super) fn is_silent(&mut self, time: Duration) -> bool {
        self.socket.is_silent(time)
    }

    /// Reads the end of the stream, after its close message.
    fn end(&mut self, close: &str) -> StreamItem {
        assert_eq!(self.socket.exact(END.len(), "the end of the stream"), Some(END.to_vec()));
        assert_eq!(self.socket.exact(1, "the end of the response"), None);
        let close: Value = serde_json::from_str(close).expect("last words in JSON");
        let reason = close["reason"].as_str().expect("a reason").to_owned();
        let code = close["code"].as_u64().expect("a code");
        self.ended_by = close["end"]["code"].as_str().map(str::to_owned);
        StreamItem::Close(code, reason, close["reconnect"].as_bool().expect("reconnect"))
    }

    /// Returns the next message, or `None` if the body ends early.
    fn message(&mut self) -> Option<Message> {
        let mut bytes = self.socket.exact(8, "a message")?;
        assert_eq!(bytes[..4], END[..4], "a continuation marker");
        let length = u32::from_le_bytes(bytes[4..8].try_into().expect("4 bytes")) as usize;
        assert!(length > 0 && length.is_multiple_of(8), "the end comes after the last words");
        let metadata = self.socket.exact(length, "a message's metadata")?;
        let message = root_as_message(&metadata).expect("metadata of a message");
        let close = message.custom_metadata().and_then(|pairs| {
            assert_eq!(pairs.len(), 1);
            let pair = pairs.get(0);
            let value = pair.value().unwrap_or_default().to_owned();
            match pair.key() {
                Some("thalweg.close") => Some(value),
                Some("thalweg.unreadable") => {
                    assert!(value.parse::<u64>().is_ok_and(|count| count > 0), "{value}");
                    None
                }
                other => panic!("{other:?}"),
            }
        });
        let body = self.socket.exact(message.bodyLength() as usize, "a message's body")?;
        let rows = message.header_as_record_batch().map_or(0, |batch| batch.length());
        bytes.extend_from_slice(&metadata);
        bytes.extend_from_slice(&body);
        Some(Message { bytes, header: message.header_type(), rows, close })
    }

    /// Decodes the rows of a frame, with the schema only.
    fn rows(&mut self, frame: &[u8]) -> Vec<Row> {
        let preamble = self.preamble.take().expect("a schema before rows");
        let stream = self.read(&[&preamble, frame].concat());
        self.preamble = Some(preamble);
        let rows = as_objects(&stream);
        let last = rows.last().expect("a row").0;
        let (epoch, before) = self.cursor.split_once('.').expect("EPOCH.OFFSET");
        let before: u64 = before.parse().expect("an offset");
        let offsets: Vec<u64> = rows.iter().map(|(offset, _)| *offset).collect();
        assert_eq!(offsets, (before + 1..=last).collect::<Vec<_>>(), "offsets after {before}");
        self.cursor = format!("{epoch}.{last}");
        rows
    }

    fn read(&self, bytes: &[u8]) -> Stream {
        let stream = reading::read(&[bytes, &END].concat());
        let epoch = self.cursor.split_once('.').map(|(epoch, _)| epoch);
        let said = stream.schema.metadata().get("thalweg.epoch").map(String::as_str);
        assert_eq!(said, epoch, "the schema's epoch");
        let offsets = stream.schema.field(0);
        assert_eq!((offsets.name().as_str(), offsets.is_nullable()), ("_offset", false));
        stream
    }

    fn dictionaries(&self) -> usize {
        self.columns.iter().filter(|column| column.contains("Dictionary")).count()
    }
}

pub(super) fn as_objects(stream: &Stream) -> Vec<Row> {
    let names: Vec<&str> =
        stream.schema.fields().iter().skip(1).map(|field| field.name().as_str()).collect();
    let row = |(offset, cells): (u64, Vec<Value>)| {
        let cells = names.iter().zip(cells).filter(|(_, cell)| !cell.is_null());
        let members: Map<String, Value> =
            cells.map(|(name, cell)| ((*name).to_owned(), cell)).collect();
        (offset, Value::Object(members))
    };
    stream.rows().into_iter().map(row).collect()
}
