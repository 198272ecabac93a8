//! The harness: runs the real binary, with clients that can send anything.
//!
//! - `raw`: a connection that may misbehave, in cleartext or over TLS
//! - `tls`: the client's side of TLS
//! - `frames`: HTTP/2 frames, also invalid ones
//! - `bystander`: a subscriber that must not notice an attack
//! - `signs`: metrics and memory of a server
//! - `server`: starts and stops `thalweg serve`
//! - `terminal`: a terminal for a program
//! - `proxy`: a proxy that breaks connections
//! - `socket`: reads bytes with patience
//! - `chunks`: a chunked body
//! - `http`: requests and responses on a socket
//! - `http2`: a connection with many streams, each like a socket
//! - `websocket`: frames on a socket, also invalid ones
//! - `transport`: requests of each transport and protocol
//! - `message`: messages of the server
//! - `reader`: parses the bytes of each transport
//! - `subscriber`: receives messages over any transport

use std::process::Command;

mod bystander;
mod chunks;
mod frames;
mod http;
mod http2;
mod message;
mod proxy;
mod raw;
mod reader;
mod server;
mod signs;
mod socket;
mod subscriber;
mod terminal;
mod tls;
mod transport;
mod websocket;

pub(crate) use bystander::{ticking, unharmed, unharmed_over};
pub(crate) use frames::{H2, H2Frame, flag, frame, hpack, kind};
pub(crate) use http::{Published, Response, at, chunk, offset, request};
pub(crate) use http2::Http2;
pub(crate) use message::{Gap, Received, close};
pub(crate) use proxy::Proxy;
pub(crate) use raw::{Answer, Duplex, Raw};
pub(crate) use server::{OPEN, PUBLISHER, STALLS_SOON, Server, TRUSTED, metric, outside};
pub(crate) use socket::Socket;
pub(crate) use subscriber::Subscriber;
pub(crate) use terminal::Terminal;
pub(crate) use tls::TlsClient;
pub(crate) use transport::{Line, Transport};
pub(crate) use websocket::{Frame, opcode};

pub(crate) use thalweg_testing::{
    LOOK_AGAIN_AFTER, Patience, Program, Reply, Upstream, connect, receive, response, skipped,
    try_receive, wait_for, wait_for_value,
};

/// Starts another command of the program than `serve`.
pub(crate) fn thalweg(arguments: &[&str]) -> Program {
    Program::start(Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments))
}
