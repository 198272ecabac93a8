//! What a client asks for: read once, executed in one place.

use std::sync::Arc;

use serde_json::value::RawValue;
use smallvec::SmallVec;
use thalweg_wire::{
    EndCode, ErrorCode, Excerpt, Position, StartAt, Topic,
    answer::{self, Published},
    close,
    command::{self, Asked},
    event,
};

use super::{Handle, Shard, ingest::PendingPublish, subscribers::SubscriberId};
use crate::{
    access::{AccessPolicy, Allowed, Holder, Right, Unidentified, Wanted},
    clock::{Now, now_us},
    rates::{Act, Rated},
    refusal::Refusal,
    transport::{Client, parameters},
};
use thalweg_core::{
    fanout::{FeedKey, Policy, Subscribe, Terms},
    stream::Payloads,
};

/// What a client asks for, read and checked.
pub(crate) struct Request {
    /// Comes back with the answer.
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) command: Result<Command, Refusal>,
    /// How long it is.
    pub(crate) bytes: usize,
}

pub(crate) enum Command {
    Publish { topic: Topic, payloads: Payloads },
    Subscribe { topic: Topic, start: StartAt, terms: Terms },
    Unsubscribe { topic: Topic },
    Echo { data: Box<RawValue> },
    Ack { topic: Topic, position: Position },
    Refresh { token: Box<str> },
}

/// Who asks for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) client: Client,
    /// The subscriber whose connection it came on; a `POST` has none.
    pub(crate) subscriber: Option<SubscriberId>,
}

/// The result of a command that is not refused.
pub(crate) enum Answer {
    Echo(Box<RawValue>),
    Published(Published),
    Done(Topic, Option<Position>),
    /// How long the new token lasts, in seconds, if it ends.
    Refreshed(Option<u64>),
}

/// A command that is executed, or has to wait for another shard first.
pub(super) enum Execution {
    Done(Result<Answer, Refusal>),
    Waiting(Waiting),
}

pub(super) enum Waiting {
    /// For the events to be appended.
    Append(Topic, PendingPublish),
    /// For the topic's home to confirm that the topic exists. The subscription begins only
    /// then.
    Find(Topic, StartAt, Terms),
    /// For the key of a token.
    Key(Box<str>),
}

impl Request {
    /// What it takes of its client's rates.
    pub(crate) fn acts(&self) -> [(Act, u64); 3] {
        let events = match &self.command {
            Ok(Command::Publish { payloads, .. }) => payloads.count() as u64,
            _ => 0,
        };
        [(Act::Command, 1), (Act::Byte, self.bytes as u64), (Act::Publish, events)]
    }

    /// Reads a command. `event_bytes_max` limits each event of a client that may publish.
    /// Without it the events are not read, because they may be many.
    pub(crate) fn read(text: &str, event_bytes_max: Option<usize>) -> Self {
        let Asked { id, command } = Asked::parse(text);
        let command = command
            .map_err(|message| Refusal::new(ErrorCode::BadCommand, message))
            .and_then(|command| Command::check(command, event_bytes_max));
        Self { id: id.map(ToOwned::to_owned), command, bytes: text.len() }
    }
}

impl Answer {
    /// The JSON of docs/wire.md, "Commands", for the request with this id.
    pub(crate) fn to_json(&self, id: Option<&RawValue>) -> Vec<u8> {
        match self {
            Self::Echo(data) => answer::echo(id, data),
            Self::Published(published) => published.to_answer(id),
            Self::Done(topic, position) => answer::done(id, topic, *position),
            Self::Refreshed(expires_in_s) => answer::refreshed(id, *expires_in_s),
        }
    }
}

impl Waiting {
    /// Whether the next commands of its connection must wait too, to keep their order.
    pub(super) fn is_first(&self) -> bool {
        let is_on_its_way = |it: &PendingPublish| {
            matches!(it, PendingPublish::Posted(_) | PendingPublish::Storing(_))
        };
        !matches!(self, Self::Append(_, pending) if is_on_its_way(pending))
    }
}

impl Command {
    fn check(
        command: command::Command<'_>,
        event_bytes_max: Option<usize>,
    ) -> Result<Self, Refusal> {
        Ok(match command {
            command::Command::Publish { topic, events } => {
                let mut payloads = Payloads::default();
                if let Some(bytes_max) = event_bytes_max {
                    for raw in events {
                        payloads
                            .push(|out| event::push_json(raw.get().as_bytes(), bytes_max, out))?;
                    }
                }
                Self::Publish { topic: topic.parse()?, payloads }
            }
            command::Command::Subscribe(command::Subscribe {
                topic,
                cursor,
                policy,
                interval,
                window,
            }) => {
                let read_time = |text: &str| parameters::time_us("interval", text);
                Self::Subscribe {
                    topic: topic.parse()?,
                    start: cursor.as_deref().map_or(Ok(StartAt::default()), parameters::start)?,
                    terms: Terms {
                        policy: policy
                            .as_deref()
                            .map_or(Ok(Policy::default()), parameters::policy)?,
                        interval_us: interval.as_deref().map_or(Ok(0), read_time)?,
                        window_bytes: window.as_deref().map(parameters::window).transpose()?,
                    },
                }
            }
            command::Command::Unsubscribe { topic } => Self::Unsubscribe { topic: topic.parse()? },
            command::Command::Echo { data } => {
                event::check_depth(data)?;
                Self::Echo { data: data.to_owned() }
            }
            command::Command::Refresh { token } => Self::Refresh { token: token.into() },
            command::Command::Ack { topic, position } => {
                Self::Ack { topic: topic.parse()?, position: position.parse()? }
            }
        })
    }
}

impl Wanted for Command {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        let right = match self {
            Self::Publish { topic, .. } => Some(Right::Publish(topic)),
            Self::Subscribe { topic, .. } | Self::Ack { topic, .. } => {
                Some(Right::Subscribe(topic))
            }
            Self::Unsubscribe { .. } | Self::Echo { .. } | Self::Refresh { .. } => None,
        };
        right.into_iter()
    }
}

impl Handle {
    /// Executes a command and waits for its answer.
    ///
    /// # Errors
    /// When it is refused.
    pub(crate) async fn execute(
        &self,
        command: Allowed<Command>,
        context: &Context,
    ) -> Result<Answer, Refusal> {
        match self.with_shard(|shard| shard.execute(command, context)) {
            Execution::Done(answer) => answer,
            Execution::Waiting(waiting) => self.finish(waiting, context).await,
        }
    }

    /// Executes what had to wait.
    pub(super) async fn finish(
        &self,
        waiting: Waiting,
        context: &Context,
    ) -> Result<Answer, Refusal> {
        match waiting {
            Waiting::Append(topic, appending) => {
                appending.result().await.map(|result| Answer::Published(result.published(&topic)))
            }
            Waiting::Find(topic, start, terms) => {
                self.find(std::iter::once(&topic), context.client.counted()).await?;
                self.with_shard(|shard| shard.begin_subscription(context, &topic, start, terms))?;
                Ok(Answer::Done(topic, None))
            }
            Waiting::Key(token) => {
                if let Some(keys) = self.access().holders.published_keys() {
                    keys.newer(now_us()).await?;
                }
                self.with_shard(|shard| Ok(shard.refresh(context, token.as_bytes())??))
            }
        }
    }
}

impl Shard {
    /// Executes the part of a command that belongs to this shard. All commands are executed
    /// here.
    pub(super) fn execute(&mut self, command: Allowed<Command>, context: &Context) -> Execution {
        Execution::Done(match command.into_inner() {
            Command::Echo { data } => Ok(Answer::Echo(data)),
            Command::Publish { topic, mut payloads } => {
                match self.ingest.publish(&mut self.topics, &topic, &mut payloads, None) {
                    PendingPublish::Done(result) => {
                        result.map(|result| Answer::Published(result.published(&topic)))
                    }
                    appending => return Execution::Waiting(Waiting::Append(topic, appending)),
                }
            }
            Command::Subscribe { topic, start, terms } => {
                let is_found = !self.topics.needs_lookup(&topic, context.client.counted());
                if context.subscriber.is_some() && !is_found {
                    return Execution::Waiting(Waiting::Find(topic, start, terms));
                }
                self.begin_subscription(context, &topic, start, terms)
                    .map(|()| Answer::Done(topic, None))
            }
            Command::Unsubscribe { topic } => {
                self.end_subscription(context, &topic).map(|()| Answer::Done(topic, None))
            }
            Command::Refresh { token } => match self.refresh(context, token.as_bytes()) {
                Ok(Err(Unidentified::UnknownKey)) => {
                    return Execution::Waiting(Waiting::Key(token));
                }
                Ok(refreshed) => refreshed.map_err(Refusal::from),
                Err(refusal) => Err(refusal),
            },
            Command::Ack { topic, position } => {
                self.ack(context, &topic, position);
                Ok(Answer::Done(topic, Some(position)))
            }
        })
    }

    fn begin_subscription(
        &mut self,
        context: &Context,
        topic: &Topic,
        start: StartAt,
        terms: Terms,
    ) -> Result<(), Refusal> {
        let id = context.subscriber()?;
        if self.feed_read(id, topic).is_some() {
            let topic = Excerpt(topic.as_str());
            let message = format!("this connection has {topic} already: unsubscribe first");
            return Err(Refusal::new(ErrorCode::AlreadySubscribed, message));
        }
        let Some(connection) = self.subscribers.get_mut(id) else { return Ok(()) };
        // Its rights may have changed while the topic was looked for.
        self.access.authorise(&connection.holder, Right::Subscribe(topic))?;
        let count = connection.subscriber.feeds().count();
        let subscriptions_max = self.common.config.limits.subscriptions;
        if count >= subscriptions_max {
            return Err(Refusal::too_many_subscriptions(subscriptions_max));
        }
        // Only now, so that a refused command leaves no topic behind.
        let feed = self.topics.open_subscribed(topic, context.client.counted())?;
        if let Some(connection) = self.subscribers.get_mut(id) {
            connection.subscriber.subscribe(Subscribe { feed, start, terms });
        }
        self.subscribers.join(&mut self.topics, id.key, feed, now_us());
        Ok(())
    }

    /// Gives a connection another token of the same holder. Topics that this one gives no right to
    /// end for it.
    ///
    /// # Errors
    /// When the token is not good; inside, when it is not known whose it is.
    fn refresh(
        &mut self,
        context: &Context,
        token: &[u8],
    ) -> Result<Result<Answer, Unidentified>, Refusal> {
        let id = context.subscriber()?;
        let Some(connection) = self.subscribers.get_mut(id) else {
            return Ok(Ok(Answer::Refreshed(None)));
        };
        if connection.holder.is_nobody() {
            // Before it is verified: that costs as much as a hundred commands.
            let message = "this connection began without a token: open another one with it";
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
        let now = Now::get();
        let address = context.client.counted();
        let rated = Rated { subject: None, address };
        let uncounted = self.common.rates.take(rated, None, (Act::Verification, 1), now.us)?;
        self.subscribers.counts.rates_uncounted.add(uncounted);
        let holder = match self.access.holders.holder(token, now) {
            Ok(holder) => holder,
            Err(unidentified) => {
                if let (Unidentified::Refused(_), Some(address)) = (&unidentified, address) {
                    self.common.rates.charge(address, now.us);
                }
                return Ok(Err(unidentified));
            }
        };
        let Some(connection) = self.subscribers.get_mut(id) else {
            return Ok(Ok(Answer::Refreshed(None)));
        };
        if connection.holder.identity != holder.identity {
            let message = "the token is another holder's: open another connection with it";
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
        let expires_in_s = holder.left_s(now.us);
        self.change_holder(id.key, holder);
        Ok(Ok(Answer::Refreshed(expires_in_s)))
    }

    /// Gives a connection another holder's rights. Topics to which there is no right any more end
    /// for it.
    fn change_holder(&mut self, key: u32, holder: Arc<Holder>) {
        let Some(connection) = self.subscribers.connections.get(key as usize) else { return };
        let is_lost = |feed: &FeedKey| {
            self.topics.feeds.get(*feed).is_some_and(|local| {
                self.access.authorise(&holder, Right::Subscribe(&local.topic)).is_err()
            })
        };
        let lost: SmallVec<[FeedKey; 4]> = connection.subscriber.feeds().filter(is_lost).collect();
        let may_publish = self.access.lets_publish(&holder);
        self.subscribers.refresh(key, holder, may_publish);
        for feed in lost {
            self.subscribers.end_topic(key, feed, EndCode::Forbidden);
        }
    }

    /// Takes another access policy.
    pub(super) fn change_access(&mut self, access: Arc<AccessPolicy>) {
        self.access = access;
        let keys = self.subscribers.connections.iter().map(|(key, _)| key as u32);
        for key in keys.collect::<Vec<_>>() {
            self.ask_again(key);
        }
        self.publishers.change_access(&self.access);
    }

    /// Takes from a connection what it has no right to any more.
    pub(super) fn ask_again(&mut self, key: u32) {
        let Some(connection) = self.subscribers.connections.get(key as usize) else { return };
        match self.access.holders.successor(&connection.holder) {
            Some(holder) => self.change_holder(key, holder),
            None => self.subscribers.close(key, close::EXPIRED),
        }
    }

    /// The feed of a topic that a connection reads.
    fn feed_read(&mut self, id: SubscriberId, topic: &Topic) -> Option<FeedKey> {
        let feeds = &self.topics.feeds;
        let subscriber = &self.subscribers.get_mut(id)?.subscriber;
        let named = feeds.find(topic).filter(|feed| subscriber.reads(*feed));
        // The name of a topic that has ended leads elsewhere.
        let is_its = |feed: &FeedKey| {
            feeds.get(*feed).is_some_and(|local| local.topic == *topic) && subscriber.reads(*feed)
        };
        named.or_else(|| subscriber.feeds().find(is_its))
    }

    fn end_subscription(&mut self, context: &Context, topic: &Topic) -> Result<(), Refusal> {
        let id = context.subscriber()?;
        let feed = self.feed_read(id, topic);
        let Some(connection) = self.subscribers.get_mut(id) else { return Ok(()) };
        let Some(feed) = feed else {
            let topic = Excerpt(topic.as_str());
            let message = format!("this connection does not have {topic}: nothing is to be done");
            return Err(Refusal::new(ErrorCode::NotSubscribed, message));
        };
        connection.subscriber.unsubscribe(feed);
        self.subscribers.take_left(&mut self.topics, id.key);
        Ok(())
    }

    /// Opens the window of the subscriber that acks, if it has one, and passes the ack to the
    /// topic's source.
    fn ack(&mut self, context: &Context, topic: &Topic, position: Position) {
        if let Some(id) = context.subscriber
            && let Some(feed) = self.feed_read(id, topic)
            && let Some(connection) = self.subscribers.get_mut(id)
        {
            connection.subscriber.ack(&self.topics.feeds, feed, position);
            self.subscribers.mark_dirty(id.key);
        }
        self.ingest.sources.receive_ack(&mut self.topics, topic, position);
    }
}

impl Context {
    fn subscriber(&self) -> Result<SubscriberId, Refusal> {
        self.subscriber.ok_or_else(|| {
            let message =
                "a subscription belongs to a connection: open another GET, at its cursors";
            Refusal::new(ErrorCode::BadCommand, message)
        })
    }
}
