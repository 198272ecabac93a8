//! The wire, as `docs/wire.md` specifies it: what publishers and subscribers
//! of Thalweg see. Pure: no I/O, no clock, no runtime.
//!
//! ```text
//! topic, pattern, position,
//! event                       the nouns, checked where they enter
//! envelope, notice            what a subscriber is told, as JSON
//! stream_start                where a stream of columns begins, as header fields
//! format                      the same, as one transport's frames
//! command, answer             what a client asks for, and what it is told
//! incoming                    a subscriber's reading of all that
//! excerpt                     a peer's text within a message
//! websocket                   RFC 6455, server side, sans I/O
//! close, error, limits        the contracts, each in one place
//! ```

pub mod answer;
pub mod close;
pub mod command;
pub mod envelope;
pub mod error;
pub mod event;
pub mod excerpt;
pub mod format;
pub mod incoming;
pub mod limits;
pub mod notice;
pub mod pattern;
pub mod position;
pub mod stream_start;
pub mod topic;
pub mod websocket;

pub use close::Close;
pub use envelope::{Before, Envelope};
pub use error::ErrorCode;
pub use excerpt::Excerpt;
pub use format::{Format, Framing};
pub use notice::{End, EndCode, Gap, GapReason};
pub use pattern::Pattern;
pub use position::{Epoch, Offset, Position, StartAt};
pub use stream_start::{Resume, StreamStart};
pub use topic::Topic;
