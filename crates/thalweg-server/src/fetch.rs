//! Fetches documents of topics from HTTP servers while clients subscribe to them.
//!
//! One thread fetches for all shards: limits apply to the whole server, and neither a slow upstream nor a large
//! document takes time of a shard. The thread reads, decompresses and checks bodies. A topic's owner shard sends a
//! [`FetchDemand`], and receives [`Fetched`] documents, ready to be appended.
//!
//! ```text
//! fetcher    the thread: demands, fetches in flight, results
//! schedule   times of fetches, and how many are in flight   (pure)
//! freshness  caching headers of responses (RFC 9111)        (pure)
//! exchange   one fetch: a request and its result
//! body       decoding, within bounds                        (pure)
//! host       connections
//! keys       the keys of signed tokens, on their own thread
//! redirect   the target of a redirect                       (pure)
//! gone       documents that upstreams do not have           (pure)
//! tls        trusted certificates
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

use thalweg_core::stream::Payloads;
use thalweg_wire::Topic;
use tokio::sync::mpsc;

use crate::connection_limits::Address;
pub(crate) use fetcher::Fetcher;
pub(crate) use keys::KeyReader;

/// A shard's demand for a topic's document.
#[derive(Debug, Clone)]
pub(crate) enum FetchDemand {
    Start {
        /// The shard that receives documents.
        shard: usize,
        topic: Topic,
        /// The upstream's index in the configuration.
        upstream: usize,
        readers: Readers,
    },
    /// Several addresses read the topic from now on.
    Share(Topic),
    Stop(Topic),
}

/// The addresses that read a topic. A client that is not counted has `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Readers {
    #[default]
    Nobody,
    One(Option<Address>),
    Several,
}

impl Readers {
    /// Adds a reader. Returns whether there are several addresses now and were not before.
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

/// The result of a topic's fetch, for its owner shard.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) topic: Topic,
    /// The changed document as one event. `None` if the upstream has none; fetching again is useless for a while.
    pub(crate) document: Option<Payloads>,
    /// The time of the request, in µs.
    pub(crate) asked_us: u64,
}

pub(crate) type Demands = mpsc::Sender<FetchDemand>;
