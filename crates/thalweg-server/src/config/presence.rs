//! Presence: the subscribers of a topic, listed as another topic.

use thalweg_wire::Topic;

/// The prefix of the topics that list the members of other topics.
const PRESENCE_TOPICS: &str = "presence/";

/// The topic in which the servers that share the members of topics say that they run. It lists the members of no topic.
pub(crate) const NODES_TOPIC: &str = "presence/presence/nodes";

/// How the members of a topic are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// The meaning of a key.
    pub of: PresenceOf,
    /// How long a member stays after its last connection, in µs.
    pub grace_us: u64,
}

/// The published part of a topic's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenceOf {
    /// An entry for each subject of a token, and for each connection without a subject.
    Users,
    /// An entry for each connection.
    Connections,
    /// The number of connections only.
    Count,
}

impl PresenceOf {
    /// The names in settings.
    pub const NAMES: [&str; 3] = ["users", "connections", "count"];

    /// Returns its name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Connections => "connections",
            Self::Count => "count",
        }
    }

    /// Parses a name in settings.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "users" => Some(Self::Users),
            "connections" => Some(Self::Connections),
            "count" => Some(Self::Count),
            _ => None,
        }
    }
}

/// Returns the topic that lists the members of `topic`. `None` if its name would be too long, or if `topic` lists members itself.
pub(crate) fn presence_topic(topic: &Topic) -> Option<Topic> {
    (!topic.as_str().starts_with(PRESENCE_TOPICS))
        .then(|| format!("{PRESENCE_TOPICS}{topic}").parse().ok())
        .flatten()
}

/// Returns the topic whose members `topic` lists.
pub(crate) fn topic_of_members(topic: &Topic) -> Option<Topic> {
    topic.as_str().strip_prefix(PRESENCE_TOPICS)?.parse().ok()
}
