//! Changes of members that wait for room in the queues of other shards.

use std::collections::{BTreeMap, HashMap};

use thalweg_wire::Topic;
use tokio::sync::mpsc::error::TrySendError;

use crate::shard::{
    common::Common,
    message::{MemberChange, ShardMessage},
};

/// Changes for other shards, in their order for each shard.
///
/// A connection that leaves a topic before its join was posted takes the join back. For each topic of a connection, at most two
/// changes wait: the leave of a join that was posted, and a new join. Connections that come and go do not fill the memory.
#[derive(Debug, Default)]
pub(super) struct UnpostedChanges {
    /// By the shard and a serial number.
    changes: BTreeMap<(usize, u64), (Topic, MemberChange)>,
    /// The keys of joins, by topic and connection.
    joins: HashMap<(Topic, u64), (usize, u64)>,
    serial: u64,
}

impl UnpostedChanges {
    /// Adds a change for the shard `owner`.
    pub(super) fn push(&mut self, owner: usize, topic: Topic, change: MemberChange) {
        self.serial += 1;
        let at = (owner, self.serial);
        match &change {
            MemberChange::Joined(member) => {
                self.joins.insert((topic.clone(), member.connection), at);
            }
            MemberChange::Left(_, connection) => {
                if let Some(join) = self.joins.remove(&(topic.clone(), *connection)) {
                    self.changes.remove(&join);
                    return;
                }
            }
        }
        self.changes.insert(at, (topic, change));
    }

    /// Posts changes. Returns `false` if a queue is full.
    pub(super) fn post(&mut self, common: &Common) -> bool {
        self.take(|owner, topic, change| {
            let message = ShardMessage::Members { topic, change };
            match common.peers[owner].messages.try_send(message) {
                Err(TrySendError::Full(ShardMessage::Members { topic, change })) => {
                    Some((topic, change))
                }
                // A shard that has drained needs no members.
                _ => None,
            }
        });
        self.changes.is_empty()
    }

    /// Gives the changes of each shard to `send`, until it returns one.
    fn take(
        &mut self,
        mut send: impl FnMut(usize, Topic, MemberChange) -> Option<(Topic, MemberChange)>,
    ) {
        let mut owner = 0;
        while let Some(at) = self.changes.range((owner, 0)..).next().map(|(at, _)| *at) {
            let Some((topic, change)) = self.changes.remove(&at) else { return };
            let join = match &change {
                MemberChange::Joined(member) => Some((topic.clone(), member.connection)),
                MemberChange::Left(..) => None,
            };
            owner = at.0;
            match send(owner, topic, change) {
                Some(returned) => {
                    self.changes.insert(at, returned);
                    owner += 1;
                }
                None => drop(join.and_then(|join| self.joins.remove(&join))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_wire::Topic;

    use super::{MemberChange, UnpostedChanges};
    use crate::shard::message::Member;

    fn topic(name: &str) -> Topic {
        name.parse().expect("a topic")
    }

    fn join(connection: u64) -> MemberChange {
        let key = connection.to_string().into();
        MemberChange::Joined(Member { connection, key, user: Box::default(), info: None })
    }

    fn leave(connection: u64) -> MemberChange {
        MemberChange::Left(connection.to_string().into(), connection)
    }

    /// Takes the changes that `room` has room for, as texts.
    fn taken(changes: &mut UnpostedChanges, room: &mut [usize]) -> Vec<String> {
        let mut texts = Vec::new();
        changes.take(|owner, topic, change| {
            if room[owner] == 0 {
                return Some((topic, change));
            }
            room[owner] -= 1;
            let (sign, connection) = match change {
                MemberChange::Joined(member) => ('+', member.connection),
                MemberChange::Left(_, connection) => ('-', connection),
            };
            texts.push(format!("{owner} {topic} {sign}{connection}"));
            None
        });
        texts
    }

    #[test]
    fn connections_that_come_and_go_leave_nothing_behind() {
        let mut changes = UnpostedChanges::default();
        for connection in 0..10_000 {
            changes.push(1, topic("room"), join(connection));
            changes.push(1, topic("hall"), join(connection));
            changes.push(1, topic("room"), leave(connection));
            changes.push(1, topic("hall"), leave(connection));
            assert!(taken(&mut changes, &mut [0, 0]).is_empty());
        }
        assert!(changes.changes.is_empty() && changes.joins.is_empty());
    }

    #[test]
    fn a_member_that_changes_its_mind_waits_with_two_changes_at_most() {
        let mut changes = UnpostedChanges::default();
        changes.push(0, topic("room"), join(1));
        assert_eq!(taken(&mut changes, &mut [1]), ["0 room +1"]);
        for _ in 0..10_000 {
            changes.push(0, topic("room"), leave(1));
            changes.push(0, topic("room"), join(1));
            assert!(changes.changes.len() <= 2);
            changes.push(0, topic("room"), leave(1));
            assert_eq!(taken(&mut changes, &mut [9]), ["0 room -1"]);
            changes.push(0, topic("room"), join(1));
            assert_eq!(taken(&mut changes, &mut [9]), ["0 room +1"]);
        }
    }

    #[test]
    fn changes_keep_their_order_for_each_shard() {
        let mut changes = UnpostedChanges::default();
        for (owner, name, change) in [
            (0, "room", join(1)),
            (2, "hall", join(1)),
            (0, "room", join(2)),
            (2, "hall", join(3)),
            (0, "room", join(4)),
        ] {
            changes.push(owner, topic(name), change);
        }
        // A full queue does not hold up that of another shard.
        let some = taken(&mut changes, &mut [1, 0, 9]);
        assert_eq!(some, ["0 room +1", "2 hall +1", "2 hall +3"]);
        // One join is posted, and one is not.
        changes.push(0, topic("room"), leave(1));
        changes.push(0, topic("room"), leave(2));
        assert_eq!(taken(&mut changes, &mut [9, 9, 9]), ["0 room +4", "0 room -1"]);
        assert!(changes.changes.is_empty() && changes.joins.is_empty());
    }
}
