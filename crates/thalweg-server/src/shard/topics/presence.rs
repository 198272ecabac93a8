//! The people of a topic: who subscribes to it, as the keys of another topic.
//!
//! A shard tells the owner shard of `presence/TOPIC` when a connection joins or leaves TOPIC. The owner shard publishes one event for
//! each member that comes, and removes the key of a member that has been away for the grace time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};

use serde::Serialize;
use serde_json::value::RawValue;
use thalweg_core::fanout::FeedKey;
use thalweg_wire::Topic;
use tokio::sync::mpsc::error::TrySendError;

use super::{Creator, Topics};
use crate::{
    clock::unix_ms,
    config::{MEMBERS_MAX, Presence, PresenceOf, presence_topic},
    owner_shard::owner_shard,
    shard::{
        common::Common,
        message::{Member, MemberChange, ShardMessage},
    },
};

/// The key of the number of members, where only that is published.
const COUNT_KEY: &str = "count";

/// The members of the topics whose presence this shard owns.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// By the topic of the members.
    rosters: HashMap<Topic, Roster>,
    /// Members without a connection, by the end of their grace time and a serial number.
    absences: BTreeMap<(u64, u64), (Topic, Arc<str>)>,
    serial: u64,
    /// Changes for other shards whose queue was full.
    unposted: VecDeque<(usize, Topic, MemberChange)>,
}

#[derive(Debug, Default)]
struct Roster {
    members: HashMap<Arc<str>, Present>,
    /// Whether the published number is old.
    is_count_old: bool,
}

#[derive(Debug)]
struct Present {
    connections: u32,
    /// When it had no connection any more, as the serial number of its absence. `None` if it has one.
    absence: Option<(u64, u64)>,
    since_ms: i64,
    info: Option<Box<RawValue>>,
}

/// A member as the event of its key.
#[derive(Serialize)]
struct MemberEvent<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    /// When it came, in ms since 1970.
    since: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<&'a RawValue>,
}

impl Members {
    pub(super) fn next_us(&self) -> Option<u64> {
        self.absences.keys().next().map(|(due_us, _)| *due_us)
    }

    pub(super) fn count(&self) -> usize {
        self.rosters.values().map(|roster| roster.members.len()).sum()
    }

    /// Posts changes to other shards. Returns `false` if a queue is full.
    pub(super) fn post(&mut self, common: &Common) -> bool {
        while let Some((owner, topic, change)) = self.unposted.pop_front() {
            let message = ShardMessage::Members { topic, change };
            match common.peers[owner].messages.try_send(message) {
                Err(TrySendError::Full(ShardMessage::Members { topic, change })) => {
                    self.unposted.push_front((owner, topic, change));
                    return false;
                }
                // A shard that has drained needs no members.
                Ok(()) | Err(_) => {}
            }
        }
        true
    }
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
            // Those that wait go first.
            false => self.members.unposted.push_back((owner, topic, change)),
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
            MemberChange::Left(key) => self.leave_member(topic, settings, &key, now_us),
        }
    }

    fn join_member(&mut self, topic: &Topic, settings: Presence, member: Member, now_us: u64) {
        let Member { key, user, info } = member;
        let roster = self.members.rosters.entry(topic.clone()).or_default();
        let is_full = roster.members.len() >= MEMBERS_MAX;
        let is_new = match roster.members.entry(Arc::clone(&key)) {
            Entry::Occupied(found) => {
                let present = found.into_mut();
                present.connections += 1;
                if let Some(absence) = present.absence.take() {
                    self.members.absences.remove(&absence);
                }
                let text =
                    |info: &Option<Box<RawValue>>| info.as_ref().map(|info| info.get().to_owned());
                let is_other = info.is_some() && text(&present.info) != text(&info);
                if is_other {
                    present.info = info;
                }
                is_other
            }
            Entry::Vacant(_) if is_full => {
                self.counts.members_refused.add(1);
                return;
            }
            Entry::Vacant(place) => {
                place.insert(Present { connections: 1, absence: None, since_ms: unix_ms(), info });
                roster.is_count_old = true;
                true
            }
        };
        if is_new && settings.of != PresenceOf::Count {
            let present = &self.members.rosters[topic].members[&key];
            let Present { since_ms: since, info, .. } = present;
            let event = MemberEvent { user: &user, since: *since, info: info.as_deref() };
            // Serializing it cannot fail.
            let event = serde_json::to_vec(&event).unwrap_or_default();
            self.publish_member(topic, &key, &event, now_us);
        }
    }

    fn leave_member(&mut self, topic: &Topic, settings: Presence, key: &Arc<str>, now_us: u64) {
        let members = &mut self.members;
        let Some(roster) = members.rosters.get_mut(topic) else { return };
        let Some(present) = roster.members.get_mut(key) else { return };
        present.connections = present.connections.saturating_sub(1);
        if present.connections == 0 && present.absence.is_none() {
            members.serial += 1;
            let absence = (now_us.saturating_add(settings.grace_us), members.serial);
            present.absence = Some(absence);
            members.absences.insert(absence, (topic.clone(), Arc::clone(key)));
        }
    }

    /// Removes members whose grace time is over.
    pub(super) fn end_absences(&mut self, now_us: u64) {
        while let Some(entry) =
            self.members.absences.first_entry().filter(|entry| entry.key().0 <= now_us)
        {
            let (topic, key) = entry.remove();
            let Some(roster) = self.members.rosters.get_mut(&topic) else { continue };
            roster.members.remove(&key);
            roster.is_count_old = true;
            let settings = self.common.config.presence(&topic);
            if settings.is_some_and(|settings| settings.of != PresenceOf::Count) {
                if roster.members.is_empty() {
                    self.members.rosters.remove(&topic);
                }
                self.publish_member(&topic, &key, b"null", now_us);
            }
        }
    }

    /// Publishes the numbers of members that have changed. Call it once a second.
    pub(super) fn publish_counts(&mut self, now_us: u64) {
        let config = Arc::clone(&self.common.config);
        if !config.has_presence() {
            return;
        }
        let mut counts = Vec::new();
        for (topic, roster) in &mut self.members.rosters {
            let settings = config.presence(topic);
            if settings.is_some_and(|settings| settings.of == PresenceOf::Count)
                && std::mem::take(&mut roster.is_count_old)
            {
                counts.push((topic.clone(), roster.members.len()));
            }
        }
        for (topic, count) in counts {
            if count == 0 {
                self.members.rosters.remove(&topic);
            }
            self.publish_member(&topic, COUNT_KEY, count.to_string().as_bytes(), now_us);
        }
    }

    /// Publishes an event of a key to the presence of a topic.
    fn publish_member(&mut self, topic: &Topic, key: &str, event: &[u8], now_us: u64) {
        let Some(presence) = presence_topic(topic) else { return };
        // It counts as a topic of subscribers, who must not prevent publishing to a new topic.
        let Ok(feed) = self.open(&presence, Creator::Subscriber(None)) else {
            self.counts.members_refused.add(1);
            return;
        };
        self.append_key(feed, key, event, now_us);
    }
}
