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

use crate::stream::Payloads;
pub(crate) use fetcher::Fetcher;
pub(crate) use keys::KeyReader;

/// A topic's home says that its document is wanted, or not any more.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    /// Where documents go.
    pub(crate) shard: usize,
    pub(crate) topic: Topic,
    /// The upstream's index in the configuration; `None`: it is not wanted any more.
    pub(crate) upstream: Option<usize>,
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
