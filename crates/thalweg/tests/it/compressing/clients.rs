//! Programs and browsers of other projects, which keep the context of the server by themselves.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{CARS, event, publish};
use crate::harness::{Program, Server, skipped};
use crate::proxies::{Behind, ProxyKind};
use crate::python;

#[derive(Clone, Copy, Debug)]
enum Client {
    PythonWebsockets,
    NodeWs,
    /// The WebSocket and the `fetch` of Node itself.
    NodeUndici,
    NodeFetch,
    PythonRequests,
    CurlEvents,
    CurlLines,
    /// `net/http` of Go, which inflates by itself.
    GoHttp,
    /// `HttpClient` and `GZIPInputStream` of Java.
    JavaGzip,
}

const WEBSOCKETS: &str = r#"
import sys
from websockets.sync.client import connect
with connect(sys.argv[1]) as socket:
    assert "permessage-deflate" in socket.response.headers["Sec-WebSocket-Extensions"]
    for message in socket:
        print(message, flush=True)
"#;

const REQUESTS: &str = r#"
import sys, requests
with requests.get(sys.argv[1], headers={"Accept": "text/event-stream"}, stream=True) as answer:
    assert answer.headers["Content-Encoding"] == "gzip"
    for line in answer.iter_lines(chunk_size=1):
        print(line.decode(), flush=True)
"#;

const NODE: &str = r#"
const WebSocket = require("ws");
const socket = new WebSocket(process.argv[1]);
socket.on("open", () => { if (!socket.extensions.includes("permessage-deflate")) process.exit(1); });
socket.on("message", (message) => console.log(String(message)));
"#;

const UNDICI: &str = r#"
const socket = new WebSocket(process.argv[1]);
socket.onopen = () => { if (!socket.extensions.includes("permessage-deflate")) process.exit(1); };
socket.onmessage = ({ data }) => console.log(data);
"#;

const FETCH: &str = r#"
(async () => {
  const response = await fetch(process.argv[1], { headers: { Accept: "text/event-stream" } });
  if (response.headers.get("content-encoding") !== "gzip") process.exit(1);
  for await (const part of response.body) process.stdout.write(part);
})();
"#;

impl Client {
    const ALL: [Self; 9] = [
        Self::PythonWebsockets,
        Self::NodeWs,
        Self::NodeUndici,
        Self::NodeFetch,
        Self::PythonRequests,
        Self::CurlEvents,
        Self::CurlLines,
        Self::GoHttp,
        Self::JavaGzip,
    ];

    /// Starts it; `None` if this machine cannot build it.
    fn start(self, address: SocketAddr) -> Option<Program> {
        let (http, ws) =
            (format!("http://{address}/v1/topics/cars"), format!("ws://{address}/v1/topics/cars"));
        let curl = |accept: &str| {
            let accept = format!("Accept: {accept}");
            Program::start(Command::new("curl").args([
                "-sSN",
                "--compressed",
                "-H",
                &accept,
                &http,
            ]))
        };
        Some(match self {
            Self::PythonWebsockets => python::code(WEBSOCKETS, &[&ws]),
            Self::PythonRequests => python::code(REQUESTS, &[&http]),
            Self::NodeWs => node(&["-e", NODE, &ws]),
            Self::NodeUndici => node(&["--experimental-websocket", "-e", UNDICI, &ws]),
            Self::NodeFetch => node(&["-e", FETCH, &http]),
            Self::CurlEvents => curl("text/event-stream"),
            Self::CurlLines => curl("application/x-ndjson"),
            Self::GoHttp => Program::start(Command::new(go_reader()?).arg(http)),
            Self::JavaGzip => {
                let folder = java_reader()?;
                Program::start(Command::new("java").arg("-cp").arg(folder).args(["Reader", &http]))
            }
        })
    }
}

/// The programs in the folder `compressing` are built here.
const BUILT: &str = env!("CARGO_TARGET_TMPDIR");

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/compressing").join(name)
}

fn go_reader() -> Option<&'static Path> {
    static READER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let program = Path::new(BUILT).join("compressing-reader");
        let mut command = Command::new("go");
        command.env("CGO_ENABLED", "0").args(["build", "-o"]).arg(&program);
        is_built(command.arg(source("reader.go"))).then_some(program)
    };
    READER.get_or_init(build).as_deref()
}

fn java_reader() -> Option<&'static Path> {
    static READER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let folder = Path::new(BUILT).join("compressing-java");
        let mut command = Command::new("javac");
        is_built(command.arg("-d").arg(&folder).arg(source("Reader.java"))).then_some(folder)
    };
    READER.get_or_init(build).as_deref()
}

/// Returns whether a compiler has built a program; `false` if there is no such compiler.
fn is_built(compiler: &mut Command) -> bool {
    match compiler.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped(&format!("there is no {} here", compiler.get_program().display()));
            false
        }
        output => {
            let output = output.expect("a compiler that runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

fn node(arguments: &[&str]) -> Program {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/node");
    Program::start(Command::new("node").current_dir(examples).args(arguments))
}

fn message(client: Client, program: &mut Program) -> String {
    loop {
        let line = program.line().unwrap_or_else(|| panic!("{client:?}: {}", program.said()));
        let message = line.strip_prefix("data:").unwrap_or(&line).trim_start();
        if message.starts_with(r#"{"topic""#) {
            return message.to_owned();
        }
    }
}

/// The second of each client comes when the topic has a context.
fn read_byte_for_byte(server: &Server, proxy: Option<SocketAddr>) {
    const EVENTS: u64 = 80;
    const LATER: u64 = 30;
    let mut clients = Vec::new();
    let mut come = |first| {
        for client in Client::ALL {
            let Some(mut program) = client.start(proxy.unwrap_or(server.address)) else { continue };
            assert!(message(client, &mut program).contains(r#""events":[]"#), "{client:?}");
            clients.push((client, first, program));
        }
    };
    come(0);
    (0..LATER).for_each(|number| publish(server, CARS, number));
    come(LATER);
    (LATER..EVENTS).for_each(|number| publish(server, CARS, number));
    for (client, first, mut program) in clients {
        for number in first..EVENTS {
            let message = message(client, &mut program);
            let ending = format!(r#""events":[{}]}}"#, event(number));
            assert!(message.ends_with(&ending), "{client:?}: {message}");
        }
    }
}

#[test]
fn clients_of_other_projects_read_every_message_byte_for_byte() {
    read_byte_for_byte(&Server::start(&["--compression", "--shards", "2"]), None);
}

#[test]
fn proxies_pass_on_messages_that_refer_to_earlier_ones() {
    for kind in [ProxyKind::Nginx, ProxyKind::HAProxy] {
        // A proxy cuts a stream that is silent for too long.
        let server = Server::start(&["--compression", "--heartbeat", "500ms"]);
        let Some(behind) = Behind::start(kind, server.address) else { continue };
        read_byte_for_byte(&server, Some(behind.address));
    }
}
