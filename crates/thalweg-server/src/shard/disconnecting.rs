//! Connections that an administrator ends.

use std::sync::Arc;

use thalweg_wire::{Topic, close};
use tokio::sync::oneshot;

use super::{Handle, Mail, Shard, mail::Disconnect};
use crate::{
    access::{Allowed, Holder, Right, Wanted},
    refusal::Refusal,
};

impl Wanted for Disconnect {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Administer].into_iter()
    }
}

impl Handle {
    /// Ends connections on all shards. Returns how many.
    ///
    /// # Errors
    /// When a shard has ended.
    pub(crate) async fn disconnect(&self, wanted: Allowed<Disconnect>) -> Result<usize, Refusal> {
        let wanted = Arc::new(wanted.into_inner());
        let mut ended = 0;
        for (id, peer) in self.common.peers.iter().enumerate() {
            if id == self.id {
                ended += self.disconnect_here(&wanted);
                continue;
            }
            let (answer, answered) = oneshot::channel();
            let message = Mail::Disconnect { wanted: Arc::clone(&wanted), answer };
            peer.publishes.send(message).await.map_err(|_| Refusal::draining())?;
            ended += answered.await.map_err(|_| Refusal::draining())?;
        }
        Ok(ended)
    }

    /// Ends those on this shard. Returns how many.
    pub(super) fn disconnect_here(&self, wanted: &Disconnect) -> usize {
        self.with_shard(|shard| shard.disconnect(wanted))
    }
}

impl Shard {
    fn disconnect(&mut self, wanted: &Disconnect) -> usize {
        let feeds = &self.topics.feeds;
        let connections = &self.subscribers.connections;
        let standing = connections.iter().filter(|(_, it)| !it.subscriber.is_ending());
        let meant = standing.filter(|(_, it)| {
            let read = it.subscriber.feeds().filter_map(|feed| feeds.get(feed));
            wanted.means(&it.holder, read.map(|local| &local.topic))
        });
        let keys: Vec<u32> = meant.map(|(key, _)| key as u32).collect();
        for key in &keys {
            self.subscribers.close(*key, close::DISCONNECTED);
        }
        let publishers = self.publishers.disconnect(wanted);
        keys.len() + publishers
    }
}

impl Disconnect {
    /// Whether it means a connection: its holder, or one of its topics.
    pub(super) fn means<'a>(
        &self,
        holder: &Holder,
        mut topics: impl Iterator<Item = &'a Topic>,
    ) -> bool {
        match self {
            Self::Subject(subject) => !subject.is_empty() && **subject == *holder.subject(),
            Self::Token(name) => !name.is_empty() && **name == *holder.token(),
            Self::Topics(pattern) => topics.any(|topic| pattern.matches(topic)),
        }
    }
}
