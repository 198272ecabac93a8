//! Connections that an administrator ends.

use std::sync::Arc;

use thalweg_wire::close;
use tokio::sync::oneshot;

use super::{Handle, Mail, Shard, mail::Disconnect};
use crate::{
    access::{Allowed, Right, Wanted},
    refusal::Refusal,
    transport::Connection,
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
    pub(super) fn disconnect_here(&self, wanted: &Arc<Disconnect>) -> usize {
        self.disconnects.send_replace(Some(Arc::clone(wanted)));
        self.with_shard(|shard| shard.disconnect(wanted))
    }
}

impl Shard {
    fn disconnect(&mut self, wanted: &Disconnect) -> usize {
        let feeds = &self.topics.feeds;
        let is_meant = |connection: &Connection| match wanted {
            Disconnect::Of(_) => wanted.means(&connection.holder),
            Disconnect::Reading(pattern) => connection
                .subscriber
                .feeds()
                .any(|feed| feeds.get(feed).is_some_and(|local| pattern.matches(&local.topic))),
        };
        let connections = &self.subscribers.connections;
        let standing = connections.iter().filter(|(_, it)| !it.subscriber.is_ending());
        let meant = standing.filter(|(_, connection)| is_meant(connection));
        let keys: Vec<u32> = meant.map(|(key, _)| key as u32).collect();
        for key in &keys {
            self.subscribers.close(*key, close::DISCONNECTED);
        }
        keys.len()
    }
}
