//! Answers to lookups.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_core::stream::{AnyFeed, ColumnRows as _, Feed as _};
use thalweg_wire::{StartAt, Topic};

use super::Topics;
use crate::{
    clock::now_us,
    shard::{
        broker::HistoryBackfill,
        message::{HistorySource, ListedTopic, Lookup, Text, TopicListing},
        page::page,
    },
};

impl Topics {
    /// Answers a lookup. The receiver may be gone.
    pub(in crate::shard) fn answer(&self, lookup: Lookup) {
        match lookup {
            Lookup::Topics { listing, answer } => drop(answer.send(self.list(&listing))),
            Lookup::Missing { topics, answer } => {
                let missing = topics.into_iter().find(|topic| self.feeds.find(topic).is_none());
                drop(answer.send(missing));
            }
            Lookup::History { topic, start, limit, answer } => {
                drop(answer.send(self.history(&topic, start, limit)));
            }
            Lookup::Columns { topic, answer } => drop(answer.send(self.columns_of(&topic))),
            Lookup::ToldColumns { topic, answer } => drop(answer.send(self.columns_told(&topic))),
        }
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

    fn history(&self, topic: &Topic, start: StartAt, limit: usize) -> Option<HistorySource> {
        let local = self.feeds.find(topic).and_then(|key| self.feeds.get(key));
        let feed = local.and_then(|local| local.feed.as_ref());
        let origin = local.map_or_else(|| self.feeds.origin(topic), |local| local.origin);
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
        Some(HistorySource::Retained(page(feed?, start, limit)))
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
