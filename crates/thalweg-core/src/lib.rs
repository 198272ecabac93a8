//! The pure core of the push server. It has no socket, no clock and no runtime: the caller passes the time
//! as `now_us`, and a socket as a [`fanout::Sink`].
//!
//! ```text
//! dispatch  static dispatch from an enum to its variants
//! stream    a topic's ordered, bounded history, and the bytes of its newest part
//! fanout    subscribers: their cursors in the history, and the bytes that each of them gets next
//! patch     patches between JSON documents
//! ```

#[macro_use]
mod dispatch;
pub mod fanout;
pub mod patch;
pub mod stream;
