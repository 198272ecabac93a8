//! One topic: its number of events so far, and its subscribers.

use std::rc::Rc;

/// Largest length of a topic's name (`docs/reference/topics.md`).
const TOPIC_BYTES_MAX: usize = 200;

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Rc<str>,
    /// Offset of the newest event.
    pub(crate) head: u64,
    pub(crate) groups: Vec<usize>,
}

impl Topic {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), head: 0, groups: Vec::new() }
    }
}

/// Returns whether `name` is in the topic grammar of `docs/reference/topics.md`.
pub(crate) fn is_topic(name: &str) -> bool {
    let is_segment = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
    };
    name.len() <= TOPIC_BYTES_MAX && name.split('/').all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topic_grammar_is_that_of_the_wire() {
        for good in ["cars", "matchesfeed/8/matchcentre", "a.b~c_d-e", "..."] {
            assert!(is_topic(good), "{good}");
        }
        let long = "x".repeat(TOPIC_BYTES_MAX + 1);
        for bad in ["", "/", "a//b", "a/", ".", "a/..", "ä", "a b", "a%2Fb", &long] {
            assert!(!is_topic(bad), "{bad}");
        }
    }
}
