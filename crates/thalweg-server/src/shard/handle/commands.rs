//! Executes the commands of all protocols.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_core::fanout::{FeedKey, Subscribe, Terms};
use thalweg_wire::{
    EndCode, ErrorCode, Excerpt, KeyFilter, Position, StartAt, Topic, close, signalr::StreamId,
};
use tokio::{sync::oneshot, time::timeout};

use super::{Handle, Shard};
use crate::{
    access::{AccessPolicy, Allowed, Holder, Right, Unidentified},
    broker::PublishTerms,
    clock::{Now, now_us},
    config::ARRIVAL_WAIT,
    protocol::{Command, Reply},
    rates::{Act, Rated},
    refusal::Refusal,
    shard::{ingest::PendingPublish, session_input::SubscriberId},
    transport::Client,
};

/// The origin of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) client: Client,
    /// The subscriber whose connection sent the command. A `POST` has none.
    pub(crate) subscriber: Option<SubscriberId>,
}

/// The result of a command, or the work that comes first.
pub(super) enum Execution {
    Done(Result<Reply, Refusal>),
    Pending(PendingCommand),
}

pub(super) enum PendingCommand {
    /// The events are being appended.
    Append(Topic, PendingPublish),
    /// The owner shard must confirm that the topic exists, or find where the subscription begins. The subscription begins after that.
    Find(NewSubscription),
    /// The owner shard must post the topic. The start of the subscription is settled then, before the events of the connection's
    /// next commands.
    Attach(Topic, Terms, oneshot::Receiver<()>),
    /// The key of a token must be fetched.
    Key(Box<str>),
}

/// A subscription that a command begins.
pub(super) struct NewSubscription {
    topic: Topic,
    start: StartAt,
    terms: Terms,
    filter: Option<Arc<KeyFilter>>,
}

impl PendingCommand {
    /// Returns whether the connection's next commands must wait, too, to keep their order.
    pub(super) fn is_first(&self) -> bool {
        !matches!(self, Self::Append(_, PendingPublish::Posted { .. }))
    }
}

impl Handle {
    /// Executes a command of `holder` and waits for its reply. Fails if the command is refused.
    pub(crate) async fn execute(
        &self,
        command: Allowed<Command>,
        holder: &Holder,
        context: &Context,
    ) -> Result<Reply, Refusal> {
        match self.with_shard(|shard| shard.execute(command, holder, context)) {
            Execution::Done(answer) => answer,
            Execution::Pending(waiting) => self.finish(waiting, context).await,
        }
    }

    /// Finishes a command that had to wait.
    pub(super) async fn finish(
        &self,
        waiting: PendingCommand,
        context: &Context,
    ) -> Result<Reply, Refusal> {
        match waiting {
            PendingCommand::Append(topic, appending) => {
                appending.result().await.map(|result| Reply::Published(result.published(&topic)))
            }
            PendingCommand::Find(mut new) => {
                self.find(std::iter::once(&new.topic), context.client.counted()).await?;
                new.start = self.find_start(context.client, &new.topic, new.start).await?;
                let begins = self.with_shard(|shard| shard.begin_subscription(context, &new));
                if let Some(arrival) = begins? {
                    self.settle(context, &new.topic, arrival).await;
                }
                Ok(begun(new.topic, new.terms))
            }
            PendingCommand::Attach(topic, terms, arrival) => {
                self.settle(context, &topic, arrival).await;
                Ok(begun(topic, terms))
            }
            PendingCommand::Key(token) => {
                if let Some(keys) = self.access().holders.published_keys() {
                    keys.newer(now_us()).await?;
                }
                self.with_shard(|shard| Ok(shard.refresh(context, token.as_bytes())??))
            }
        }
    }

    /// Waits for the topic of a subscription, and settles where the subscription begins.
    async fn settle(&self, context: &Context, topic: &Topic, arrival: oneshot::Receiver<()>) {
        // An error means that the wait is over, too. A topic that has not begun on its owner shard may take long.
        let _ = timeout(ARRIVAL_WAIT, arrival).await;
        self.with_shard(|shard| shard.settle_start(context, topic));
    }
}

impl Shard {
    /// Executes this shard's part of a command.
    pub(super) fn execute(
        &mut self,
        command: Allowed<Command>,
        holder: &Holder,
        context: &Context,
    ) -> Execution {
        Execution::Done(match command.into_inner() {
            Command::Echo { data } => Ok(Reply::Echo(data)),
            Command::Publish { topic, mut payloads, key, condition, ttl_us } => {
                if let Err(refused) = self.topics.check_named_keys(&topic, &payloads) {
                    return Execution::Done(Err(refused));
                }
                let may_read =
                    condition.is_some() && self.access.may_read_key(holder, &topic, key.as_deref());
                let terms = PublishTerms { condition, may_read, ttl_us, ..PublishTerms::default() };
                match self.ingest.publish(&mut self.topics, &topic, &mut payloads, terms) {
                    PendingPublish::Done(result) => {
                        result.map(|result| Reply::Published(result.published(&topic)))
                    }
                    appending => {
                        return Execution::Pending(PendingCommand::Append(topic, appending));
                    }
                }
            }
            Command::Subscribe { topic, start, terms, filter } => {
                let is_found = !self.topics.needs_lookup(&topic, context.client.counted());
                let is_searched = self.topics.is_searched(&topic, start);
                if context.subscriber.is_some() && (!is_found || is_searched) {
                    let new = NewSubscription { topic, start, terms, filter };
                    return Execution::Pending(PendingCommand::Find(new));
                }
                let new = NewSubscription { topic, start, terms, filter };
                match self.begin_subscription(context, &new) {
                    Ok(None) => Ok(begun(new.topic, terms)),
                    Ok(Some(arrival)) => {
                        let attach = PendingCommand::Attach(new.topic, terms, arrival);
                        return Execution::Pending(attach);
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            Command::Unsubscribe { topic } => {
                let ended = self.end_subscription(context, &topic);
                ended.map(|stream| Reply::Unsubscribed(topic, stream))
            }
            Command::Cancel { stream } => self.cancel(context, stream),
            Command::Refresh { token } => match self.refresh(context, token.as_bytes()) {
                Ok(Err(Unidentified::UnknownKey)) => {
                    return Execution::Pending(PendingCommand::Key(token));
                }
                Ok(refreshed) => refreshed.map_err(Refusal::from),
                Err(refusal) => Err(refusal),
            },
            Command::Ack { topic, position } => {
                self.ack(context, &topic, position);
                Ok(Reply::Acked(topic, position))
            }
        })
    }

    /// Begins a subscription. Returns the arrival of its topic, if the owner shard must post it first.
    fn begin_subscription(
        &mut self,
        context: &Context,
        NewSubscription { topic, start, terms, filter }: &NewSubscription,
    ) -> Result<Option<oneshot::Receiver<()>>, Refusal> {
        let (start, terms) = (*start, *terms);
        let id = context.subscriber()?;
        if self.feed_read(id, topic).is_some() {
            let topic = Excerpt(topic.as_str());
            let message =
                format!("this connection is already subscribed to {topic}: unsubscribe first");
            return Err(Refusal::new(ErrorCode::AlreadySubscribed, message));
        }
        let Some(connection) = self.subscribers.get_mut(id) else { return Ok(None) };
        // The rights may have changed during the lookup.
        let keys = filter.as_deref().into();
        self.access.authorise(&connection.holder, Right::Subscribe(topic, keys))?;
        if terms.stream.is_some_and(|stream| connection.subscriber.feed_of_stream(stream).is_some())
        {
            let message = "another stream of this connection has this invocation id: use a new id for each invocation";
            return Err(Refusal::new(ErrorCode::BadCommand, message));
        }
        let count = connection.subscriber.feeds().count();
        let subscriptions_max = self.common.config.limits.subscriptions;
        if count >= subscriptions_max {
            return Err(Refusal::too_many_subscriptions(subscriptions_max));
        }
        let address = context.client.counted();
        let share = |filter| self.share_filter(topic, filter, address);
        let filter = filter.as_ref().map(share).transpose()?;
        // The topic opens last, so that a refused command leaves none behind.
        let feed = self.topics.open_subscribed(topic, context.client.counted())?;
        if let Some(connection) = self.subscribers.get_mut(id) {
            connection.subscriber.subscribe(Subscribe { feed, start, terms });
            if let Some(filter) = filter {
                connection.subscriber.set_filter(feed, filter);
            }
        }
        self.subscribers.join(&mut self.topics, id.key, feed, now_us());
        let arrival = self.topics.arrival(feed);
        match &arrival {
            None => self.settle_start(context, topic),
            // The reply comes before the confirmation.
            Some(_) => {
                if let Some(connection) = self.subscribers.get_mut(id) {
                    connection.subscriber.hold(feed);
                }
            }
        }
        Ok(arrival)
    }

    /// Settles where a subscription from `latest` begins: it gets all events that are published from now on.
    fn settle_start(&mut self, context: &Context, topic: &Topic) {
        let Some(id) = context.subscriber else { return };
        let Some(feed) = self.feed_read(id, topic) else { return };
        if let Some(connection) = self.subscribers.get_mut(id) {
            connection.subscriber.settle_start(&self.topics, feed);
            self.subscribers.mark_dirty(id.key);
        }
    }

    /// Gives a connection another token of the same holder. Ends the subscriptions to which the new token gives no
    /// right. Fails if the connection may not use the token. The inner error says why the token has no known holder.
    fn refresh(
        &mut self,
        context: &Context,
        token: &[u8],
    ) -> Result<Result<Reply, Unidentified>, Refusal> {
        let id = context.subscriber()?;
        let Some(connection) = self.subscribers.get_mut(id) else {
            return Ok(Ok(Reply::Refreshed(None)));
        };
        if connection.holder.is_nobody() {
            // Verifying a token costs as much as a hundred commands, so this check comes first.
            let message = "this connection was opened without a token, so it cannot be refreshed: open a new connection with the token";
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
        let now = Now::get();
        let address = context.client.counted();
        let rated = Rated { subject: None, address };
        let uncounted = self.common.rates.take(rated, None, (Act::Verification, 1), now.us)?;
        self.counts.rates_uncounted.add(uncounted);
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
            return Ok(Ok(Reply::Refreshed(None)));
        };
        if connection.holder.identity != holder.identity {
            let message = "the new token is for another subject or name than this connection's token: open a new connection with it";
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
        let expires_in_s = holder.left_s(now.us);
        self.change_holder(id.key, holder);
        Ok(Ok(Reply::Refreshed(expires_in_s)))
    }

    /// Gives a connection another holder's rights, and ends the subscriptions that these do not allow.
    fn change_holder(&mut self, key: u32, holder: Arc<Holder>) {
        let Some(connection) = self.subscribers.get(key) else { return };
        let is_lost = |feed: &FeedKey| {
            self.topics.topic(*feed).is_some_and(|topic| {
                let keys = connection.subscriber.filter_of(*feed).map(|filter| &**filter).into();
                self.access.authorise(&holder, Right::Subscribe(topic, keys)).is_err()
            })
        };
        let lost: SmallVec<[FeedKey; 4]> = connection.subscriber.feeds().filter(is_lost).collect();
        let command_bytes_max = self.command_bytes_max(&holder);
        self.subscribers.refresh(key, holder, command_bytes_max);
        for feed in lost {
            self.subscribers.end_topic(&self.topics, key, feed, EndCode::Forbidden);
        }
    }

    /// Returns the limit of a client's commands in bytes, if the client may publish.
    pub(super) fn command_bytes_max(&self, holder: &Holder) -> Option<usize> {
        self.access.lets_publish(holder).then(|| self.common.config.limits.command_bytes())
    }

    /// Applies a new access policy to all connections.
    pub(super) fn change_access(&mut self, access: Arc<AccessPolicy>) {
        self.access = access;
        let keys = self.subscribers.iter().map(|(key, _)| key);
        for key in keys.collect::<Vec<_>>() {
            self.recheck_rights(key);
        }
        self.publishers.change_access(&self.access);
    }

    /// Applies the current rights to a connection.
    pub(super) fn recheck_rights(&mut self, key: u32) {
        let Some(connection) = self.subscribers.get(key) else { return };
        match self.access.holders.successor(&connection.holder) {
            Some(holder) => self.change_holder(key, holder),
            None => self.subscribers.close(key, close::EXPIRED),
        }
    }

    /// Returns the feed of a topic that a connection reads.
    fn feed_read(&mut self, id: SubscriberId, topic: &Topic) -> Option<FeedKey> {
        let topics = &self.topics;
        let subscriber = &self.subscribers.get_mut(id)?.subscriber;
        let named = topics.find(topic).filter(|feed| subscriber.reads(*feed));
        // The name of a topic that has ended may belong to another topic.
        let is_its = |feed: &FeedKey| topics.topic(*feed) == Some(topic) && subscriber.reads(*feed);
        named.or_else(|| subscriber.feeds().find(is_its))
    }

    /// Ends a subscription. Returns its stream, if it has one.
    fn end_subscription(
        &mut self,
        context: &Context,
        topic: &Topic,
    ) -> Result<Option<StreamId>, Refusal> {
        let id = context.subscriber()?;
        let Some(feed) = self.feed_read(id, topic) else {
            let topic = Excerpt(topic.as_str());
            let message = format!("this connection is not subscribed to {topic}: subscribe first");
            return Err(Refusal::new(ErrorCode::NotSubscribed, message));
        };
        Ok(self.unsubscribe(id, feed))
    }

    /// Ends the subscription of a stream.
    fn cancel(&mut self, context: &Context, stream: StreamId) -> Result<Reply, Refusal> {
        let id = context.subscriber()?;
        let connection = self.subscribers.get_mut(id);
        let feed = connection.and_then(|connection| connection.subscriber.feed_of_stream(stream));
        let topic = feed.and_then(|feed| self.topics.topic(feed)).cloned();
        let Some((feed, topic)) = feed.zip(topic) else {
            return Err(Refusal::new(
                ErrorCode::NotSubscribed,
                "no running stream has this invocation id: send the id of a stream that you started",
            ));
        };
        Ok(Reply::Unsubscribed(topic, self.unsubscribe(id, feed)))
    }

    fn unsubscribe(&mut self, id: SubscriberId, feed: FeedKey) -> Option<StreamId> {
        let connection = self.subscribers.get_mut(id)?;
        let stream = connection.subscriber.stream_of_feed(feed);
        connection.subscriber.unsubscribe(feed);
        self.subscribers.take_left(&mut self.topics, id.key);
        stream
    }

    /// Opens the subscriber's window, if it has one, and passes the ack to the topic's source.
    fn ack(&mut self, context: &Context, topic: &Topic, position: Position) {
        if let Some(id) = context.subscriber
            && let Some(feed) = self.feed_read(id, topic)
            && let Some(connection) = self.subscribers.get_mut(id)
        {
            connection.subscriber.ack(&self.topics, feed, position);
            self.subscribers.mark_dirty(id.key);
        }
        self.ingest.receive_ack(&mut self.topics, topic, position);
    }
}

/// Returns the reply to a command that has begun a subscription.
fn begun(topic: Topic, terms: Terms) -> Reply {
    match terms.stream {
        Some(_) => Reply::Streams,
        None => Reply::Subscribed(topic),
    }
}

impl Context {
    fn subscriber(&self) -> Result<SubscriberId, Refusal> {
        self.subscriber.ok_or_else(|| {
            let message =
                "this command works only on a WebSocket: to change the topics of another transport, send a new GET with your positions as cursors";
            Refusal::new(ErrorCode::BadCommand, message)
        })
    }
}
