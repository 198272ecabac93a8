//! How topics end and go.

use thalweg_wire::{EndCode, Topic};
use tokio::sync::oneshot;

use super::{
    fed_order::{Alone, Answer},
    feeds::random_epoch,
    local_topic::{Ending, LocalTopic},
    topics::Topics,
};
use crate::{clock::now_us, config::ASKED_TOPICS, refusal::Refusal};
use thalweg_core::{fanout::FeedKey, stream::Payloads};

impl Topics {
    /// Deletes a topic whose home is this shard. One that is fed is there if its stream has it.
    ///
    /// Its answer is an error when there is none, or sources make its events or read them.
    pub(super) fn delete(&mut self, topic: &Topic, answer: oneshot::Sender<Result<(), Refusal>>) {
        let key = match self.deletable(topic) {
            Ok(key) => key,
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        if self.is_fed(topic) {
            let mut none = Payloads::default();
            return self.store_in(key, &mut none, Some(Alone::Deleted), Answer::Deleted(answer));
        }
        self.end(key, Ending::Told(EndCode::Deleted), now_us());
        // The publisher may be gone by then.
        let _ = answer.send(Ok(()));
    }

    fn deletable(&mut self, topic: &Topic) -> Result<FeedKey, Refusal> {
        if self.common.config.upstream(topic).is_some() {
            return Err(Refusal::fetched(topic));
        }
        if topic.as_str().starts_with(ASKED_TOPICS) {
            return Err(Refusal::derived(topic));
        }
        let key = match self.is_fed(topic) {
            true => self.open_fed(topic)?,
            false => self.feeds.find(topic).ok_or_else(|| Refusal::no_such_topic(topic))?,
        };
        let home = self.feeds.get(key).and_then(|local| local.home.as_ref());
        match home.is_some_and(|home| home.is_permanent) {
            true => Err(Refusal::in_use(topic)),
            false => Ok(key),
        }
    }

    /// Ends a topic whose home is this shard. Its readers get what it has, then its end. A topic
    /// that is opened under its name from now on is another one.
    pub(super) fn end(&mut self, key: FeedKey, ending: Ending, now_us: u64) {
        let Some(home) = self.feeds.get_mut(key).and_then(|local| local.home.as_mut()) else {
            return;
        };
        home.order.stop_waiting();
        // One that has not begun ends, too, for whoever waits for it.
        self.feeds.begin(key, random_epoch(), 1);
        self.seal_feed(key, now_us);
        self.counts.topics_ended.add(u64::from(ending != Ending::Restarted));
        self.has_ended(key, ending);
        self.mark_unposted(key);
        self.remove_unread(key);
    }

    /// Removes a topic that has ended, if nobody reads it any more.
    pub(super) fn remove_ended(&mut self, key: FeedKey) {
        if self.feeds.get(key).is_some_and(|local| local.end.is_some()) {
            self.remove_unread(key);
        }
    }

    /// Forgets a topic whose home is this shard, and what it has, if nobody reads it.
    pub(super) fn forget(&mut self, key: FeedKey, now_us: u64) {
        if let Some(home) = self.feeds.get_mut(key).and_then(|local| local.home.as_mut()) {
            home.order.stop_waiting();
            self.seal_feed(key, now_us);
            if self.feeds.get(key).is_some_and(|local| !local.has_readers()) {
                self.abandon_stores(key);
            }
            self.remove_unread(key);
        }
    }

    /// Removes a topic with all of its history, unless somebody reads it.
    fn remove_unread(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get(key).filter(|local| !local.has_readers()) else { return };
        self.has_stale_timers |= local.home.as_ref().is_some_and(|home| home.is_timed);
        self.history_bytes -= self.feeds.history_bytes(key);
        self.feeds.remove(key);
    }

    /// A topic has ended, here or at its home, and its last batches are here.
    pub(super) fn has_ended(&mut self, key: FeedKey, ending: Ending) {
        self.feeds.end(key, ending);
        self.news.ends.push((key, ending));
        self.open_again_for_sources(key);
    }

    /// Sources that feed a topic which has ended, or read it, and queries of the configuration go on with the one under its
    /// name. Queries that clients have asked for end.
    fn open_again_for_sources(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let is_output =
            local.home.as_mut().is_some_and(|home| std::mem::take(&mut home.is_permanent));
        let is_input = std::mem::take(&mut local.is_input);
        let topic = local.topic.clone();
        let is_lasting = self.common.inputs.events.contains(&topic);
        let opened = match (is_input, is_output) {
            (true, false) if !is_lasting => return self.news.moved.push((key, None)),
            (true, _) => self.open_input(&topic, now_us()),
            (false, true) => self.open_permanent(&topic).map(|(key, _)| key),
            (false, false) => return,
        };
        if opened.is_none() {
            tracing::error!(%topic, "too many topics: its sources end");
        }
        self.news.moved.push((key, opened));
    }

    /// Removes a topic that its home has not sent yet and that nobody reads here.
    pub(super) fn forget_unread(&mut self, key: FeedKey) {
        if self.feeds.get(key).is_some_and(LocalTopic::is_unused) && self.detach_from_home(key) {
            self.feeds.remove(key);
        }
    }
}
