use thalweg_wire::{Pattern, Topic};

/// The rights of a holder: the topics of each right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// Topics to subscribe to, to read and to query.
    pub subscribe: Topics,
    /// Topics to publish to and to delete.
    pub publish: Topics,
    /// Topics to show in the list of topics. The right to all topics includes `/metrics`.
    pub inspect: Topics,
    /// Whether the holder may close connections of others.
    pub admin: bool,
}

impl Rights {
    /// Returns all rights to all topics.
    pub fn all() -> Self {
        let [subscribe, publish, inspect] = [Topics::all(), Topics::all(), Topics::all()];
        Self { subscribe, publish, inspect, admin: true }
    }

    /// Returns the right to subscribe to all topics.
    pub fn to_subscribe() -> Self {
        Self { subscribe: Topics::all(), ..Self::default() }
    }
}

/// Topics that match one of the patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topics(Box<[Pattern]>);

impl Topics {
    /// Returns all topics.
    pub fn all() -> Self {
        Self::from_iter([Pattern::all()])
    }

    /// Returns whether a topic is among these topics.
    pub fn contain(&self, topic: &Topic) -> bool {
        self.0.iter().any(|pattern| pattern.matches(topic))
    }

    /// Returns whether these are all topics.
    pub fn are_all(&self) -> bool {
        self.0.iter().any(Pattern::is_all)
    }

    /// Returns whether these are no topics.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the patterns.
    pub fn patterns(&self) -> &[Pattern] {
        &self.0
    }
}

impl FromIterator<Pattern> for Topics {
    fn from_iter<I: IntoIterator<Item = Pattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}
