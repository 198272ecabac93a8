use thalweg_core::stream::FeedKind;
use thalweg_wire::{Pattern, Topic};

/// The topics in the streams of brokers, which several servers share. The first matching pattern applies.
#[derive(Clone, Debug, Default)]
pub struct SharedTopics(Vec<(Pattern, FeedKind)>);

impl SharedTopics {
    /// Combines the patterns of streams, and the kinds of their topics.
    pub fn new(streams: impl IntoIterator<Item = (Pattern, FeedKind)>) -> Self {
        Self(streams.into_iter().collect())
    }

    /// Returns the kind of a topic; `None` if it is not shared.
    pub(crate) fn kind(&self, topic: &Topic) -> Option<FeedKind> {
        self.0.iter().find(|(pattern, _)| pattern.matches(topic)).map(|(_, kind)| *kind)
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter().map(|(pattern, _)| pattern)
    }
}
