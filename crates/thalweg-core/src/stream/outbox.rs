#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{Appended, Payloads};

/// A publish does not join a message that has waited longer than this, in µs: it would share the time
/// that the message has left, and while nothing can be stored messages wait for seconds.
const JOINED_US_MAX: u64 = 1_000_000;

/// How much one message of a fed stream may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageBounds {
    /// Events. The offset of an event is the message's sequence number times this, plus its
    /// place in the message, so all who read a stream must have the same.
    pub events_max: usize,
    /// Bytes of events, with a separator between two. Every event must fit.
    pub bytes_max: usize,
    /// Bytes up to which several events share a message, because it becomes one batch.
    pub batch_bytes_max: usize,
}

/// Events of one topic on their way to a store that gives their order: one message at a time is
/// under way, and what is published meanwhile is the next one. So publishers keep their order
/// whatever the store does, and the slower it is the more events share a message.
///
/// `K` marks a publish that is a message of its own. `A` is where a publish's
/// answer goes. Pure: its owner takes messages out ([`Self::take`]) and says what became of each
/// ([`Self::settle`]).
#[derive(Debug)]
pub struct Outbox<K, A> {
    bounds: MessageBounds,
    waiting: VecDeque<Message<K>>,
    /// Events of the message that is under way, 1 if it has none; 0 if no message is.
    under_way: usize,
    /// In the order of their events, of which the first belong to the message under way.
    publishes: VecDeque<Publish<A>>,
    bytes: usize,
}

/// Events that are stored together.
#[derive(Debug)]
pub struct Message<K> {
    /// The events: at least one, if there is no mark.
    pub payloads: Payloads,
    /// What makes it a message of its own.
    pub mark: Option<K>,
    /// When the first publish of it arrived, in µs.
    pub arrived_us: u64,
}

/// A publish that is not answered yet.
#[derive(Debug)]
struct Publish<A> {
    answer: A,
    count: usize,
    /// Its events that nothing became of yet.
    left: usize,
    appended: Option<Appended>,
    /// Whether a part of it is not stored, and whether nobody knows of one.
    is_cut: bool,
    is_uncertain: bool,
}

/// What became of a message, or of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is stored.
    Stored(T),
    /// Nothing of it is.
    NotStored,
    /// A part of it may be, or is.
    Unknown,
}

/// A publish of which something became.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered<A> {
    /// Where its answer goes.
    pub answer: A,
    /// How many events it had; 1 if none.
    pub count: usize,
    /// The offsets of its first and its last event; other events, and offsets that were never
    /// given, may lie between.
    pub outcome: Outcome<Appended>,
}

impl<K, A> Outbox<K, A> {
    /// An empty one.
    pub fn new(bounds: MessageBounds) -> Self {
        Self {
            bounds,
            waiting: VecDeque::new(),
            under_way: 0,
            publishes: VecDeque::new(),
            bytes: 0,
        }
    }

    /// What a message may hold.
    pub fn bounds(&self) -> MessageBounds {
        self.bounds
    }

    /// Takes a publish, and leaves `payloads` empty. Without a mark it has at least one event; with
    /// one it has one at most.
    pub fn push(&mut self, payloads: &mut Payloads, mark: Option<K>, answer: A, now_us: u64) {
        let count = payloads.count().max(usize::from(mark.is_some()));
        self.publishes.push_back(Publish {
            answer,
            count,
            left: count,
            appended: None,
            is_cut: false,
            is_uncertain: false,
        });
        self.bytes += payloads.bytes_of_events();
        if mark.is_some() {
            let payloads = std::mem::take(payloads);
            return self.waiting.push_back(Message { payloads, mark, arrived_us: now_us });
        }
        let mut from = 0;
        while from < count {
            let fitting = match self.waiting.back() {
                Some(last) if last.mark.is_none() && now_us <= last.arrived_us + JOINED_US_MAX => {
                    self.room_in(&last.payloads, payloads, from)
                }
                _ => 0,
            };
            let room = match fitting {
                0 => self.room_in(&Payloads::default(), payloads, from).max(1),
                fitting => fitting,
            };
            if fitting == 0 {
                let payloads = Payloads::default();
                self.waiting.push_back(Message { payloads, mark: None, arrived_us: now_us });
            }
            if let Some(last) = self.waiting.back_mut() {
                last.payloads.extend(payloads, from..from + room);
            }
            from += room;
        }
        payloads.clear();
    }

    /// How many events of `payloads` from `from` on fit into a message.
    fn room_in(&self, message: &Payloads, payloads: &Payloads, from: usize) -> usize {
        let separated = message.joined().len() + usize::from(!message.is_empty());
        let bytes_max = self.bounds.bytes_max.min(self.bounds.batch_bytes_max);
        let bytes = bytes_max.saturating_sub(separated);
        payloads.fitting(from, bytes).min(self.bounds.events_max.saturating_sub(message.count()))
    }

    /// The next message, if none is under way. Now it is.
    pub fn take(&mut self) -> Option<Message<K>> {
        if self.under_way > 0 {
            return None;
        }
        let message = self.waiting.pop_front()?;
        self.under_way = message.payloads.count().max(1);
        self.bytes -= message.payloads.bytes_of_events();
        Some(message)
    }

    /// Something became of the message under way; if it is stored, its first event has this offset.
    /// Returns the publishes that are answered by that.
    pub fn settle(&mut self, outcome: Outcome<u64>) -> impl Iterator<Item = Answered<A>> {
        let mut place = 0;
        let events = std::mem::take(&mut self.under_way);
        for publish in &mut self.publishes {
            let part = publish.left.min(events - place);
            if part == 0 {
                break;
            }
            let from = place as u64;
            place += part;
            publish.left -= part;
            match outcome {
                Outcome::NotStored => publish.is_cut = true,
                Outcome::Unknown => publish.is_uncertain = true,
                Outcome::Stored(first) => {
                    let end = first + place as u64;
                    let new = Appended { first: first + from, end };
                    publish.appended.get_or_insert(new).end = end;
                }
            }
        }
        let answered = self.publishes.iter().take_while(|publish| publish.left == 0).count();
        self.publishes.drain(..answered).map(|publish| Answered {
            outcome: publish.outcome(),
            answer: publish.answer,
            count: publish.count,
        })
    }

    /// Gives everything up: nobody knows of what is under way, and the rest is not stored.
    pub fn abandon(&mut self) -> impl Iterator<Item = Answered<A>> {
        let (mut all, mut answered) = (std::mem::take(&mut self.publishes), Vec::new());
        for publish in &mut all {
            publish.is_uncertain |= self.under_way > 0;
            self.under_way = self.under_way.saturating_sub(publish.left);
            publish.is_cut = true;
        }
        (self.under_way, self.bytes) = (0, 0);
        self.waiting.clear();
        answered.extend(all.into_iter().map(|publish| Answered {
            outcome: publish.outcome(),
            answer: publish.answer,
            count: publish.count,
        }));
        answered.into_iter()
    }

    /// From now on offsets mean other events: of a publish that has some, nobody can say where it is.
    pub fn restart(&mut self) {
        let begun = self.publishes.iter_mut().filter(|publish| publish.appended.is_some());
        begun.for_each(|publish| publish.is_uncertain = true);
    }

    /// Whether a message can be taken now.
    pub fn is_due(&self) -> bool {
        self.under_way == 0 && !self.waiting.is_empty()
    }

    /// Whether it has nothing, also nothing under way.
    pub fn is_empty(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty()
    }

    /// Bytes of events that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<A> Publish<A> {
    fn outcome(&self) -> Outcome<Appended> {
        match (self.appended, self.is_cut, self.is_uncertain) {
            (Some(appended), false, false) => Outcome::Stored(appended),
            (None, true, false) => Outcome::NotStored,
            _ => Outcome::Unknown,
        }
    }
}
