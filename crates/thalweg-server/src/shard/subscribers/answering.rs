//! Bounds the answers that clients do not read.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use thalweg_core::stream::{Batch, Slice};
use thalweg_wire::close;

use super::{
    Subscribers,
    history_query::{Full, HistoryQuery},
};
use crate::{
    answers::{AccountOwner, AnswerAccount},
    clock::now_us,
    config::IDLE_HISTORY_QUERY,
    connection_limits::Address,
    shard::topics::Topics,
    transport::Client,
};

impl Subscribers {
    pub(in crate::shard) fn account(&self) -> Arc<AnswerAccount> {
        self.answers.account(AccountOwner::Http)
    }

    pub(in crate::shard) fn watch(&mut self, account: &Arc<AnswerAccount>, address: Address) {
        self.answers.track(account, address, now_us);
    }

    /// Returns the memory of trimmed batches that a client's history queries keep, in bytes.
    pub(in crate::shard) fn pinned_by(&self, client: Client) -> usize {
        self.answers.pinned.get(&client).copied().unwrap_or(0)
    }

    /// Tracks a history query whose answer is being sent.
    pub(in crate::shard) fn begin_history(
        &mut self,
        client: Client,
        account: &Arc<AnswerAccount>,
        events: &Rc<RefCell<Slice>>,
    ) {
        self.history_queries.push(HistoryQuery::new(client, account, events, now_us()));
    }

    /// Ends connections until all answers together are within the limit. Returns whether the next turn must check again.
    pub(in crate::shard) fn keep_answers_within(&mut self, topics: &mut Topics) -> bool {
        let over = self.answers.over_limit(self.common.config.answers_max());
        for account in over.ended {
            self.counts.answers_cut.add(1);
            self.end_owner(topics, &account);
        }
        over.check_again
    }

    pub(in crate::shard) fn has_too_many_answers(&self) -> bool {
        self.answers.bytes() > self.common.config.answers_max()
    }

    /// Ends connections whose clients read too little of their answers, and those that keep too many trimmed batches.
    pub(super) fn sweep_answers(&mut self, topics: &mut Topics, now_us: u64) {
        let limits = self.common.config.limits;
        for account in self.answers.stalled(now_us, limits.write_timeout.as_micros() as u64) {
            self.end_owner(topics, &account);
        }
        self.sweep_history_queries(topics, limits.pinned_bytes);
        self.counts.answer_bytes.set(self.answers.bytes() as u64);
    }

    /// Returns why a client's history query must wait, if it must.
    pub(in crate::shard) fn history_query_limit(&self, client: Client) -> Option<Full> {
        let limits = &self.common.config.limits;
        let sent = || self.history_queries.iter().filter(|query| query.is_sent());
        if client.is_counted
            && sent().filter(|query| query.client == client).count()
                >= limits.history_queries_of_one()
        {
            return Some(Full::OfClient(client));
        }
        (sent().count() >= limits.history_queries()).then_some(Full::OfAll)
    }

    /// Ends one connection that does not read the answer to its history query. If there are several, ends the one
    /// that has been idle longest, of the client that has the most.
    pub(in crate::shard) fn end_idle_history_query(&mut self, topics: &mut Topics, full: Full) {
        let now_us = now_us();
        let idle_us = now_us.saturating_sub(IDLE_HISTORY_QUERY.as_micros() as u64);
        let mut by_client: HashMap<Client, Vec<(u64, &Arc<AnswerAccount>)>> = HashMap::new();
        for query in self.history_queries.iter_mut().filter(|query| query.is_sent()) {
            let since_us = query.idle_since(now_us);
            let is_meant = match full {
                Full::OfClient(client) => query.client == client,
                Full::OfAll => true,
            };
            if is_meant && since_us <= idle_us && !query.account.is_evicted() {
                by_client.entry(query.client).or_default().push((since_us, &query.account));
            }
        }
        let most = by_client.into_values().max_by_key(Vec::len).unwrap_or_default();
        let longest = most.into_iter().min_by_key(|(since_us, _)| *since_us);
        if let Some(account) = longest.map(|(_, account)| Arc::clone(account)) {
            self.evict(topics, &account);
        }
    }

    /// Ends a connection because of its answers, unless it is ending.
    fn evict(&mut self, topics: &mut Topics, account: &Arc<AnswerAccount>) {
        if self.answers.leave(account) {
            self.counts.answers_cut.add(1);
            self.end_owner(topics, account);
        }
    }

    /// Ends the connections whose history queries keep the most memory of trimmed batches. A batch's bytes are divided
    /// among the queries that keep it.
    fn sweep_history_queries(&mut self, topics: &mut Topics, bytes_max: usize) {
        self.history_queries.retain(HistoryQuery::is_sent);
        let mut sharers: HashMap<*const Batch, usize> = HashMap::new();
        let mut keeping = Vec::new();
        for query in &self.history_queries {
            let Some(events) = query.events.upgrade() else { continue };
            let batches: Vec<_> = events.borrow().pinned().cloned().collect();
            for batch in &batches {
                *sharers.entry(Arc::as_ptr(batch)).or_default() += 1;
            }
            keeping.push((Arc::clone(&query.account), query.client, batches));
        }
        let share = |sharers: &HashMap<_, usize>, batches: &[Arc<Batch>]| -> usize {
            batches.iter().map(|batch| batch.memory_bytes() / sharers[&Arc::as_ptr(batch)]).sum()
        };
        let mut by_account: HashMap<*const AnswerAccount, usize> = HashMap::new();
        let mut all = 0;
        for (account, _, batches) in &keeping {
            let bytes = share(&sharers, batches);
            *by_account.entry(Arc::as_ptr(account)).or_default() += bytes;
            all += bytes;
        }
        keeping.sort_by_cached_key(|(account, ..)| {
            let account = Arc::as_ptr(account);
            (by_account[&account], account)
        });
        let mut ended: Option<Arc<AnswerAccount>> = None;
        while let Some((account, _, batches)) = keeping.last() {
            let is_ended = ended.as_ref().is_some_and(|ended| Arc::ptr_eq(ended, account));
            if all <= bytes_max && !is_ended {
                break;
            }
            for batch in batches {
                let count = sharers.entry(Arc::as_ptr(batch)).or_default();
                *count -= 1;
                if *count == 0 {
                    all = all.saturating_sub(batch.memory_bytes());
                }
            }
            self.evict(topics, &Arc::clone(account));
            ended = keeping.pop().map(|(account, ..)| account);
        }
        let mut pinned: HashMap<Client, usize> = HashMap::new();
        for (_, client, batches) in &keeping {
            *pinned.entry(*client).or_default() += share(&sharers, batches);
        }
        self.answers.pinned = pinned;
        self.counts.answer_pinned_bytes.set(all as u64);
    }

    /// Counts the memory of a subscriber's control messages above `control_bytes`. `sent` bytes of them were sent now.
    pub(super) fn count_control(&mut self, key: u32, sent: usize) {
        let Some(connection) = self.connections.get(key as usize) else { return };
        let control_bytes_max = self.common.config.limits.control_bytes;
        let held = connection.subscriber.control_memory_bytes().saturating_sub(control_bytes_max);
        if held == 0 {
            self.forget_control(key);
            return;
        }
        let answers = &mut self.answers;
        let account = self
            .control_accounts
            .entry(key)
            .or_insert_with(|| answers.account(AccountOwner::Subscriber(key)));
        account.set(held, sent);
        answers.track(account, connection.client.address, now_us);
    }

    /// Notes that a subscriber's control messages no longer hold more than `control_bytes`.
    pub(super) fn forget_control(&mut self, key: u32) {
        if let Some(account) = self.control_accounts.remove(&key) {
            account.set(0, 0);
        }
    }

    fn end_owner(&mut self, topics: &mut Topics, account: &AnswerAccount) {
        match account.owner {
            AccountOwner::Http => {
                self.counts.count_closed(close::STALLED.code);
                account.end();
            }
            AccountOwner::Subscriber(key) => {
                if let Some(connection) = self.connections.get(key as usize) {
                    connection.writer.reset();
                }
                self.cut(topics, key, close::STALLED);
            }
        }
    }
}
