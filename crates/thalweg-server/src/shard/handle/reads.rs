//! Reads without a subscription: histories, and the list of topics.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Serialize;
use thalweg_broker::{ReadPage, ReadRange, TopicRange, Unreadable};
use thalweg_core::{fanout::Policy, stream::Slice};
use thalweg_wire::{ErrorCode, GapReason, KeyFilter, Position, StartAt, Topic};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};

use super::{Handle, newest_search::NewestSearch, time_search::TimeSearch};
use crate::{
    access::{Allowed, Reading},
    answers::AnswerAccount,
    broker::{BrokerReply, ListRequest, Read, ReadCaller},
    config::{COMMAND_SEARCH, KEY_LOADS_MAX},
    connection_limits::Address,
    owner_shard::owner_shard,
    refusal::Refusal,
    shard::{
        broker::HistoryBackfill,
        message::{HistorySource, KnownStart, ListedTopic, Lookup, TopicListing},
        page::PageParts,
    },
    transport::{Client, SubscribeRequest},
};

/// The message of the refusal if no history query ends in time.
const HISTORIES: &str =
    "the memory for history responses is full: read the responses that you requested, or try again";

/// The message of the refusal if no search for a start ends in time.
const SEARCHES: &str = "another search in stored events takes too long: try again";

/// The message of the refusal if the state of a keyed topic is not read in time.
const KEYS: &str = "the keys of the topic are being read: try again";

/// The message of the refusal if the stored topics are not listed in time.
const LISTS: &str = "the list of stored topics takes too long: try again";

/// The time between two checks whether an idle history query can be ended.
const QUEUE_POLL: Duration = Duration::from_millis(20);

/// A page of a history that is being sent.
pub(crate) struct HistoryPage {
    pub(crate) before: Bytes,
    /// The shard measures the memory that only this slice keeps.
    pub(crate) events: Rc<RefCell<Slice>>,
    pub(crate) after: Bytes,
    _slot: SendSlot,
}

/// A place among the histories that are sent at the same time.
struct SendSlot(Rc<Handle>);

impl Drop for SendSlot {
    fn drop(&mut self) {
        self.0.read_queue.is_sent.notify_waiters();
    }
}

/// The list of topics, as the JSON of docs/reference/http.md, "Reading".
#[derive(Serialize)]
struct List {
    topics: Vec<ListedTopic>,
    /// Whether there are more topics after these.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

impl HistoryPage {
    /// Returns the number of unsent bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.before.len() + self.events.borrow().bytes() + self.after.len()
    }
}

impl Handle {
    /// Returns a topic's history from a position on, for the connection of `account`. If too many histories are being sent, this
    /// waits until one has ended. Fails with `NoSuchTopic`, or with `Busy` if [`Self::may_read_more`] fails or no history ends
    /// in time.
    pub(crate) async fn read(
        self: &Rc<Self>,
        client: Client,
        account: &Arc<AnswerAccount>,
        topic: &Allowed<Reading>,
        start: StartAt,
        limit: usize,
    ) -> Result<HistoryPage, Refusal> {
        let Reading { topic, filter } = &**topic;
        if filter.is_some() {
            self.shard.borrow().topics.check_filter(topic)?;
        }
        self.may_read_more(client)?;
        let deadline = Instant::now() + self.common.config.limits.write_timeout;
        let first = timeout_at(deadline, self.read_queue.turns.first_of(client)).await;
        let _first = first.map_err(|_| Refusal::busy(HISTORIES))?;
        self.room_to_send(client, deadline).await?;
        let PageParts { before, events, after, .. } =
            self.page((topic, filter.as_ref()), start, limit, deadline).await?;
        let events = Rc::new(RefCell::new(events));
        self.shard.borrow_mut().subscribers.begin_history(client, account, &events);
        let (before, after) = (before.into(), after.into());
        Ok(HistoryPage { before, events, after, _slot: SendSlot(Rc::clone(self)) })
    }

    /// Waits until a client's history may be sent. In the meantime, ends a connection that reads nothing of its history.
    async fn room_to_send(&self, client: Client, deadline: Instant) -> Result<(), Refusal> {
        loop {
            let is_sent = self.read_queue.is_sent.notified();
            let Some(full) = self.shard.borrow().subscribers.history_query_limit(client) else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(Refusal::busy(HISTORIES));
            }
            if timeout(QUEUE_POLL, is_sent).await.is_err() {
                self.with_shard(|shard| {
                    shard.subscribers.end_idle_history_query(&mut shard.topics, full);
                });
            }
        }
    }

    /// Returns a page of a topic's history, from the owner shard or from the topic's stream. Fails with `NoSuchTopic`,
    /// `Unavailable` if the stream cannot be read now, and `Busy` after `deadline`.
    async fn page(
        &self,
        (topic, filter): (&Topic, Option<&Arc<KeyFilter>>),
        start: StartAt,
        limit: usize,
        deadline: Instant,
    ) -> Result<PageParts, Refusal> {
        let is_searched = self.shard.borrow().topics.is_searched(topic, start);
        let start = match is_searched {
            // A history already holds its client's turn.
            true => Box::pin(self.start_of(topic, start, deadline)).await?,
            false => start,
        };
        let is_stored_keyed = self.shard.borrow().topics.is_stored_keyed(topic);
        let owner = owner_shard(topic, self.common.peers.len());
        let (mut start, mut is_beyond, mut loads) = (start, false, 0);
        loop {
            if is_stored_keyed {
                loads += 1;
                let wanted = topic.clone();
                let keys = self.look_up(owner, |answer| Lookup::Keys { topic: wanted, answer });
                let keys = timeout_at(deadline, keys).await;
                keys.map_err(|_| Refusal::busy(KEYS))???;
            }
            let turn = self.read_queue.turns.turn().await;
            let wanted = topic.clone();
            let filter = filter.cloned();
            let lookup = |answer| Lookup::History { topic: wanted, filter, start, limit, answer };
            let history = self.look_up(owner, lookup).await?;
            // Other reads need not wait for a stream.
            drop(turn);
            let backfill = match history.ok_or_else(|| Refusal::no_such_topic(topic))? {
                HistorySource::Retained(parts) => return Ok(parts),
                HistorySource::Backfill(backfill) => backfill,
                // The topic was evicted while this waited for its turn.
                HistorySource::Evicted if loads < KEY_LOADS_MAX => continue,
                HistorySource::Evicted => return Err(Refusal::busy(KEYS)),
            };
            let page = self.read_page(topic, &backfill, deadline).await?;
            if backfill.is_beyond(&page) {
                (start, is_beyond) = (StartAt::Earliest, true);
                continue;
            }
            return backfill.page(topic, page, limit, is_beyond);
        }
    }

    /// Returns the starts of a subscription's topics, and searches for those that need it ([`super::Topics::is_searched`]). Fails
    /// like [`Self::start_of`].
    pub(crate) async fn find_starts(
        &self,
        client: Client,
        request: &SubscribeRequest,
    ) -> Result<Vec<StartAt>, Refusal> {
        let mut starts: Vec<StartAt> = request.topics.iter().map(|(_, start)| *start).collect();
        let deadline = Instant::now() + self.common.config.limits.write_timeout;
        for ((topic, _), start) in request.topics.iter().zip(&mut starts) {
            let is_searched = self.shard.borrow().topics.is_searched(topic, *start);
            if is_searched {
                // Boxed because it is rare: it must not enlarge the future of every request.
                *start = Box::pin(self.search(client, topic, *start, deadline)).await?;
            }
        }
        Ok(starts)
    }

    /// Returns the start of a subscription that a command begins. Other commands of the connection wait meanwhile. Fails like
    /// [`Self::start_of`].
    pub(super) async fn find_start(
        &self,
        client: Client,
        topic: &Topic,
        start: StartAt,
    ) -> Result<StartAt, Refusal> {
        let is_searched = self.shard.borrow().topics.is_searched(topic, start);
        if !is_searched {
            return Ok(start);
        }
        Box::pin(self.search(client, topic, start, Instant::now() + COMMAND_SEARCH)).await
    }

    /// Searches for a start. A client has one search at a time.
    async fn search(
        &self,
        client: Client,
        topic: &Topic,
        start: StartAt,
        deadline: Instant,
    ) -> Result<StartAt, Refusal> {
        let drain = self.drain();
        if self.is_draining() {
            return Err(Refusal::draining());
        }
        let search = async {
            let first = timeout_at(deadline, self.read_queue.turns.first_of(client)).await;
            let _first = first.map_err(|_| Refusal::busy(SEARCHES))?;
            self.start_of(topic, start, deadline).await
        };
        self.counts.start_searches.add(1);
        let found = tokio::select! {
            found = search => found,
            () = drain => return Err(Refusal::draining()),
        };
        self.counts.start_searches_failed.add(u64::from(found.is_err()));
        match (start, found) {
            // The newest events in memory are better than none.
            (StartAt::Newest(_), Err(_)) => Ok(start),
            (_, found) => found,
        }
    }

    /// Returns the position before the first event since a time, or before the newest events, or `earliest` if these are all events.
    /// Fails like [`Self::page`].
    async fn start_of(
        &self,
        topic: &Topic,
        start: StartAt,
        deadline: Instant,
    ) -> Result<StartAt, Refusal> {
        let owner = owner_shard(topic, self.common.peers.len());
        let wanted = topic.clone();
        let lookup = |answer| Lookup::Start { topic: wanted, start, answer };
        let (broker, stream, epoch) = match self.look_up(owner, lookup).await? {
            KnownStart::Known(start) => return Ok(start),
            KnownStart::Stored(broker, stream, epoch) => (broker, stream, epoch),
        };
        let range = |from, until| ReadRange { stream, topic: topic.clone(), epoch, from, until };
        // A read of an empty range returns the bounds of the stream.
        let empty = self.read_range(broker, range(1, 0), deadline).await?;
        let ReadPage { stored_from, head, .. } = empty;
        let found = match start {
            StartAt::Newest(count) => {
                let mut search = NewestSearch::new(count, stored_from, head);
                while let Some((from, until)) = search.next() {
                    let page = self.read_range(broker, range(from, until), deadline).await?;
                    search.take(from, &page);
                }
                search.found()
            }
            StartAt::Since(unix_ms) => {
                let mut search = TimeSearch::new(unix_ms, stored_from, head);
                while let Some((from, until)) = search.next() {
                    search.take(&self.read_range(broker, range(from, until), deadline).await?);
                }
                search.found()
            }
            other => return Ok(other),
        };
        Ok(found.map_or(StartAt::Earliest, |found| {
            StartAt::After(Position { epoch, offset: found.saturating_sub(1) })
        }))
    }

    /// Returns whether each topic of a subscription with `policy=close` would begin with a gap, because events
    /// after its position are trimmed. A client has one such check, history or search at a time: each may read a page of every
    /// topic.
    pub(crate) async fn has_lost_all(&self, client: Client, request: &SubscribeRequest) -> bool {
        // The policy has no effect on a keyed topic: its whole state follows a gap.
        let is_keyed = |(topic, _): &(Topic, StartAt)| self.common.config.has_keys(topic);
        if request.terms.policy != Policy::Close || request.topics.iter().any(is_keyed) {
            return false;
        }
        let deadline = Instant::now() + self.common.config.limits.write_timeout;
        let first = timeout_at(deadline, self.read_queue.turns.first_of(client)).await;
        let Ok(_first) = first else { return false };
        for (topic, start) in &request.topics {
            let page = self.page((topic, None), *start, 1, deadline).await;
            if !matches!(page, Ok(PageParts { gap: Some((_, GapReason::Trimmed)), .. })) {
                return false;
            }
        }
        true
    }

    async fn read_page(
        &self,
        topic: &Topic,
        backfill: &HistoryBackfill,
        deadline: Instant,
    ) -> Result<ReadPage, Refusal> {
        let (answer, page) = oneshot::channel();
        let read = backfill.read(topic, BrokerReply::new(ReadCaller::Once(answer)));
        self.ask_broker(backfill.broker, read, page, deadline).await
    }

    async fn read_range(
        &self,
        broker: usize,
        range: ReadRange,
        deadline: Instant,
    ) -> Result<ReadPage, Refusal> {
        let (answer, page) = oneshot::channel();
        let reply = BrokerReply::new(ReadCaller::Once(answer));
        self.ask_broker(broker, Read { range, is_value: false, reply }, page, deadline).await
    }

    async fn ask_broker(
        &self,
        broker: usize,
        read: Read,
        page: oneshot::Receiver<Result<ReadPage, Unreadable>>,
        deadline: Instant,
    ) -> Result<ReadPage, Refusal> {
        let reads = &self.common.brokers[broker].reads;
        let answered = timeout_at(deadline, async {
            let _place = self.read_queue.pages.acquire().await;
            reads.send(read).await.map_err(|_| Refusal::draining())?;
            page.await.map_err(|_| Refusal::draining())
        });
        let page = answered.await.map_err(|_| Refusal::catching_up())??;
        page.map_err(|Unreadable| Refusal::catching_up())
    }

    /// Checks that a broker topic exists, here or in its stream. Fails like [`Self::page`].
    pub(super) async fn check_stored(&self, topic: &Topic) -> Result<(), Refusal> {
        let deadline = Instant::now() + self.common.config.limits.write_timeout;
        self.page((topic, None), StartAt::Earliest, 1, deadline).await.map(drop)
    }

    /// Returns a new account for a connection that HTTP serves.
    pub(crate) fn account(&self) -> Arc<AnswerAccount> {
        self.shard.borrow().subscribers.account()
    }

    /// Tracks a connection that has an answer for the client at `address`. The next turns check the account, after
    /// HTTP could send the answer.
    pub(crate) fn watch(&self, account: &Arc<AnswerAccount>, address: Address) {
        let subscribers = &mut self.shard.borrow_mut().subscribers;
        subscribers.watch(account, address);
        if subscribers.has_too_many_answers() {
            self.wake.wake();
        }
    }

    /// Fails with `Busy` while unread history of this client keeps too much memory.
    fn may_read_more(&self, client: Client) -> Result<(), Refusal> {
        let pinned = self.shard.borrow().subscribers.pinned_by(client);
        if pinned > self.common.config.limits.pinned_share_bytes() {
            let message = "an earlier history response to this client is unread: read it, or close its connection";
            return Err(Refusal::new(ErrorCode::Busy, message));
        }
        Ok(())
    }

    /// Returns the topics of all shards, and those that brokers store, as the JSON of docs/reference/http.md, "Reading". Fails with
    /// `Unavailable` or `Busy` if a broker cannot list its topics now.
    pub(crate) async fn list(&self, listing: Allowed<TopicListing>) -> Result<Vec<u8>, Refusal> {
        let mut listing = listing.into_inner();
        let limit = listing.limit;
        // One topic more shows whether there are more.
        listing.limit += 1;
        let mut all: Vec<ListedTopic> = Vec::new();
        let turn = self.read_queue.turns.turn().await;
        for shard in 0..self.common.peers.len() {
            let wanted = listing.clone();
            all.extend(
                self.look_up(shard, |answer| Lookup::Topics { listing: wanted, answer }).await?,
            );
        }
        drop(turn);
        // Web pages look up a topic by its name repeatedly, and no name with this prefix comes before it.
        let is_found = limit == 1 && all.iter().any(|one| one.topic.0.as_str() == listing.prefix);
        let deadline = Instant::now() + self.common.config.limits.write_timeout;
        for broker in (0..self.common.brokers.len()).filter(|_| !is_found) {
            let stored = self.stored_topics(broker, &listing, deadline).await?;
            all.extend(stored.into_iter().map(ListedTopic::stored));
        }
        all.sort_unstable_by(|a, b| a.topic.0.cmp(&b.topic.0));
        let mut topics: Vec<ListedTopic> = merged(all).take(listing.limit).collect();
        let has_index = || self.common.brokers.iter().any(|broker| broker.lists.is_some());
        let more = topics.len() > limit || (is_found && has_index());
        topics.truncate(limit);
        let list = List { topics, more };
        // JSON can represent all of it.
        Ok(serde_json::to_vec(&list).unwrap_or_default())
    }

    /// Returns the topics of a list that a broker stores. Fails like [`Self::list`].
    async fn stored_topics(
        &self,
        broker: usize,
        listing: &TopicListing,
        deadline: Instant,
    ) -> Result<Vec<Topic>, Refusal> {
        let Some(lists) = &self.common.brokers[broker].lists else { return Ok(Vec::new()) };
        let TopicListing { after, prefix, limit, shown } = listing;
        let patterns = shown.patterns().cloned().collect();
        let (prefix, limit) = (prefix.clone(), *limit);
        let mut range = TopicRange { patterns, prefix, after: after.clone(), limit };
        let mut topics = Vec::new();
        loop {
            let (answer, listed) = oneshot::channel();
            let request = ListRequest { range: range.clone(), answer };
            let listed = timeout_at(deadline, async {
                lists.send(request).await.map_err(|_| Refusal::draining())?;
                listed.await.map_err(|_| Refusal::draining())
            });
            let listed = listed.await.map_err(|_| Refusal::busy(LISTS))??;
            let listed = listed.map_err(|Unreadable| Refusal::catching_up())?;
            let next = listed.last().filter(|_| listed.len() == limit);
            range.after = next.map_or(String::new(), |topic| topic.as_str().to_owned());
            topics.extend(listed.into_iter().filter(|topic| self.is_of_broker(topic, broker)));
            if topics.len() >= limit || range.after.is_empty() {
                return Ok(topics);
            }
        }
    }

    /// Returns whether the events of a topic are stored by a broker. The broker may also store topics that the settings map elsewhere.
    fn is_of_broker(&self, topic: &Topic, broker: usize) -> bool {
        let stream = self.shard.borrow().topics.origin(topic).stream();
        stream.is_some_and(|stream| self.common.streams[stream].broker == broker)
    }
}

/// Merges sorted entries of the same topic.
fn merged(all: Vec<ListedTopic>) -> impl Iterator<Item = ListedTopic> {
    let mut rest = all.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut first = rest.next()?;
        while let Some(same) = rest.next_if(|next| next.topic.0 == first.topic.0) {
            first.position = first.position.or(same.position);
            first.events += same.events;
            first.subscribers += same.subscribers;
        }
        Some(first)
    })
}
