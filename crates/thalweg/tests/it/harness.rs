//! What the tests stand on: the real binary, and clients small enough to send
//! it anything.
//!
//! - `server`: starts `thalweg serve`, stops it
//! - `program`: runs the binary's other commands
//! - `proxy`: stands between, and cuts connections
//! - `socket`: bytes with a deadline
//! - `http`: requests and responses on a socket
//! - `websocket`: frames on a socket, wrong ones too
//! - `subscriber`: what a subscriber hears, whatever the transport

mod http;
mod program;
mod proxy;
mod server;
mod socket;
mod subscriber;
mod websocket;

pub(crate) use http::{Published, Response, chunk, offset, request};
pub(crate) use program::Program;
pub(crate) use proxy::Proxy;
pub(crate) use server::Server;
pub(crate) use socket::{DEADLINE, Socket};
pub(crate) use subscriber::{Gap, Heard, Subscriber, Transport};
pub(crate) use websocket::{Frame, opcode};
