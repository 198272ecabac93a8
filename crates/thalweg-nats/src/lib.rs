//! Topics kept by NATS JetStream: several servers with the same order and history.
//!
//! A topic's events are messages of a JetStream stream, under the subject `thalweg.` and the topic's
//! image. What a server stores it reads back like everybody else's, so all servers have one order.
//!
//! ```text
//! Store ─► store ─► requests ─► NATS ─► reader ─► message ─► Shards
//!
//! settings     what a user may set
//! backend      opened streams; the server's Backend
//! connection   the one connection, and when it was lost
//! requests     requests, each with a deadline
//! api          JetStream's requests, as far as they are needed
//! setup        streams are created, or checked, and made again
//! incarnation  which stream it is: epochs, and when there is another         (pure)
//! end          the server's end, as reader and store see it
//! reader       a stream as it is read: its messages are passed on
//! consumer     a stream's consumer: made, followed, made again
//! direct_reads a stream that is read without a consumer
//! looks        whether it is still the stream that was read
//! reply        where a message was in its stream                             (pure)
//! sequence     whether a message is missing                                  (pure)
//! message      what a message says: topic and events                         (pure)
//! direct       messages from any replica, without a consumer
//! pages        older messages of one topic, read again
//! health       whether this server has caught up                             (pure)
//! store        storing, with retries
//! leader       whether a leader that was sent a message leads no more
//! bucket       the bucket of tickets is created, or checked, and made again
//! tickets      keeping tickets, and redeeming each once
//! ack          what the stream answers to a message that is to be stored     (pure)
//! stream_state what reader, store and readiness share
//! counts       what is counted
//! ```
//!
//! **Who may publish** to the subjects is trusted: a message with the header `Thalweg: 1` is taken as
//! it is. A message without it is one event a line, and is checked.

mod ack;
mod api;
mod backend;
mod bucket;
mod connection;
mod consumer;
mod counts;
mod direct;
mod direct_reads;
#[doc(hidden)]
pub mod end;
mod health;
mod incarnation;
mod leader;
mod looks;
mod message;
mod pages;
mod reader;
mod reply;
mod requests;
mod sequence;
mod settings;
mod setup;
mod store;
mod stream_state;
mod tickets;

pub use backend::{Nats, open};
pub use counts::{ACK_LATENCY_US_BOUNDS, Counts};
pub use settings::{Settings, StreamSettings, TicketSettings};
#[doc(hidden)]
pub use setup::config_of;
