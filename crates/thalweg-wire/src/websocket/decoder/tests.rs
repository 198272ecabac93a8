//! What the outside cannot see; the rest is in `tests/it/websocket/`.

use super::*;

const LIMIT: u32 = 100_000;

/// A client's binary message, masked with zeros.
fn message(payload_len: u32) -> Vec<u8> {
    let mut frame = vec![0x82, 0xff];
    frame.extend(u64::from(payload_len).to_be_bytes());
    frame.extend([0; 4]);
    frame.resize(frame.len() + payload_len as usize, 7);
    frame
}

#[test]
fn an_idle_decoder_is_tiny() {
    assert!(size_of::<Decoder>() <= 48);
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
