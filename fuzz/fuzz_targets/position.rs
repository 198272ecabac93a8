//! A position has exactly one text.

#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use thalweg_wire::{Epoch, Position, limits::OFFSET_MAX};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    text: &'a str,
    epoch: u64,
    offset: u64,
}

fuzz_target!(|input: Input<'_>| {
    if let Ok(position) = input.text.parse::<Position>() {
        assert_eq!(position.to_string(), input.text);
    }
    if let Ok(epoch) = input.text.parse::<Epoch>() {
        assert_eq!(epoch.to_string(), input.text);
    }
    if let Some(epoch) = Epoch::new(input.epoch) {
        let position = Position { epoch, offset: input.offset };
        let text = position.to_string();
        let is_offset = input.offset <= OFFSET_MAX;
        assert_eq!(text.parse::<Position>().ok(), is_offset.then_some(position), "{text}");

        let mut written = Vec::new();
        epoch.write(&mut written);
        assert_eq!(written, epoch.to_string().as_bytes());
        assert_eq!(written.len(), epoch.text_len());
    }
});
