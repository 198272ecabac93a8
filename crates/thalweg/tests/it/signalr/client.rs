//! The official client in Node, driven by lines.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use crate::harness::Program;

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/signalr/client.mjs");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/node");

pub(super) struct HubClient {
    pub(super) program: Program,
    /// Its lines besides the awaited ones.
    unread: Vec<(String, Value)>,
}

impl HubClient {
    pub(super) fn new(address: &str, transport: &str, token: Option<&str>) -> Self {
        let installed = Path::new(EXAMPLES).join("node_modules/@microsoft/signalr");
        assert!(installed.exists(), "the client is not installed: run make setup");
        let url = format!("http://{address}/hub");
        let mut command = Command::new("node");
        command.arg(DRIVER).args([EXAMPLES, &url, transport]).args(token);
        Self { program: Program::start(&mut command), unread: Vec::new() }
    }

    pub(super) fn start(address: &str, transport: &str, token: Option<&str>) -> Self {
        let mut client = Self::new(address, transport, token);
        client.say(&json!(["start"]));
        client.next("started");
        client
    }

    pub(super) fn say(&mut self, command: &Value) {
        self.program.give(&format!("{command}\n"));
    }

    /// Waits until it says something of this kind. Other kinds wait for their turn.
    pub(super) fn next(&mut self, kind: &str) -> Value {
        if let Some(at) = self.unread.iter().position(|(unread, _)| unread == kind) {
            return self.unread.remove(at).1;
        }
        loop {
            let line = self.program.line();
            let line = line.unwrap_or_else(|| panic!("no {kind}: {}", self.program.said()));
            let (said, value): (String, Value) = serde_json::from_str(&line).expect("a line");
            if said == kind {
                return value;
            }
            self.unread.push((said, value));
        }
    }

    /// Returns everything of this kind that it has said and that no test has awaited.
    pub(super) fn take(&mut self, kind: &str) -> Vec<Value> {
        let taken = self.unread.extract_if(.., |(unread, _)| unread == kind);
        taken.map(|(_, value)| value).collect()
    }

    /// Stops it. It has said nothing that was not expected.
    pub(super) fn stop(mut self) {
        self.say(&json!(["stop"]));
        assert_eq!(self.next("closed"), Value::Null);
        // Streams that are open end with the connection.
        let is_cancelled =
            |value: &Value| value.as_str().is_some_and(|it| it.starts_with("Invocation canceled"));
        let is_error = |kind: &str| ["error", "broken"].contains(&kind);
        self.unread.retain(|(kind, value)| !is_error(kind) || !is_cancelled(value));
        assert_eq!(self.unread, [], "unexpected");
        let (status, said) = self.program.end();
        assert!(status.success(), "{said}");
    }
}
