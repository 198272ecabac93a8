//! One topic on one shard.

use std::sync::Arc;

use thalweg_core::stream::{
    AnyFeed, Batch, Cursor, DerivedBatches, Feed as _, FormatMap, Memory as _, Sequencer, StatePart,
};
use thalweg_wire::{Format, Offset, Topic};

use super::{
    demand::{DemandChange, LINGER_US, TopicDemand},
    limits::TopicKind,
    origin::Origin,
};
use crate::{
    fetch::Readers,
    shard::{
        broker::{BrokerOrder, KeyedOrder, Pauses},
        message::{Ending, Posted},
    },
};

/// The number of sweeps (one per second) by which an empty topic outlasts its last reader. A client that polls or reconnects sends
/// its position. A new topic would not know it, and the server would announce a gap although no event is missing.
const IDLE_SWEEPS: u8 = 6;

/// The maximum number of events of a keyed topic's state in one message to another shard.
const STATE_PART_EVENTS: usize = 4096;

#[derive(Debug)]
pub(super) struct LocalTopic {
    pub(super) topic: Topic,
    pub(super) kind: TopicKind,
    pub(super) origin: Origin,
    /// The index of the pattern that counts the topic.
    pub(super) pattern: u32,
    /// The feed that subscribers read. On a follower it comes with the owner shard's first answer.
    pub(super) feed: Option<AnyFeed>,
    /// Set on the owner shard.
    pub(super) owner: Option<OwnerState>,
    /// The connections that subscribe. Each subscription knows its place here.
    pub(super) subscribers: Vec<u32>,
    /// Whether sources or queries of this shard read the topic.
    pub(super) is_input: bool,
    pub(super) pauses: Pauses,
    /// The number of subscribers per format.
    pub(super) format_users: FormatMap<u32>,
    /// The clients that read a fetched topic. The owner shard counts those of other shards, too.
    pub(super) readers: Option<Box<Readers>>,
    /// The number of the attachment to the owner shard. 0: there is none.
    pub(super) attachment: u64,
    /// How often subscribers on this shard were told of missing events.
    pub(super) gaps: u32,
    /// Set if the topic has ended. Another topic may have its name. The ended topic is removed with its last reader.
    pub(super) end: Option<Ending>,
}

/// The way in which a topic's events get their offsets.
#[derive(Debug)]
pub(super) enum Order {
    /// This shard assigns them.
    Own(Sequencer),
    /// A stream of a broker assigns them.
    Broker(Box<BrokerOrder>),
    /// They follow from the offsets of the topic that a query reads.
    Derived(Box<DerivedBatches>),
}

/// A subscription that has moved to another place in its feed's list.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) struct Moved {
    pub(in crate::shard) connection: u32,
    pub(in crate::shard) from: u32,
}

#[derive(Debug)]
pub(super) struct OwnerState {
    pub(super) order: Order,
    pub(super) followers: Vec<Follower>,
    pub(super) demand: TopicDemand,
    /// How long fetching outlasts the last reader, in µs, if the topic is fetched.
    pub(super) fetched_linger_us: Option<u64>,
    pub(super) activity: Activity,
    /// Sweeps in a row in which the topic was empty and had no readers.
    pub(super) idle_sweeps: u8,
    /// The number of events of a keyed topic that were appended after its last batch was sealed.
    pub(super) open_keys: u32,
    /// Whether the topic is queued to be sealed.
    pub(super) is_due: bool,
    /// Whether a timer will seal the topic.
    pub(super) is_timed: bool,
    /// Whether the topic is queued to be posted.
    pub(super) is_unposted: bool,
    /// Whether a source feeds or reads the topic.
    pub(super) is_permanent: bool,
    /// A number that no other topic of this shard has.
    pub(super) serial: u64,
}

/// The events of a topic since it was opened, whether or not they are still retained.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Activity {
    pub(super) events: u64,
    pub(super) bytes: u64,
    /// When the newest ones came, in µs. 0: none has come.
    pub(super) newest_us: u64,
}

impl Activity {
    pub(super) fn add(&mut self, batches: &[Batch], now_us: u64) {
        for batch in batches {
            self.events += batch.count() as u64;
            self.bytes += batch.event_bytes(batch.first()) as u64;
        }
        self.newest_us = now_us;
    }
}

/// A shard that follows a topic. It is a cursor: batches that it does not have yet stay in the history.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) shard: usize,
    pub(super) attachment: u64,
    pub(super) next: Offset,
    /// How far it has received the state of a keyed topic, if batches alone cannot bring it up to date.
    pub(super) state: Cursor,
    /// The shard has the pauses before this offset.
    pub(super) next_pause: Offset,
    pub(super) has_first_reply: bool,
    pub(super) is_told_end: bool,
}

impl Order {
    pub(super) fn broker(&mut self) -> Option<&mut BrokerOrder> {
        match self {
            Self::Broker(order) => Some(order),
            Self::Own(_) | Self::Derived(_) => None,
        }
    }

    /// Returns when there are batches to take, in µs.
    pub(super) fn due_us(&self) -> Option<u64> {
        match self {
            Self::Own(sequencer) => sequencer.due_us(),
            Self::Broker(_) | Self::Derived(_) => None,
        }
    }

    pub(super) fn seal(&mut self, now_us: u64) -> Vec<Batch> {
        match self {
            Self::Own(sequencer) => sequencer.seal(now_us),
            Self::Broker(order) => std::mem::take(&mut order.arrived),
            Self::Derived(batches) => batches.seal(now_us),
        }
    }

    /// Makes due the events that are not in the feed yet.
    pub(super) fn make_due(&mut self) {
        match self {
            Self::Own(sequencer) => sequencer.make_due(),
            Self::Broker(_) | Self::Derived(_) => {}
        }
    }

    /// Stops all batches, including later ones, from waiting for more events.
    pub(super) fn stop_waiting(&mut self) {
        match self {
            Self::Own(sequencer) => sequencer.stop_waiting(),
            Self::Broker(_) | Self::Derived(_) => {}
        }
    }

    /// Returns the number of events of a broker that the feed does not have yet.
    pub(super) fn arrived_events(&self) -> usize {
        match self {
            Self::Broker(order) => order.arrived.iter().map(Batch::count).sum(),
            Self::Own(_) | Self::Derived(_) => 0,
        }
    }

    /// Returns whether there are events that the feed does not have.
    fn holds_events(&self) -> bool {
        match self {
            Self::Own(sequencer) => sequencer.due_us().is_some(),
            Self::Broker(order) => order.holds_events(),
            Self::Derived(batches) => !batches.is_empty(),
        }
    }
}

impl OwnerState {
    /// Returns the publishes to a keyed broker topic that wait.
    pub(super) fn keyed_order(&self) -> Option<&KeyedOrder> {
        match &self.order {
            Order::Broker(order) => order.keyed.as_deref(),
            Order::Own(_) | Order::Derived(_) => None,
        }
    }
}

impl Follower {
    /// Returns the next part of a keyed topic's state, if the shard cannot continue with batches.
    fn take_state_part(&mut self, feed: &AnyFeed) -> Option<StatePart> {
        let is_here = |batch: &Arc<Batch>| batch.start() <= self.next;
        let goes_on =
            self.next == feed.head() || feed.batches_from(self.next).next().is_some_and(is_here);
        if goes_on && self.has_first_reply {
            return None;
        }
        let (part, after) = feed.state_part(&self.state, STATE_PART_EVENTS, None)?;
        self.state = after;
        Some(part)
    }

    /// Returns the news of a topic since the last call, and notes that the shard has them.
    pub(super) fn take_posted(
        &mut self,
        feed: &AnyFeed,
        pauses: &Pauses,
        end: Option<Ending>,
    ) -> Posted {
        let state = self.take_state_part(feed);
        // A state that begins again replaces the one of the follower.
        let begins_again =
            self.has_first_reply && state.as_ref().is_some_and(|part| part.from < self.next);
        let end = end.or(begins_again.then_some(Ending::Restarted));
        let from = state.as_ref().map_or(self.next, |part| part.from);
        let head = state.as_ref().map_or(feed.head(), |part| part.to);
        let batches = match state {
            Some(_) => Vec::new(),
            None => feed.batches_from(from).cloned().collect(),
        };
        self.next = head;
        if state.is_none() {
            self.state = Cursor::before(head);
        }
        let pauses_since = pauses.part_since(self.next_pause);
        self.next_pause = pauses.newest() + 1;
        self.has_first_reply = true;
        self.is_told_end = end.is_some();
        Posted { epoch: feed.epoch(), from, batches, state, head, pauses: pauses_since, end }
    }
}

impl LocalTopic {
    pub(super) fn broker_order(&mut self) -> Option<(&AnyFeed, &mut BrokerOrder)> {
        Some((self.feed.as_ref()?, self.owner.as_mut()?.order.broker()?))
    }

    /// Returns the number of the topic's opening. 0 if another shard owns the topic.
    pub(super) fn serial(&self) -> u64 {
        self.owner.as_ref().map_or(0, |owner| owner.serial)
    }

    pub(super) fn join(&mut self, connection: u32, format: Format) -> u32 {
        let place = self.subscribers.len() as u32;
        self.subscribers.push(connection);
        if format.is_shared() {
            *self.format_users.get_or_insert_with(format, || 0) += 1;
            if let Some(feed) = &mut self.feed {
                feed.open_tail(format);
            }
        }
        place
    }

    /// Removes the subscription at `place`. The last one moves there, and its connection must be told.
    pub(super) fn leave(&mut self, place: u32, format: Format) -> Option<Moved> {
        // The subscription may never have been listed.
        let from = (self.subscribers.len() as u32).checked_sub(1).filter(|last| place <= *last)?;
        self.subscribers.swap_remove(place as usize);
        if let Some(users) = self.format_users.get_mut(format) {
            *users -= 1;
            if *users == 0 {
                self.format_users.remove(format);
                self.close_tail(format);
            }
        }
        let connection = self.subscribers.get(place as usize)?;
        Some(Moved { connection: *connection, from })
    }

    /// Closes the tail of a format without subscribers, unless another format shares its frames.
    fn close_tail(&mut self, format: Format) {
        let Some(feed) = &mut self.feed else { return };
        let shared = feed.frame_format(format);
        if !self.format_users.iter().any(|(other, _)| feed.frame_format(other) == shared) {
            feed.close_tail(format);
        }
    }

    /// Returns whether there are readers, here or on another shard.
    pub(super) fn has_readers(&self) -> bool {
        let is_posted = |owner: &OwnerState| !owner.followers.is_empty();
        self.is_read_here() || self.owner.as_ref().is_some_and(is_posted)
    }

    /// Returns whether this is a broker topic with readers that this shard owns.
    pub(super) fn has_broker_readers(&self) -> bool {
        let is_broker_topic = |owner: &OwnerState| matches!(owner.order, Order::Broker(_));
        self.owner.as_ref().is_some_and(is_broker_topic) && self.has_readers()
    }

    fn is_read_here(&self) -> bool {
        !self.subscribers.is_empty() || self.is_input
    }

    /// Updates the demand. Returns the change, if any, for the sources that feed the topic.
    pub(super) fn update_demand(&mut self, now_us: u64) -> Option<DemandChange> {
        if self.end.is_some() {
            return None;
        }
        let has_readers = self.has_readers();
        let owner = self.owner.as_mut()?;
        owner.demand.update(has_readers, now_us, owner.fetched_linger_us.unwrap_or(LINGER_US))
    }

    /// Returns whether the topic waits for its owner shard's answer, and no reader waits for the topic.
    pub(super) fn is_unused(&self) -> bool {
        self.owner.is_none() && self.feed.is_none() && !self.is_read_here()
    }

    /// Returns whether the owner shard must be asked for the topic.
    pub(super) fn needs_attaching(&self) -> bool {
        self.owner.is_none() && self.feed.is_none() && self.is_read_here()
    }

    /// Returns whether the topic can be removed. Call this once per sweep. `is_crowded`: other topics need the place,
    /// so the topic does not outlast its last reader.
    pub(super) fn may_go(&mut self, is_crowded: bool) -> bool {
        let is_idle = self.is_idle();
        let owner = self.owner.as_mut().filter(|owner| matches!(owner.order, Order::Own(_)));
        let Some(owner) = owner.filter(|_| self.end.is_none()) else { return is_idle };
        owner.idle_sweeps = if is_idle { owner.idle_sweeps.saturating_add(1) } else { 0 };
        is_idle && (is_crowded || owner.idle_sweeps > IDLE_SWEEPS)
    }

    /// Returns whether the topic can be removed without loss.
    pub(super) fn is_idle(&self) -> bool {
        let has_nothing = self.owner.is_none() || self.end.is_some() || self.is_empty();
        !self.has_readers() && has_nothing && !self.is_made()
    }

    /// Returns whether a fetch or a query makes its events, which must stop before the topic is removed.
    fn is_made(&self) -> bool {
        let is_wanted = |owner: &OwnerState| {
            let is_derived = matches!(owner.order, Order::Derived(_));
            (is_derived || owner.fetched_linger_us.is_some()) && owner.demand != TopicDemand::None
        };
        self.end.is_none() && self.owner.as_ref().is_some_and(is_wanted)
    }

    /// Returns whether an active topic has no events any more.
    pub(super) fn is_emptied(&self) -> bool {
        self.kind == TopicKind::Active && self.is_empty()
    }

    /// Returns whether the topic has no events and no source.
    fn is_empty(&self) -> bool {
        let is_retained =
            self.feed.as_ref().is_some_and(|feed| feed.first_retained() < feed.head());
        let is_due = |owner: &OwnerState| owner.is_permanent || owner.order.holds_events();
        !is_retained && !self.owner.as_ref().is_some_and(is_due)
    }
}
