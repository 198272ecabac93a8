use thalweg_core::stream::FeedKind;
use thalweg_wire::{Pattern, Topic};

/// The topics in the streams of brokers. The first matching pattern applies: for keyed topics, of the streams that keep
/// keys; for other topics, of the other streams.
#[derive(Clone, Debug, Default)]
pub struct SharedTopics(Vec<(Pattern, FeedKind)>);

impl SharedTopics {
    /// Combines the patterns of streams, and the kinds of their topics.
    pub fn new(streams: impl IntoIterator<Item = (Pattern, FeedKind)>) -> Self {
        Self(streams.into_iter().collect())
    }

    /// Returns the kind of a topic, whose settings say whether it is keyed; `None` if it is not shared.
    pub(crate) fn kind(&self, topic: &Topic, is_keyed: bool) -> Option<FeedKind> {
        let of_class = self.0.iter().filter(|(_, kind)| kind.has_keys() == is_keyed);
        of_class.into_iter().find(|(pattern, _)| pattern.matches(topic)).map(|(_, kind)| *kind)
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter().map(|(pattern, _)| pattern)
    }
}
