//! A shard's part of broker topics besides their feeds. These modules do not know the topics of a shard.

mod backfills;
mod history_backfill;
mod keyed_order;
mod order;
mod pauses;
mod store_answer;
mod stores;

use thalweg_core::fanout::FeedKey;
use thalweg_wire::Topic;

pub(super) use backfills::{BackfillMemory, Backfills, page_of};
pub(crate) use history_backfill::HistoryBackfill;
pub(super) use keyed_order::{KeyedOrder, WaitingPublish};
pub(super) use order::{BrokerOrder, BrokerStreams, SingleMessage};
pub(super) use pauses::{Paused, Pauses};
pub(super) use store_answer::StoreAnswer;
pub(super) use stores::{Stores, unavailable};

pub(super) trait BrokerTopics {
    /// Returns a broker topic that this shard owns, and its order.
    fn broker_topic(&mut self, key: FeedKey) -> Option<(&Topic, &mut BrokerOrder)>;
}
