//! The wire against other implementations of it, its golden vectors, and
//! itself.

mod arbitrary;
mod forever_frame;
mod server_sent_events;
mod vectors;
mod websocket;
mod wire_properties;
