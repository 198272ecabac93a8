//! curl, and two Python clients: each prints the messages of a stream as they arrive, one per line, and
//! whether the stream has ended or the connection broke.

use std::net::SocketAddr;
use std::process::Command;

use crate::harness::Program;
use crate::python;

#[derive(Clone, Copy, Debug)]
pub(super) enum Reads {
    /// `requests`' `iter_lines()`.
    SseByRequests,
    LinesByRequests,
    /// `sseclient-py` on `requests`.
    SseBySseclient,
    SseByCurl,
    LinesByCurl,
}

pub(super) struct Client {
    program: Program,
    reads: Reads,
}

const REQUESTS: &str = r#"
import sys, requests
url, accept = sys.argv[1:]
try:
    with requests.get(url, headers={"Accept": accept}, stream=True, timeout=60) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line:
                print(line.decode(), flush=True)
except requests.exceptions.ChunkedEncodingError:
    sys.exit(18)
"#;

const SSECLIENT: &str = r#"
import sys, requests, sseclient
url, accept = sys.argv[1:]
try:
    with requests.get(url, headers={"Accept": accept}, stream=True, timeout=60) as answer:
        answer.raise_for_status()
        for event in sseclient.SSEClient(answer).events():
            print("data:" + event.data, flush=True)
except requests.exceptions.ChunkedEncodingError:
    sys.exit(18)
"#;

/// The exit status for incomplete data, of curl (`CURLE_PARTIAL_FILE`) and of the scripts above.
const CUT: i32 = 18;

impl Reads {
    pub(super) const ALL: [Self; 5] = [
        Self::SseByRequests,
        Self::LinesByRequests,
        Self::SseBySseclient,
        Self::SseByCurl,
        Self::LinesByCurl,
    ];

    pub(super) fn follow(self, address: SocketAddr, topics: &[&str]) -> Client {
        let topics: Vec<String> = topics.iter().map(|topic| format!("topic={topic}")).collect();
        let url = format!("http://{address}/v1/topics?{}", topics.join("&"));
        let accept = match self {
            Self::SseByRequests | Self::SseBySseclient | Self::SseByCurl => "text/event-stream",
            Self::LinesByRequests | Self::LinesByCurl => "application/x-ndjson",
        };
        let program = match self {
            Self::SseByRequests | Self::LinesByRequests => python::code(REQUESTS, &[&url, accept]),
            Self::SseBySseclient => python::code(SSECLIENT, &[&url, accept]),
            Self::SseByCurl | Self::LinesByCurl => {
                let accept = format!("Accept: {accept}");
                let arguments = ["-sSN", "--compressed", "-H", &accept, &url];
                Program::start(Command::new("curl").args(arguments))
            }
        };
        Client { program, reads: self }
    }
}

impl Client {
    pub(super) fn message(&mut self) -> String {
        loop {
            let line = self.program.line();
            let line = line.unwrap_or_else(|| panic!("{:?}: {}", self.reads, self.program.said()));
            let message = line.strip_prefix("data:").unwrap_or(&line);
            if message.starts_with('{') {
                return message.to_owned();
            }
        }
    }

    /// Waits for the end. Returns whether the client considers the stream complete.
    pub(super) fn has_ended_well(&mut self) -> bool {
        let (status, said) = self.program.end();
        match status.code() {
            Some(0) => true,
            Some(CUT) => false,
            _ => panic!("{:?}: {status}: {said}", self.reads),
        }
    }
}
