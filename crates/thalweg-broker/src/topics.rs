//! Lists of stored topics.

use std::collections::BTreeSet;

use thalweg_wire::{Pattern, Topic};

use crate::{BoxFuture, Unreadable};

/// A list of the topics that a broker stores.
pub trait TopicIndex: Sync {
    /// Returns the first topics of a range, in the order of their names. A topic is in the list if a record of it can be read
    /// that was answered by `Ok` before the call. One whose records are pauses, or were trimmed just now, may be in it, too; one whose
    /// newest record is an end may not.
    ///
    /// # Errors
    /// [`Unreadable`] if the list cannot be read now, or would take too long.
    fn topics(&self, range: TopicRange) -> BoxFuture<'_, Result<Vec<Topic>, Unreadable>>;
}

/// A part of the list of topics.
#[derive(Debug, Clone)]
pub struct TopicRange {
    /// Topics that match one of these patterns.
    pub patterns: Vec<Pattern>,
    /// Topics whose names begin with this.
    pub prefix: String,
    /// Topics whose names come after this one.
    pub after: String,
    /// Maximum number of topics.
    pub limit: usize,
}

impl TopicRange {
    /// Returns whether a topic of the range may match a pattern.
    pub fn may_match(&self, pattern: &Pattern) -> bool {
        let (prefix, beginning) = (self.prefix.as_str(), pattern.beginning());
        (prefix.starts_with(beginning) || beginning.starts_with(prefix))
            && self.patterns.iter().any(|own| own.overlaps(pattern))
    }
}

/// The first topics of a range, of those that are pushed in any order.
///
/// ```
/// # use thalweg_broker::{FirstTopics, TopicRange};
/// let patterns = vec!["orders/**".parse().unwrap()];
/// let range = TopicRange { patterns, prefix: String::new(), after: "orders/1".to_owned(), limit: 2 };
/// let mut first = FirstTopics::new(range);
/// for name in ["orders/4", "orders/1", "orders/3", "cars", "orders/2"] {
///     first.push(name.parse().unwrap());
/// }
/// let names: Vec<_> = first.finish().iter().map(|topic| topic.as_str().to_owned()).collect();
/// assert_eq!(names, ["orders/2", "orders/3"]);
/// ```
#[derive(Debug)]
pub struct FirstTopics {
    range: TopicRange,
    topics: BTreeSet<Topic>,
}

impl FirstTopics {
    /// Returns an empty list.
    pub fn new(range: TopicRange) -> Self {
        Self { range, topics: BTreeSet::new() }
    }

    /// Returns whether a topic with this name would be in the list.
    pub fn wants(&self, name: &str) -> bool {
        let Self { range, topics } = self;
        let has_room = topics.len() < range.limit
            || topics.last().is_some_and(|last| name < last.as_str() && range.limit > 0);
        has_room
            && name > range.after.as_str()
            && name.starts_with(&range.prefix)
            && name.parse().is_ok_and(|topic| range.patterns.iter().any(|own| own.matches(&topic)))
    }

    /// Adds a topic, if it is wanted.
    pub fn push(&mut self, topic: Topic) {
        if self.wants(topic.as_str()) {
            self.topics.insert(topic);
        }
        if self.topics.len() > self.range.limit {
            self.topics.pop_last();
        }
    }

    /// Returns the list, in order.
    pub fn finish(self) -> Vec<Topic> {
        self.topics.into_iter().collect()
    }
}
