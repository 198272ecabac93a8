//! A broker that leaves no offset out.

use thalweg_broker_tests::{conformance, memory::Streams};

use crate::{Memory, PATTERNS};

conformance!(|| Some(Memory(Streams::dense(&PATTERNS))));
