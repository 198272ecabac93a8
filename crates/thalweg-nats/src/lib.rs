//! Topics in NATS JetStream, through which several servers have the same order and history.
//!
//! A topic's events are messages of a JetStream stream, under the subject `thalweg.` and the topic in NATS's form. All
//! servers read all messages from the stream, including their own, in the same order.
//!
//! ```text
//! append ─► store ─► requests ─► NATS ─► reader ─► message ─► follower
//!
//! settings     the settings
//! broker       opened streams; the contract of a broker
//! offsets      sequence numbers as offsets                                   (pure)
//! connection   the one connection, and its losses
//! requests     requests, each with a deadline
//! api          requests to JetStream's API
//! setup        creation and checks of streams
//! incarnation  epochs of streams                                             (pure)
//! reader       reading a stream, and delivering its messages
//! consumer     a stream's consumer, which is created again when it is lost
//! direct_reads reading a stream without a consumer
//! checks       whether the stream still has its epoch
//! reply        sequence numbers of a delivered message                       (pure)
//! sequence     whether a message is missing                                  (pure)
//! message      a message as a record of its topic                            (pure)
//! direct       direct gets, which any replica answers
//! pages        older messages of one topic
//! health       whether this server has caught up                             (pure)
//! store        appends, with retries
//! stored_state parts of a keyed topic's state, and their index               (pure)
//! tallies      when the state of a keyed topic is to be stored                (pure)
//! compaction   stores these states, and removes older messages
//! leader       whether a message may have gone to a former leader
//! bucket       the bucket of tickets: creation and checks
//! tickets      keeping and redeeming tickets
//! ack          publish acknowledgements                                      (pure)
//! stream_state the state of a stream, for reader, store and readiness
//! counts       metrics
//! ```
//!
//! **Publishers** to these subjects are trusted: nodes do not check a message with the header `Thalweg: 1`. They check
//! any other message, which must have one event per line.

mod ack;
mod api;
mod broker;
mod bucket;
mod checks;
mod compaction;
mod connection;
mod consumer;
mod counts;
mod direct;
mod direct_reads;
mod health;
mod incarnation;
mod leader;
mod message;
mod offsets;
mod pages;
mod reader;
mod reply;
mod requests;
mod sequence;
mod settings;
mod setup;
mod store;
mod stored_state;
mod stream_state;
mod tallies;
mod tickets;
mod topic_list;

use std::{sync::LazyLock, time::Instant};

pub use broker::{Nats, open};
pub use counts::{ACK_LATENCY_US_BOUNDS, Counts};
#[doc(hidden)]
pub use offsets::{offset_of, sequence_of};
pub use settings::{Settings, StreamSettings, TicketSettings};
#[doc(hidden)]
pub use setup::config_of;

/// Returns the time since the first call, in µs, by a monotonic clock.
fn now_us() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX)
}
