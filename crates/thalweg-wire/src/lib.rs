//! The wire between Thalweg and its publishers and subscribers, as `docs/reference` specifies it. Pure: no I/O, no
//! clock, no runtime.
//!
//! ```text
//! topic, pattern, position,
//! event                       the nouns, checked when they are parsed
//! envelope, notice            messages to subscribers, as JSON
//! stream_start                the start of a stream of columns, as header fields
//! format                      messages as frames of each transport
//! command, answer             a client's commands and their answers
//! incoming                    a subscriber's parser of messages
//! key, key_filter             keys of events, and filters of them
//! authority                   the port of a URL
//! excerpt                     a peer's text within an error message
//! websocket                   RFC 6455, server side, sans I/O
//! signalr                     SignalR's JSON hub protocol, server side, sans I/O
//! close, error, limits        the contracts, each in one place
//! ```

pub mod answer;
pub mod authority;
pub mod close;
pub mod command;
pub mod envelope;
pub mod error;
pub mod event;
pub mod excerpt;
pub mod format;
pub mod incoming;
pub mod key;
pub mod key_filter;
pub mod limits;
pub mod notice;
pub mod pattern;
pub mod position;
pub mod signalr;
pub mod stream_start;
pub mod topic;
pub mod websocket;

pub use close::Close;
pub use envelope::{Before, Envelope, Keyed};
pub use error::ErrorCode;
pub use excerpt::Excerpt;
pub use format::{ContextUse, ContextWindow, Format, Framing, SharedContext};
pub use key::{Condition, KeyError, KeyPointer};
pub use key_filter::{FilterError, KeyFilter};
pub use notice::{End, EndCode, Gap, GapReason};
pub use pattern::Pattern;
pub use position::{Epoch, Offset, Position, StartAt};
pub use stream_start::{Resume, StreamStart};
pub use topic::Topic;
