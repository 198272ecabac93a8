//! Ways out: the only place with subscribers' sockets.
//!
//! ```text
//! negotiate     a request → which transport, topics, cursors, policy
//! head          the response head that begins a transport
//! socket        a non-blocking socket as fan-out's sink
//! connection    a socket and its subscriber; what it says comes back in
//! ```
//!
//! A transport is only a framing and a head: all of them deliver through
//! `fanout`'s one loop.

mod connection;
mod head;
mod negotiate;
mod socket;

pub(crate) use connection::{Connection, Heard};
pub(crate) use negotiate::{Ask, negotiate};
pub(crate) use socket::Socket;
