//! Events of fed topics that are older than what is here: read back from the stream when a
//! subscriber comes to them, once for all who want the same.

use thalweg_wire::Offset;
use tokio::sync::mpsc::error::TrySendError;

use super::{local_topic::LocalTopic, pauses::Pauses, topics::Topics};
use crate::{
    backend::{Read, ReadPage, ReadReply, Reader, RecallId, Unreadable, offset_of},
    clock::now_us,
    config::READS_PER_SHARD,
};
use thalweg_core::{
    fanout::FeedKey,
    stream::{Feed, Page},
};

impl Topics {
    /// Asks for what is wanted; `false` if the backend has no room for that now.
    pub(super) fn post_reads(&mut self) -> bool {
        let Some(reads) = &self.common.reads else { return true };
        // What is under way makes room for others when it comes.
        while self.recalls.is_due(READS_PER_SHARD) {
            let place = match reads.try_reserve() {
                Ok(place) => place,
                Err(TrySendError::Full(())) => return false,
                // A backend that has ended ends the server.
                Err(TrySendError::Closed(())) => return true,
            };
            let Some((key, from)) = self.recalls.next() else { continue };
            let local = self.feeds.get(key);
            let wanted = local.and_then(|local| {
                let stream = self.feeds.streams.of(&local.topic)?;
                Some((&local.topic, local.feed.as_ref()?, stream))
            });
            let Some((topic, feed, stream)) = wanted else {
                self.recalls.gone(key);
                continue;
            };
            let (topic, epoch, until) = (topic.clone(), feed.epoch(), feed.here_from(from));
            let id = RecallId { key, topic: topic.clone(), epoch, from, until };
            // What is known to be gone need not be looked through again.
            let from = if from <= until { from.max(feed.stored_from()).min(until) } else { from };
            let reply = ReadReply::new(Reader::Shard(id, self.answers.clone()));
            place.send(Read { stream, topic, epoch, from, until, reply });
        }
        true
    }

    /// A page has come, or cannot be had.
    pub(super) fn take_page(&mut self, id: RecallId, page: Result<ReadPage, Unreadable>) {
        let RecallId { key, topic, epoch, from, until } = id;
        let Ok(page) = page else { return self.recalls.failed(key) };
        let is_its = |local: &&mut LocalTopic| {
            let its_epoch = local.feed.as_ref().map(Feed::epoch);
            local.topic == topic && its_epoch == Some(epoch)
        };
        let Some(local) = self.feeds.get_mut(key).filter(is_its) else {
            // The key may be another topic's, whose readers wait for a page of their own.
            self.recalls.came(key, |_| true);
            return;
        };
        let Some(feed) = &mut local.feed else { return };
        self.counts.cold_reads.add(1);
        let (before, history_before) = (feed.recalled_bytes(), feed.history_bytes());
        let pauses: Pauses =
            page.pauses.iter().map(|(sequence, ms)| (offset_of(*sequence, 0), *ms)).collect();
        let (newest, has_given) = (page.newest(), page.has_given(from.saturating_sub(1)));
        let is_beyond = from > until;
        if is_beyond {
            feed.look_beyond(from, has_given, now_us());
        } else {
            feed.recall(page_of(page, from, until), now_us());
        }
        let (after, head) = (feed.recalled_bytes(), feed.head());
        let is_version = feed.history_bytes() > history_before;
        self.history_bytes = self.history_bytes + feed.history_bytes() - history_before;
        let served = self.recalls.came(key, |from| feed.is_away(from));
        local.was_read(head, newest);
        let is_input = local.is_input;
        self.news.recalled.extend(served);
        self.recalled.add(key, after, before);
        while let Some(oldest) = self.recalled.over_limit(key) {
            self.forget_recalled(oldest);
        }
        self.take_pauses(key, pauses);
        if is_input {
            self.news.inputs.push(key);
        }
        if is_version {
            // It may be newer than what has come from the stream.
            self.news.batches.push(key);
            self.mark_unposted(key);
        }
        if !is_beyond {
            // Now it is known what the stream has of it.
            self.fetch_anew(key);
        }
    }

    /// Gives up what was read back of a feed: whoever still needs it has it read again.
    fn forget_recalled(&mut self, key: FeedKey) {
        if let Some(feed) = self.feeds.get_mut(key).and_then(|local| local.feed.as_mut()) {
            self.recalled.subtract(feed.recalled_bytes());
            feed.forget_recalled();
        }
    }

    /// Tries again what could not be read, and takes in how much is there.
    pub(super) fn sweep_recalls(&mut self, bytes: usize) {
        self.recalls.retry();
        let feeds = &self.feeds;
        let has_any = |key: FeedKey| {
            let feed = feeds.get(key).and_then(|local| local.feed.as_ref());
            feed.is_some_and(|feed| feed.recalled_bytes() > 0)
        };
        self.recalled.sweep(bytes, has_any);
        self.counts.recalled_bytes.set(bytes as u64);
    }
}

/// What a feed takes in of a page that was asked for from an offset until another.
pub(super) fn page_of(page: ReadPage, from: Offset, until: Offset) -> Page {
    let stored_from = page.stored_from();
    let numbered = page.messages.into_iter().map(|(sequence, it)| (offset_of(sequence, 0), it));
    Page {
        from: from.max(stored_from),
        messages: numbered.collect(),
        is_last_before: page.is_whole.then_some(until),
        stored_from,
    }
}

impl LocalTopic {
    /// The newest message read has this sequence number. Where the feed's head went back, the next
    /// batch starts there.
    fn was_read(&mut self, head: Offset, newest: u64) {
        if let Some((_, order)) = self.fed()
            && order.arrived.is_empty()
        {
            order.head = head;
            order.has_message(newest);
        }
    }
}
