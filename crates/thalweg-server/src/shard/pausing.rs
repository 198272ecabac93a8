//! Pauses of shared topics: written by the node that tells the time, and read by all, for queries.

use thalweg_wire::{Offset, Topic};
use tokio::sync::mpsc::error::TrySendError;

use super::{
    Mail,
    fed_order::{Alone, Answer},
    local_topic::LocalTopic,
    pauses::Paused,
    topics::Topics,
};
use crate::{backend::offset_of, fanout::FeedKey, home::home_of, stream::Payloads};

impl Topics {
    /// Has it written that a shared topic has paused. Best effort: whoever waits asks again.
    pub(super) fn tell_pause(&mut self, paused: Paused) {
        let home = home_of(&paused.topic, self.common.peers.len());
        if home == self.shard {
            return self.write_pause(paused);
        }
        match self.common.peers[home].publishes.try_send(Mail::Paused(paused)) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {}
        }
    }

    /// Has it stored behind the topic's newest message, and only there.
    pub(super) fn write_pause(&mut self, paused: Paused) {
        let Paused { topic, next, ms } = paused;
        let Some(key) = self.feeds.find(&topic) else { return };
        let Some((feed, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) else { return };
        let is_quiet = feed.head() <= next && !order.holds_events();
        if is_quiet && feed.head() > 0 {
            let mark = Alone::Paused { ms, after: order.newest };
            self.store_in(key, &mut Payloads::default(), Some(mark), Answer::Nowhere);
        }
    }

    /// A topic has paused, as its stream says.
    pub(super) fn take_pauses(
        &mut self,
        key: FeedKey,
        pauses: impl IntoIterator<Item = (Offset, u64)>,
    ) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let mut is_new = false;
        for (at, ms) in pauses {
            local.pauses.insert(at, ms);
            is_new = true;
        }
        if is_new && local.is_input {
            self.news.inputs.push(key);
        }
    }

    /// The same from a message of its stream.
    pub(super) fn take_pause(&mut self, topic: &Topic, sequence: u64, ms: u64) {
        let Some(key) = self.feeds.find(topic) else { return };
        if let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) {
            order.has_message(sequence);
        }
        self.take_pauses(key, [(offset_of(sequence, 0), ms)]);
        self.mark_unposted(key);
    }
}
