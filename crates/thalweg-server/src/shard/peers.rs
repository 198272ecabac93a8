use std::{cmp::Reverse, rc::Rc};

use thalweg_wire::{ErrorCode, close};
use tokio::{sync::mpsc::error::TrySendError, task::spawn_local};

use super::{
    Handle, Mail, Peer, Shard, Timer,
    feeds::RemoteReader,
    mail::{Ack, Reader},
    room::Maker,
};
use crate::{clock::now_us, fanout::FeedKey, seats::Address};

/// Until what did not fit into another shard's mail is tried again.
const AGAIN_US: u64 = 1_000;

impl Handle {
    pub(super) fn open(self: &Rc<Self>, letter: Mail) {
        match letter {
            // For whoever serves sockets: `run` gives it to them.
            Mail::Connection(_) => {}
            Mail::Ack(Ack { topic, position }) => {
                self.step(|shard| shard.ack_sources(&topic, position));
            }
            Mail::Read { topic, start, limit, answer } => {
                let _ = answer.send(self.shard.borrow().read_history(&topic, start, limit));
            }
            Mail::Find { topics, answer } => {
                let feeds = &self.shard.borrow().feeds;
                let missing = topics.into_iter().find(|topic| feeds.find(topic).is_none());
                let _ = answer.send(missing);
            }
            Mail::List { listing, answer } => {
                let _ = answer.send(self.shard.borrow().list_topics(&listing));
            }
            Mail::Append { topic, mut payloads, retry, answer } => {
                let placed = self.step(|shard| shard.append(&topic, &mut payloads, retry));
                // The publisher may have gone meanwhile.
                let _ = answer.send(placed);
            }
            Mail::Attach { reader, address } => {
                self.step(|shard| shard.attach(&reader, address));
            }
            Mail::Detach(reader) => self.step(|shard| shard.detach(&reader)),
            Mail::Batches { topic, attachment, epoch, from, batches } => self.step(|shard| {
                let key = shard.feeds.find(&topic);
                let Some((key, feed)) = key.and_then(|key| Some((key, shard.feeds.get(key)?)))
                else {
                    return;
                };
                if feed.attachment == attachment {
                    let before = shard.feeds.history_bytes(key);
                    shard.feeds.receive(key, epoch, from, batches, now_us());
                    shard.keep_within(key, before);
                    shard.mark_subscribers(key);
                }
            }),
            Mail::NoRoom(reader) => self.step(|shard| shard.turn_away(&reader)),
            Mail::Settle(done) => {
                self.step(Shard::settle);
                // Whoever waited for it may have given up.
                let _ = done.send(());
            }
            Mail::Drain => {
                self.draining.set(true);
                self.drain.notify_waiters();
                self.step(Shard::settle);
                self.step(Shard::close_all);
                if self.id == 0 {
                    spawn_local(Rc::clone(self).wake_when_others_end());
                }
            }
        }
    }

    /// Whether it may end. The first shard is the last to: it turns away who comes.
    pub(super) fn is_drained(&self) -> bool {
        self.draining.get()
            && self.serving.get() == 0
            && self.shard.borrow().connections.is_empty()
            && (self.id != 0 || self.others().all(|peer| peer.mail.is_closed()))
    }

    async fn wake_when_others_end(self: Rc<Self>) {
        for peer in self.others() {
            peer.mail.closed().await;
        }
        self.wake.notify_one();
    }

    fn others(&self) -> impl Iterator<Item = &Peer> {
        let all = self.common.peers.iter().enumerate();
        all.filter(|(id, _)| *id != self.id).map(|(_, peer)| peer)
    }
}

impl Shard {
    /// Posts other shards what they have not seen.
    pub(super) fn post(&mut self) {
        let mut unposted = std::mem::take(&mut self.unposted);
        unposted.retain(|key| !self.post_feed(*key));
        self.unposted = unposted;
        if !self.unposted.is_empty() {
            self.try_again();
        }
    }

    /// Posts one topic's news; `false` if a letterbox was full.
    fn post_feed(&mut self, key: FeedKey) -> bool {
        let Some(feed) = self.feeds.get_mut(key) else { return true };
        let (Some(home), Some(log)) = (&mut feed.home, &feed.log) else { return true };
        let mut all = true;
        for reader in &mut home.readers {
            if reader.greeted && reader.next == log.head() {
                continue;
            }
            match self.common.peers[reader.shard].mail.try_reserve() {
                Ok(place) => place.send(Mail::Batches {
                    topic: feed.topic.clone(),
                    attachment: reader.attachment,
                    epoch: home.sequencer.epoch(),
                    from: reader.next,
                    batches: log.batches_from(reader.next).cloned().collect(),
                }),
                Err(TrySendError::Full(())) => {
                    all = false;
                    continue;
                }
                // That shard has drained.
                Err(TrySendError::Closed(())) => {}
            }
            reader.next = log.head();
            reader.greeted = true;
        }
        home.is_unposted = !all;
        all
    }

    /// Asks homes for the topics that subscribers here wait for.
    pub(super) fn ask(&mut self) {
        let mut unattached = std::mem::take(&mut self.unattached);
        unattached.dedup();
        unattached.retain(|key| !self.ask_for(*key));
        self.unattached = unattached;
        if !self.unattached.is_empty() {
            self.try_again();
        }
    }

    /// Asks for one topic; `false` if the letterbox was full.
    fn ask_for(&mut self, key: FeedKey) -> bool {
        let Some(feed) = self.feeds.get_mut(key).filter(|feed| feed.is_wanting()) else {
            return true;
        };
        // If the topic is new, it is of the share of whoever wanted it first.
        let first = feed.subscribers.first().and_then(|key| self.connections.get(*key as usize));
        let address = first.and_then(|connection| connection.client.counted());
        let home = super::home_of(&feed.topic, self.common.peers.len());
        let Ok(place) = self.common.peers[home].mail.try_reserve() else { return false };
        self.attachments += 1;
        feed.attachment = self.attachments;
        let (topic, attachment) = (feed.topic.clone(), feed.attachment);
        let reader = Reader { topic, shard: self.id, attachment };
        place.send(Mail::Attach { reader, address });
        true
    }

    pub(super) fn try_again(&mut self) {
        if !std::mem::replace(&mut self.is_again_timed, true) {
            self.timers.push(Reverse((now_us() + AGAIN_US, Timer::Again)));
        }
    }

    fn attach(&mut self, reader: &Reader, address: Option<Address>) {
        let Ok(key) = self.feeds.open(&reader.topic, true, Maker::Subscriber(address)) else {
            // If its letterbox is full, it asks again at its next sweep.
            return self.post_no_room(reader.shard, reader.clone());
        };
        let Some(feed) = self.feeds.get_mut(key) else { return };
        let (Some(home), Some(log)) = (&mut feed.home, &feed.log) else { return };
        home.readers.retain(|other| other.shard != reader.shard);
        home.readers.push(RemoteReader {
            shard: reader.shard,
            attachment: reader.attachment,
            next: log.first_retained(),
            greeted: false,
        });
        if !std::mem::replace(&mut home.is_unposted, true) {
            self.unposted.push(key);
        }
        self.want(key, now_us());
    }

    fn post_no_room(&self, shard: usize, reader: Reader) {
        let _ = self.common.peers[shard].mail.try_send(Mail::NoRoom(reader));
    }

    /// A topic's home has no room for it: whoever waits for it goes.
    fn turn_away(&mut self, reader: &Reader) {
        let Some(key) = self.feeds.find(&reader.topic) else { return };
        if self.feeds.get(key).is_some_and(|feed| feed.attachment == reader.attachment) {
            self.give_up(key);
        }
    }

    /// There is no room for a topic: its subscribers go, here and on other shards.
    pub(super) fn give_up(&mut self, key: FeedKey) {
        let Some(feed) = self.feeds.get(key) else { return };
        let readers = feed.home.iter().flat_map(|home| &home.readers);
        for &RemoteReader { shard, attachment, .. } in readers {
            self.post_no_room(shard, Reader { topic: feed.topic.clone(), shard, attachment });
        }
        for key in feed.subscribers.clone() {
            if self.connections[key as usize].subscriber.is_ending() {
                continue;
            }
            self.counts.count_refused(ErrorCode::TooManyTopics);
            self.close(key, close::BUSY);
        }
    }

    fn detach(&mut self, reader: &Reader) {
        let key = self.feeds.find(&reader.topic);
        if let Some(home) = key.and_then(|key| self.feeds.get_mut(key)?.home.as_mut()) {
            // Each shard numbers its own attachments.
            home.readers.retain(|other| {
                (other.shard, other.attachment) != (reader.shard, reader.attachment)
            });
        }
    }

    pub(super) fn close_all(&mut self) {
        let keys: Vec<u32> = self.connections.iter().map(|(key, _)| key as u32).collect();
        for key in keys {
            self.close(key, close::DRAINING);
        }
    }
}
