//! What a shard does about answers that their clients do not take.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use thalweg_wire::{ErrorCode, close};

use super::{
    Handle, Shard,
    answers::{Holder, Who},
    reading::Reading,
};
use crate::{clock::now_us, refusal::Refusal, stream::Slice, transport::Client};

impl Handle {
    /// A connection that HTTP serves, as one that may hold answers.
    pub(super) fn holder(&self) -> Arc<Holder> {
        self.shard.borrow().answers.holder(Who::Http)
    }

    /// Looks after a connection that was given an answer.
    pub(super) fn watch(&self, holder: &Arc<Holder>) {
        let mut shard = self.shard.borrow_mut();
        shard.answers.list(holder, now_us);
        shard.keep_answers_within();
    }

    /// Looks at what a read keeps as long as its events are there.
    pub(super) fn watch_reading(
        &self,
        client: Client,
        holder: &Arc<Holder>,
        events: &Rc<RefCell<Slice>>,
    ) {
        let (holder, events) = (Arc::clone(holder), Rc::downgrade(events));
        self.shard.borrow_mut().readings.push(Reading { client, holder, events });
    }

    /// Whether a client may read more history.
    ///
    /// # Errors
    /// `Busy` while what it does not take of it keeps too much memory alone.
    pub(super) fn may_read_more(&self, client: Client) -> Result<(), Refusal> {
        let pinned = self.shard.borrow().answers.pinned_by(client);
        if pinned > self.common.config.limits.pinned_share_bytes {
            let message = "this client has not taken the history that it asked for: read it, or \
                           close its connection";
            return Err(Refusal::new(ErrorCode::Busy, message));
        }
        Ok(())
    }
}

impl Shard {
    /// Has the connections go that hold most, until all hold what they may.
    pub(super) fn keep_answers_within(&mut self) {
        let bytes_max = self.common.config.limits.answer_bytes;
        while let Some(largest) = self.answers.largest_beyond(bytes_max) {
            self.counts.answers_cut += 1;
            self.end_holder(&largest);
        }
    }

    /// Looks after answers: who takes too little of them, and what memory reads keep.
    pub(super) fn sweep_answers(&mut self, now_us: u64) {
        let limits = self.common.config.limits;
        for holder in self.answers.stalled(now_us, limits.stall.as_micros() as u64) {
            self.end_holder(&holder);
        }
        self.keep_answers_within();
        self.sweep_readings(limits.pinned_bytes);
        self.counts.answer_bytes = self.answers.bytes() as u64;
    }

    /// Has the reads go that keep most of what no history retains any more.
    fn sweep_readings(&mut self, bytes_max: usize) {
        self.readings.retain(|reading| reading.events.strong_count() > 0);
        let mut keeping: Vec<(usize, usize)> = Vec::new();
        for (index, reading) in self.readings.iter().enumerate() {
            let events = reading.events.upgrade();
            let bytes = events.map_or(0, |events| events.borrow().pinned_bytes());
            if bytes > 0 {
                keeping.push((bytes, index));
            }
        }
        keeping.sort_unstable();
        let mut all: usize = keeping.iter().map(|(bytes, _)| bytes).sum();
        while all > bytes_max
            && let Some((bytes, index)) = keeping.pop()
        {
            all -= bytes;
            let holder = Arc::clone(&self.readings[index].holder);
            self.counts.answers_cut += 1;
            self.answers.leave(&holder);
            self.end_holder(&holder);
        }
        let mut pinned: HashMap<Client, usize> = HashMap::new();
        for (bytes, index) in keeping {
            *pinned.entry(self.readings[index].client).or_default() += bytes;
        }
        self.answers.note_pinned(pinned);
        self.counts.answer_pinned_bytes = all as u64;
    }

    /// Counts what a subscriber's own frames hold beyond what every subscriber's may.
    pub(super) fn count_own(&mut self, key: u32) {
        let Some(connection) = self.connections.get(key as usize) else { return };
        let own_bytes_max = self.common.config.limits.own_bytes;
        let held = connection.subscriber.own_memory_bytes().saturating_sub(own_bytes_max);
        if held == 0 {
            self.forget_own(key);
            return;
        }
        let answers = &mut self.answers;
        let holder =
            self.own_holders.entry(key).or_insert_with(|| answers.holder(Who::Subscriber(key)));
        holder.set(held);
        answers.list(holder, now_us);
    }

    /// A subscriber's own frames hold no more than every subscriber's may.
    pub(super) fn forget_own(&mut self, key: u32) {
        if let Some(holder) = self.own_holders.remove(&key) {
            holder.set(0);
        }
    }

    /// Ends a connection for the answers that it holds.
    fn end_holder(&mut self, holder: &Holder) {
        self.counts.count_closed(close::STALLED.code);
        match holder.who() {
            Who::Http => holder.end(),
            Who::Subscriber(key) => {
                if let Some(connection) = self.connections.get(key as usize) {
                    connection.outlet.reset();
                }
                self.remove(key);
            }
        }
    }
}
