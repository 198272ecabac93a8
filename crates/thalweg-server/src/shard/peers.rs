//! What a shard does with its mail.

use std::rc::Rc;

use tokio::{sync::oneshot, task::spawn_local};

use super::{Handle, Mail, Peer, Shard, mail::Ack, topics::Topics};
use crate::{clock::now_us, refusal::Refusal};

impl Handle {
    pub(super) fn open(self: &Rc<Self>, message: Mail) {
        match message {
            // `run` handles these.
            Mail::Connection(_) => {}
            Mail::Ack(Ack { topic, position }) => {
                self.with_shard(|shard| {
                    shard.ingest.sources.ack(&mut shard.topics, &topic, position);
                });
            }
            Mail::Paused(paused) => self.with_shard(|shard| shard.topics.write_pause(paused)),
            Mail::FromBackend(message) => {
                self.with_shard(|shard| shard.topics.take_from_backend(message));
            }
            Mail::Fetched(fetched) => self.with_shard(|shard| shard.topics.take_fetched(fetched)),
            Mail::Look(look) => look(&self.shard.borrow().topics),
            Mail::Append { topic, mut payloads, retry_key, answer } => self.with_shard(|shard| {
                let Shard { ingest, topics, .. } = shard;
                ingest.answer(topics, &topic, &mut payloads, retry_key, answer);
            }),
            Mail::Attach { follower, address } => {
                self.with_shard(|shard| shard.topics.attach(&follower, address));
            }
            Mail::Detach(follower) => self.with_shard(|shard| shard.topics.detach(&follower)),
            Mail::Batches { topic, attachment, posted } => {
                self.with_shard(|shard| {
                    shard.topics.receive(&topic, attachment, posted);
                });
            }
            Mail::Delete { topic, answer } => {
                self.with_shard(|shard| shard.topics.delete(&topic, answer));
            }
            Mail::Access(access) => self.change_access(access),
            Mail::Disconnect { wanted, answer } => {
                // The receiver may be gone by then.
                let _ = answer.send(self.disconnect_here(&wanted));
            }
            Mail::NoRoom(follower) => self.with_shard(|shard| {
                if let Some(key) = shard.topics.rejected_feed(&follower) {
                    shard.evict_subscribers(key);
                }
            }),
            Mail::Flush(done) => {
                self.with_shard(Shard::flush);
                // The receiver may have given up.
                let _ = done.send(());
            }
            Mail::Drain => {
                self.draining.set(true);
                self.drain.notify_waiters();
                self.with_shard(Shard::flush);
                self.with_shard(|shard| shard.leave(now_us()));
                if self.id == 0 {
                    spawn_local(Rc::clone(self).wake_when_others_end());
                }
            }
        }
    }

    /// Whether it may end. The first shard ends last, because it turns new connections away.
    pub(super) fn is_drained(&self) -> bool {
        self.draining.get()
            && self.serving.get() == 0
            && self.shard.borrow().subscribers.connections.is_empty()
            && self.shard.borrow().topics.has_stored_all()
            && (self.id != 0 || self.others().all(|peer| peer.mail.is_closed()))
    }

    /// Runs a closure on the topics of a shard, this one or another.
    ///
    /// # Errors
    /// When that shard has ended.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        shard: usize,
        look: impl FnOnce(&Topics) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        if shard == self.id {
            return Ok(look(&self.shard.borrow().topics));
        }
        let (answer, answered) = oneshot::channel();
        // The receiver may be gone by then.
        let message = Mail::Look(Box::new(move |topics| _ = answer.send(look(topics))));
        let mail = &self.common.peers[shard].publishes;
        mail.send(message).await.map_err(|_| Refusal::draining())?;
        answered.await.map_err(|_| Refusal::draining())
    }

    async fn wake_when_others_end(self: Rc<Self>) {
        for peer in self.others() {
            peer.mail.closed().await;
        }
        self.wake.wake();
    }

    fn others(&self) -> impl Iterator<Item = &Peer> {
        let all = self.common.peers.iter().enumerate();
        all.filter(|(id, _)| *id != self.id).map(|(_, peer)| peer)
    }
}
