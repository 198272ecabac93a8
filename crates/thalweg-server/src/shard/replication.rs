//! Topics that other shards have copies of. Each such shard is a cursor into the home's
//! history.

use thalweg_wire::Topic;
use tokio::sync::mpsc::error::TrySendError;

use super::{
    Mail,
    local_topic::Follower,
    mail::{FollowerId, Posted},
    topic_limits::Creator,
    topics::Topics,
};
use crate::{clock::now_us, connection_limits::Address, home::home_of};
use thalweg_core::{fanout::FeedKey, stream::Feed};

impl Topics {
    /// Posts new batches to other shards, and asks homes for the topics that are read here.
    /// `false` if a mailbox was full. `counted` returns the address that a connection is
    /// counted for, if any.
    pub(super) fn replicate(&mut self, counted: impl Fn(u32) -> Option<Address>) -> bool {
        let mut unposted = std::mem::take(&mut self.unposted);
        unposted.retain(|key| !self.post_feed(*key));
        self.unposted = unposted;
        let mut unattached = std::mem::take(&mut self.unattached);
        unattached.dedup();
        unattached.retain(|key| !self.send_attach(*key, &counted));
        self.unattached = unattached;
        self.unposted.is_empty() && self.unattached.is_empty()
    }

    /// Posts one topic's new batches; `false` if a mailbox was full.
    fn post_feed(&mut self, key: FeedKey) -> bool {
        let Some(local) = self.feeds.get_mut(key) else { return true };
        let Some(home) = &mut local.home else { return true };
        let Some(feed) = &local.feed else {
            // It has not begun: whoever waits for it gets it then.
            home.is_unposted = false;
            return true;
        };
        let mut all = true;
        for follower in &mut home.followers {
            let pauses = local.pauses.part_since(follower.next_pause);
            let has_all =
                follower.has_first_reply && follower.next == feed.head() && pauses.is_empty();
            if has_all && local.end.is_none() {
                continue;
            }
            match self.common.peers[follower.shard].mail.try_reserve() {
                Ok(place) => place.send(Mail::Batches {
                    topic: local.topic.clone(),
                    attachment: follower.attachment,
                    posted: Posted {
                        epoch: feed.epoch(),
                        from: follower.next,
                        batches: feed.batches_from(follower.next).cloned().collect(),
                        head: feed.head(),
                        pauses,
                        end: local.end,
                    },
                }),
                Err(TrySendError::Full(())) => {
                    all = false;
                    continue;
                }
                // That shard has drained.
                Err(TrySendError::Closed(())) => {}
            }
            follower.next = feed.head();
            follower.next_pause = local.pauses.newest() + 1;
            follower.has_first_reply = true;
            follower.is_told_end = local.end.is_some();
        }
        home.followers.retain(|follower| !follower.is_told_end);
        home.is_unposted = !all;
        self.remove_ended(key);
        all
    }

    /// Asks a topic's home for the topic; `false` if the mailbox was full.
    fn send_attach(&mut self, key: FeedKey, counted: impl Fn(u32) -> Option<Address>) -> bool {
        let Some(local) = self.feeds.get_mut(key).filter(|local| local.needs_attaching()) else {
            return true;
        };
        // A new topic counts in the share of the subscriber that asked for it first.
        let address = local.subscribers.first().and_then(|first| counted(*first));
        let home = home_of(&local.topic, self.common.peers.len());
        let Ok(place) = self.common.peers[home].mail.try_reserve() else { return false };
        self.attachments += 1;
        local.attachment = self.attachments;
        let (topic, attachment) = (local.topic.clone(), local.attachment);
        let follower = FollowerId { topic, shard: self.shard, attachment };
        place.send(Mail::Attach { follower, address });
        true
    }

    /// Another shard begins to read a topic whose home is this shard.
    pub(super) fn attach(&mut self, follower: &FollowerId, address: Option<Address>) {
        let Ok(key) = self.open(&follower.topic, Creator::Subscriber(address)) else {
            // If its mailbox is full, it asks again at its next sweep.
            return self.post_no_room(follower.clone());
        };
        self.add_reader(key, address);
        let Some(local) = self.feeds.get_mut(key) else { return };
        let Some(home) = &mut local.home else { return };
        home.followers.retain(|other| other.shard != follower.shard);
        home.followers.push(Follower {
            shard: follower.shard,
            attachment: follower.attachment,
            // Before it has begun there is nothing to post.
            next: local.feed.as_ref().map_or(0, Feed::first_retained),
            next_pause: 0,
            has_first_reply: false,
            is_told_end: false,
        });
        if !std::mem::replace(&mut home.is_unposted, true) {
            self.unposted.push(key);
        }
        self.mark_read(key);
        self.look_at_demand(key, now_us());
    }

    fn post_no_room(&self, follower: FollowerId) {
        let _ = self.common.peers[follower.shard].mail.try_send(Mail::NoRoom(follower));
    }

    /// The topic that its home has no room for, if this shard still waits for it.
    pub(super) fn rejected_feed(&self, follower: &FollowerId) -> Option<FeedKey> {
        let key = self.feeds.find(&follower.topic)?;
        (self.feeds.get(key)?.attachment == follower.attachment).then_some(key)
    }

    /// There is no room for a topic: tells the other shards. Returns its subscribers on this
    /// shard, which must be closed.
    pub(super) fn evict_subscribers(&mut self, key: FeedKey) -> Vec<u32> {
        let Some(local) = self.feeds.get(key) else { return Vec::new() };
        let followers = local.home.iter().flat_map(|home| &home.followers);
        for &Follower { shard, attachment, .. } in followers {
            self.post_no_room(FollowerId { topic: local.topic.clone(), shard, attachment });
        }
        local.subscribers.clone()
    }

    /// Another shard no longer reads a topic.
    pub(super) fn detach(&mut self, follower: &FollowerId) {
        let key = self.feeds.find(&follower.topic);
        if let Some(home) = key.and_then(|key| self.feeds.get_mut(key)?.home.as_mut()) {
            // Each shard numbers its own attachments.
            home.followers.retain(|other| {
                (other.shard, other.attachment) != (follower.shard, follower.attachment)
            });
        }
    }

    /// Tells a topic's home that nobody here reads it any more; `false` if that has to wait.
    pub(super) fn detach_from_home(&mut self, key: FeedKey) -> bool {
        let Some(local) = self.feeds.get(key) else { return false };
        if local.home.is_some() || local.attachment == 0 {
            return true;
        }
        let home = home_of(&local.topic, self.common.peers.len());
        let attachment = local.attachment;
        let follower = FollowerId { topic: local.topic.clone(), shard: self.shard, attachment };
        self.common.peers[home].mail.try_send(Mail::Detach(follower)).is_ok()
    }

    /// Receives what a topic's home has posted for the attachment with this number.
    pub(super) fn receive(&mut self, topic: &Topic, attachment: u64, posted: Posted) {
        let Posted { epoch, from, batches, head, pauses, end } = posted;
        let key = self.feeds.find(topic);
        let Some((key, local)) = key.and_then(|key| Some((key, self.feeds.get(key)?))) else {
            return;
        };
        if local.attachment == attachment {
            let before = self.feeds.history_bytes(key);
            let feed = self.feeds.receive(key, epoch, from, batches, now_us(), &self.counts);
            if let Some(feed) = feed {
                feed.skip_to(head);
            }
            self.has_grown(key, before);
            self.take_pauses(key, pauses);
            if let Some(ending) = end {
                self.has_ended(key, ending);
            }
        }
    }
}
