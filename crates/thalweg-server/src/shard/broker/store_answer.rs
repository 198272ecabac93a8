//! The receivers of the results of stores.

use std::sync::Arc;

use thalweg_wire::Topic;
use tokio::sync::oneshot;

use crate::{metrics::Counts, refusal::Refusal, shard::publish_result::PublishResult};

/// The receiver of the result of a store.
#[derive(Debug)]
pub(in crate::shard) enum StoreAnswer {
    Nowhere,
    /// This number of events of a source. Those that are not stored are counted.
    Source(u64, Arc<Counts>),
    /// A fetched document. A failure is logged.
    Fetched(Topic),
    Published(oneshot::Sender<Result<PublishResult, Refusal>>),
    /// A publish that was refused, unless it repeats one that the broker knows.
    Repeated(Box<(StoreAnswer, Refusal)>),
    Deleted(oneshot::Sender<Result<(), Refusal>>),
    /// Removals of expired keys, which are counted.
    Expired(Arc<Counts>),
}

impl StoreAnswer {
    /// Sends the result. The receiver may be gone.
    pub(in crate::shard) fn send(self, result: Result<PublishResult, Refusal>) {
        match self {
            Self::Nowhere => {}
            Self::Source(count, counts) => {
                if let Err(refused) = result {
                    counts.source_events_refused.add(count - refused.published_count());
                }
            }
            Self::Fetched(topic) => {
                if let Err(refused) = result {
                    tracing::warn!(%topic, why = refused.message, "cannot store a fetched document");
                }
            }
            Self::Published(answer) => drop(answer.send(result)),
            Self::Repeated(refused) => match (*refused, result) {
                ((answer, _), Ok(result)) => answer.send(Ok(result)),
                ((answer, _), Err(other)) => answer.send(Err(other)),
            },
            Self::Deleted(answer) => drop(answer.send(result.map(drop))),
            // Keys that are not removed expire again.
            Self::Expired(counts) => {
                counts.keys_expired.add(result.map_or(0, |result| result.count));
            }
        }
    }

    /// Sends the result of an append whose condition is not met.
    pub(super) fn outdated(self) {
        if let Self::Repeated(refused) = self {
            let (answer, refusal) = *refused;
            answer.send(Err(refusal));
        }
    }
}
