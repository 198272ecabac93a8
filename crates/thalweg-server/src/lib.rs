//! The push server.
