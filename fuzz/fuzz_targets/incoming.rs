//! No message of a server makes a subscriber panic.

#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use thalweg_wire::incoming::Incoming;

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    text: &'a str,
    first: u64,
    offsets: Option<Vec<u64>>,
    events: Vec<bool>,
}

fuzz_target!(|input: Input<'_>| {
    read(input.text);
    let Input { first, events, .. } = input;
    let offsets =
        input.offsets.map_or(String::new(), |offsets| format!("\"offsets\":{offsets:?},"));
    read(&format!("{{\"first\":{first},{offsets}\"events\":{events:?}}}"));
});

fn read(text: &str) {
    if let Ok(incoming) = Incoming::parse(text) {
        incoming.kind();
    }
}
