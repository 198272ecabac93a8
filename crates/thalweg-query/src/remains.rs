//! Groups to drop. Each has several allocations. Freeing thousands at once would take too long, so groups are dropped in
//! steps.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map},
    vec,
};

use crate::{
    group::{Group, Keyed, RunningGroup},
    limits::DROPPED_GROUPS_PER_LOOK,
};

/// Groups of ended queries and of lost windows, until they are dropped.
#[derive(Debug, Default)]
pub struct Remains(Vec<WindowGroups>);

#[derive(Debug)]
enum WindowGroups {
    One(Option<Group>),
    ByKey(hash_map::IntoIter<Box<[u8]>, Group>),
    Ordered(vec::IntoIter<Reverse<Keyed>>),
    /// The groups of a query without windows, and their keys.
    Running(vec::IntoIter<RunningGroup>, hash_map::IntoIter<Box<[u8]>, u32>),
}

impl Remains {
    /// Returns whether no group is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of groups left.
    pub fn groups(&self) -> usize {
        let groups = self.0.iter().map(|window| match window {
            WindowGroups::One(group) => usize::from(group.is_some()),
            WindowGroups::ByKey(groups) => groups.len(),
            WindowGroups::Ordered(groups) => groups.len(),
            WindowGroups::Running(groups, keys) => groups.len().max(keys.len()),
        });
        groups.sum()
    }

    /// Adds the groups of another query.
    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Drops groups until none is left or `goes_on` returns false. `goes_on` gets the number of groups dropped since
    /// its last call. Returns whether no group is left.
    pub fn drop_while(&mut self, mut goes_on: impl FnMut(usize) -> bool) -> bool {
        while !self.is_empty() {
            let dropped = (0..DROPPED_GROUPS_PER_LOOK).take_while(|_| self.drop_one()).count();
            if !goes_on(dropped) {
                return self.is_empty();
            }
        }
        true
    }

    /// Drops a group or an empty window. Returns whether there was one.
    fn drop_one(&mut self) -> bool {
        let is_over = match self.0.last_mut() {
            None => return false,
            Some(WindowGroups::One(group)) => group.take().is_none(),
            Some(WindowGroups::ByKey(groups)) => groups.next().is_none(),
            Some(WindowGroups::Ordered(groups)) => groups.next().is_none(),
            Some(WindowGroups::Running(groups, keys)) => {
                let (group, key) = (groups.next(), keys.next());
                group.is_none() && key.is_none()
            }
        };
        if is_over {
            self.0.pop();
        }
        true
    }

    pub(crate) fn add(
        &mut self,
        only: Option<Group>,
        by_key: hash_map::IntoIter<Box<[u8]>, Group>,
    ) {
        self.0.extend(only.map(|group| WindowGroups::One(Some(group))));
        if by_key.len() > 0 {
            self.0.push(WindowGroups::ByKey(by_key));
        }
    }

    pub(crate) fn add_running(
        &mut self,
        groups: Vec<RunningGroup>,
        by_key: HashMap<Box<[u8]>, u32>,
    ) {
        if !groups.is_empty() {
            self.0.push(WindowGroups::Running(groups.into_iter(), by_key.into_iter()));
        }
    }

    pub(crate) fn add_ordered(&mut self, groups: Vec<Reverse<Keyed>>) {
        if !groups.is_empty() {
            self.0.push(WindowGroups::Ordered(groups.into_iter()));
        }
    }
}
