//! Messages between shards.

use std::{fmt::Display, sync::Arc};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use thalweg_columns::Columns;
use thalweg_core::stream::{Batch, Payloads, StatePart};
use thalweg_wire::{EndCode, Epoch, KeyFilter, Offset, Pattern, Position, StartAt, Topic};
use tokio::sync::oneshot;

use super::{
    broker::{HistoryBackfill, Paused, Pauses},
    open_sockets::OpenSocket,
    page::PageParts,
    publish_result::PublishResult,
    session_input::{SessionInput, SubscriberId},
    topic_samples::FiguresPart,
    topic_subscribers::ShownSubscribers,
};
use crate::{
    access::{AccessPolicy, Holder, Right, Wanted},
    broker::{FromBroker, PublishTerms},
    connection_limits::{Address, ConnectionPermit},
    fetch::Fetched,
    refusal::Refusal,
};

/// A message to a shard. The queue is bounded. Batches are posted by cursor, so a full queue delays them and loses none.
pub(crate) enum ShardMessage {
    /// A socket to serve.
    Connection(Arrival),
    /// Events for a topic that this shard owns.
    Append {
        topic: Topic,
        /// Whether a broker stores them, as the sender has found.
        is_broker_topic: bool,
        payloads: Payloads,
        terms: PublishTerms,
        answer: oneshot::Sender<Result<PublishResult, Refusal>>,
    },
    /// A client has acked a position of a topic whose source runs on this shard and waits for acks.
    Ack(Ack),
    /// A query has found that a topic of a stream, which this shard owns, has paused.
    Paused(Paused),
    /// A broker's records and answers for topics that this shard owns.
    FromBroker(FromBroker),
    /// A document, or the end, of a fetched topic that this shard owns.
    Fetched(Fetched),
    Lookup(Lookup),
    /// A shard begins to follow a topic that this shard owns.
    Attach {
        follower: FollowerId,
        /// The address for which the first subscriber there counts, if any.
        address: Option<Address>,
    },
    /// A shard no longer follows a topic that this shard owns.
    Detach(FollowerId),
    /// The owner shard has no room for a topic that the receiver follows.
    NoRoom(FollowerId),
    /// Batches that a following shard does not have yet.
    Batches {
        topic: Topic,
        /// The attachment that they are for. The receiver drops batches of another attachment.
        attachment: u64,
        posted: Posted,
    },
    /// A connection of another shard has joined or left a topic whose presence this shard owns.
    Members {
        topic: Topic,
        change: MemberChange,
    },
    /// Delete a topic that this shard owns.
    Delete {
        topic: Topic,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    Access(Arc<AccessPolicy>),
    /// End connections. The answer is their number.
    Disconnect {
        wanted: Arc<Disconnect>,
        answer: oneshot::Sender<usize>,
    },
    /// A request of a session whose connection is here. If it has ended, the channel of the answer closes.
    Session {
        id: SubscriberId,
        input: SessionInput,
    },
    /// Send all published events, to other shards too, then answer. The server ends soon.
    Flush(oneshot::Sender<()>),
    Drain,
}

/// The connections that an administrator ends.
#[derive(Debug, Clone)]
pub(crate) enum Disconnect {
    /// Connections whose token has this subject.
    Subject(Box<str>),
    /// Connections whose token has this name.
    Token(Box<str>),
    /// Connections that read a topic of this pattern, or publish lines to one.
    Topics(Pattern),
}

impl Wanted for Disconnect {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Administer].into_iter()
    }
}

impl Disconnect {
    /// Returns whether a connection with this holder and these topics is meant.
    pub(super) fn means<'a>(
        &self,
        holder: &Holder,
        mut topics: impl Iterator<Item = &'a Topic>,
    ) -> bool {
        match self {
            Self::Subject(subject) => !subject.is_empty() && **subject == *holder.subject(),
            Self::Token(name) => !name.is_empty() && **name == *holder.token(),
            Self::Topics(pattern) => topics.any(|topic| pattern.matches(topic)),
        }
    }
}

/// A connection that joins or leaves a topic with presence.
#[derive(Debug)]
pub(crate) enum MemberChange {
    Joined(Member),
    /// A connection of the member with this key has gone. It may have been refused.
    Left(Arc<str>, u64),
}

/// A member of a topic.
#[derive(Debug)]
pub(crate) struct Member {
    /// The serial number of its connection, which no other connection of the process has.
    pub(crate) connection: u64,
    /// Its key among the members.
    pub(crate) key: Arc<str>,
    /// The subject of its token; empty without one.
    pub(crate) user: Box<str>,
    /// The client's description of itself.
    pub(crate) info: Option<Box<RawValue>>,
}

/// News of a topic, posted by its owner shard to a follower.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) epoch: Epoch,
    /// The offset at which the batches begin.
    pub(crate) from: Offset,
    pub(crate) batches: Vec<Arc<Batch>>,
    /// A part of a keyed topic's state, instead of batches.
    pub(crate) state: Option<StatePart>,
    /// The head after the batches. Events before it that are in no batch were not retained.
    pub(crate) head: Offset,
    pub(crate) pauses: Pauses,
    /// Set if the topic has ended after the batches.
    pub(crate) end: Option<Ending>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Subscribers get an end with this code.
    Ended(EndCode),
    /// Another topic with this name and another epoch exists. Subscribers reconnect.
    Restarted,
}

/// A client's ack for the source of a topic.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    pub(crate) topic: Topic,
    pub(crate) position: Position,
}

/// An accepted socket and its permit.
pub(crate) struct Arrival {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) permit: ConnectionPermit,
    pub(crate) open: OpenSocket,
}

/// A shard that follows a topic, in one attachment.
#[derive(Debug, Clone)]
pub(crate) struct FollowerId {
    pub(crate) topic: Topic,
    pub(crate) shard: usize,
    /// A number that the following shard uses once.
    pub(crate) attachment: u64,
}

/// A question about the topics that a shard has, and the sender for the answer.
pub(crate) enum Lookup {
    /// The topics of a list that the shard has, in order.
    Topics { listing: TopicListing, answer: oneshot::Sender<Vec<ListedTopic>> },
    /// The figures of some topics from this place on.
    Figures { from: u32, answer: oneshot::Sender<FiguresPart> },
    /// The subscribers of a topic.
    Subscribers { topic: Topic, answer: oneshot::Sender<ShownSubscribers> },
    /// The first of these topics that the shard does not have.
    Missing { topics: Vec<Topic>, answer: oneshot::Sender<Option<Topic>> },
    /// At most `limit` events of a topic, or of its keys that a filter selects, from `start` on. `None` if there is no such topic.
    History {
        topic: Topic,
        filter: Option<Arc<KeyFilter>>,
        start: StartAt,
        limit: usize,
        answer: oneshot::Sender<Option<HistorySource>>,
    },
    /// Answers when the state of a keyed topic that a broker stores is in the shard's memory.
    Keys { topic: Topic, answer: oneshot::Sender<Result<(), Refusal>> },
    /// The start of a subscription that wants the events of a topic since a time, or its newest events.
    Start { topic: Topic, start: StartAt, answer: oneshot::Sender<KnownStart> },
    /// The columns over which a query of a topic is planned.
    Columns { topic: Topic, answer: oneshot::Sender<Option<Arc<Columns>>> },
    /// The columns to return to clients, if they are known. `None` if there is no such topic.
    ToldColumns { topic: Topic, answer: oneshot::Sender<Option<Option<Arc<Columns>>>> },
}

pub(crate) enum HistorySource {
    Retained(PageParts),
    Backfill(Box<HistoryBackfill>),
    /// The state of a keyed topic that a broker stores is not in memory, or not all of it.
    Evicted,
}

/// The start of a subscription that wants the events since a time, or the newest events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownStart {
    Known(StartAt),
    /// A broker may store more of these events. The fields are the indices of the broker and of the stream in it, and the
    /// stream's epoch.
    Stored(usize, usize, Epoch),
}

/// A request for a part of the list of topics.
#[derive(Debug, Clone)]
pub(crate) struct TopicListing {
    pub(crate) after: String,
    pub(crate) prefix: String,
    pub(crate) limit: usize,
    /// The topics that the reader may see.
    pub(crate) shown: thalweg_token::Topics,
}

impl TopicListing {
    /// Returns the prefixes that the names in the list have, in order. No prefix is the beginning of another one,
    /// so the shard looks at few topics if the reader may see few.
    pub(super) fn beginnings(&self) -> Vec<&str> {
        let prefix = &*self.prefix;
        let narrowed = self.shown.patterns().filter_map(|pattern| match pattern.beginning() {
            own if own.starts_with(prefix) => Some(own),
            own if prefix.starts_with(own) => Some(prefix),
            _ => None,
        });
        let mut beginnings: Vec<&str> = narrowed.collect();
        beginnings.sort_unstable();
        beginnings.dedup_by(|next, before| next.starts_with(*before));
        beginnings
    }
}

impl Wanted for TopicListing {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewTopics].into_iter()
    }
}

/// One topic as one shard knows it.
#[derive(Serialize)]
pub(crate) struct ListedTopic {
    pub(super) topic: Text<Topic>,
    /// The position of the newest event, which only the owner shard knows.
    pub(super) position: Option<Text<Position>>,
    /// The number of retained events.
    pub(super) events: u64,
    /// The number of subscribers on this shard.
    pub(super) subscribers: u64,
}

impl ListedTopic {
    /// Returns the entry of a topic that a broker stores, and that perhaps no shard has.
    pub(super) fn stored(topic: Topic) -> Self {
        Self { topic: Text(topic), position: None, events: 0, subscribers: 0 }
    }
}

/// A value that is serialised to JSON as its text.
pub(crate) struct Text<T>(pub(super) T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_token::{TopicScope, Topics};

    use super::TopicListing;

    #[test]
    fn only_permitted_topics_are_inspected() {
        let check = |patterns: &[&str], prefix: &str, expected: &[&str]| {
            let shown: Topics =
                patterns.iter().map(|pattern| pattern.parse::<TopicScope>().unwrap()).collect();
            let listing =
                TopicListing { after: String::new(), prefix: prefix.to_owned(), limit: 1, shown };
            assert_eq!(listing.beginnings(), expected, "{patterns:?} {prefix}");
        };
        check(&["**"], "", &[""]);
        check(&["**", "a/*"], "a", &["a"]);
        check(
            &["users/bob/**", "rooms/*/in", "rooms/7/*", "cars"],
            "",
            &["cars", "rooms/", "users/bob/"],
        );
        check(&["users/bob/**", "rooms/*/in"], "users/bob/x", &["users/bob/x"]);
        check(&["users/bob/**", "rooms/*/in"], "r", &["rooms/"]);
        check(&["users/bob/**"], "rooms", &[]);
        check(&["a", "a/b", "ab"], "", &["a"]);
    }
}
