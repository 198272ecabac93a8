use std::{
    cell::RefCell,
    rc::{Rc, Weak},
    sync::Arc,
};

use thalweg_core::stream::Slice;

use crate::{answers::AnswerAccount, transport::Client};

/// A query for the history of a topic, whose answer is being sent to a client.
pub(super) struct HistoryQuery {
    pub(super) client: Client,
    pub(super) account: Arc<AnswerAccount>,
    pub(super) events: Weak<RefCell<Slice>>,
    /// The bytes that its client had read at the last progress, and the time of that progress.
    taken: usize,
    since_us: u64,
}

/// The reason why a history query must wait.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) enum Full {
    /// The client has reached the limit for one client.
    OfClient(Client),
    /// All clients together have reached the limit.
    OfAll,
}

impl HistoryQuery {
    pub(super) fn new(
        client: Client,
        account: &Arc<AnswerAccount>,
        events: &Rc<RefCell<Slice>>,
        now_us: u64,
    ) -> Self {
        let (taken, events) = (account.taken(), Rc::downgrade(events));
        Self { client, account: Arc::clone(account), events, taken, since_us: now_us }
    }

    /// Returns whether the answer is still being sent.
    pub(super) fn is_sent(&self) -> bool {
        self.events.strong_count() > 0
    }

    /// Returns the time of the client's last progress. Checks for progress first.
    pub(super) fn idle_since(&mut self, now_us: u64) -> u64 {
        if self.account.taken() != self.taken {
            (self.taken, self.since_us) = (self.account.taken(), now_us);
        }
        self.since_us
    }
}
