//! Followers: other shards that have copies of topics. Each is a cursor into the owner shard's history.

use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Cursor, Feed as _},
};
use thalweg_wire::Topic;
use tokio::sync::mpsc::error::TrySendError;

use super::{Topics, limits::Creator, local_topic::Follower};
use crate::{
    clock::now_us,
    connection_limits::Address,
    owner_shard::owner_shard,
    shard::{
        common::push_once,
        message::{FollowerId, Posted, ShardMessage},
    },
};

impl Topics {
    /// Posts new batches to followers, and asks the owner shards for topics that have readers here. Returns
    /// `false` if a queue is full. `counted` returns the address that a connection counts for, if any.
    pub(in crate::shard) fn replicate(&mut self, counted: impl Fn(u32) -> Option<Address>) -> bool {
        let mut unposted = std::mem::take(&mut self.unposted);
        unposted.retain(|key| !self.post_feed(*key));
        self.unposted = unposted;
        let mut unattached = std::mem::take(&mut self.unattached);
        unattached.dedup();
        unattached.retain(|key| !self.send_attach(*key, &counted));
        self.unattached = unattached;
        let are_members_posted = self.members.unposted.post(&self.common);
        self.unposted.is_empty() && self.unattached.is_empty() && are_members_posted
    }

    /// Posts one topic's new batches. Returns `false` if a queue is full.
    fn post_feed(&mut self, key: FeedKey) -> bool {
        let Some(local) = self.feeds.get_mut(key) else { return true };
        let Some(owner) = &mut local.owner else { return true };
        let Some(feed) = local.feed.as_ref().filter(|feed| !feed.is_loading()) else {
            // Followers get the feed when it begins.
            owner.is_unposted = false;
            return true;
        };
        let mut all = true;
        for follower in &mut owner.followers {
            let has_all = follower.has_first_reply
                && follower.next == feed.head()
                && local.pauses.part_since(follower.next_pause).is_empty();
            if has_all && local.end.is_none() {
                continue;
            }
            let place = match self.common.peers[follower.shard].messages.try_reserve() {
                Err(TrySendError::Full(())) => {
                    all = false;
                    continue;
                }
                // The follower's shard has drained.
                Err(TrySendError::Closed(())) => None,
                Ok(place) => Some(place),
            };
            let posted = follower.take_posted(feed, &local.pauses, local.end);
            if let Some(place) = place {
                let (topic, attachment) = (local.topic.clone(), follower.attachment);
                place.send(ShardMessage::Batches { topic, attachment, posted });
            }
            // The rest of a state follows in the next turns.
            all &= follower.next == feed.head() || follower.is_told_end;
        }
        owner.followers.retain(|follower| !follower.is_told_end);
        owner.is_unposted = !all;
        self.remove_ended(key);
        all
    }

    /// Requests a topic from its owner shard. Returns `false` if the queue is full.
    fn send_attach(&mut self, key: FeedKey, counted: impl Fn(u32) -> Option<Address>) -> bool {
        let Some(local) = self.feeds.get_mut(key).filter(|local| local.needs_attaching()) else {
            return true;
        };
        // A new topic counts for the subscriber that requested it first.
        let address = local.subscribers.first().and_then(|first| counted(*first));
        let owner = owner_shard(&local.topic, self.common.peers.len());
        let Ok(place) = self.common.peers[owner].messages.try_reserve() else { return false };
        self.attachments += 1;
        local.attachment = self.attachments;
        let (topic, attachment) = (local.topic.clone(), local.attachment);
        let follower = FollowerId { topic, shard: self.shard, attachment };
        place.send(ShardMessage::Attach { follower, address });
        true
    }

    /// Adds another shard to the followers of a topic that this shard owns.
    pub(in crate::shard) fn attach(&mut self, follower: &FollowerId, address: Option<Address>) {
        let Ok(key) = self.open(&follower.topic, Creator::Subscriber(address)) else {
            // If this message is lost because the queue is full, the follower asks again with its next sweep.
            return self.post_no_room(follower.clone());
        };
        self.add_reader(key, address);
        let Some(local) = self.feeds.get_mut(key) else { return };
        let Some(owner) = &mut local.owner else { return };
        owner.followers.retain(|other| other.shard != follower.shard);
        owner.followers.push(Follower {
            shard: follower.shard,
            attachment: follower.attachment,
            // A feed that has not begun has no batches.
            next: local.feed.as_ref().map_or(0, AnyFeed::first_retained),
            state: Cursor::before(1),
            next_pause: 0,
            has_first_reply: false,
            is_told_end: false,
        });
        push_once(&mut self.unposted, &mut owner.is_unposted, key);
        self.mark_read(key);
        self.want_state(key);
        self.look_at_demand(key, now_us());
    }

    fn post_no_room(&self, follower: FollowerId) {
        let _ = self.common.peers[follower.shard].messages.try_send(ShardMessage::NoRoom(follower));
    }

    /// Returns the topic that its owner shard has no room for, if this shard still waits for it.
    pub(in crate::shard) fn rejected_feed(&self, follower: &FollowerId) -> Option<FeedKey> {
        let key = self.feeds.find(&follower.topic)?;
        (self.feeds.get(key)?.attachment == follower.attachment).then_some(key)
    }

    /// Tells followers that there is no room for a topic. Returns its subscribers here, which must be closed.
    pub(in crate::shard) fn evict_subscribers(&mut self, key: FeedKey) -> Vec<u32> {
        let Some(local) = self.feeds.get(key) else { return Vec::new() };
        let followers = local.owner.iter().flat_map(|owner| &owner.followers);
        for &Follower { shard, attachment, .. } in followers {
            self.post_no_room(FollowerId { topic: local.topic.clone(), shard, attachment });
        }
        local.subscribers.clone()
    }

    /// Removes another shard from the followers of a topic.
    pub(in crate::shard) fn detach(&mut self, follower: &FollowerId) {
        let key = self.feeds.find(&follower.topic);
        if let Some(owner) = key.and_then(|key| self.feeds.get_mut(key)?.owner.as_mut()) {
            // Each shard numbers its own attachments.
            owner.followers.retain(|other| {
                (other.shard, other.attachment) != (follower.shard, follower.attachment)
            });
        }
    }

    /// Tells the owner shard that this shard no longer follows a topic. Returns `false` if the queue is full.
    pub(super) fn detach_from_owner(&mut self, key: FeedKey) -> bool {
        let Some(local) = self.feeds.get(key) else { return false };
        if local.owner.is_some() || local.attachment == 0 {
            return true;
        }
        let owner = owner_shard(&local.topic, self.common.peers.len());
        let attachment = local.attachment;
        let follower = FollowerId { topic: local.topic.clone(), shard: self.shard, attachment };
        self.common.peers[owner].messages.try_send(ShardMessage::Detach(follower)).is_ok()
    }

    /// Pushes the batches of a topic that its owner shard has posted to this attachment.
    pub(in crate::shard) fn receive(&mut self, topic: &Topic, attachment: u64, posted: Posted) {
        let Posted { epoch, from, batches, state, head, pauses, end } = posted;
        let key = self.feeds.find(topic);
        let Some((key, local)) = key.and_then(|key| Some((key, self.feeds.get(key)?))) else {
            return;
        };
        if local.attachment == attachment {
            let before = self.feeds.history_bytes(key);
            let feed =
                self.feeds.receive(key, epoch, from, batches, now_us(), &mut self.patch_time);
            if let Some(feed) = feed {
                if let Some(part) = state {
                    feed.take_state(part, now_us());
                }
                feed.skip_to(head);
            }
            // Dropping the senders wakes the receivers.
            self.awaited.remove(&key);
            self.has_grown(key, before);
            self.take_pauses(key, pauses);
            if let Some(ending) = end {
                self.has_ended(key, ending);
            }
        }
    }
}
