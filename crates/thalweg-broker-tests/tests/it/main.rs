//! The suite beside the broker in memory, as it is and with bugs.

mod bugs;
mod contention;
mod dense;
mod sparse;

use std::{future::ready, ops::Range};

use thalweg_broker_tests::{
    Rig,
    memory::{Bug, FaultyBroker, Streams},
};
use thalweg_wire::Offset;

const PATTERNS: [&str; 3] = ["log/**", "=values/**", "#keys/**"];

struct Memory(Streams);

impl Memory {
    fn with_bug(bug: Bug) -> Self {
        Self(Streams::with_bug(&PATTERNS, bug))
    }
}

impl Rig for Memory {
    type Broker = FaultyBroker;

    fn open(&self) -> impl Future<Output = Result<FaultyBroker, String>> + Send + 'static {
        ready(Ok(self.0.broker()))
    }

    fn restart(&mut self) {
        self.0.cut(true);
        self.0.cut(false);
    }

    fn trim(&mut self) {
        self.0.trim();
    }

    fn lose(&mut self, records: Range<Offset>) -> bool {
        self.0.lose(records);
        true
    }

    fn renew(&mut self) {
        self.0.restart();
    }

    fn cut(&mut self, is_cut: bool) {
        self.0.cut(is_cut);
    }
}
