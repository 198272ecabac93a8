//! What the tests stand on: the real binary, and clients small enough to send
//! it anything.
//!
//! - `raw`: a connection that may misbehave, in cleartext or over TLS
//! - `tls`: the client's side of TLS
//! - `frames`: frames of HTTP/2, wrong ones too
//! - `bystander`: someone who is to notice nothing of it
//! - `signs`: what shows how a server is
//! - `server`: starts `thalweg serve`, stops it
//! - `program`: runs the binary's other commands
//! - `terminal`: a terminal for a program
//! - `proxy`: stands between, and cuts connections
//! - `upstream`: what is fetched from, which may answer wrongly
//! - `socket`: bytes, awaited with patience
//! - `chunks`: a body in chunks
//! - `http`: requests and responses on a socket
//! - `http2`: a connection of many streams, each as a socket
//! - `websocket`: frames on a socket, wrong ones too
//! - `transport`: what is asked for, over which protocol
//! - `message`: what the server says
//! - `reader`: a transport's bytes as messages, one reader for each
//! - `subscriber`: what a subscriber hears, whatever the transport

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
pub(crate) use message::{Gap, Heard, close};
pub(crate) use program::Program;
pub(crate) use proxy::Proxy;
pub(crate) use raw::{Answer, Duplex, Raw};
pub(crate) use server::{Server, TRUSTED, metric, outside};
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
