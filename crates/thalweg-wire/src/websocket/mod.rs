//! The server's side of the WebSocket protocol (RFC 6455), bytes in and bytes out: no socket, no clock. The only
//! extension is permessage-deflate (RFC 7692). Clients compress without context takeover, so their messages share no state.
//!
//! - [`accept_key`] answers the opening handshake (§4.2.2), [`deflate_offer`] its extensions.
//! - [`Decoder`] turns a client's bytes into [`Message`]s (§5, §6.2); a [`ProtocolError`] has the close code to answer
//!   with (§7.4.1).
//! - [`text_header`], [`ping`], [`pong`] and [`close`] write the server's frames. They are unmasked (§5.1), and one
//!   finished frame serves every subscriber: a text frame is its header followed by the shared payload.

mod decoder;
mod error;
mod extension;
mod frame;
mod handshake;
mod header;
mod inflate;
mod mask;

pub use decoder::{Decoder, Message};
pub use error::ProtocolError;
pub use extension::deflate_offer;
pub use frame::{
    binary_header, close, deflated_text_header, ping, pong, text_header, text_header_len,
};
pub use handshake::{BadKey, accept_key};

/// The longest payload of a control frame (RFC 6455 §5.5).
const CONTROL_BYTES_MAX: usize = 125;
