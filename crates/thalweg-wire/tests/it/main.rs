//! The wire against other implementations of it.

mod websocket;
