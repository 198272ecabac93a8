//! Thalweg's client: subscribes over any transport of `docs/reference/subscribing.md` and resumes by itself, publishes
//! idempotently, reads history, and sends commands. Needs a tokio runtime.
//!
//! ```no_run
//! # async fn example() -> Result<(), thalweg_client::Error> {
//! use thalweg_client::{Client, Options, Subscribe, Update};
//!
//! let client = Client::new("http://127.0.0.1:8080", Options::default())?;
//! let topic = "cars".parse()?;
//! client.publish(&topic, r#"{"speed":39}"#).await?;
//! let mut subscription = client.subscribe(vec![topic], Subscribe::default())?;
//! loop {
//!     match subscription.next().await? {
//!         Update::Events(events) => events.iter().for_each(|(_, event)| println!("{event}")),
//!         Update::Gap(gap) => eprintln!("missed {:?}", gap.missed),
//!         Update::Ended(_) | Update::Closed(_) => return Ok(()),
//!         Update::Connected(_) | Update::Disconnected(_) => {}
//!     }
//! }
//! # }
//! ```
//!
//! ```text
//! pure     target          parses and builds URLs
//!          framing         bytes of a transport → messages
//!          message         one parsed message
//!          cursors         each topic's cursor: nothing twice, nothing lost silently
//!          document        the newest version of a value topic, to apply patches to
//!          ending, backoff whether and when to reconnect
//! thin     tls, link       a connection: TCP, TLS, HTTP/1.1 or HTTP/2
//!          exchange        requests and answers on kept connections
//!          carrier         a transport as messages in, acks out
//! public   options, update, published, error
//!          keyed_map       the newest event of each key
//!          client          and its publishing, reading and commands
//!          probe           one request and its raw answer, for diagnosis
//!          subscription    the loop: connect, receive, reconnect
//! ```

mod backoff;
mod carrier;
mod client;
mod cursors;
mod document;
mod ending;
mod error;
mod exchange;
mod framing;
mod keyed_map;
mod limits;
mod link;
mod message;
mod options;
mod patch;
mod probe;
mod publish;
mod published;
mod read;
mod subscription;
mod target;
mod tls;
mod update;

pub use client::Client;
pub use error::{Error, Refusal};
pub use keyed_map::{KeyedChange, KeyedMap};
pub use options::{Http, Options, Policy, Subscribe, Transport};
pub use probe::{Probe, ProbeAnswer};
pub use publish::text_event;
pub use published::Published;
pub use read::{Explanation, Missing, Read, TopicSummary};
pub use subscription::Subscription;
pub use thalweg_wire::{
    Offset, Position, StartAt, Topic, limits::NEWEST_MAX, position::CursorError, topic::TopicError,
};
pub use update::{Closed, Connected, Disconnected, Events, Gap, GapReason, TopicEnd, Update};
