//! Presence: the subscribers of a topic, as the keys of another topic.
//!
//! A shard tells the owner shard of `presence/TOPIC` when a connection joins or leaves TOPIC. The owner shard publishes one event for
//! each member that joins, and removes the key of a member that has been away for the grace time.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use thalweg_core::fanout::FeedKey;
use thalweg_wire::Topic;

use super::{
    Creator, Topics,
    members::{Join, Present},
};
use crate::{
    clock::unix_ms,
    config::{EXPIRIES_PER_TURN, MEMBERS_SHARE, Presence, PresenceOf, presence_topic},
    owner_shard::owner_shard,
    shard::message::{Member, MemberChange},
};

/// The key under which the number of members is published, if only the number is.
const COUNT_KEY: &str = "count";

/// A member as the event of its key.
#[derive(Serialize)]
struct MemberEvent<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    /// When the member joined, in ms since 1970.
    since: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<&'a RawValue>,
}

impl Topics {
    /// Returns how the members of a topic are published, if they are.
    pub(in crate::shard) fn presence(&self, key: FeedKey) -> Option<Presence> {
        let config = &self.common.config;
        config.has_presence().then(|| config.presence(&self.feeds.get(key)?.topic)).flatten()
    }

    /// Notes that a connection of this shard has joined or left a topic with presence.
    pub(in crate::shard) fn member_changed(
        &mut self,
        key: FeedKey,
        change: MemberChange,
        now_us: u64,
    ) {
        let Some(topic) = self.feeds.get(key).map(|local| local.topic.clone()) else { return };
        let Some(presence) = presence_topic(&topic) else { return };
        let owner = owner_shard(&presence, self.common.peers.len());
        match owner == self.shard {
            true => self.change_member(&topic, change, now_us),
            // Changes that already wait are sent first.
            false => self.members.unposted.push(owner, topic, change),
        }
    }

    /// Adds a connection to the members of a topic whose presence this shard owns, or removes one.
    pub(in crate::shard) fn change_member(
        &mut self,
        topic: &Topic,
        change: MemberChange,
        now_us: u64,
    ) {
        let Some(settings) = self.common.config.presence(topic) else { return };
        match change {
            MemberChange::Joined(member) => self.join_member(topic, settings, member, now_us),
            MemberChange::Left(key, connection) => {
                let end_us = now_us.saturating_add(settings.grace_us);
                self.members.leave(topic, &key, connection, end_us);
            }
        }
    }

    fn join_member(&mut self, topic: &Topic, settings: Presence, member: Member, now_us: u64) {
        // Members must not take the memory of events.
        let bytes_max =
            self.common.config.limits.history_bytes / self.common.peers.len() / MEMBERS_SHARE;
        let key = Arc::clone(&member.key);
        // Further connections of a member need no room.
        let bytes_max = if self.shares_room(topic, &key) { bytes_max } else { 0 };
        match self.members.join(topic, member, unix_ms(), bytes_max) {
            Join::Added if settings.of != PresenceOf::Count => {
                let is_listed = self.list_member(topic, &key, now_us);
                self.counts.members_refused.add(u64::from(!is_listed));
            }
            Join::Added | Join::Known => {}
            Join::Refused => self.counts.members_refused.add(1),
        }
    }

    /// Publishes the event of a member. Returns whether there was room for its topic.
    fn list_member(&mut self, topic: &Topic, key: &Arc<str>, now_us: u64) -> bool {
        let roster = self.members.rosters.get(topic);
        let Some(present) = roster.and_then(|roster| roster.members.get(key)) else { return true };
        let Present { since_ms: since, user, info, .. } = present;
        let event = MemberEvent { user, since: *since, info: info.as_deref() };
        // Serializing it cannot fail.
        let event = serde_json::to_vec(&event).unwrap_or_default();
        let is_listed = self.publish_member(topic, key, &event, now_us);
        let roster = self.members.rosters.get_mut(topic);
        if let Some(present) = roster.and_then(|roster| roster.members.get_mut(key)) {
            present.is_unlisted = !is_listed;
        }
        is_listed
    }

    /// Removes members whose grace time is over. If they are many, some remain due, and the next turn removes them.
    pub(super) fn end_absences(&mut self, now_us: u64) {
        for _ in 0..EXPIRIES_PER_TURN {
            let first = self.members.absences.first_entry();
            let Some(entry) = first.filter(|entry| entry.key().0 <= now_us) else { return };
            let (topic, key) = entry.remove();
            let members = &mut self.members;
            let Some(roster) = members.rosters.get_mut(&topic) else { continue };
            let Some(present) = roster.remove(&key) else { continue };
            members.bytes -= present.memory_bytes(&key);
            roster.is_old = true;
            let settings = self.common.config.presence(&topic);
            if settings.is_some_and(|settings| settings.of != PresenceOf::Count) {
                if roster.members.is_empty() {
                    members.rosters.remove(&topic);
                }
                if members.forget_unsent(&topic, &key, &present) {
                    continue;
                }
                self.publish_member(&topic, &key, b"null", now_us);
            }
        }
    }

    /// Publishes changed numbers of members, and members whose event is missing or out of date. Call this function once a second.
    pub(super) fn publish_changed_members(&mut self, now_us: u64) {
        let config = Arc::clone(&self.common.config);
        let (mut counts, mut unlisted) = (Vec::new(), Vec::new());
        for (topic, roster) in &mut self.members.rosters {
            if !std::mem::take(&mut roster.is_old) {
                continue;
            }
            match config.presence(topic).map(|settings| settings.of) {
                Some(PresenceOf::Count) => counts.push((topic.clone(), roster.members.len())),
                _ => {
                    let members = roster.members.iter().filter(|(_, present)| present.is_unlisted);
                    unlisted.extend(members.map(|(key, _)| (topic.clone(), Arc::clone(key))));
                    roster.is_old = roster.members.values().any(|present| present.is_unlisted);
                }
            }
        }
        // Where one event has no room, others of the topic have none.
        let mut full = None;
        for (topic, key) in unlisted {
            if full.as_ref() != Some(&topic) && !self.list_member(&topic, &key, now_us) {
                full = Some(topic);
            }
        }
        for (topic, count) in counts {
            // A topic without keys may be removed.
            let event = if count == 0 { "null".to_owned() } else { count.to_string() };
            let is_published = self.publish_member(&topic, COUNT_KEY, event.as_bytes(), now_us);
            match self.members.rosters.get_mut(&topic) {
                Some(roster) if !is_published => {
                    let was_refused = std::mem::replace(&mut roster.is_refused, true);
                    self.counts.members_refused.add(u64::from(!was_refused));
                    roster.is_old = true;
                }
                _ if count == 0 => drop(self.members.rosters.remove(&topic)),
                Some(roster) => roster.is_refused = false,
                None => {}
            }
        }
    }

    /// Publishes an event of a key to the presence of a topic. Returns whether there was room for that topic.
    fn publish_member(&mut self, topic: &Topic, key: &str, event: &[u8], now_us: u64) -> bool {
        let Some(presence) = presence_topic(topic) else { return true };
        if self.origin(&presence).is_broker_topic() {
            return self.share_member(topic, &presence, key);
        }
        // The presence topic counts as created by a subscriber, because it must not take the place of a topic with publishers.
        let Ok(feed) = self.open(&presence, Creator::Subscriber(None)) else { return false };
        self.append_key(feed, key, event, now_us);
        true
    }
}
