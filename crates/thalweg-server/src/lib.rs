//! The push server.
pub mod fanout;
pub mod stream;
