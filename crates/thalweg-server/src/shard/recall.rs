//! Events of fed topics that are older than what is here: read back from the stream when a
//! subscriber comes to them, once for all who want the same.

use thalweg_wire::Offset;
use tokio::sync::mpsc::error::TrySendError;

use super::{local_topic::LocalTopic, recalls::Recalls, topics::Topics};
use crate::{
    backend::{Read, ReadPage, ReadReply, Reader, RecallId, Unreadable, offset_of},
    clock::now_us,
    config::{READS_PER_SHARD, RECALLED_BYTES_MAX},
    fanout::FeedKey,
    stream::Page,
};

impl Topics {
    /// Readers of a feed wait for what comes from `from` on.
    pub(super) fn want_recall(&mut self, key: FeedKey, from: Offset) {
        let oldest = self.recalls.wanted.entry(key).or_insert(from);
        *oldest = from.min(*oldest);
        self.recalls.is_new = true;
    }

    /// Asks for what is wanted; `false` if the backend has no room for that now.
    pub(super) fn post_reads(&mut self) -> bool {
        let Some(reads) = &self.common.reads else { return true };
        self.recalls.is_new = false;
        let Recalls { wanted, under_way, .. } = &mut self.recalls;
        let ready: Vec<FeedKey> =
            wanted.keys().filter(|key| !under_way.contains(*key)).copied().collect();
        for key in ready {
            if under_way.len() >= READS_PER_SHARD {
                // The next page that comes makes room.
                return true;
            }
            let place = match reads.try_reserve() {
                Ok(place) => place,
                Err(TrySendError::Full(())) => return false,
                // A backend that has ended ends the server.
                Err(TrySendError::Closed(())) => return true,
            };
            let Some(from) = wanted.remove(&key) else { continue };
            let local = self.feeds.get(key);
            let Some((topic, feed)) = local.and_then(|it| Some((&it.topic, it.feed.as_ref()?)))
            else {
                continue;
            };
            let Some(stream) = self.feeds.streams.of(topic) else { continue };
            if feed.is_here(from) {
                continue;
            }
            let until = feed.here_from(from);
            let (topic, epoch) = (topic.clone(), feed.epoch());
            let id = RecallId { key, topic: topic.clone(), epoch, from, until };
            under_way.insert(key);
            place.send(Read {
                stream,
                topic,
                epoch,
                from,
                until,
                reply: ReadReply(Reader::Shard(id, self.from_backend.clone())),
            });
        }
        true
    }

    /// A page has come, or cannot be had.
    pub(super) fn take_page(&mut self, id: RecallId, page: Result<ReadPage, Unreadable>) {
        let RecallId { key, topic, epoch, from, until } = id;
        self.recalls.under_way.remove(&key);
        let Some(local) = self.feeds.get_mut(key).filter(|local| local.topic == topic) else {
            return;
        };
        let Some(feed) = local.feed.as_mut().filter(|feed| feed.epoch() == epoch) else { return };
        let Ok(ReadPage { messages, is_whole, first_sequence }) = page else {
            return self.recalls.failed.push(key);
        };
        self.counts.cold_reads.add(1);
        let stored_from = offset_of(first_sequence, 0);
        let before = feed.recalled_bytes();
        let numbered = messages.into_iter().map(|(sequence, it)| (offset_of(sequence, 0), it));
        let page = Page {
            from: from.max(stored_from),
            messages: numbered.collect(),
            is_last_before: is_whole.then_some(until),
            stored_from,
        };
        feed.recall(page, now_us());
        let (after, head) = (feed.recalled_bytes(), feed.head());
        local.head_may_be_back(head);
        self.recalls.bytes = self.recalls.bytes + after - before;
        self.recalls.pages.push_back(key);
        self.forget_recalled_over_limit(key);
        self.news.batches.push(key);
    }

    /// Keeps what is read back within its bound: the oldest pages go, but not those of `newest`.
    fn forget_recalled_over_limit(&mut self, newest: FeedKey) {
        while self.recalls.bytes > RECALLED_BYTES_MAX
            && let Some(key) = self.recalls.pages.pop_front()
        {
            let feed = self.feeds.get_mut(key).and_then(|local| local.feed.as_mut());
            if let Some(feed) = feed.filter(|_| key != newest) {
                self.recalls.bytes -= feed.recalled_bytes();
                feed.forget_recalled();
            }
        }
    }

    /// Asks the readers again whose pages could not be read, and counts what is there.
    pub(super) fn sweep_recalls(&mut self, bytes: usize) {
        self.recalls.bytes = bytes;
        self.news.batches.append(&mut self.recalls.failed);
        let feeds = &self.feeds;
        let has_any = |key: &FeedKey| {
            let feed = feeds.get(*key).and_then(|local| local.feed.as_ref());
            feed.is_some_and(|feed| feed.recalled_bytes() > 0)
        };
        self.recalls.pages.retain(has_any);
        self.counts.recalled_bytes.set(bytes as u64);
    }
}

impl LocalTopic {
    /// Where the feed's head went back, the next batch starts there.
    fn head_may_be_back(&mut self, head: Offset) {
        if let Some((_, order)) = self.fed()
            && order.arrived.is_empty()
        {
            order.head = head;
        }
    }
}
