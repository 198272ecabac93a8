//! Whatever a server sends, a subscriber does not fall over it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_wire::incoming::Incoming;

fuzz_target!(|text: &str| {
    if let Ok(incoming) = Incoming::parse(text) {
        incoming.kind();
    }
});
