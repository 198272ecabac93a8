//! Reads of a topic's history, without a subscription.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use thalweg_wire::StartAt;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Handle, page_parts::PageParts, read_back::HISTORIES};
use crate::{
    access::{Allowed, Reading},
    answers::AnswerAccount,
    clock::now_us,
    refusal::Refusal,
    transport::Client,
};
use thalweg_core::stream::Slice;

/// While a history query waits: time between two checks whether an idle one can be ended.
const QUEUE_POLL: Duration = Duration::from_millis(20);

/// A page while it is sent.
pub(crate) struct HistoryPage {
    pub(crate) before: Bytes,
    /// Shared with the shard, which checks how much memory only this slice keeps.
    pub(crate) events: Rc<RefCell<Slice>>,
    pub(crate) after: Bytes,
    _slot: SendSlot,
}

/// One of the histories that may be sent at the same time.
struct SendSlot(Rc<Handle>);

impl Drop for SendSlot {
    fn drop(&mut self) {
        self.0.read_queue.is_sent.notify_waiters();
    }
}

/// A history that is being sent.
pub(super) struct HistoryQuery {
    pub(super) client: Client,
    pub(super) account: Arc<AnswerAccount>,
    pub(super) events: Weak<RefCell<Slice>>,
    /// Bytes that its client had read when it was last found to make progress, and the time of
    /// that.
    taken: usize,
    since_us: u64,
}

/// Why a history query must wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum Full {
    /// Its client has as many as one client may have.
    OfClient(Client),
    /// All clients together have as many as are allowed.
    OfAll,
}

impl HistoryPage {
    /// Bytes that are left.
    pub(crate) fn bytes(&self) -> usize {
        self.before.len() + self.events.borrow().bytes() + self.after.len()
    }
}

impl HistoryQuery {
    /// Whether it is still being sent.
    pub(super) fn is_sent(&self) -> bool {
        self.events.strong_count() > 0
    }

    /// The time since when its client reads nothing. Checks for progress first.
    pub(super) fn idle_since(&mut self, now_us: u64) -> u64 {
        if self.account.taken() != self.taken {
            (self.taken, self.since_us) = (self.account.taken(), now_us);
        }
        self.since_us
    }
}

impl Handle {
    /// A topic's history from a cursor on, to be sent by the connection of `account`. If too
    /// many are being sent, it waits until one has ended.
    ///
    /// # Errors
    /// `NoSuchTopic`; `Busy` as in [`Self::may_read_more`], or when none ends in time.
    pub(crate) async fn read(
        self: &Rc<Self>,
        client: Client,
        account: &Arc<AnswerAccount>,
        topic: &Allowed<Reading>,
        start: StartAt,
        limit: usize,
    ) -> Result<HistoryPage, Refusal> {
        let Reading(topic) = &**topic;
        self.may_read_more(client)?;
        let deadline = Instant::now() + self.common.config.limits.stall;
        let first = timeout_at(deadline, self.read_queue.first_of(client)).await;
        let _first = first.map_err(|_| Refusal::busy(HISTORIES))?;
        self.room_to_send(client, deadline).await?;
        let PageParts { before, events, after, .. } =
            self.page(topic, start, limit, deadline).await?;
        let events = Rc::new(RefCell::new(events));
        self.shard.borrow_mut().subscribers.history_queries.push(HistoryQuery {
            client,
            account: Arc::clone(account),
            events: Rc::downgrade(&events),
            taken: account.taken(),
            since_us: now_us(),
        });
        let (before, after) = (before.into(), after.into());
        Ok(HistoryPage { before, events, after, _slot: SendSlot(Rc::clone(self)) })
    }

    /// Waits until a client's history may be sent. While it waits, a connection that reads
    /// nothing of its history is ended.
    async fn room_to_send(&self, client: Client, deadline: Instant) -> Result<(), Refusal> {
        loop {
            let is_sent = self.read_queue.is_sent.notified();
            let Some(full) = self.shard.borrow().subscribers.history_query_limit(client) else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(Refusal::busy(HISTORIES));
            }
            if timeout(QUEUE_POLL, is_sent).await.is_err() {
                self.with_shard(|shard| {
                    shard.subscribers.end_idle_history_query(&mut shard.topics, full);
                });
            }
        }
    }
}
