//! A script hands over exactly the envelope, and nothing in it is markup.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_wire::{Before, Envelope, Epoch, Format, event::push_json, limits::EVENT_BYTES};

fuzz_target!(|published: &[u8]| {
    let mut events = Vec::new();
    if push_json(published, EVENT_BYTES, &mut events).is_err() {
        return;
    }
    let (Ok(topic), Some(epoch)) = ("a/b".parse(), Epoch::new(1)) else { return };
    let envelope = Envelope {
        topic: &topic,
        epoch,
        first: 1,
        last: 1,
        offsets: None,
        keyed: None,
        before: Before::Adjacent,
        events: &events,
    };
    let mut json = Vec::new();
    envelope.write(&mut json);
    let mut script = Vec::new();
    Format::FOREVER_FRAME.batch(&envelope, &mut script);

    let argument = script.strip_prefix(b"receive('").expect("a call");
    let argument = argument.strip_suffix(b"')</script>\n").expect("an end");
    check(argument, &json);
});

/// `argument` is `json`, but for five characters that stand as escapes.
fn check(mut argument: &[u8], mut json: &[u8]) {
    while let Some((byte, rest)) = json.split_first() {
        let (written, taken): (&[u8], usize) = match json {
            [b'\\', ..] => (b"\\\\", 1),
            [b'\'', ..] => (b"\\'", 1),
            [b'<', ..] => (b"\\u003c", 1),
            [0xe2, 0x80, 0xa8, ..] => (b"\\u2028", 3),
            [0xe2, 0x80, 0xa9, ..] => (b"\\u2029", 3),
            _ => (std::slice::from_ref(byte), 1),
        };
        argument = argument.strip_prefix(written).expect("the same, or its escape");
        json = &rest[taken - 1..];
    }
    assert_eq!(argument, b"");
}
