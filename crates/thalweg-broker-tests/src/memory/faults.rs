//! The broker in memory with faults and bugs, for tests of servers and of the suite.

mod control;
mod follower;

use std::{ops::Range, pin::pin, sync::Arc, time::Duration};

use thalweg_broker::{
    Append, AppendError, BoxFuture, Broker, BrokerCounts, CompareAndSet, Content, Delivery, Family,
    FamilyValue, Follower, ReadPage, ReadRange, Stored, Stream, TicketDigest, TicketError, Tickets,
    TopicIndex, TopicRange, Unreadable,
};
use thalweg_core::stream::FeedKind;
use thalweg_core::stream::Payloads;
use thalweg_wire::{Epoch, Offset, Topic};
use tokio::sync::watch;

use super::{Log, MemoryBroker};
use control::Control;
use follower::{FaultyFollower, without_time};

pub use control::{Bug, Fault};

/// Streams that live as long as the test. Clones share them.
#[derive(Debug, Clone)]
pub struct Streams {
    log: watch::Sender<Log>,
    control: watch::Sender<Control>,
}

impl Streams {
    /// Makes a stream for each pattern; a pattern that begins with `=` has value topics. Each record begins at a multiple of 256.
    pub fn new(patterns: &[&str]) -> Self {
        Self::spaced(patterns, 256, None)
    }

    /// Makes streams as [`Self::new`] does, but without unused offsets.
    pub fn dense(patterns: &[&str]) -> Self {
        Self::spaced(patterns, 1, None)
    }

    /// Makes streams as [`Self::dense`] does, but with a bug.
    pub fn with_bug(patterns: &[&str], bug: Bug) -> Self {
        Self::spaced(patterns, 1, Some(bug))
    }

    fn spaced(patterns: &[&str], spacing: u64, bug: Option<Bug>) -> Self {
        let pattern = |text: &&str| {
            let (text, kind) = match text.split_at(1) {
                ("=", plain) => (plain, FeedKind::Value),
                ("#", plain) => (plain, FeedKind::Keyed),
                _ => (*text, FeedKind::Log),
            };
            (text.parse().expect("a pattern"), kind)
        };
        let epoch = Epoch::new(0x9f).expect("not 0");
        let log = Log::new(patterns.iter().map(pattern).collect(), spacing, epoch);
        Self { log: watch::Sender::new(log), control: watch::Sender::new(Control::new(bug)) }
    }

    /// Returns the broker, as one more server has it.
    pub fn broker(&self) -> FaultyBroker {
        let broker = MemoryBroker::open(self.log.clone());
        FaultyBroker { broker, control: self.control.clone() }
    }

    /// Makes the next append or read fail.
    pub fn fail_next(&self, fault: Fault) {
        self.control.send_modify(|control| control.faults.push_back(Some(fault)));
    }

    /// Lets the next append succeed. A fault after it is that of a later append.
    pub fn pass_next(&self) {
        self.control.send_modify(|control| control.faults.push_back(None));
    }

    /// Sets whether servers have caught up.
    pub fn set_ready(&self, is_ready: bool) {
        self.control.send_modify(|control| control.is_ready = is_ready);
    }

    /// Disconnects all servers, or connects them again.
    pub fn cut(&self, is_cut: bool) {
        let (mut bug, mut refused) = (None, Vec::new());
        self.control.send_modify(|control| {
            (control.is_cut, bug) = (is_cut, control.bug);
            refused.append(&mut control.refused);
        });
        self.log.send_modify(|log| {
            if is_cut && bug == Some(Bug::LoseOnCrash) {
                self.lose_newest(log);
            }
            refused.into_iter().for_each(|append| _ = log.append(append, None));
        });
    }

    /// Stores all records again, and a pause in place of the newest.
    fn lose_newest(&self, log: &mut Log) {
        log.records.renew(log.records.epoch());
        let control = self.control.borrow();
        for (nth, record) in (1..).zip(control.remembered.iter().cloned()) {
            let Delivery { stream, topic, mut content, .. } = record;
            if nth == control.remembered.len() {
                content = Content::Paused(1);
            }
            let waited = Duration::ZERO;
            log.records.push(Append { stream, topic, content, key: None, waited });
        }
    }

    /// Ends the broker of each server, as a permanent failure does.
    pub fn end(&self) {
        self.control.send_modify(|control| control.has_ended = true);
    }

    /// Holds appends before they are stored, or releases them all.
    pub fn hold(&self, is_held: bool) {
        self.control.send_modify(|control| control.is_held = is_held);
    }

    /// Holds reads, or releases them all. [`Self::reads`] counts those that are held, too.
    pub fn hold_reads(&self, are_held: bool) {
        self.control.send_modify(|control| control.are_reads_held = are_held);
    }

    /// Returns the number of appends that are held.
    pub fn held(&self) -> usize {
        self.control.borrow().held
    }

    /// Delivers only records that are stored from now on to servers that start from now on.
    pub fn forget_for_new(&self) {
        self.log.send_modify(|log| log.from = log.records.head());
    }

    /// Trims the oldest records, this many.
    pub fn expire(&self, count: usize) {
        self.log.send_modify(|log| log.records.trim_oldest(count));
    }

    /// Trims all records, including those that were not delivered.
    pub fn trim(&self) {
        self.expire(usize::MAX);
    }

    /// Loses the records that begin in a range, as a damaged disk does.
    pub fn lose(&self, records: Range<Offset>) {
        self.log.send_modify(|log| log.records.lose(records));
    }

    /// Returns the number of tickets that were not redeemed.
    pub fn tickets(&self) -> usize {
        self.log.borrow().tickets.len()
    }

    /// Makes the tickets unreachable, or reachable again.
    pub fn lose_tickets(&self, are_lost: bool) {
        self.control.send_modify(|control| control.are_tickets_lost = are_lost);
    }

    /// Returns the number of reads.
    pub fn reads(&self) -> usize {
        self.control.borrow().reads
    }

    /// Loses all records and keys, and begins another epoch.
    pub fn restart(&self) {
        self.log.send_modify(|log| {
            let epoch = Epoch::new(log.records.epoch().get() + 1).expect("not 0");
            log.records.renew(epoch);
            log.from = log.records.head();
        });
    }
}

/// The broker in memory, as one server has it, with the faults that a test asks for.
#[derive(Debug)]
pub struct FaultyBroker {
    broker: MemoryBroker,
    control: watch::Sender<Control>,
}

impl FaultyBroker {
    async fn wait_while_held(&self) {
        self.control.send_modify(|control| control.held += 1);
        // `self` holds the sender, so the wait cannot fail.
        let _ = self.control.subscribe().wait_for(|control| !control.is_held).await;
        self.control.send_modify(|control| control.held -= 1);
    }

    fn bug(&self) -> Option<Bug> {
        self.control.borrow().bug
    }

    /// Takes the next fault; a read takes only a panic. Panics if that is the fault.
    fn take_fault(&self, is_read: bool) -> Option<Fault> {
        let mut fault = None;
        self.control.send_modify(|control| {
            control.reads += usize::from(is_read);
            if !is_read || control.faults.front() == Some(&Some(Fault::Panic)) {
                fault = control.faults.pop_front().flatten();
            }
        });
        assert_ne!(fault, Some(Fault::Panic), "the test injects a panic");
        fault
    }

    async fn store(&self, append: Append, newest: Option<Offset>) -> Result<Stored, AppendError> {
        let fault = self.take_fault(false);
        // One borrow: a second one would wait for a writer that waits for the first.
        let (is_cut, bug) = {
            let control = self.control.borrow();
            (control.is_cut, control.bug)
        };
        if is_cut || fault == Some(Fault::Unavailable) {
            if bug == Some(Bug::StoreRefused) {
                self.control.send_modify(|control| control.refused.push(append));
            }
            return Err(AppendError::Unavailable);
        }
        let Append { stream, topic, content, .. } = append.clone();
        let result = match (bug, newest) {
            (Some(Bug::MergeInFlight), None) => self.merge_in_flight(append).await,
            (bug, None) => self.broker.append(with_bug(append, bug)).await,
            (Some(Bug::IgnoreCondition), Some(_)) => self.broker.append(append).await,
            (_, Some(newest)) => self.broker.append_after(append, newest).await,
        };
        match result {
            Ok(Stored { is_repetition: false, first, .. }) => {
                let record = Delivery { stream, first, topic, content };
                self.control.send_modify(|control| control.remember(record));
                if fault.is_some() { Err(AppendError::Unknown) } else { result }
            }
            _ => result,
        }
    }

    /// Stores the first of several appends that are in flight together, and answers all with its offset.
    async fn merge_in_flight(&self, append: Append) -> Result<Stored, AppendError> {
        let (mut control, mut nth) = (self.control.subscribe(), 0);
        self.control.send_modify(|control| {
            control.in_flight += 1;
            nth = control.in_flight;
            control.merged = control.merged.filter(|_| nth > 1);
        });
        let result = if nth == 1 {
            let _ = control.wait_for(|control| control.in_flight > 1).await;
            let stored = self.broker.append(append).await;
            self.control.send_modify(|control| control.merged = stored.as_ref().ok().copied());
            stored
        } else {
            let first = control.wait_for(|control| control.merged.is_some()).await;
            first.ok().and_then(|control| control.merged).ok_or(AppendError::Unknown)
        };
        self.control.send_modify(|control| control.in_flight -= 1);
        result
    }

    async fn read_page(&self, range: ReadRange, is_newest: bool) -> Result<ReadPage, Unreadable> {
        self.take_fault(true);
        // `self` holds the sender, so the wait cannot fail.
        let _ = self.control.subscribe().wait_for(|control| !control.are_reads_held).await;
        if self.control.borrow().is_cut {
            return Err(Unreadable);
        }
        let topic = range.topic.clone();
        let mut page = match is_newest {
            true => self.broker.newest(range).await,
            false => self.broker.read(range).await,
        }?;
        let control = self.control.borrow();
        let remembered = control.remembered.iter().filter(|record| record.topic == topic);
        match control.bug {
            Some(Bug::ReadHoles) if page.records.len() > 2 => _ = page.records.remove(1),
            Some(Bug::SilentLoss) => page.holes.clear(),
            Some(Bug::TrimBeforeLoss) => {
                page.stored_from = page.holes.last().map_or(page.stored_from, |hole| hole.end);
            }
            Some(Bug::LosePauses) if !page.is_whole => page.pauses.clear(),
            Some(Bug::EarlyPauses) if !page.is_whole => {
                page.pauses = remembered.filter_map(pause).collect();
            }
            Some(Bug::ForgetEventKeys) => {
                let records = page.records.into_iter();
                let plain = records.map(|(first, events)| (first, without_keys(events)));
                page.records = plain.collect();
            }
            Some(Bug::TrimKeys) if page.records.iter().any(|(_, events)| events.has_keys()) => {
                page.records.remove(0);
            }
            Some(Bug::KeepEnded) if page.records.is_empty() => {
                page.records = remembered.filter_map(events).collect();
            }
            Some(Bug::ForgetTime) => {
                let records = page.records.into_iter();
                let plain = records.map(|(first, payloads)| (first, without_time(payloads)));
                page.records = plain.collect();
            }
            _ => {}
        }
        Ok(page)
    }
}

fn with_bug(mut append: Append, bug: Option<Bug>) -> Append {
    match (bug, &mut append.content) {
        (Some(Bug::ForgetKeys), _) => append.key = None,
        (Some(Bug::LoseEvent), Content::Events(payloads)) if payloads.count() > 1 => {
            payloads.truncate(payloads.count() - 1);
        }
        _ => {}
    }
    append
}

fn events(record: &Delivery) -> Option<(Offset, Payloads)> {
    match &record.content {
        Content::Events(payloads) => Some((record.first, payloads.clone())),
        Content::Paused(_) | Content::End(_) => None,
    }
}

fn without_keys(payloads: Payloads) -> Payloads {
    Payloads::from_lines(payloads.into_lines()).expect("events")
}

fn pause(record: &Delivery) -> Option<(Offset, u64)> {
    match record.content {
        Content::Paused(ms) => Some((record.first, ms)),
        Content::Events(_) | Content::End(_) => None,
    }
}

impl Broker for FaultyBroker {
    fn streams(&self) -> Vec<Stream> {
        self.broker.streams()
    }

    fn counts(&self) -> Arc<dyn BrokerCounts> {
        Arc::new(FixedCounts)
    }

    async fn append(&self, append: Append) -> Result<Stored, AppendError> {
        self.wait_while_held().await;
        self.store(append, None).await
    }

    async fn read(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.read_page(range, false).await
    }

    async fn newest(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.read_page(range, true).await
    }

    async fn follow<F: Follower>(&self, follower: F) -> String {
        let epoch = self.streams().first().map(|stream| stream.epoch);
        let follower = FaultyFollower::new(follower, self.control.clone(), epoch);
        let mut changes = self.control.subscribe();
        let mut following = pin!(self.broker.follow(follower.clone()));
        loop {
            follower.show_ready();
            if self.control.borrow().has_ended {
                return "the test ends the broker".to_owned();
            }
            tokio::select! {
                why = &mut following => return why,
                _ = changes.changed() => {}
            }
        }
    }

    fn compare_and_set(&self) -> Option<&dyn CompareAndSet> {
        Some(self)
    }

    fn topic_index(&self) -> Option<&dyn TopicIndex> {
        Some(self)
    }

    fn tickets(&self) -> Option<&dyn Tickets> {
        Some(self)
    }
}

impl TopicIndex for FaultyBroker {
    fn topics(&self, range: TopicRange) -> BoxFuture<'_, Result<Vec<Topic>, Unreadable>> {
        if self.control.borrow().is_cut {
            return Box::pin(async { Err(Unreadable) });
        }
        self.broker.topics(range)
    }
}

impl CompareAndSet for FaultyBroker {
    fn append_after(
        &self,
        append: Append,
        newest: Offset,
    ) -> BoxFuture<'_, Result<Stored, AppendError>> {
        Box::pin(self.store(append, Some(newest)))
    }
}

impl Tickets for FaultyBroker {
    fn keep(&self, ticket: TicketDigest, holder: String) -> BoxFuture<'_, Result<(), TicketError>> {
        if self.control.borrow().are_tickets_lost {
            return Box::pin(async { Err(TicketError::Unavailable) });
        }
        self.broker.keep(ticket, holder)
    }

    fn redeem(&self, ticket: TicketDigest) -> BoxFuture<'_, Result<Option<String>, TicketError>> {
        Box::pin(async move {
            if self.control.borrow().are_tickets_lost {
                return Err(TicketError::Unknown);
            }
            let holder = self.broker.redeem(ticket).await?;
            if let (Some(Bug::KeepTickets), Some(holder)) = (self.bug(), &holder) {
                self.broker.keep(ticket, holder.clone()).await?;
            }
            Ok(holder)
        })
    }
}

#[derive(Debug)]
struct FixedCounts;

impl BrokerCounts for FixedCounts {
    fn families(&self) -> Vec<Family> {
        let bounds = vec![0.001, 0.01];
        let value = FamilyValue::Histogram { bounds, counts: vec![1, 2, 3], sum: 0.5 };
        vec![Family { name: "memory_seconds", help: "A histogram.", value }]
    }
}
