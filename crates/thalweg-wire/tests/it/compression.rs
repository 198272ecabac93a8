//! Compressed frames, read by another deflate implementation than the one that writes them, and compressed messages of clients.

mod clients;
mod reader;

use proptest::{collection::vec, prelude::*};
use reader::Reader;
use thalweg_wire::{Before, Close, Envelope, Format, Gap};

use crate::arbitrary::{Batch, Missing, batch, closes, config, missing};

const FORMATS: [Format; 3] = [Format::WEBSOCKET, Format::SSE, Format::NDJSON];

fn compressed(format: Format) -> Format {
    format.compressed().expect("one that can be")
}

#[derive(Debug, Clone)]
enum Message {
    Batch(Batch),
    Missing(Missing),
    Heartbeat,
    Close(Close),
}

impl Message {
    fn frame(&self, format: Format) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Batch(batch) => format.batch(&batch.envelope(), &mut out),
            Self::Missing(missing) => format.gap(&missing.gap(), &mut out),
            Self::Heartbeat => format.heartbeat(&mut out),
            Self::Close(close) => format.close(*close, &mut out),
        }
        out
    }
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        6 => batch().prop_map(Message::Batch),
        1 => missing().prop_map(Message::Missing),
        1 => Just(Message::Heartbeat),
        1 => closes().prop_map(Message::Close),
    ]
}

/// RFC 1951 §3.2.4: the first bits of a block that begins at a byte boundary, and its length twice.
const STORED_HEADER_BYTES: usize = 5;
/// An empty stored block, without which some inflaters keep the text before it.
const FLUSH: &[u8] = &[0, 0, 0, 0xff, 0xff];

fn opened(frame: &[u8]) -> (u8, &[u8]) {
    let (len, payload) = match frame[1] {
        126 => (usize::from(u16::from_be_bytes([frame[2], frame[3]])), &frame[4..]),
        127 => {
            (u64::from_be_bytes(frame[2..10].try_into().expect("8 bytes")) as usize, &frame[10..])
        }
        len => (usize::from(len), &frame[2..]),
    };
    assert_eq!(payload.len(), len, "one whole frame");
    (frame[0], payload)
}

/// Checks that `deflated` is `plain`, compressed alone or unchanged.
fn check_websocket(deflated: &[u8], plain: &[u8]) -> Result<(), TestCaseError> {
    if deflated == plain {
        return Ok(());
    }
    let (first, payload) = opened(deflated);
    let (plain_first, plain_payload) = opened(plain);
    prop_assert_eq!((first, plain_first), (0xc1, 0x81));
    prop_assert!(payload.len() < plain_payload.len());
    let mut reader = Reader::raw();
    let mut read = reader.read(payload);
    read.extend(reader.read(&[0, 0, 0xff, 0xff]));
    prop_assert_eq!(read, plain_payload);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_compressed_websocket_message_is_the_plain_one(message in message()) {
        let deflated = message.frame(compressed(Format::WEBSOCKET));
        check_websocket(&deflated, &message.frame(Format::WEBSOCKET))?;
    }

    #[test]
    fn a_gzip_stream_is_read_frame_by_frame(messages in vec(message(), 0..6)) {
        for plain in &FORMATS[1..] {
            let mut reader = Reader::gzip();
            let mut beginning = Vec::new();
            compressed(*plain).begin(b"first", &mut beginning);
            prop_assert_eq!(reader.read(&beginning), b"first");
            for message in &messages {
                let frame = message.frame(compressed(*plain));
                let expected = message.frame(*plain);
                // The frame's last byte completes the text.
                prop_assert_eq!(&reader.read(&frame), &expected);
                // A reader that joins at this frame reads the same.
                prop_assert_eq!(&Reader::raw().read(&frame), &expected);
                prop_assert!(frame.len() <= expected.len() + STORED_HEADER_BYTES + FLUSH.len());
            }
        }
    }

    #[test]
    fn a_frame_made_again_is_the_same(messages in vec(message(), 1..6)) {
        for compressed in FORMATS.map(compressed) {
            let frames: Vec<_> = messages.iter().map(|said| said.frame(compressed)).collect();
            let in_reverse = messages.iter().rev().map(|said| said.frame(compressed));
            prop_assert!(in_reverse.eq(frames.iter().rev().cloned()));
            let elsewhere = std::thread::scope(|scope| {
                let frames = || messages.iter().map(|said| said.frame(compressed)).collect::<Vec<_>>();
                scope.spawn(frames).join().expect("no panic")
            });
            prop_assert_eq!(elsewhere, frames);
        }
    }
}

fn check_large(event: &str) {
    let (topic, epoch) = ("t".parse().expect("a topic"), "1".parse().expect("an epoch"));
    let events = format!("\"{event}\"");
    let envelope = Envelope {
        topic: &topic,
        epoch,
        first: 1,
        last: 1,
        before: Before::Adjacent,
        offsets: None,
        keyed: None,
        events: events.as_bytes(),
    };
    let frame = |format: Format| {
        let mut out = Vec::new();
        format.batch(&envelope, &mut out);
        out
    };
    let deflated = frame(compressed(Format::WEBSOCKET));
    check_websocket(&deflated, &frame(Format::WEBSOCKET)).expect("it is");
    for plain in &FORMATS[1..] {
        let read = Reader::raw().read(&frame(compressed(*plain)));
        assert!(read == frame(*plain), "{} bytes", event.len());
    }
}

#[test]
fn large_frames_are_read_as_well() {
    let mut state = 1_u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(
            b" !#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`a"
                [(state >> 58) as usize],
        )
    };
    for len in [1000, 65_000, 70_000, 1_000_000] {
        // Hardly compressible text, repetitive text, and both in a row.
        let noise: String = (0..len).map(|_| random()).collect();
        let rows: String = (0..len / 10).map(|row| format!("{row:09},")).collect();
        check_large(&noise);
        check_large(&rows);
        check_large(&format!("{noise}{rows}"));
    }
}

#[test]
fn incompressible_data_is_stored_in_several_blocks() {
    let plain: Vec<u8> =
        (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for len in [0, 1, 65_535, 65_536, 200_000] {
        let mut out = b"before".to_vec();
        compressed(Format::NDJSON).own(&mut out, |out| out.extend_from_slice(&plain[..len]));
        let headers = len.div_ceil(65_535) * STORED_HEADER_BYTES;
        let flush = if len > 0 { FLUSH } else { b"" };
        assert_eq!(out.len(), 6 + headers + len + flush.len());
        assert!(out.ends_with(flush));
        assert!(Reader::raw().read(&out[6..]) == plain[..len]);
    }
}

#[test]
fn rows_become_much_smaller() {
    let (topic, epoch) = ("cars".parse().expect("a topic"), "1".parse().expect("an epoch"));
    let rows: Vec<String> = (0..100)
        .map(|car| {
            let time = "2022-07-13T21:04:08.000Z";
            format!(
                r#"[1,16.{:06},54.{:06},"c{car:05}","{time}","{time}"]"#,
                car * 7919,
                car * 104_729
            )
        })
        .collect();
    let events = rows.join(",");
    let (offset, events) = (rows.len() as u64, events.as_bytes());
    let envelope = Envelope {
        topic: &topic,
        epoch,
        first: 1,
        last: offset,
        before: Before::Adjacent,
        offsets: None,
        keyed: None,
        events,
    };
    for plain in FORMATS {
        let len = |format: Format| {
            let mut out = Vec::new();
            format.batch(&envelope, &mut out);
            out.len()
        };
        let (compressed, plain) = (len(compressed(plain)), len(plain));
        assert!(compressed * 3 < plain, "{compressed} of {plain}");
    }
}

#[test]
fn messages_for_one_subscriber_are_not_compressed() {
    let (topic, epoch) = ("cars".parse().expect("a topic"), "1".parse().expect("an epoch"));
    let envelope = Envelope {
        topic: &topic,
        epoch,
        first: 1,
        last: 0,
        before: Before::Adjacent,
        offsets: None,
        keyed: None,
        events: b"",
    };
    let position = thalweg_wire::Position { epoch, offset: 0 };
    let gap = Gap { topic: &topic, position, missed: None, reason: thalweg_wire::GapReason::Epoch };
    for plain in FORMATS {
        let frames = |format: Format| {
            let mut out = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
            format.batch(&envelope, &mut out[0]);
            format.gap(&gap, &mut out[1]);
            format.heartbeat(&mut out[2]);
            format.close(thalweg_wire::close::DRAINING, &mut out[3]);
            out
        };
        for (frame, expected) in frames(compressed(plain)).into_iter().zip(frames(plain)) {
            let (header, flush) = match plain == Format::WEBSOCKET {
                true => (0, &b""[..]),
                false => (STORED_HEADER_BYTES, FLUSH),
            };
            assert!(frame[header..] == [&expected, flush].concat());
        }
    }
}
