//! The members of topics with presence.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

use serde_json::value::RawValue;
use thalweg_wire::Topic;

use super::{shared_members::SharedMembers, unposted_changes::UnpostedChanges};
use crate::{config::MEMBERS_MAX, shard::message::Member};

/// The members of the topics whose presence this shard owns.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// By the topic of the members.
    pub(super) rosters: HashMap<Topic, Roster>,
    /// Members without a connection, by the end of their grace time and a serial number.
    pub(super) absences: BTreeMap<(u64, u64), (Topic, Arc<str>)>,
    serial: u64,
    /// The memory of all members, in bytes.
    pub(super) bytes: usize,
    /// Changes for other shards.
    pub(super) unposted: UnpostedChanges,
    /// The members that other servers know, too.
    pub(super) shared: SharedMembers,
}

#[derive(Debug, Default)]
pub(super) struct Roster {
    pub(super) members: HashMap<Arc<str>, Present>,
    /// The number of members whose event no broker can have.
    pub(super) unsent: usize,
    /// Whether the published number, or the event of a member, is out of date.
    pub(super) is_old: bool,
    /// Whether the published number had no room, which counts once.
    pub(super) is_refused: bool,
}

#[derive(Debug)]
pub(super) struct Present {
    /// Its connections, so that the leave of a refused connection is not taken for that of another one.
    connections: Vec<u64>,
    /// The key of its absence: the end of its grace time, and a serial number. `None` if it has a connection.
    pub(super) absence: Option<(u64, u64)>,
    pub(super) since_ms: i64,
    pub(super) user: Box<str>,
    pub(super) info: Option<Box<RawValue>>,
    /// Whether its event must be published: there was no room for it, or the information has changed.
    pub(super) is_unlisted: bool,
    /// Whether a broker may have an event that names this server.
    pub(super) may_be_stored: bool,
}

/// The result of adding a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// The member is new.
    Added,
    /// The member was there, or has been away for less than the grace time.
    Known,
    /// There are too many members.
    Refused,
}

/// The approximate memory of a member besides its texts, in bytes: in the roster, and in the table of its topic.
const MEMBER_BYTES: usize = 512;

impl Present {
    pub(super) fn memory_bytes(&self, key: &str) -> usize {
        let info = self.info.as_ref().map_or(0, |info| info.get().len());
        MEMBER_BYTES + 2 * (key.len() + self.user.len() + info)
    }
}

impl Roster {
    /// Removes a member.
    pub(super) fn remove(&mut self, key: &str) -> Option<Present> {
        let present = self.members.remove(key)?;
        self.unsent -= usize::from(!present.may_be_stored);
        Some(present)
    }

    /// Notes that the event of a member goes to a broker, if the member is here.
    pub(super) fn has_sent(&mut self, key: &str) {
        if let Some(present) = self.members.get_mut(key) {
            let was_stored = std::mem::replace(&mut present.may_be_stored, true);
            self.unsent -= usize::from(!was_stored);
        }
    }
}

impl Members {
    /// Adds a connection to the members of a topic. All members together may take `bytes_max`.
    pub(super) fn join(
        &mut self,
        topic: &Topic,
        member: Member,
        now_ms: i64,
        bytes_max: usize,
    ) -> Join {
        let Member { connection, key, user, info } = member;
        let roster = self.rosters.get(topic);
        let is_known = roster.is_some_and(|roster| roster.members.contains_key(&key));
        let is_full = roster.is_some_and(|roster| roster.members.len() >= MEMBERS_MAX);
        // Without a member there must be no roster either, because nothing would remove it.
        if !is_known && (is_full || self.bytes >= bytes_max) {
            return Join::Refused;
        }
        let roster = self.rosters.entry(topic.clone()).or_default();
        match roster.members.entry(Arc::clone(&key)) {
            Entry::Occupied(found) => {
                let present = found.into_mut();
                present.connections.push(connection);
                if let Some(absence) = present.absence.take() {
                    self.absences.remove(&absence);
                    // The member has come back. Further connections of a present member cannot change its information.
                    let text = |info: &Option<Box<RawValue>>| {
                        info.as_ref().map(|info| info.get().to_owned())
                    };
                    if text(&present.info) != text(&info) {
                        self.bytes -= present.memory_bytes(&key);
                        present.info = info;
                        self.bytes += present.memory_bytes(&key);
                        (present.is_unlisted, roster.is_old) = (true, true);
                    }
                }
                Join::Known
            }
            Entry::Vacant(place) => {
                let (absence, since_ms, is_unlisted) = (None, now_ms, true);
                let connections = vec![connection];
                // The member may have left a short time ago, and its removal waits.
                let changed = self.shared.changed.get(topic);
                let may_be_stored = changed.is_some_and(|changed| changed.keys.contains(&key));
                roster.unsent += usize::from(!may_be_stored);
                let present = Present {
                    connections,
                    absence,
                    since_ms,
                    user,
                    info,
                    is_unlisted,
                    may_be_stored,
                };
                self.bytes += present.memory_bytes(&key);
                place.insert(present);
                roster.is_old = true;
                Join::Added
            }
        }
    }

    /// Removes a connection of a member. If it was the last one, the member's absence begins, which lasts until `end_us`.
    pub(super) fn leave(&mut self, topic: &Topic, key: &Arc<str>, connection: u64, end_us: u64) {
        let roster = self.rosters.get_mut(topic);
        let Some(present) = roster.and_then(|roster| roster.members.get_mut(key)) else { return };
        let Some(at) = present.connections.iter().position(|it| *it == connection) else { return };
        present.connections.swap_remove(at);
        if present.connections.is_empty() {
            self.serial += 1;
            let absence = (end_us, self.serial);
            present.absence = Some(absence);
            self.absences.insert(absence, (topic.clone(), Arc::clone(key)));
        }
    }

    /// Notes a member whose event may be out of date. Returns `false` if too many have left the topic: the server forgets these.
    pub(super) fn note_changed(&mut self, topic: &Topic, key: &str) -> bool {
        let present = self.rosters.get(topic).map(|roster| &roster.members);
        self.shared.changed.entry(topic.clone()).or_default().note(key, present)
    }

    /// Forgets that a member that has left must be published, if the broker cannot have its event. Returns whether it was to be published.
    pub(super) fn forget_unsent(&mut self, topic: &Topic, key: &str, left: &Present) -> bool {
        let changed = self.shared.changed.get_mut(topic).filter(|_| !left.may_be_stored);
        let Some(changed) = changed else { return false };
        let was_noted = changed.keys.remove(key);
        if !changed.is_awaited() && changed.comparison.is_none() {
            self.shared.changed.remove(topic);
        }
        was_noted
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        self.absences.keys().next().map(|(due_us, _)| *due_us)
    }

    pub(super) fn count(&self) -> usize {
        self.rosters.values().map(|roster| roster.members.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use thalweg_wire::Topic;

    use super::{Join, Member, Members};

    fn topic(name: &str) -> Topic {
        name.parse().expect("a topic")
    }

    fn join(
        members: &mut Members,
        name: &str,
        (key, connection): (&str, u64),
        bytes_max: usize,
    ) -> Join {
        let member = Member { connection, key: key.into(), user: Box::default(), info: None };
        members.join(&topic(name), member, 1, bytes_max)
    }

    #[test]
    fn a_refused_connection_does_not_end_another_one() {
        let mut members = Members::default();
        assert_eq!(join(&mut members, "room", ("ann", 1), 1), Join::Added);
        assert_eq!(join(&mut members, "room", ("bob", 2), 1), Join::Refused);
        // There is room for bob's second connection.
        assert_eq!(join(&mut members, "room", ("bob", 3), usize::MAX), Join::Added);
        members.leave(&topic("room"), &"bob".into(), 2, 10);
        assert_eq!(members.next_us(), None);
        members.leave(&topic("room"), &"bob".into(), 3, 10);
        assert_eq!(members.next_us(), Some(10));
    }

    #[test]
    fn a_member_that_no_broker_has_leaves_nothing_behind() {
        let (mut members, room, key) = (Members::default(), topic("room"), "ann");
        let leave = |members: &mut Members| {
            let roster = members.rosters.get_mut(&room).expect("the topic has a member");
            let left = roster.remove(key).expect("it is here");
            assert_eq!(roster.unsent, 0);
            members.forget_unsent(&room, key, &left)
        };
        assert_eq!(join(&mut members, "room", (key, 1), usize::MAX), Join::Added);
        assert!(members.note_changed(&room, key) && leave(&mut members));
        assert!(members.shared.changed.is_empty());
        assert_eq!(join(&mut members, "room", (key, 2), usize::MAX), Join::Added);
        assert!(members.note_changed(&room, key));
        members.rosters.get_mut(&room).expect("the topic has a member").has_sent(key);
        assert!(!leave(&mut members), "its removal must be published");
        // It comes back before its removal is published.
        assert_eq!(join(&mut members, "room", (key, 3), usize::MAX), Join::Added);
        assert!(!leave(&mut members));
    }

    #[test]
    fn members_without_room_leave_nothing_behind() {
        let mut members = Members::default();
        assert_eq!(join(&mut members, "room", ("ann", 1), 1), Join::Added);
        let bytes = members.bytes;
        for topic in ["room", "hall", "yard"] {
            assert_eq!(join(&mut members, topic, ("bob", 2), 1), Join::Refused);
        }
        assert_eq!((members.rosters.len(), members.count(), members.bytes), (1, 1, bytes));
        assert_eq!(join(&mut members, "room", ("ann", 3), 1), Join::Known);
    }
}
