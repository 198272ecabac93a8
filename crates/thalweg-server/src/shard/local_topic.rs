//! One topic on one shard: its feed, its subscribers, and, where the shard is its home, its
//! sequencer and the other shards that have copies.

use thalweg_wire::{EndCode, Format, Offset, Topic};

use super::{
    demand::{Demand, DemandChange, LINGER_US},
    fed_order::FedOrder,
    pauses::Pauses,
    topic_limits::TopicKind,
};
use crate::fetch::Readers;
use thalweg_core::stream::{Batch, DerivedBatches, Feed, FeedKind, FormatMap, Sequencer};

/// A sweep, one a second, removes an empty topic that had no readers in this many sweeps before. A client that polls, or
/// reconnects after `retry`, names its position in the topic. If the topic had been made again, the server would not know the position and
/// would announce a gap where nothing is missing.
const IDLE_SWEEPS: u8 = 6;

/// One topic on one shard.
#[derive(Debug)]
pub(super) struct LocalTopic {
    pub(super) topic: Topic,
    pub(super) kind: TopicKind,
    pub(super) feed_kind: FeedKind,
    /// The pattern that it is counted for.
    pub(super) pattern: u32,
    /// What its subscribers read; on a shard that is not its home, only once
    /// the home has answered.
    pub(super) feed: Option<Feed>,
    /// Only on its home shard.
    pub(super) home: Option<Home>,
    /// Connections that subscribe to it; each subscription knows its place here.
    pub(super) subscribers: Vec<u32>,
    /// Sources of this shard read its events.
    pub(super) is_input: bool,
    /// When it has paused, for queries.
    pub(super) pauses: Pauses,
    /// How many of its subscribers use each format.
    pub(super) format_users: FormatMap<u32>,
    /// The clients that read it, if it is fetched. The home shard counts those of other shards, too.
    pub(super) readers: Option<Box<Readers>>,
    /// Number of the attachment to its home; 0: none.
    pub(super) attachment: u64,
    /// The topic has ended. Its name is not its own any more; it goes when nobody reads it.
    pub(super) end: Option<Ending>,
}

/// How a topic has ended on a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its subscribers are told so.
    Told(EndCode),
    /// There is another one under its name, with another epoch: its subscribers come again.
    Restarted,
}

/// Who gives a topic's events their offsets.
#[derive(Debug)]
pub(super) enum Order {
    /// This shard.
    Own(Sequencer),
    /// A stream of the backend.
    Fed(Box<FedOrder>),
    /// The topic that a query reads.
    Derived(Box<DerivedBatches>),
}

/// A subscription has another place in its feed's list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    pub(super) connection: u32,
    pub(super) from: u32,
}

#[derive(Debug)]
pub(super) struct Home {
    pub(super) order: Order,
    pub(super) followers: Vec<Follower>,
    pub(super) demand: Demand,
    /// How long it is fetched without readers, in µs, if it is fetched.
    pub(super) fetched_linger_us: Option<u64>,
    /// Sweeps in a row that found it empty and without readers.
    pub(super) idle_sweeps: u8,
    /// Among those to seal in this turn.
    pub(super) is_due: bool,
    /// A timer will seal it.
    pub(super) is_timed: bool,
    /// Among those to post.
    pub(super) is_unposted: bool,
    /// A source makes its events, or reads them.
    pub(super) is_permanent: bool,
}

/// Another shard that has a copy of the topic. It is a cursor too: what was not posted to it
/// yet stays in the history.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) shard: usize,
    pub(super) attachment: u64,
    /// The next event to post.
    pub(super) next: Offset,
    /// Pauses before this offset it has got.
    pub(super) next_pause: Offset,
    /// Whether anything was posted to it yet.
    pub(super) has_first_reply: bool,
    /// It knows that the topic has ended, and needs nothing more.
    pub(super) is_told_end: bool,
}

impl Order {
    /// When there are batches to take, in µs.
    pub(super) fn due_us(&self) -> Option<u64> {
        match self {
            Self::Own(sequencer) => sequencer.due_us(),
            Self::Fed(_) | Self::Derived(_) => None,
        }
    }

    /// Takes the batches that are due, in order.
    pub(super) fn seal(&mut self, now_us: u64) -> Vec<Batch> {
        match self {
            Self::Own(sequencer) => sequencer.seal(now_us),
            Self::Fed(fed) => fed.take_arrived(),
            Self::Derived(batches) => batches.seal(now_us),
        }
    }

    /// From now on no batch waits for more events.
    pub(super) fn stop_waiting(&mut self) {
        match self {
            Self::Own(sequencer) => sequencer.stop_waiting(),
            Self::Fed(_) | Self::Derived(_) => {}
        }
    }

    /// Whether there are events that the feed has not got.
    fn holds_events(&self) -> bool {
        match self {
            Self::Own(sequencer) => sequencer.due_us().is_some(),
            Self::Fed(fed) => fed.holds_events(),
            Self::Derived(batches) => !batches.is_empty(),
        }
    }
}

impl LocalTopic {
    /// Its feed and its order, if this shard is its home and it is fed.
    pub(super) fn fed(&mut self) -> Option<(&Feed, &mut FedOrder)> {
        match (&self.feed, &mut self.home) {
            (Some(feed), Some(Home { order: Order::Fed(order), .. })) => Some((feed, order)),
            _ => None,
        }
    }

    /// Adds a connection to the list. Returns its place there.
    pub(super) fn join(&mut self, connection: u32, format: Format) -> u32 {
        let format = self.feed_kind.format(format);
        let place = self.subscribers.len() as u32;
        self.subscribers.push(connection);
        *self.format_users.get_or_insert_with(format, || 0) += 1;
        if let Some(feed) = &mut self.feed {
            feed.open_tail(format);
        }
        place
    }

    /// Removes the subscription at `place` from the list. The last one moves to this place, and
    /// its connection must be told.
    pub(super) fn leave(&mut self, place: u32, format: Format) -> Option<Moved> {
        // A subscription that was never listed cannot be removed.
        let from = (self.subscribers.len() as u32).checked_sub(1).filter(|last| place <= *last)?;
        self.subscribers.swap_remove(place as usize);
        let format = self.feed_kind.format(format);
        if let Some(users) = self.format_users.get_mut(format) {
            *users -= 1;
            if *users == 0 {
                self.format_users.remove(format);
                self.feed.iter_mut().for_each(|feed| feed.close_tail(format));
            }
        }
        let connection = self.subscribers.get(place as usize)?;
        Some(Moved { connection: *connection, from })
    }

    /// Whether anybody subscribes, here or on another shard.
    pub(super) fn has_readers(&self) -> bool {
        let is_posted = |home: &Home| !home.followers.is_empty();
        self.is_read_here() || self.home.as_ref().is_some_and(is_posted)
    }

    /// The same, if it is fed and this shard is its home.
    pub(super) fn has_fed_readers(&self) -> bool {
        let is_fed = |home: &Home| matches!(home.order, Order::Fed(_));
        self.home.as_ref().is_some_and(is_fed) && self.has_readers()
    }

    fn is_read_here(&self) -> bool {
        !self.subscribers.is_empty() || self.is_input
    }

    /// Checks whether somebody subscribes. A change is meant for the sources that feed the
    /// topic.
    pub(super) fn update_demand(&mut self, now_us: u64) -> Option<DemandChange> {
        if self.end.is_some() {
            return None;
        }
        let has_readers = self.has_readers();
        let home = self.home.as_mut()?;
        home.demand.update(has_readers, now_us, home.fetched_linger_us.unwrap_or(LINGER_US))
    }

    /// Whether it waits for its home, and nobody waits for it.
    pub(super) fn is_unused(&self) -> bool {
        self.home.is_none() && self.feed.is_none() && !self.is_read_here()
    }

    /// Whether its home must be asked for it.
    pub(super) fn needs_attaching(&self) -> bool {
        self.home.is_none() && self.feed.is_none() && self.is_read_here()
    }

    /// Whether it can be removed now. Each sweep asks once. `is_crowded`: others need its place, so that it stays for no
    /// reader who may come back.
    pub(super) fn may_go(&mut self, is_crowded: bool) -> bool {
        let is_idle = self.is_idle();
        let home = self.home.as_mut().filter(|home| matches!(home.order, Order::Own(_)));
        let Some(home) = home.filter(|_| self.end.is_none()) else { return is_idle };
        home.idle_sweeps = if is_idle { home.idle_sweeps.saturating_add(1) } else { 0 };
        is_idle && (is_crowded || home.idle_sweeps > IDLE_SWEEPS)
    }

    /// Whether it can be removed without losing anything.
    pub(super) fn is_idle(&self) -> bool {
        let has_nothing = self.home.is_none() || self.end.is_some() || self.is_empty();
        !self.has_readers() && has_nothing && !self.is_made()
    }

    /// Whether it is being fetched, or a query makes its rows: then whoever does must be told first that it is not wanted.
    fn is_made(&self) -> bool {
        let is_wanted = |home: &Home| {
            let is_derived = matches!(home.order, Order::Derived(_));
            (is_derived || home.fetched_linger_us.is_some()) && home.demand != Demand::None
        };
        self.end.is_none() && self.home.as_ref().is_some_and(is_wanted)
    }

    /// Whether it was active and has none any more.
    pub(super) fn is_emptied(&self) -> bool {
        self.kind == TopicKind::Active && self.is_empty()
    }

    /// Whether it has no events and nothing makes any.
    fn is_empty(&self) -> bool {
        let is_retained =
            self.feed.as_ref().is_some_and(|feed| feed.first_retained() < feed.head());
        let is_due = |home: &Home| home.is_permanent || home.order.holds_events();
        !is_retained && !self.home.as_ref().is_some_and(is_due)
    }
}
