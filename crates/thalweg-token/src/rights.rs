use thalweg_wire::{Pattern, Topic};

/// What somebody may do: the topics of each right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// Topics to subscribe to, to read, and to ask queries of.
    pub subscribe: Topics,
    /// Topics to publish to, and to delete.
    pub publish: Topics,
    /// Topics that the list of topics shows. If these are all, `/metrics` is shown, too.
    pub inspect: Topics,
    /// Whether it may end connections of others.
    pub admin: bool,
}

/// Topics, by patterns: those that one of the patterns means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topics(Box<[Pattern]>);

impl Topics {
    /// Every topic there is.
    pub fn all() -> Self {
        Self::from_iter([Pattern::all()])
    }

    /// Whether a topic is one of them.
    pub fn contain(&self, topic: &Topic) -> bool {
        self.0.iter().any(|pattern| pattern.matches(topic))
    }

    /// Whether these are all topics.
    pub fn are_all(&self) -> bool {
        self.0.iter().any(Pattern::is_all)
    }

    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The patterns.
    pub fn patterns(&self) -> &[Pattern] {
        &self.0
    }
}

impl FromIterator<Pattern> for Topics {
    fn from_iter<I: IntoIterator<Item = Pattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}
