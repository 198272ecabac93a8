//! Pauses of shared topics: written by the node that tells the time, and read by all, for queries.

use thalweg_wire::Topic;
use tokio::sync::mpsc::error::TrySendError;

use super::{
    Mail,
    fed_order::{Alone, Answer},
    local_topic::LocalTopic,
    pauses::{Paused, Pauses},
    topics::Topics,
};
use crate::{backend::offset_of, clock::now_us, config::PAUSE_MS_MIN, home::home_of};
use thalweg_core::{fanout::FeedKey, stream::Payloads};

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
        let after = order.newest;
        let Some(local) = self.feeds.get_mut(key).filter(|_| is_quiet) else { return };
        let is_known = local.pauses.since(next).any(|(_, known_ms)| known_ms >= ms);
        // Queries may wait for many different times.
        if is_known || !local.pauses.may_write(now_us(), PAUSE_MS_MIN * 1000) {
            return;
        }
        let mark = Alone::Paused { ms, after };
        self.store_in(key, &mut Payloads::default(), Some(mark), Answer::Nowhere);
    }

    /// A topic has paused, as its stream says.
    pub(super) fn take_pauses(&mut self, key: FeedKey, pauses: Pauses) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        if local.pauses.merge(pauses) && local.is_input {
            self.news.inputs.push(key);
        }
    }

    /// The same from a message of its stream.
    pub(super) fn take_pause(&mut self, stream: usize, topic: &Topic, sequence: u64, ms: u64) {
        let Some(key) = self.feeds.find(topic) else {
            // Who opens it from now on has it read back.
            return self.feeds.streams.move_known_from(stream);
        };
        if let Some((_, order)) = self.feeds.get_mut(key).and_then(LocalTopic::fed) {
            order.has_message(sequence);
        }
        self.take_pauses(key, Pauses::from_iter([(offset_of(sequence, 0), ms)]));
        self.mark_unposted(key);
    }
}
