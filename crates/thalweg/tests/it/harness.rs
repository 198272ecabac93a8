//! The harness: runs the real binary, with clients that can send anything.
//!
//! - `raw`: a connection that may misbehave, in cleartext or over TLS
//! - `tls`: the client's side of TLS
//! - `frames`: HTTP/2 frames, also invalid ones
//! - `bystander`: a subscriber that must not notice an attack
//! - `signs`: metrics and memory of a server
//! - `server`: starts and stops `thalweg serve`
//! - `program`: runs other commands of the binary
//! - `terminal`: a terminal for a program
//! - `proxy`: a proxy that breaks connections
//! - `upstream`: an HTTP server to fetch from, which may send invalid responses
//! - `socket`: reads bytes with patience
//! - `chunks`: a chunked body
//! - `http`: requests and responses on a socket
//! - `http2`: a connection with many streams, each like a socket
//! - `websocket`: frames on a socket, also invalid ones
//! - `transport`: requests of each transport and protocol
//! - `message`: messages of the server
//! - `reader`: parses the bytes of each transport
//! - `subscriber`: receives messages over any transport

mod bystander;
mod chunks;
mod frames;
mod http;
mod http2;
mod message;
mod program;
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
mod upstream;
mod websocket;

pub(crate) use bystander::{ticking, unharmed, unharmed_over};
pub(crate) use frames::{H2, H2Frame, flag, frame, hpack, kind};
pub(crate) use http::{Published, Response, at, chunk, offset, request};
pub(crate) use http2::Http2;
pub(crate) use message::{Gap, Received, close};
pub(crate) use program::Program;
pub(crate) use proxy::Proxy;
pub(crate) use raw::{Answer, Duplex, Raw};
pub(crate) use server::{OPEN, PUBLISHER, STALLS_SOON, Server, TRUSTED, metric, outside};
pub(crate) use socket::Socket;
pub(crate) use subscriber::Subscriber;
pub(crate) use terminal::Terminal;
pub(crate) use tls::TlsClient;
pub(crate) use transport::{Line, Transport};
pub(crate) use upstream::{Reply, Upstream, response};
pub(crate) use websocket::{Frame, opcode};

pub(crate) use thalweg_testing::{
    LOOK_AGAIN_AFTER, Patience, connect, receive, skipped, try_receive, wait_for, wait_for_value,
};
