//! A broker that begins each record at a multiple of 256.

use thalweg_broker_tests::{conformance, memory::Streams};

use crate::{Memory, PATTERNS};

conformance!(|| Some(Memory(Streams::new(&PATTERNS))));
