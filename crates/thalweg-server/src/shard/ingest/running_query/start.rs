//! The start of a query at an offset of its source, or with events that show its columns.

use std::sync::Arc;

use thalweg_core::{fanout::FeedKey, stream::Batch};
use thalweg_query::{Beginning, Plan, Running, Waiting, limits};
use thalweg_wire::Offset;

use super::{super::query_start::block_from, QueryState, RunningQuery, unread::Unread, waits_us};
use crate::{clock, shard::topics::Topics};

impl RunningQuery {
    /// Begins the topic of a shared query when the offset from which the topic has all rows is known. If no
    /// unread event can show this offset, the topic begins after the unread events.
    pub(super) fn follow_start(
        &self,
        topics: &mut Topics,
        output: FeedKey,
        begins: Option<Offset>,
        head: Offset,
    ) {
        let (QueryState::Running(running), Some(epoch)) = (&self.state, self.epoch) else { return };
        let behind = || (self.next >= head).then(|| running.first_place(self.next));
        if let Some(offset) = begins.or_else(behind) {
            topics.begin_derived(output, epoch, offset);
        }
    }

    /// Begins a shared query with the first block at or after an offset of its source.
    pub(super) fn begin_at(
        &mut self,
        topics: &mut Topics,
        output: FeedKey,
        from: Offset,
        beginning: Beginning,
    ) {
        let (Some(plan), Some(epoch)) = (self.topic.plan.clone(), self.epoch) else { return };
        if let QueryState::Running(before) = &self.state {
            self.counts.query_windows_lost.add(before.open_windows() as u64);
        }
        let running = Running::new(plan, self.bounds, beginning);
        self.next = block_from(from);
        let first = running.first_place(self.next);
        if first > limits::OFFSET_MAX {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            tracing::error!(%topic, %source, "the query ends, because the offsets of the topic that it reads are too large to number its rows: remove the query, delete the topic and publish to it again");
            self.set_state(QueryState::Failed);
            return;
        }
        if running.is_numbered() {
            topics.begin_derived(output, epoch, first);
            if let Some(batches) = topics.derived(output) {
                batches.begin(first);
            }
        }
        self.set_state(QueryState::Running(Box::new(running)));
    }

    /// Begins with the first events, or waits for events from which to infer the columns.
    pub(super) fn begin(&mut self, first: &Batch) {
        self.next = first.start();
        match self.topic.plan.clone() {
            Some(plan) => self.run(plan),
            None => {
                self.is_inferred = true;
                let waiting = Waiting::new(self.topic.query.clone());
                self.set_state(QueryState::Waiting(Box::new(waiting), false));
            }
        }
    }

    fn run(&mut self, plan: Arc<Plan>) {
        self.timeout_us = Some(waits_us(&plan));
        self.period_us = plan.period_ms().map(|ms| ms.saturating_mul(1000));
        let (topic, source) = (&self.topic.output, &self.topic.source);
        let absent: Vec<&str> = plan.absent().collect();
        if !absent.is_empty() {
            let absent = absent.join(", ");
            let known = known_names(&plan);
            tracing::warn!(%topic, %source, "no event has the columns {absent} yet, so the query reads them as NULL: the events have {known}");
        }
        self.topic.plan = Some(Arc::clone(&plan));
        // Publishers may have begun before this server started.
        let running = Running::new(plan, self.bounds, Beginning::Anywhere);
        self.set_state(QueryState::Running(Box::new(running)));
    }

    /// Searches for an event that the query can read, and begins with it.
    pub(super) fn wait(&mut self, unread: &Unread, now_us: u64, until_us: u64) {
        let QueryState::Waiting(waiting, has_failed) = &mut self.state else { return };
        for batch in &unread.batches {
            let events = (batch.first().max(self.next)..).zip(batch.events_from(self.next));
            for (offset, event) in events {
                match waiting.take(event) {
                    Some(Ok(plan)) => {
                        self.next = offset;
                        return self.run(Arc::new(plan));
                    }
                    Some(Err(error)) => {
                        let (topic, source) = (&self.topic.output, &self.topic.source);
                        if self.failed.take(1, now_us).is_some() {
                            tracing::error!(%topic, %source, "the query cannot read these events, and waits for others: {error}");
                        }
                        *has_failed = true;
                    }
                    None => {}
                }
                self.skipped += 1;
                self.next = offset + 1;
                // Planning and inferring take as long as hundreds of events.
                if clock::now_us() >= until_us {
                    return;
                }
            }
            self.next = self.next.max(batch.end());
        }
        if unread.is_behind_loss(self.next) {
            self.next = unread.head;
        }
    }

    /// Tells new clients about columns that have become wider.
    pub(super) fn follow_plan(&mut self) {
        let QueryState::Running(running) = &self.state else { return };
        let plan = running.plan();
        if self.topic.plan.as_ref().is_some_and(|known| Arc::ptr_eq(known, plan)) {
            return;
        }
        if !self.is_ad_hoc() {
            let (topic, source) = (&self.topic.output, &self.topic.source);
            let known = known_names(plan);
            tracing::info!(%topic, %source, "the topic that the query reads has new columns, or columns of more general types: {known}");
        }
        self.ad_hoc.set_plan(&self.topic.output, plan);
        self.topic.plan = Some(Arc::clone(plan));
    }
}

/// Returns the columns that a plan reads, each as `name:type`.
fn known_names(plan: &Plan) -> String {
    let known = plan.schema().iter().map(|column| format!("{}:{}", column.name, column.kind));
    known.collect::<Vec<_>>().join(", ")
}
