//! Members that several servers share, in keyed topics of a broker.
//!
//! The event of a member names the servers to which it is connected. Each server adds and removes itself, under conditions, and the last
//! one removes the key. A server says that it runs by a key that expires; when the key is gone, the others remove the server from the events
//! of members.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Cursor, Feed as _, KeyedEvent, Payloads, StatePart},
};
use thalweg_wire::{Offset, Topic, key::key_text};

use super::{
    Creator, Topics,
    keyed::KEY_BYTES,
    members::{Members, Present, Roster},
    shared_members::{ChangedMembers, SharedMembers, UNKNOWN_US},
};
use crate::{
    broker::PublishTerms,
    clock::now_us,
    config::{
        MEMBER_EVENTS_BYTES, MEMBER_EVENTS_MAX, MEMBERS_COMPARED_MAX, MEMBERS_MAX, NODES_TOPIC,
        presence_topic, topic_of_members,
    },
    shard::{broker::StoreAnswer, presence_nodes::PresenceNodes},
};

/// The time after which a server counts as gone that does not say that it runs, and the interval at which it says so, in µs.
const NODE_LEASE_US: u64 = 10_000_000;
const NODE_BEAT_US: u64 = 3_000_000;

/// The time after which an unknown server is forgotten, in µs. Its members are gone.
const FORGOTTEN_US: u64 = 600_000_000;

/// The event of a member.
#[derive(Debug, Serialize, Deserialize)]
struct SharedMember {
    /// The servers to which it is connected.
    on: Vec<Box<str>>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    user: Box<str>,
    since: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    info: Option<Box<RawValue>>,
}

impl SharedMember {
    /// Returns the event that a member must have. `None` if it has none, or is to have none.
    fn merged(stored: Option<Self>, present: Option<&Present>, on: Vec<Box<str>>) -> Option<Self> {
        let own = |present: &Present| Self {
            on: Vec::new(),
            user: present.user.clone(),
            since: present.since_ms,
            info: present.info.clone(),
        };
        let is_own = on.len() == 1;
        let member = match (stored, present) {
            // The only server knows the newest information.
            (Some(stored), Some(present)) if is_own => Self { since: stored.since, ..own(present) },
            (Some(stored), _) => stored,
            (None, present) => own(present?),
        };
        (!on.is_empty()).then_some(Self { on, ..member })
    }
}

impl Topics {
    /// Publishes a member that has joined or left, when that is possible. Returns whether there is room for the topic.
    pub(super) fn share_member(&mut self, topic: &Topic, presence: &Topic, key: &str) -> bool {
        let is_noted = self.members.note_changed(topic, key);
        self.counts.members_unnoted.add(u64::from(!is_noted));
        self.share_members(presence)
    }

    /// Returns whether a new member has room among the members of all servers, if servers share them. A member that another server
    /// has listed needs none.
    pub(super) fn shares_room(&self, topic: &Topic, key: &str) -> bool {
        let presence = presence_topic(topic).and_then(|presence| self.feeds.find(&presence));
        let local = presence.and_then(|presence| self.feeds.get(presence));
        let local = local.filter(|local| local.origin.is_presence && local.counts_keys());
        let Some(feed) = local.and_then(|local| local.feed.as_ref()) else { return true };
        if newest_of(feed, key).is_some() {
            return true;
        }
        let unsent = self.members.rosters.get(topic).map_or(0, |roster| roster.unsent);
        feed.retained_events() + unsent < MEMBERS_MAX && self.keyed_bytes < self.keyed_bytes_max()
    }

    /// Publishes the changed members of a topic, unless earlier ones are on their way: then they go together, later.
    fn share_members(&mut self, presence: &Topic) -> bool {
        let nodes = &self.common.presence_nodes;
        if !nodes.runs(nodes.own()) {
            return true;
        }
        // It must not take the place of a topic with publishers.
        let Ok(feed) = self.open(presence, Creator::Subscriber(None)) else { return false };
        if self.keyed_order(feed).is_some_and(|(_, order)| order.is_idle()) {
            let terms = PublishTerms { are_members: true, ..PublishTerms::default() };
            self.store_keys(feed, &mut Payloads::default(), terms, StoreAnswer::Nowhere);
        }
        true
    }

    /// Sends the events of changed members to the broker. Forgets those whose events are right.
    pub(super) fn store_members(&mut self, key: FeedKey, since_us: u64) {
        let now_us = now_us();
        self.settle(key, now_us);
        let local = self.feeds.get(key);
        let of = local.and_then(|local| topic_of_members(&local.topic));
        let feed = local.and_then(|local| local.feed.as_ref());
        let Some((of, feed)) = of.zip(feed) else { return };
        let members = &mut self.members;
        let Some(mut changed) = members.shared.changed.remove(&of) else { return };
        let nodes = &*self.common.presence_nodes;
        let mut roster = members.rosters.get_mut(&of);
        let (mut payloads, mut compared) = (Payloads::default(), 0);
        changed.keys.retain(|key| {
            if payloads.joined_bytes() > MEMBER_EVENTS_BYTES
                || payloads.count() >= MEMBER_EVENTS_MAX
                || compared >= MEMBERS_COMPARED_MAX
            {
                return true;
            }
            compared += 1;
            let event = member_event(key, feed, roster.as_deref(), nodes, &members.shared, now_us);
            let Some(event) = event else { return false };
            payloads.push_keyed(key, &event);
            if let Some(roster) = &mut roster {
                roster.has_sent(key);
            }
            true
        });
        members.shared.changed.insert(of, changed);
        if !payloads.is_empty() {
            // The next sweep counts exactly.
            self.keyed_bytes += payloads.joined_bytes() + payloads.count() * KEY_BYTES;
            let terms = PublishTerms { are_members: true, ..PublishTerms::default() };
            self.store_compared(key, payloads, terms, StoreAnswer::Nowhere, since_us);
        }
    }

    /// Notes that events of members have come, which other servers may have published.
    pub(super) fn members_came(&mut self, key: FeedKey, keys: &[String]) {
        let presence = self.feeds.get(key).map(|local| local.topic.clone());
        let of = presence.as_ref().and_then(topic_of_members);
        let Some((presence, of)) = presence.zip(of) else { return };
        let members = &mut self.members;
        if let Some(roster) = members.rosters.get(&of) {
            let own = keys.iter().filter_map(|key| roster.members.get_key_value(key.as_str()));
            let own: Vec<Arc<str>> = own.map(|(key, _)| Arc::clone(key)).collect();
            if !own.is_empty() {
                members.shared.changed.entry(of.clone()).or_default().keys.extend(own);
            }
        }
        let changed = members.shared.changed.get(&of);
        if changed.is_some_and(|changed| !changed.keys.is_empty()) {
            self.share_members(&presence);
        }
    }

    /// Says that this server runs, finds the members of those that do not, and publishes what waits. Call this function once a second.
    pub(super) fn share_presence(&mut self, now_us: u64) {
        let config = &self.common.config;
        if !config.has_presence() || !self.common.streams.iter().any(|stream| stream.shares_keys())
        {
            return;
        }
        let Ok(nodes_topic) = NODES_TOPIC.parse::<Topic>() else { return };
        if !self.origin(&nodes_topic).is_broker_topic() {
            return;
        }
        if self.owns(&nodes_topic) {
            self.say_running(&nodes_topic, now_us);
        }
        let nodes = Arc::clone(&self.common.presence_nodes);
        if !nodes.runs(nodes.own()) {
            self.members.shared.is_listed = false;
            return;
        }
        if !std::mem::replace(&mut self.members.shared.is_listed, true) {
            // Other servers may have removed the members of this one.
            let shared = &mut self.members.shared;
            for (topic, roster) in &self.members.rosters {
                let presence = presence_topic(topic);
                if presence.is_some_and(|presence| self.feeds.origin(&presence).is_broker_topic()) {
                    let keys = roster.members.keys().cloned();
                    shared.changed.entry(topic.clone()).or_default().keys.extend(keys);
                }
            }
        }
        self.compare_members(&nodes, now_us);
        let changed = &mut self.members.shared.changed;
        changed.retain(|_, changed| changed.is_awaited() || changed.comparison.is_some());
        let waiting = changed.iter().filter(|(_, changed)| changed.is_awaited());
        let waiting: Vec<Topic> = waiting.filter_map(|(topic, _)| presence_topic(topic)).collect();
        for presence in waiting {
            self.share_members(&presence);
        }
    }

    /// Publishes the key of this server again before it expires, and reads which servers run.
    fn say_running(&mut self, nodes_topic: &Topic, now_us: u64) {
        let Some((feed, _)) = self.open_permanent(nodes_topic) else { return };
        if now_us >= self.members.shared.beat_us {
            self.members.shared.beat_us = now_us + NODE_BEAT_US;
            let mut payloads = Payloads::default();
            payloads.push_keyed(self.common.presence_nodes.own(), b"{}");
            let terms = PublishTerms { ttl_us: Some(NODE_LEASE_US), ..PublishTerms::default() };
            self.store_keys(feed, &mut payloads, terms, StoreAnswer::Nowhere);
            self.mark_read(feed);
        }
        self.settle(feed, now_us);
        let feed = self.feeds.get(feed).and_then(|local| local.feed.as_ref());
        let Some(feed) = feed.filter(|feed| !feed.is_loading()) else { return };
        let running = state_of(feed).into_iter().map(|event| key_text(event.key()).into());
        self.common.presence_nodes.set(running.collect(), now_us);
    }

    /// Marks members as changed whose events name servers that have gone, or do not agree with the members that are here. Compares a
    /// limited number of members; the next call continues.
    fn compare_members(&mut self, nodes: &PresenceNodes, now_us: u64) {
        let mut presences = Vec::new();
        for (key, local) in self.feeds.iter_mut() {
            let is_here = local.owner.is_some() && local.end.is_none() && !local.is_loading();
            let has_members = local.origin.is_presence && local.topic.as_str() != NODES_TOPIC;
            if has_members && local.origin.is_broker_topic() && is_here {
                presences.extend(topic_of_members(&local.topic).map(|of| (key, of)));
            }
        }
        let Members { rosters, shared, .. } = &mut self.members;
        shared.unknown.retain(|id, since_us| !nodes.runs(id) && now_us < *since_us + FORGOTTEN_US);
        let topics: HashSet<&Topic> = presences.iter().map(|(_, of)| of).collect();
        for (of, changed) in &mut shared.changed {
            // The state is read again, if it is needed.
            changed.comparison = changed.comparison.take().filter(|_| topics.contains(of));
        }
        let (mut room, mut is_cut) = (MEMBERS_COMPARED_MAX, false);
        for (key, of) in &presences {
            let changed = shared.changed.entry(of.clone()).or_default();
            let comparison = changed.comparison.get_or_insert_default();
            let Some(place) = comparison.place(nodes.gone_us(), now_us) else { continue };
            let mut roster = rosters.get_mut(of);
            let present = roster.as_ref().map_or(0, |roster| roster.members.len());
            let notes = changed.room(present).unwrap_or(0);
            let feed = self.feeds.get(*key).and_then(|local| local.feed.as_ref());
            let part = feed
                .filter(|_| room.min(notes) > 0)
                .and_then(|feed| part_from(feed, place, room.min(notes)));
            let Some(part) = part else {
                is_cut = true;
                continue;
            };
            room -= part.events.len();
            for event in part.events.iter().filter(|event| !event.is_removal()) {
                let roster = roster.as_deref_mut();
                compare_member(event, changed, roster, nodes, &mut shared.unknown, now_us);
                self.counts.members_compared.add(1);
            }
            let is_last = part.to >= part.head;
            is_cut |= !is_last;
            changed.has_compared(part.to, is_last, now_us);
        }
        self.counts.members_compared_later.add(u64::from(is_cut));
    }
}

/// Marks a member as changed if its event names a server that has gone, or does not agree with the members that are here.
fn compare_member(
    event: &KeyedEvent,
    changed: &mut ChangedMembers,
    roster: Option<&mut Roster>,
    nodes: &PresenceNodes,
    unknown: &mut HashMap<Box<str>, u64>,
    now_us: u64,
) {
    let Ok(OnlyServers { on }) = serde_json::from_slice(event.event()) else { return };
    let key = key_text(event.key());
    let names_own = on.contains(&nodes.own());
    let roster = roster.filter(|roster| roster.members.contains_key(&*key));
    let mut is_changed = roster.is_some() != names_own;
    if let Some(roster) = roster.filter(|_| names_own) {
        // It may have left and come back, and its removal may have been forgotten.
        roster.has_sent(&key);
    }
    for id in on.into_iter().filter(|id| !nodes.runs(id)) {
        let since_us = *unknown.entry(id.into()).or_insert(now_us);
        if now_us >= since_us + UNKNOWN_US {
            is_changed = true;
        } else if let Some(comparison) = &mut changed.comparison {
            comparison.found_early();
        }
    }
    if is_changed {
        changed.keys.insert(Arc::from(&*key));
    }
}

/// The part of a member's event that names its servers.
#[derive(Deserialize)]
struct OnlyServers<'a> {
    #[serde(borrow)]
    on: Vec<&'a str>,
}

/// Returns the newest events of the keys of a feed, whose state is here.
fn state_of(feed: &AnyFeed) -> Vec<Arc<KeyedEvent>> {
    let events = part_from(feed, 1, usize::MAX).map(|part| part.events).unwrap_or_default();
    events.into_iter().filter(|event| !event.is_removal()).collect()
}

/// Returns the newest events of the keys of a feed, whose state is here, from an offset on, `count_max` at most. Removals may be missing.
fn part_from(feed: &AnyFeed, from: Offset, count_max: usize) -> Option<StatePart> {
    let cursor = Cursor::before_keys(from, feed.head());
    feed.state_part(&cursor, count_max, None).map(|(part, _)| part)
}

/// Returns the newest event of a member, if it has one.
fn newest_of<'a>(feed: &'a AnyFeed, key: &str) -> Option<&'a KeyedEvent> {
    let mut name = Payloads::default();
    name.push_key(key);
    feed.keyed_event(name.joined_keys()).filter(|newest| !newest.is_removal())
}

/// Returns the event that the key of a member must get; `None` if the one that it has is right.
fn member_event(
    key: &str,
    feed: &AnyFeed,
    roster: Option<&Roster>,
    nodes: &PresenceNodes,
    shared: &SharedMembers,
    now_us: u64,
) -> Option<Vec<u8>> {
    let newest = newest_of(feed, key);
    let stored: Option<SharedMember> =
        newest.and_then(|newest| serde_json::from_slice(newest.event()).ok());
    let present = roster.and_then(|roster| roster.members.get(key));
    let before = stored.iter().flat_map(|stored| stored.on.iter().cloned());
    // A server may have come back since the last comparison.
    let is_gone = |id: &str| !nodes.runs(id) && shared.is_gone(id, now_us);
    let mut on: Vec<Box<str>> = before.filter(|id| **id != *nodes.own() && !is_gone(id)).collect();
    on.extend(present.map(|_| nodes.own().into()));
    // All servers make the same event.
    on.sort_unstable();
    let event = match SharedMember::merged(stored, present, on) {
        // Serializing it cannot fail.
        Some(member) => serde_json::to_vec(&member).unwrap_or_default(),
        None => b"null".to_vec(),
    };
    match newest {
        Some(newest) => (newest.event() != event).then_some(event),
        None => (event != b"null").then_some(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(on: &[&str], since: i64) -> SharedMember {
        let on = on.iter().map(|id| (*id).into()).collect();
        let info = RawValue::from_string("7".to_owned()).ok();
        SharedMember { on, user: "ann".into(), since, info }
    }

    fn event(member: Option<SharedMember>) -> String {
        member.map_or("null".to_owned(), |member| serde_json::to_string(&member).unwrap())
    }

    #[test]
    fn the_last_server_of_a_member_removes_it() {
        let of = |before: &[&str], after: &[&str]| {
            let on = after.iter().map(|id| (*id).into()).collect();
            event(SharedMember::merged(Some(stored(before, 5)), None, on))
        };
        assert_eq!(of(&["a", "b"], &["a"]), r#"{"on":["a"],"user":"ann","since":5,"info":7}"#);
        assert_eq!(of(&["a"], &[]), "null");
        assert_eq!(event(SharedMember::merged(None, None, Vec::new())), "null");
    }

    #[test]
    fn an_event_names_its_servers() {
        let text = r#"{"on":["a1","b2"],"since":5,"info":{"on":[1]}}"#;
        let OnlyServers { on } = serde_json::from_str(text).unwrap();
        assert_eq!(on, ["a1", "b2"]);
        assert_eq!(event(serde_json::from_str(text).ok()), text);
    }
}
