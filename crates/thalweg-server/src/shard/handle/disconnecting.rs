//! Ends connections for an administrator, including publishers of lines.

use std::{future::pending, sync::Arc};

use thalweg_wire::close;
use tokio::sync::oneshot;

use super::{Handle, Shard};
use crate::{
    access::{Allowed, Holder, Writing},
    refusal::Refusal,
    shard::message::{Disconnect, ShardMessage},
};

/// A publisher's place among those of its shard.
pub(crate) struct Publishing<'a> {
    handle: &'a Handle,
    key: usize,
    ended: oneshot::Receiver<Refusal>,
}

impl Handle {
    /// Ends connections on all shards. Returns their number. Fails if a shard has ended.
    pub(crate) async fn disconnect(&self, wanted: Allowed<Disconnect>) -> Result<usize, Refusal> {
        let wanted = Arc::new(wanted.into_inner());
        let mut ended = 0;
        for (id, peer) in self.common.peers.iter().enumerate() {
            if id == self.id {
                ended += self.with_shard(|shard| shard.disconnect(&wanted));
                continue;
            }
            let (answer, answered) = oneshot::channel();
            let message = ShardMessage::Disconnect { wanted: Arc::clone(&wanted), answer };
            peer.publishes.send(message).await.map_err(|_| Refusal::draining())?;
            ended += answered.await.map_err(|_| Refusal::draining())?;
        }
        Ok(ended)
    }

    /// Adds a publisher whose right was checked before. Fails if the publisher has lost the right since.
    pub(crate) fn publishing(
        &self,
        holder: &Arc<Holder>,
        topic: &Allowed<Writing>,
    ) -> Result<Publishing<'_>, Refusal> {
        let shard = &mut *self.shard.borrow_mut();
        let (key, ended) = shard.publishers.add(&shard.access, holder, topic)?;
        Ok(Publishing { handle: self, key, ended })
    }
}

impl Publishing<'_> {
    /// Completes with the reason when the publisher is ended.
    pub(crate) async fn ended(&mut self) -> Refusal {
        match (&mut self.ended).await {
            Ok(refusal) => refusal,
            // The shard has ended, and the request ends by itself.
            Err(_) => pending().await,
        }
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        self.handle.shard.borrow_mut().publishers.remove(self.key);
    }
}

impl Shard {
    /// Ends connections of this shard. Returns their number.
    pub(super) fn disconnect(&mut self, wanted: &Disconnect) -> usize {
        let (topics, subscribers) = (&self.topics, &mut self.subscribers);
        let standing =
            subscribers.iter().filter(|(_, connection)| !connection.subscriber.is_ending());
        let meant = standing.filter(|(_, connection)| {
            wanted.means(
                &connection.holder,
                connection.subscriber.feeds().filter_map(|feed| topics.topic(feed)),
            )
        });
        let keys: Vec<u32> = meant.map(|(key, _)| key).collect();
        for key in &keys {
            subscribers.close(*key, close::DISCONNECTED);
        }
        keys.len() + self.publishers.disconnect(wanted)
    }
}
