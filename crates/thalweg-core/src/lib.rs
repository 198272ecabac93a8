//! The pure core of the push server: topics' histories, and who gets what next. No socket, no clock, no
//! runtime: time comes in as `now_us`, sockets are a [`fanout::Sink`].
//!
//! ```text
//! stream  a topic's ordered, bounded history, and the bytes of its newest part
//! fanout  subscribers: cursors into that, and what each is due
//! patch   the way from one JSON document to another
//! ```

pub mod fanout;
pub mod patch;
pub mod stream;
