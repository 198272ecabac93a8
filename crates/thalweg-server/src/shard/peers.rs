//! What a shard does with its mail.

use std::rc::Rc;

use thalweg_wire::close;
use tokio::task::spawn_local;

use super::{Handle, Mail, Peer, Shard, mail::Ack};

impl Handle {
    pub(super) fn open(self: &Rc<Self>, message: Mail) {
        match message {
            // For whoever serves sockets: `run` gives it to them.
            Mail::Connection(_) => {}
            Mail::Ack(Ack { topic, position }) => {
                self.step(|shard| shard.ingest.sources.ack(&mut shard.topics, &topic, position));
            }
            Mail::Read { topic, start, limit, answer } => {
                let _ = answer.send(self.shard.borrow().topics.read_history(&topic, start, limit));
            }
            Mail::Find { topics, answer } => {
                let feeds = &self.shard.borrow().topics.feeds;
                let missing = topics.into_iter().find(|topic| feeds.find(topic).is_none());
                let _ = answer.send(missing);
            }
            Mail::List { listing, answer } => {
                let _ = answer.send(self.shard.borrow().topics.list(&listing));
            }
            Mail::Append { topic, mut payloads, retry, answer } => {
                let placed = self.step(|shard| {
                    shard.ingest.append(&mut shard.topics, &topic, &mut payloads, retry)
                });
                // The publisher may have gone meanwhile.
                let _ = answer.send(placed);
            }
            Mail::Attach { reader, address } => {
                self.step(|shard| shard.topics.attach(&reader, address));
            }
            Mail::Detach(reader) => self.step(|shard| shard.topics.detach(&reader)),
            Mail::Batches { topic, attachment, epoch, from, batches } => self.step(|shard| {
                shard.topics.receive(&topic, attachment, epoch, from, batches);
            }),
            Mail::NoRoom(reader) => self.step(|shard| {
                if let Some(key) = shard.topics.without_room(&reader) {
                    shard.evict_subscribers(key);
                }
            }),
            Mail::Settle(done) => {
                self.step(Shard::settle);
                // Whoever waited for it may have given up.
                let _ = done.send(());
            }
            Mail::Drain => {
                self.draining.set(true);
                self.drain.notify_waiters();
                self.step(Shard::settle);
                self.step(|shard| shard.subscribers.close_all(close::DRAINING));
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
            && self.shard.borrow().subscribers.connections.is_empty()
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
