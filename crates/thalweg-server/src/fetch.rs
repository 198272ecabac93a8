//! Documents of topics that are fetched from an HTTP server, while somebody subscribes to them.
//!
//! One thread fetches for all shards, so that limits are those of the whole server and neither a
//! slow upstream nor a large document takes time of a shard: bodies are read, decompressed and
//! checked here. A topic's home shard says what is wanted, by a [`Demand`], and gets [`Fetched`]
//! documents, ready to be appended.
//!
//! ```text
//! fetcher    the thread: what is wanted, what is under way, what comes of it
//! schedule   which topic is fetched when, and how many at a time   (pure)
//! freshness  what a response says of that (RFC 9111)               (pure)
//! exchange   one fetch: a request, and what its response comes to
//! body       decoding, within bounds                               (pure)
//! host       connections
//! keys       the keys of signed tokens, on a thread of their own
//! redirect   where one leads                                   (pure)
//! gone       what upstreams do not have                            (pure)
//! tls        whom to trust
//! ```

mod body;
mod exchange;
mod fetcher;
mod freshness;
mod gone;
mod host;
mod keys;
mod redirect;
mod schedule;
mod tls;

use thalweg_wire::Topic;
use tokio::sync::mpsc;

use crate::connection_limits::Address;
pub(crate) use fetcher::Fetcher;
pub(crate) use keys::KeyReader;
use thalweg_core::stream::Payloads;

/// A shard's word on a topic: fetch it, or do not.
#[derive(Debug, Clone)]
pub(crate) enum Demand {
    /// Its home wants its document.
    Start {
        /// Where documents go.
        shard: usize,
        topic: Topic,
        /// The upstream's index in the configuration.
        upstream: usize,
        readers: Readers,
    },
    /// Several addresses read it from now on.
    Share(Topic),
    /// Its document is not wanted any more.
    Stop(Topic),
}

/// The addresses that read a topic. Those of a client that is not counted for one are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Readers {
    #[default]
    Nobody,
    One(Option<Address>),
    Several,
}

impl Readers {
    /// One more. Returns whether they have become several by this.
    pub(crate) fn add(&mut self, address: Option<Address>) -> bool {
        let before = *self;
        *self = match before {
            Self::Nobody => Self::One(address),
            Self::One(known) if known == address => before,
            Self::One(_) | Self::Several => Self::Several,
        };
        *self != before && *self == Self::Several
    }
}

/// What has come of a topic, for its home shard.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) topic: Topic,
    /// A document that differs from the one before, as one event; `None`: there is none, and
    /// asking again will not help for a while.
    pub(crate) document: Option<Payloads>,
    /// When it was asked for, in µs.
    pub(crate) asked_us: u64,
}

/// Where a shard's demands go.
pub(crate) type Demands = mpsc::Sender<Demand>;
