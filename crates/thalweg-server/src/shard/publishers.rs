//! Publishers of lines: their requests last for any time, so what ends connections ends them, too.

use std::{future::pending, sync::Arc};

use slab::Slab;
use thalweg_wire::{ErrorCode, Topic};
use tokio::sync::oneshot;

use super::{Handle, mail::Disconnect};
use crate::{
    access::{AccessPolicy, Allowed, Holder, Right, Writing},
    refusal::Refusal,
};

/// Those of one shard.
#[derive(Default)]
pub(super) struct Publishers(Slab<Publisher>);

struct Publisher {
    holder: Arc<Holder>,
    topic: Topic,
    /// Ends it; taken when that has been done.
    end: Option<oneshot::Sender<Refusal>>,
}

/// A publisher's place among them, until this is dropped.
pub(crate) struct Publishing<'a> {
    handle: &'a Handle,
    key: usize,
    ended: oneshot::Receiver<Refusal>,
}

impl Handle {
    /// Adds a publisher, whose right was asked for before.
    ///
    /// # Errors
    /// When it has lost that since.
    pub(crate) fn publishing(
        &self,
        holder: &Arc<Holder>,
        topic: &Allowed<Writing>,
    ) -> Result<Publishing<'_>, Refusal> {
        let shard = &mut *self.shard.borrow_mut();
        let Writing(topic) = &**topic;
        let holder = successor(&shard.access, holder, topic)?;
        let (end, ended) = oneshot::channel();
        let publisher = Publisher { holder, topic: topic.clone(), end: Some(end) };
        let key = shard.publishers.0.insert(publisher);
        Ok(Publishing { handle: self, key, ended })
    }
}

impl Publishing<'_> {
    /// Completes when it is ended, with the reason.
    pub(crate) async fn ended(&mut self) -> Refusal {
        match (&mut self.ended).await {
            Ok(refusal) => refusal,
            // The shard has ended, and ends the request by itself.
            Err(_) => pending().await,
        }
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        self.handle.shard.borrow_mut().publishers.0.try_remove(self.key);
    }
}

impl Publishers {
    /// Ends those that are meant. Returns how many.
    pub(super) fn disconnect(&mut self, wanted: &Disconnect) -> usize {
        let mut ended = 0;
        for (_, publisher) in &mut self.0 {
            if wanted.means(&publisher.holder, [&publisher.topic].into_iter()) {
                let message = "an administrator has disconnected this publisher";
                let refusal = || Refusal::new(ErrorCode::Forbidden, message);
                ended += usize::from(publisher.end_with(refusal));
            }
        }
        ended
    }

    /// Ends those whose token another access policy does not take, or gives no right to their topic.
    pub(super) fn change_access(&mut self, access: &AccessPolicy) {
        for (_, publisher) in &mut self.0 {
            match successor(access, &publisher.holder, &publisher.topic) {
                Ok(holder) => publisher.holder = holder,
                Err(refusal) => drop(publisher.end_with(|| refusal)),
            }
        }
    }
}

impl Publisher {
    /// `false` if it has been ended before.
    fn end_with(&mut self, refusal: impl FnOnce() -> Refusal) -> bool {
        self.end.take().is_some_and(|end| end.send(refusal()).is_ok())
    }
}

/// Who a publisher to a topic is under a newer access policy.
///
/// # Errors
/// When it is nobody any more, or may not publish to it.
fn successor(
    access: &AccessPolicy,
    holder: &Arc<Holder>,
    topic: &Topic,
) -> Result<Arc<Holder>, Refusal> {
    let holder = access.holders.successor(holder).ok_or_else(|| {
        Refusal::new(ErrorCode::Unauthorized, "the token is not good any more: get a new one")
    })?;
    access.authorise(&holder, Right::Publish(topic))?;
    Ok(holder)
}
