//! Answers to lookups.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Batch, ColumnRows as _, Feed as _, Memory as _},
};
use thalweg_wire::{KeyFilter, StartAt, Topic};

use super::{Topics, local_topic::LocalTopic};
use crate::{
    broker::BrokerStream,
    clock::{now_us, unix_ms},
    config::FIGURES_PER_LOOKUP,
    shard::{
        broker::HistoryBackfill,
        message::{HistorySource, KnownStart, ListedTopic, Lookup, Text, TopicListing},
        page::page,
        topic_samples::{FiguresPart, Published, TopicFigures},
    },
};

impl Topics {
    /// Answers a lookup. The receiver may be gone.
    pub(in crate::shard) fn answer(&mut self, lookup: Lookup) {
        match lookup {
            Lookup::Topics { listing, answer } => drop(answer.send(self.list(&listing))),
            Lookup::Figures { from, answer } => drop(answer.send(self.figures(from))),
            // `Shard::answer` knows the connections.
            Lookup::Subscribers { .. } => {}
            Lookup::Missing { topics, answer } => {
                let missing = topics.into_iter().find(|topic| self.feeds.find(topic).is_none());
                drop(answer.send(missing));
            }
            Lookup::History { topic, filter, start, limit, answer } => {
                drop(answer.send(self.history(&topic, filter.as_deref(), start, limit)));
            }
            Lookup::Keys { topic, answer } => self.read_keys(&topic, answer),
            Lookup::Start { topic, start, answer } => {
                let _ = answer.send(self.known_start(&topic, start));
            }
            Lookup::Columns { topic, answer } => drop(answer.send(self.columns_of(&topic))),
            Lookup::ToldColumns { topic, answer } => drop(answer.send(self.columns_told(&topic))),
        }
    }

    /// Returns the subscribers of a topic on this shard, by the keys of their connections.
    pub(in crate::shard) fn subscribers_of(&self, topic: &Topic) -> Option<(FeedKey, &[u32])> {
        let key = self.feeds.find(topic)?;
        Some((key, &*self.feeds.get(key)?.subscribers))
    }

    /// Returns at most `limit` topics of a list, in order. Two shards may list the same topic: its owner and a follower.
    fn list(&self, listing: &TopicListing) -> Vec<ListedTopic> {
        let named = |beginning| self.feeds.named(&listing.after, beginning);
        let next = listing.beginnings().into_iter().flat_map(named);
        let shown = next.filter(|local| listing.shown.contain(&local.topic));
        shown
            .take(listing.limit)
            .map(|local| {
                let feed = local.owner.is_some().then_some(local.feed.as_ref()).flatten();
                ListedTopic {
                    topic: Text(local.topic.clone()),
                    position: feed.map(|feed| Text(feed.position_before(feed.head()))),
                    events: feed.map_or(0, |feed| feed.retained_events() as u64),
                    subscribers: local.subscribers.len() as u64,
                }
            })
            .collect()
    }

    fn figures(&self, from: FeedKey) -> FiguresPart {
        let figures = |local: &LocalTopic| {
            let owned = local.owner.as_ref().zip(local.feed.as_ref());
            let published = owned.map(|(owner, feed)| Published {
                kind: feed.kind(),
                events: owner.activity.events,
                bytes: owner.activity.bytes,
                newest_us: (owner.activity.newest_us > 0).then_some(owner.activity.newest_us),
                retained: feed.retained_events() as u64,
                memory_bytes: feed.history_bytes() as u64,
            });
            TopicFigures {
                topic: local.topic.clone(),
                published,
                subscribers: local.subscribers.len() as u64,
                gaps: local.gaps.into(),
            }
        };
        let (topics, next) = self.feeds.part(from, FIGURES_PER_LOOKUP);
        // Another topic may have the name of one that has ended.
        let topics = topics.filter(|local| local.end.is_none());
        FiguresPart { topics: topics.map(figures).collect(), next }
    }

    fn history(
        &mut self,
        topic: &Topic,
        filter: Option<&KeyFilter>,
        start: StartAt,
        limit: usize,
    ) -> Option<HistorySource> {
        self.seal_open(topic);
        let local = self.feeds.find(topic).and_then(|key| self.feeds.get(key));
        let feed = local.and_then(|local| local.feed.as_ref());
        let origin = local.map_or_else(|| self.feeds.origin(topic), |local| local.origin);
        if self.is_stored_keyed(topic) {
            // The state was read before ([`Lookup::Keys`]).
            let Some(feed) = feed.filter(|feed| !feed.is_loading()) else {
                return Some(HistorySource::Evicted);
            };
            // A topic without any event does not exist.
            return (feed.events_from(0) > 0)
                .then(|| HistorySource::Retained(page(feed, filter, start, limit)));
        }
        if let Some(stream) = origin.stream()
            && let Some(backfill) = HistoryBackfill::new(
                &self.feeds.streams,
                stream,
                feed,
                self.feeds.page_feed(topic, stream, origin),
                start,
            )
        {
            return Some(HistorySource::Backfill(Box::new(backfill)));
        }
        Some(HistorySource::Retained(page(feed?, filter, start, limit)))
    }

    /// Adds the events that wait for more to the topic's feed: a publisher whose request was answered must be able to read its event.
    fn seal_open(&mut self, topic: &Topic) {
        let Some(key) = self.feeds.find(topic) else { return };
        let owner = self.feeds.get(key).and_then(|local| local.owner.as_ref());
        if owner.is_some_and(|owner| owner.order.due_us().is_some()) {
            self.settle(key, now_us());
        }
    }

    /// Returns whether a start must be searched for: a time, or the newest events of a broker topic.
    pub(in crate::shard) fn is_searched(&self, topic: &Topic, start: StartAt) -> bool {
        match start {
            StartAt::Since(_) => true,
            StartAt::Newest(_) => self.origin(topic).is_broker_topic(),
            StartAt::Latest | StartAt::Earliest | StartAt::After(_) | StartAt::Within(..) => false,
        }
    }

    /// Returns where the events of a topic since a time, or its newest events, begin. Events of one batch count as published together.
    fn known_start(&self, topic: &Topic, start: StartAt) -> KnownStart {
        let local = self.feeds.find(topic).and_then(|key| self.feeds.get(key));
        let feed = local.and_then(|local| local.feed.as_ref());
        let origin = local.map_or_else(|| self.feeds.origin(topic), |local| local.origin);
        let stream = origin.stream().map(|index| self.feeds.streams.get(index));
        // A subscription to a value or a keyed topic gets the state from any start.
        if stream.is_some_and(|stream| stream.stream.kind.is_state())
            || feed.is_some_and(|feed| feed.is_state())
        {
            return KnownStart::Known(StartAt::Latest);
        }
        let stored = |stream: &BrokerStream| {
            KnownStart::Stored(stream.broker, stream.index, stream.stream.epoch)
        };
        let since_ms = match (start, stream) {
            (StartAt::Since(since_ms), _) => since_ms,
            (StartAt::Newest(count), Some(stream))
                if feed.is_none_or(|feed| feed.retained_events() < count as usize) =>
            {
                return stored(stream);
            }
            (start, _) => return KnownStart::Known(start),
        };
        let (now_us, now_ms) = (now_us(), unix_ms());
        let sealed_ms = |batch: &Batch| {
            now_ms - i64::try_from(now_us.saturating_sub(batch.sealed_us()) / 1000).unwrap_or(0)
        };
        let is_since = |batch: &Batch| {
            let published_ms = batch.published_ms().unwrap_or_else(|| sealed_ms(batch));
            u64::try_from(published_ms).is_ok_and(|published_ms| published_ms >= since_ms)
        };
        let mut batches = feed.into_iter().flat_map(|feed| feed.batches_from(0)).peekable();
        let has_older = batches.peek().is_some_and(|oldest| !is_since(oldest));
        if let Some(stream) = stream.filter(|_| !has_older) {
            return stored(stream);
        }
        let first = batches.find(|batch| is_since(batch)).map(|batch| batch.first());
        let at = feed.map(|feed| feed.position_before(first.unwrap_or_else(|| feed.head())));
        KnownStart::Known(at.map_or(StartAt::Earliest, StartAt::After))
    }

    fn columns_of(&self, topic: &Topic) -> Option<Arc<Columns>> {
        self.feed_of(topic)?.columns()
    }

    fn columns_told(&self, topic: &Topic) -> Option<Option<Arc<Columns>>> {
        Some(self.feed_of(topic)?.columns_told(now_us()))
    }

    fn feed_of(&self, topic: &Topic) -> Option<&AnyFeed> {
        self.feeds.get(self.feeds.find(topic)?)?.feed.as_ref()
    }
}
