use std::collections::{HashMap, VecDeque};

use super::group::{Group, Key};

/// Topics that wait for capacity, in order within their group. Groups take turns.
#[derive(Debug, Default)]
pub(super) struct WaitingFetches {
    turns: VecDeque<Group>,
    /// The waiting topics, with the turn of each; no queue is empty.
    by_group: HashMap<Group, VecDeque<(Key, u64)>>,
}

impl WaitingFetches {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn push(&mut self, group: Group, key: Key, turn: u64) {
        let topics = self.by_group.entry(group).or_default();
        if topics.is_empty() {
            self.turns.push_back(group);
        }
        topics.push_back((key, turn));
    }

    /// Returns the next topic of the next group with capacity.
    pub(super) fn pop(&mut self, has_room: impl Fn(Group) -> bool) -> Option<(Key, u64)> {
        // Few groups are at their limit at a time: each of them holds most of the capacity.
        let at = self.turns.iter().position(|group| has_room(*group))?;
        self.turns.rotate_left(at);
        let group = self.turns.pop_front()?;
        let topics = self.by_group.get_mut(&group)?;
        let next = topics.pop_front();
        if topics.is_empty() {
            self.by_group.remove(&group);
        } else {
            self.turns.push_back(group);
        }
        next
    }
}
