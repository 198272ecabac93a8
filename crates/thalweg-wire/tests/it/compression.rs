//! Compressed frames, read by another implementation of deflate than the one
//! that writes them, and compressed messages of clients.

mod clients;
mod reader;

use proptest::{collection::vec, prelude::*};
use reader::Reader;
use thalweg_wire::{
    Close, Envelope, Framing, Gap,
    framing::{gzip_header, gzip_stored},
};

use crate::arbitrary::{Batch, Missing, batch, closes, config, missing};

/// The compressed framings, and what each holds.
const PAIRS: [(Framing, Framing); 3] = [
    (Framing::WebSocketDeflate, Framing::WebSocket),
    (Framing::SseGzip, Framing::Sse),
    (Framing::NdjsonGzip, Framing::Ndjson),
];

/// Anything that has a frame.
#[derive(Debug, Clone)]
enum Message {
    Batch(Batch),
    Missing(Missing),
    Heartbeat,
    Close(Close),
}

impl Message {
    fn frame(&self, framing: Framing) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Batch(batch) => framing.batch(&batch.envelope(), &mut out),
            Self::Missing(missing) => framing.gap(&missing.gap(), &mut out),
            Self::Heartbeat => framing.heartbeat(&mut out),
            Self::Close(close) => framing.close(*close, &mut out),
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

/// A server's frame: its first byte and its payload.
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

/// That `deflated` is `plain` compressed by itself, or `plain`.
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
        let deflated = message.frame(Framing::WebSocketDeflate);
        check_websocket(&deflated, &message.frame(Framing::WebSocket))?;
    }

    #[test]
    fn a_gzip_stream_is_read_frame_by_frame(messages in vec(message(), 0..6)) {
        for (gzip, plain) in &PAIRS[1..] {
            let mut reader = Reader::gzip();
            prop_assert_eq!(reader.read(gzip_header()), b"");
            for message in &messages {
                let frame = message.frame(*gzip);
                let expected = message.frame(*plain);
                // All of it, as soon as the frame's last byte is there.
                prop_assert_eq!(&reader.read(&frame), &expected);
                // Whoever comes in here reads the same.
                prop_assert_eq!(&Reader::raw().read(&frame), &expected);
                prop_assert!(frame.len() <= expected.len() + 5);
            }
        }
    }

    #[test]
    fn a_frame_made_again_is_the_same(messages in vec(message(), 1..6)) {
        for (compressed, _) in PAIRS {
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

/// An envelope of one event of about `len` bytes.
fn check_large(event: &str) {
    let (topic, epoch) = ("t".parse().expect("a topic"), "1".parse().expect("an epoch"));
    let events = format!("\"{event}\"");
    let envelope = Envelope {
        topic: &topic,
        epoch,
        first: 1,
        last: 1,
        offsets: None,
        events: events.as_bytes(),
    };
    let frame = |framing: Framing| {
        let mut out = Vec::new();
        framing.batch(&envelope, &mut out);
        out
    };
    check_websocket(&frame(Framing::WebSocketDeflate), &frame(Framing::WebSocket)).expect("it is");
    for (gzip, plain) in &PAIRS[1..] {
        assert!(Reader::raw().read(&frame(*gzip)) == frame(*plain), "{} bytes", event.len());
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
        // Hardly compressible, repetitive, and the one after the other.
        let noise: String = (0..len).map(|_| random()).collect();
        let rows: String = (0..len / 10).map(|row| format!("{row:09},")).collect();
        check_large(&noise);
        check_large(&rows);
        check_large(&format!("{noise}{rows}"));
    }
}

#[test]
fn what_cannot_be_compressed_is_stored_in_several_blocks() {
    let plain: Vec<u8> =
        (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for len in [0, 1, 65_535, 65_536, 200_000] {
        let mut out = b"before".to_vec();
        gzip_stored(&plain[..len], &mut out);
        let blocks = len.div_ceil(65_535);
        assert_eq!(out.len(), 6 + len + 5 * blocks);
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
    let envelope = Envelope { topic: &topic, epoch, first: 1, last: offset, offsets: None, events };
    for (compressed, plain) in PAIRS {
        let len = |framing: Framing| {
            let mut out = Vec::new();
            framing.batch(&envelope, &mut out);
            out.len()
        };
        assert!(len(compressed) * 3 < len(plain), "{} of {}", len(compressed), len(plain));
    }
}

#[test]
fn what_is_for_one_subscriber_is_not_compressed() {
    let (topic, epoch) = ("cars".parse().expect("a topic"), "1".parse().expect("an epoch"));
    let envelope = Envelope { topic: &topic, epoch, first: 1, last: 0, offsets: None, events: b"" };
    let position = thalweg_wire::Position { epoch, offset: 0 };
    let gap = Gap { topic: &topic, position, missed: None, reason: thalweg_wire::GapReason::Epoch };
    for (compressed, plain) in PAIRS {
        let frames = |framing: Framing| {
            let mut out = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
            framing.batch(&envelope, &mut out[0]);
            framing.gap(&gap, &mut out[1]);
            framing.heartbeat(&mut out[2]);
            framing.close(thalweg_wire::close::DRAINING, &mut out[3]);
            out
        };
        for (frame, expected) in frames(compressed).into_iter().zip(frames(plain)) {
            assert!(frame.ends_with(&expected));
            assert_eq!(
                frame.len() - expected.len(),
                if plain == Framing::WebSocket { 0 } else { 5 }
            );
        }
    }
}
