//! Processes the messages that a shard receives, and ends the shard.

use std::rc::Rc;

use tokio::task::spawn_local;

use super::{Handle, Shard};
use crate::{
    clock::now_us,
    shard::{
        common::Peer,
        message::{Ack, ShardMessage},
    },
};

impl Handle {
    pub(super) fn receive(self: &Rc<Self>, message: ShardMessage) {
        match message {
            ShardMessage::Access(access) => self.with_shard(|shard| shard.change_access(access)),
            ShardMessage::Drain => {
                self.draining.set(true);
                self.drain.notify_waiters();
                self.common.traces.drain();
                self.with_shard(|shard| {
                    shard.flush();
                    shard.drain(now_us());
                });
                spawn_local(Rc::clone(self).end_polled_sessions());
                if self.id == 0 {
                    spawn_local(Rc::clone(self).wake_when_others_end());
                }
            }
            message => self.with_shard(|shard| shard.receive(message)),
        }
    }

    /// Returns whether the shard may end. The first shard ends last, because it rejects new connections.
    pub(super) fn is_drained(&self) -> bool {
        self.draining.get()
            && self.serving.get() == 0
            && self.shard.borrow().subscribers.is_empty()
            && self.shard.borrow().topics.has_stored_all()
            && (self.id != 0 || self.others().all(|peer| peer.messages.is_closed()))
    }

    async fn wake_when_others_end(self: Rc<Self>) {
        for peer in self.others() {
            peer.messages.closed().await;
        }
        self.wake.wake();
    }

    fn others(&self) -> impl Iterator<Item = &Peer> {
        let all = self.common.peers.iter().enumerate();
        all.filter(|(id, _)| *id != self.id).map(|(_, peer)| peer)
    }
}

impl Shard {
    /// Processes a message that needs this shard's owners only. The receiver of an answer may be gone.
    fn receive(&mut self, message: ShardMessage) {
        let Self { topics, ingest, .. } = self;
        match message {
            // `run` and `Handle::receive` process these.
            ShardMessage::Connection(_) | ShardMessage::Access(_) | ShardMessage::Drain => {}
            ShardMessage::Ack(Ack { topic, position }) => ingest.ack(topics, &topic, position),
            ShardMessage::Paused(paused) => topics.write_pause(paused),
            ShardMessage::FromBroker(message) => topics.receive_from_broker(message),
            ShardMessage::Fetched(fetched) => topics.receive_fetched(fetched),
            ShardMessage::Lookup(lookup) => self.answer(lookup),
            ShardMessage::Append { topic, is_broker_topic, mut payloads, terms, answer } => {
                let topic = (&topic, is_broker_topic);
                ingest.answer(topics, topic, &mut payloads, terms, answer);
            }
            ShardMessage::Attach { follower, address } => topics.attach(&follower, address),
            ShardMessage::Detach(follower) => topics.detach(&follower),
            ShardMessage::Batches { topic, attachment, posted } => {
                topics.receive(&topic, attachment, posted);
            }
            ShardMessage::Members { topic, change } => {
                topics.change_member(&topic, change, now_us());
            }
            ShardMessage::Delete { topic, answer } => topics.delete(&topic, answer),
            ShardMessage::Session { id, input } => self.take_request(id, input),
            ShardMessage::Disconnect { wanted, answer } => {
                let _ = answer.send(self.disconnect(&wanted));
            }
            ShardMessage::NoRoom(follower) => {
                if let Some(key) = topics.rejected_feed(&follower) {
                    self.evict_subscribers(key);
                }
            }
            ShardMessage::Flush(done) => {
                self.flush();
                let _ = done.send(());
            }
        }
    }
}
