//! The server's side of the WebSocket protocol (RFC 6455), bytes in and bytes
//! out: no socket, no clock, no extension.
//!
//! - [`accept_key`] answers the opening handshake (§4.2.2).
//! - [`Decoder`] turns what a client sends into [`Message`]s (§5, §6.2); a
//!   [`ProtocolError`] knows the close code to answer with (§7.4.1).
//! - [`text_header`], [`ping`], [`pong`] and [`close`] write the server's
//!   frames. They are unmasked (§5.1), so one finished frame serves every
//!   subscriber: a text frame is its header followed by the shared payload.

mod decoder;
mod error;
mod frame;
mod handshake;
mod header;
mod mask;

pub use decoder::{Decoder, Message};
pub use error::ProtocolError;
pub use frame::{binary_header, close, ping, pong, text_header, text_header_len};
pub use handshake::{BadKey, accept_key};

/// The longest payload of a control frame (RFC 6455 §5.5).
const CONTROL_BYTES_MAX: usize = 125;
