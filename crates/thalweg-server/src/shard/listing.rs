//! The list of topics, which every shard has a part of.

use std::fmt::Display;

use serde::{Serialize, Serializer};
use thalweg_wire::{Position, Topic};

use super::{Handle, topics::Topics};
use crate::{
    access::{Allowed, Right, Wanted},
    refusal::Refusal,
};

/// Which topics to list.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) after: String,
    pub(crate) prefix: String,
    pub(crate) limit: usize,
    /// Those that its reader may see.
    pub(crate) shown: thalweg_token::Topics,
}

impl Listing {
    /// What the names of all topics of the list begin with, in order. None is the beginning of another
    /// one: so whoever may see few of many topics has few looked at.
    fn beginnings(&self) -> Vec<&str> {
        let prefix = &*self.prefix;
        let narrowed =
            self.shown.patterns().iter().filter_map(|pattern| match pattern.beginning() {
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

/// The list of topics, as the JSON of docs/wire.md, "Reading".
#[derive(Serialize)]
struct List {
    topics: Vec<Listed>,
    /// Whether there are others behind them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

impl Wanted for Listing {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewTopics].into_iter()
    }
}

/// One topic as a shard knows it.
#[derive(Serialize)]
struct Listed {
    topic: Text<Topic>,
    /// Position of its newest event. Only its home knows it.
    position: Option<Text<Position>>,
    /// Number of events retained there.
    events: u64,
    /// Number of subscribers on this shard.
    subscribers: u64,
}

/// A value that is serialised to JSON as its text.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Handle {
    /// The topics of all shards, as the JSON of docs/wire.md, "Reading".
    pub(crate) async fn list(&self, listing: Allowed<Listing>) -> Result<Vec<u8>, Refusal> {
        let mut listing = listing.into_inner();
        let limit = listing.limit;
        // One more says whether there are more.
        listing.limit += 1;
        let _turn = self.read_queue.turn().await;
        let mut all: Vec<Listed> = Vec::new();
        for shard in 0..self.common.peers.len() {
            let wanted = listing.clone();
            all.extend(self.look(shard, move |topics| topics.list(&wanted)).await?);
        }
        all.sort_unstable_by(|a, b| a.topic.0.cmp(&b.topic.0));
        let mut topics: Vec<Listed> = merged(all).take(listing.limit).collect();
        let more = topics.len() > limit;
        topics.truncate(limit);
        let list = List { topics, more };
        // It contains nothing that JSON cannot represent.
        Ok(serde_json::to_vec(&list).unwrap_or_default())
    }
}

impl Topics {
    /// At most `limit` topics after the given one, by name. Two shards may list the same topic:
    /// its home and a shard that has a copy.
    fn list(&self, listing: &Listing) -> Vec<Listed> {
        let named = |beginning| self.feeds.named(&listing.after, beginning);
        let next = listing.beginnings().into_iter().flat_map(named);
        let shown = next.filter(|local| listing.shown.contain(&local.topic));
        shown
            .take(listing.limit)
            .map(|local| {
                let feed = local.home.is_some().then_some(local.feed.as_ref()).flatten();
                Listed {
                    topic: Text(local.topic.clone()),
                    position: feed.map(|feed| Text(feed.position_before(feed.head()))),
                    events: feed.map_or(0, |feed| feed.retained_events() as u64),
                    subscribers: local.subscribers.len() as u64,
                }
            })
            .collect()
    }
}

/// Merges sorted entries: one entry for each topic.
fn merged(all: Vec<Listed>) -> impl Iterator<Item = Listed> {
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

#[cfg(test)]
mod tests {
    use thalweg_token::{Pattern, Topics};

    use super::Listing;

    #[test]
    fn only_what_may_be_shown_is_looked_at() {
        let check = |patterns: &[&str], prefix: &str, expected: &[&str]| {
            let shown: Topics = patterns.iter().map(|it| it.parse::<Pattern>().unwrap()).collect();
            let listing =
                Listing { after: String::new(), prefix: prefix.to_owned(), limit: 1, shown };
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
