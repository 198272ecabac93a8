//! Publishers of lines. Their requests have no end, so administrators and new access policies end them like connections.

use std::sync::Arc;

use slab::Slab;
use thalweg_wire::ErrorCode;
use tokio::sync::oneshot;

use crate::{
    access::{AccessPolicy, Allowed, Holder, Wanted as _, Writing},
    refusal::Refusal,
    shard::message::Disconnect,
};

#[derive(Default)]
pub(super) struct LinePublishers(Slab<LinePublisher>);

struct LinePublisher {
    holder: Arc<Holder>,
    wanted: Writing,
    /// Ends the publisher. `None` after that.
    end: Option<oneshot::Sender<Refusal>>,
}

impl LinePublishers {
    /// Adds a publisher whose right was checked before. Returns its place, and a receiver of the reason for its end. Fails if the
    /// publisher has lost the right since.
    pub(super) fn add(
        &mut self,
        access: &AccessPolicy,
        holder: &Arc<Holder>,
        wanted: &Allowed<Writing>,
    ) -> Result<(usize, oneshot::Receiver<Refusal>), Refusal> {
        let wanted = Writing::clone(wanted);
        let holder = successor(access, holder, &wanted)?;
        let (end, ended) = oneshot::channel();
        let publisher = LinePublisher { holder, wanted, end: Some(end) };
        Ok((self.0.insert(publisher), ended))
    }

    pub(super) fn remove(&mut self, key: usize) {
        self.0.try_remove(key);
    }

    /// Ends publishers. Returns their number.
    pub(super) fn disconnect(&mut self, wanted: &Disconnect) -> usize {
        let mut ended = 0;
        for (_, publisher) in &mut self.0 {
            if wanted.means(&publisher.holder, [&publisher.wanted.topic].into_iter()) {
                let message = "an administrator has ended this request: ask the operator of the server before you publish again";
                let refusal = || Refusal::new(ErrorCode::Forbidden, message);
                ended += usize::from(publisher.end_with(refusal));
            }
        }
        ended
    }

    /// Ends publishers whose token a new access policy refuses, or gives no right to their topic.
    pub(super) fn change_access(&mut self, access: &AccessPolicy) {
        for (_, publisher) in &mut self.0 {
            match successor(access, &publisher.holder, &publisher.wanted) {
                Ok(holder) => publisher.holder = holder,
                Err(refusal) => drop(publisher.end_with(|| refusal)),
            }
        }
    }
}

impl LinePublisher {
    /// Ends the publisher. Returns `false` if it was ended before.
    fn end_with(&mut self, refusal: impl FnOnce() -> Refusal) -> bool {
        self.end.take().is_some_and(|end| end.send(refusal()).is_ok())
    }
}

/// Returns the holder of a publisher under a new access policy. Fails if the token is void, or gives no right to publish to the
/// topic, or to its key.
fn successor(
    access: &AccessPolicy,
    holder: &Arc<Holder>,
    wanted: &Writing,
) -> Result<Arc<Holder>, Refusal> {
    let holder = access.holders.successor(holder).ok_or_else(|| {
        Refusal::new(ErrorCode::Unauthorized, "the token is no longer valid: get a new one")
    })?;
    wanted.rights().try_for_each(|right| access.authorise(&holder, right))?;
    Ok(holder)
}
