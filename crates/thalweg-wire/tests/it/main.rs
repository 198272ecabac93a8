//! The wire against other implementations of it and its golden vectors.

mod vectors;
mod websocket;
