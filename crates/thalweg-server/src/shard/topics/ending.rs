//! How topics end, and how they are removed.

use thalweg_core::{fanout::FeedKey, stream::Payloads};
use thalweg_wire::{EndCode, Topic};
use tokio::sync::oneshot;

use super::{Topics, feeds::random_epoch, limits::TopicKind, local_topic::LocalTopic};
use crate::{
    clock::now_us,
    config::AD_HOC_TOPICS,
    refusal::Refusal,
    shard::{
        broker::{SingleMessage, StoreAnswer},
        message::Ending,
    },
};

impl Topics {
    /// Deletes a topic that this shard owns. A broker topic exists if its stream has it. The answer is an error if there is no
    /// such topic, or if sources feed or read it.
    pub(in crate::shard) fn delete(
        &mut self,
        topic: &Topic,
        answer: oneshot::Sender<Result<(), Refusal>>,
    ) {
        let key = match self.deletable(topic) {
            Ok(key) => key,
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        if self.feeds.get(key).is_some_and(|local| local.origin.is_broker_topic()) {
            let mut none = Payloads::default();
            return self.store_in(
                key,
                &mut none,
                Some(SingleMessage::Deleted),
                StoreAnswer::Deleted(answer),
            );
        }
        self.end(key, Ending::Ended(EndCode::Deleted), now_us());
        // The client may be gone.
        let _ = answer.send(Ok(()));
    }

    fn deletable(&mut self, topic: &Topic) -> Result<FeedKey, Refusal> {
        let origin = self.origin(topic);
        if origin.upstream().is_some() {
            return Err(Refusal::fetched(topic));
        }
        if origin.is_presence {
            return Err(Refusal::presence(topic));
        }
        if topic.as_str().starts_with(AD_HOC_TOPICS) {
            return Err(Refusal::derived(topic));
        }
        let key = match origin.is_broker_topic() {
            true => self.open_broker_topic(topic)?,
            false => self.feeds.find(topic).ok_or_else(|| Refusal::no_such_topic(topic))?,
        };
        let owner = self.feeds.get(key).and_then(|local| local.owner.as_ref());
        match owner.is_some_and(|owner| owner.is_permanent) {
            true => Err(Refusal::in_use(topic)),
            false => Ok(key),
        }
    }

    /// Ends a topic that this shard owns. Its readers get all events, then the end. A topic that opens later with
    /// its name is another one.
    pub(in crate::shard) fn end(&mut self, key: FeedKey, ending: Ending, now_us: u64) {
        let Some(owner) = self.feeds.get_mut(key).and_then(|local| local.owner.as_mut()) else {
            return;
        };
        owner.order.stop_waiting();
        // Subscribers that wait for the topic's first event get the end, too.
        self.feeds.begin(key, random_epoch(), 1);
        self.seal_feed(key, now_us);
        self.counts.topics_ended.add(u64::from(ending != Ending::Restarted));
        self.has_ended(key, ending);
        self.mark_unposted(key);
        self.remove_unread(key);
    }

    /// Removes a topic that has ended and has no readers.
    pub(super) fn remove_ended(&mut self, key: FeedKey) {
        if self.feeds.get(key).is_some_and(|local| local.end.is_some()) {
            self.remove_unread(key);
        }
    }

    /// Removes a topic that this shard owns, and its history, unless the topic has readers.
    pub(in crate::shard) fn forget(&mut self, key: FeedKey, now_us: u64) {
        if let Some(owner) = self.feeds.get_mut(key).and_then(|local| local.owner.as_mut()) {
            owner.order.stop_waiting();
            self.seal_feed(key, now_us);
            if self.feeds.get(key).is_some_and(|local| !local.has_readers()) {
                self.abandon_stores(key);
            }
            self.remove_unread(key);
        }
    }

    fn remove_unread(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get(key).filter(|local| !local.has_readers()) else { return };
        self.has_stale_timers |= local.owner.as_ref().is_some_and(|owner| owner.is_timed);
        self.history_bytes -= self.feeds.history_bytes(key);
        self.feeds.remove(key);
    }

    /// Notes that a topic has ended, here or on its owner shard, and that all its batches are here.
    pub(super) fn has_ended(&mut self, key: FeedKey, ending: Ending) {
        self.feeds.end(key, ending);
        self.expiries.topic_ended();
        self.news.ends.push((key, ending));
        self.open_again_for_sources(key);
    }

    /// Moves sources and configured queries from an ended topic to the next topic with its name. Ad hoc queries end.
    fn open_again_for_sources(&mut self, key: FeedKey) {
        let Some(local) = self.feeds.get_mut(key) else { return };
        let is_output =
            local.owner.as_mut().is_some_and(|owner| std::mem::take(&mut owner.is_permanent));
        let is_input = std::mem::take(&mut local.is_input);
        let (topic, is_derived) = (local.topic.clone(), local.origin.is_derived);
        if is_output && is_derived {
            // The ended topic may still have readers, and must not take the place of the next one.
            self.feeds.set_kind(key, TopicKind::SubscriberOnly(None));
        }
        let is_lasting = self.common.inputs.events.contains(&topic);
        let opened = match (is_input, is_output) {
            (true, false) if !is_lasting => return self.news.moved.push((key, None)),
            (true, _) => self.open_input(&topic, now_us()),
            (false, true) => self.open_permanent(&topic).map(|(key, _)| key),
            (false, false) => return,
        };
        if opened.is_none() {
            tracing::error!(%topic, "sources and queries of an ended topic stop, because there are too many topics: raise limits.topics");
        }
        self.news.moved.push((key, opened));
    }

    /// Removes a topic that its owner shard has not sent yet and that has no readers here.
    pub(in crate::shard) fn forget_unread(&mut self, key: FeedKey) {
        if self.feeds.get(key).is_some_and(LocalTopic::is_unused) && self.detach_from_owner(key) {
            self.feeds.remove(key);
        }
    }
}
