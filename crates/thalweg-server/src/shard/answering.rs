//! What a shard does about answers that their clients do not read.

use std::{collections::HashMap, sync::Arc};

use thalweg_wire::{ErrorCode, close};

use super::{
    Handle,
    history_query::{Full, HistoryQuery},
    subscribers::Subscribers,
    topics::Topics,
};
use crate::{
    answers::{AccountOwner, AnswerAccount},
    clock::now_us,
    config::IDLE_HISTORY_QUERY,
    connection_limits::Address,
    refusal::Refusal,
    transport::Client,
};
use thalweg_core::stream::Batch;

impl Handle {
    /// A new account for a connection that HTTP serves.
    pub(crate) fn account(&self) -> Arc<AnswerAccount> {
        self.shard.borrow().subscribers.answers.account(AccountOwner::Http)
    }

    /// Watches a connection that was given an answer for the client at `address`. The shard's
    /// turns check it, after HTTP had a chance to send it.
    pub(crate) fn watch(&self, account: &Arc<AnswerAccount>, address: Address) {
        let subscribers = &mut self.shard.borrow_mut().subscribers;
        subscribers.answers.track(account, address, now_us);
        if subscribers.has_too_many_answers() {
            self.wake.wake();
        }
    }

    /// Whether a client may read more history.
    ///
    /// # Errors
    /// `Busy` while the history that it asked for and has not read keeps too much memory.
    pub(super) fn may_read_more(&self, client: Client) -> Result<(), Refusal> {
        let pinned = self.shard.borrow().subscribers.answers.pinned.get(&client).copied();
        if pinned.unwrap_or(0) > self.common.config.limits.pinned_share_bytes() {
            let message = "this client has not taken the history that it asked for: read it, or \
                           close its connection";
            return Err(Refusal::new(ErrorCode::Busy, message));
        }
        Ok(())
    }
}

impl Subscribers {
    /// Ends connections until all answers together are within the limit. `true` if the next
    /// turn must look again.
    pub(super) fn keep_answers_within(&mut self, topics: &mut Topics) -> bool {
        let over = self.answers.over_limit(self.common.config.answers_max());
        for account in over.ended {
            self.counts.answers_cut.add(1);
            self.end_owner(topics, &account);
        }
        over.check_again
    }

    /// Whether all answers together hold more than the limit.
    pub(super) fn has_too_many_answers(&self) -> bool {
        self.answers.bytes() > self.common.config.answers_max()
    }

    /// Ends connections whose clients read too little of their answers, and those that keep too
    /// much memory of trimmed batches.
    pub(super) fn sweep_answers(&mut self, topics: &mut Topics, now_us: u64) {
        let limits = self.common.config.limits;
        for account in self.answers.stalled(now_us, limits.stall.as_micros() as u64) {
            self.end_owner(topics, &account);
        }
        self.sweep_history_queries(topics, limits.pinned_bytes);
        self.counts.answer_bytes.set(self.answers.bytes() as u64);
    }

    /// Whether a client's history query must wait until another one has ended.
    pub(super) fn history_query_limit(&self, client: Client) -> Option<Full> {
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

    /// Ends one connection that reads nothing of its history: of the client with most such
    /// connections, the one idle longest.
    pub(super) fn end_idle_history_query(&mut self, topics: &mut Topics, full: Full) {
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

    /// Ends a connection because of the answers that it holds, unless it ends already.
    fn evict(&mut self, topics: &mut Topics, account: &Arc<AnswerAccount>) {
        if self.answers.leave(account) {
            self.counts.answers_cut.add(1);
            self.end_owner(topics, account);
        }
    }

    /// Ends the connections whose history queries keep most memory of trimmed batches. A
    /// batch's bytes are divided among the queries that keep it.
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

    /// Counts the memory of a subscriber's control messages above `control_bytes`. `sent` bytes
    /// of them were sent now.
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

    /// A subscriber's control messages no longer hold more than `control_bytes`.
    pub(super) fn forget_control(&mut self, key: u32) {
        if let Some(account) = self.control_accounts.remove(&key) {
            account.set(0, 0);
        }
    }

    /// Ends a connection because of the answers that it holds.
    fn end_owner(&mut self, topics: &mut Topics, account: &AnswerAccount) {
        self.counts.count_closed(close::STALLED.code);
        match account.owner {
            AccountOwner::Http => account.end(),
            AccountOwner::Subscriber(key) => {
                if let Some(connection) = self.connections.get(key as usize) {
                    connection.writer.reset();
                }
                self.remove(topics, key);
            }
        }
    }
}
