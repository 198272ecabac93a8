//! Tests the wire against other implementations, its golden vectors, and itself.

mod arbitrary;
mod client;
mod compression;
mod forever_frame;
mod server_sent_events;
mod signalr;
mod vectors;
mod websocket;
mod wire_properties;
