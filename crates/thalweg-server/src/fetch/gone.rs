//! Remembers for a while which documents upstreams do not have. Pure.

use std::collections::{HashMap, VecDeque};

use thalweg_wire::Topic;

/// Missing documents, each with its expiry.
#[derive(Debug)]
pub(super) struct Gone {
    topics_max: usize,
    until_us: HashMap<Topic, u64>,
    /// In order of arrival, with their original expiry.
    order: VecDeque<(Topic, u64)>,
}

impl Gone {
    pub(super) fn new(topics_max: usize) -> Self {
        Self { topics_max, until_us: HashMap::new(), order: VecDeque::new() }
    }

    /// Remembers a missing document. Beyond the limit, the oldest is forgotten.
    pub(super) fn remember(&mut self, topic: &Topic, until_us: u64) {
        self.until_us.insert(topic.clone(), until_us);
        self.order.push_back((topic.clone(), until_us));
        while self.order.len() > self.topics_max {
            self.forget_oldest();
        }
    }

    pub(super) fn contains(&self, topic: &Topic, now_us: u64) -> bool {
        self.until_us.get(topic).is_some_and(|until_us| *until_us > now_us)
    }

    /// Forgets expired entries.
    pub(super) fn sweep(&mut self, now_us: u64) {
        // Upstreams have different times: an expired entry may wait behind another one.
        while self.order.front().is_some_and(|(_, until_us)| *until_us <= now_us) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((topic, until_us)) = self.order.pop_front()
            && self.until_us.get(&topic) == Some(&until_us)
        {
            self.until_us.remove(&topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_remembered_for_a_limited_time_and_in_a_limited_number() {
        let [a, b, c] = ["a", "b", "c"].map(|name| name.parse::<Topic>().unwrap());
        let mut gone = Gone::new(2);
        gone.remember(&a, 10);
        assert!(gone.contains(&a, 9) && !gone.contains(&a, 10) && !gone.contains(&b, 0));
        gone.remember(&b, 20);
        gone.remember(&c, 30);
        assert!(!gone.contains(&a, 0) && gone.contains(&b, 0) && gone.contains(&c, 0));
        // Again, and longer: the first time no longer counts.
        gone.remember(&c, 40);
        gone.sweep(35);
        assert!(gone.contains(&c, 35));
        gone.sweep(40);
        assert!(gone.until_us.is_empty() && gone.order.is_empty());
    }
}
