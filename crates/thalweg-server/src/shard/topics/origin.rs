use thalweg_core::stream::{FeedKind, Offsets};
use thalweg_wire::Topic;

use crate::{
    config::{Config, TopicSettings},
    refusal::Refusal,
    shard::broker::BrokerStreams,
};

/// The origin of a topic's events, as the settings and the brokers' streams say. A topic without any of these has publishers or sources.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::shard) struct Origin {
    stream: Option<u32>,
    upstream: Option<u32>,
    pub(super) is_derived: bool,
    /// Whether the topic lists the members of another one.
    pub(super) is_presence: bool,
}

impl Origin {
    pub(super) fn new(config: &Config, streams: &BrokerStreams, topic: &Topic) -> Self {
        let is_derived = config.is_derived(topic);
        let upstream = config.upstream(topic);
        let is_presence = config.is_presence(topic);
        let is_keyed = config.keys(topic).is_some();
        let stream = streams.matching(topic, is_keyed).filter(|stream| {
            if is_presence {
                // Members are those of this life of the server, or of all servers that share them.
                return streams.get(*stream).shares_keys() && config.may_share_presence(topic);
            }
            // Each server makes the rows of queries itself. A stream of versions stores fetched documents if its
            // broker can compare and set. Otherwise each server fetches for itself.
            let stream = streams.get(*stream);
            let has_versions = stream.stream.kind.has_versions() && stream.can_compare;
            !is_derived && (upstream.is_none() || has_versions)
        });
        let index = |index: usize| index as u32;
        Self { stream: stream.map(index), upstream: upstream.map(index), is_derived, is_presence }
    }

    /// Returns the stream that orders and stores the events, as an index among those of all brokers.
    pub(in crate::shard) fn stream(self) -> Option<usize> {
        self.stream.map(|index| index as usize)
    }

    /// Returns the upstream from which the events are fetched, as an index.
    pub(in crate::shard) fn upstream(self) -> Option<usize> {
        self.upstream.map(|index| index as usize)
    }

    pub(in crate::shard) fn is_broker_topic(self) -> bool {
        self.stream.is_some()
    }

    /// Returns whether the topic may have events that this server does not have yet. Subscribers may always create it.
    pub(super) fn exists_elsewhere(self) -> bool {
        self.stream.is_some() || self.upstream.is_some() || self.is_derived || self.is_presence
    }

    /// Checks that clients may publish to the topic.
    pub(in crate::shard) fn check_publish(self, topic: &Topic) -> Result<(), Refusal> {
        match self {
            Self { upstream: Some(_), .. } => Err(Refusal::fetched(topic)),
            Self { is_derived: true, .. } => Err(Refusal::derived(topic)),
            Self { is_presence: true, .. } => Err(Refusal::presence(topic)),
            Self { .. } => Ok(()),
        }
    }

    pub(super) fn kind(self, settings: &TopicSettings, streams: &BrokerStreams) -> FeedKind {
        self.stream().map_or(settings.kind, |stream| streams.get(stream).stream.kind)
    }

    pub(super) fn offsets(self) -> Offsets {
        match self {
            Self { stream: Some(_), .. } => Offsets::Stored,
            Self { is_derived: true, .. } => Offsets::Derived,
            Self { .. } => Offsets::Consecutive,
        }
    }
}
