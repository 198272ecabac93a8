//! The wire against other implementations of it, its golden vectors, and
//! itself.

mod vectors;
mod websocket;
mod wire_properties;
