//! Tests of internals; all others are in `tests/it/websocket/`.

use flate2::{Compress, Compression, FlushCompress};

use super::*;

const LIMIT: u32 = 100_000;

fn message(payload_len: u32) -> Vec<u8> {
    let mut frame = vec![0x82, 0xff];
    frame.extend(u64::from(payload_len).to_be_bytes());
    frame.extend([0; 4]);
    frame.resize(frame.len() + payload_len as usize, 7);
    frame
}

#[test]
fn an_idle_decoder_is_tiny() {
    assert!(size_of::<Decoder>() <= 56);
    assert_eq!(Decoder::new(LIMIT).buffer.capacity(), 0);
}

#[test]
fn memory_follows_what_was_received() {
    let mut decoder = Decoder::new(u32::MAX);
    let mut input = message(70_000);
    // Claims 2^32 - 1 bytes.
    input[6..10].fill(0xff);
    decoder.push(&input[..1014], &mut |_| {}).expect("a binary message");
    assert!(decoder.buffer.capacity() <= 2000);
}

#[test]
fn memory_of_a_large_message_is_given_back() {
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(&message(70_000), &mut |_| {}).expect("a binary message");
    assert_eq!(decoder.buffer.capacity(), 0);

    let small = [&[0x82, 0xfe, 0x10, 0, 0, 0, 0, 0][..], &[7; 4096]].concat();
    decoder.push(&small, &mut |_| {}).expect("a binary message");
    assert_eq!(decoder.buffer.capacity(), 4096);
    decoder.push(&[0x88, 0x80, 0, 0, 0, 0], &mut |_| {}).expect("a close");
    assert_eq!(decoder.buffer.capacity(), 0);
}

fn deflated(plain_len: usize) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(9), false);
    let mut payload = Vec::with_capacity(1000);
    let zeros = vec![0; plain_len];
    compress.compress_vec(&zeros, &mut payload, FlushCompress::Finish).expect("deflates");
    // The last block ends within a byte.
    payload.push(0);
    assert!(payload.len() < 126);
    [&[0xc2, 0x80 | payload.len() as u8, 0, 0, 0, 0][..], &payload].concat()
}

#[test]
fn messages_are_taken_one_at_a_time() {
    let mut decoder = Decoder::inflating(LIMIT);
    let (one, ping) = (deflated(10_000), [0x89, 0x80, 0, 0, 0, 0]);
    let input = [&one[..], &ping, &one, &one[..7]].concat();
    let mut rest = &input[..];
    let mut left = Vec::new();
    while !rest.is_empty() {
        let mut received = 0;
        decoder.next(&mut rest, &mut |_| received += 1).expect("messages");
        assert_eq!(received, usize::from(!rest.is_empty()));
        left.push(rest.len());
    }
    assert_eq!(left, [one.len() + 6 + 7, one.len() + 7, 7, 0]);
    assert!(decoder.is_unfinished());
}

fn in_proportion() -> Decoder {
    let mut decoder = Decoder::inflating(LIMIT);
    decoder.set_message_bytes_max(LIMIT, true);
    decoder
}

#[test]
fn messages_inflate_in_proportion_to_all_received_bytes() {
    let mut decoder = in_proportion();
    let (message, plain_len) = (deflated(10_000), 10_000);
    let came = message.len() - 6;
    let messages = (0..).take_while(|_| decoder.push(&message, &mut |_| {}).is_ok()).count();
    let earned = INFLATED_BYTES as usize + (messages + 1) * came * INFLATED_PER_BYTE as usize;
    assert_eq!(messages, earned / plain_len);
    // Uncompressed messages do not count, and a sender that stays within the ratio has no end.
    let mut decoder = in_proportion();
    let message = deflated(12);
    assert!((message.len() - 6) * INFLATED_PER_BYTE as usize >= 12);
    for _ in 0..10_000 {
        decoder.push(&message, &mut |_| {}).expect("a compressed message");
    }
}
