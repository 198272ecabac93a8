#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{Appended, Payloads};

/// A publish does not join a message that has waited longer than this, in µs: the message may soon time out,
/// and the publish with it. Messages wait for seconds while the store is unavailable.
const JOINED_US_MAX: u64 = 1_000_000;

/// The limits of a message (one append to the store), and of the messages in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageBounds {
    /// Maximum number of events.
    pub events_max: usize,
    /// Maximum bytes of events, with one separator between two events. Each event must be at most this large.
    pub bytes_max: usize,
    /// Maximum bytes of a message with several events, keys included, because it becomes one batch. A publish of more bytes is split.
    pub batch_bytes_max: usize,
    /// Maximum number of messages in flight, if all of them [may overlap](Mark::may_overlap).
    pub in_flight_max: usize,
}

/// A mark on a publish that must be a separate message, for example because it has an idempotency key.
pub trait Mark {
    /// Returns whether several such messages (each with one event) may be in flight at once. The store then
    /// decides their order. This is safe, because each publisher waits for the answer before it publishes a
    /// later event.
    fn may_overlap(&self) -> bool;

    /// Returns the memory of the mark that counts like that of events, in bytes.
    fn bytes(&self) -> usize {
        0
    }
}

/// Events of one topic on their way to a store that assigns their order. One message is in flight, and events
/// published in the meantime share the next one. The events of a publisher keep their order, and a slow store
/// gets fewer, larger messages. Only messages that may overlap are in flight together.
///
/// `K` marks a publish that is a separate message. `A` receives a publish's answer. Pure: the owner takes
/// messages ([`Self::take`]) and reports the outcome of each ([`Self::settle`]).
#[derive(Debug)]
pub struct Outbox<K, A> {
    bounds: MessageBounds,
    waiting: VecDeque<Message<K>>,
    /// One message, or several that may overlap, each with one publish.
    in_flight: VecDeque<InFlight>,
    /// Publishes without an answer, in order. Those of messages in flight come first.
    publishes: VecDeque<Publish<A>>,
    /// Events that are not sent, because earlier events of their publish are not stored.
    dropped: Payloads,
    bytes: usize,
}

#[derive(Debug)]
struct InFlight {
    number: u64,
    /// The number of events; 1 if there are none, for example in the end of a topic.
    events: usize,
    bytes: usize,
    may_overlap: bool,
}

/// Events that are stored together.
#[derive(Debug)]
pub struct Message<K> {
    /// The events: at least one, if there is no mark.
    pub payloads: Payloads,
    /// Set if the message has one publish of its own.
    pub mark: Option<K>,
    /// When the first publish of the message arrived, in µs.
    pub arrived_us: u64,
}

#[derive(Debug)]
struct Publish<A> {
    answer: A,
    count: usize,
    /// The number of events without an outcome.
    left: usize,
    /// The stored events, and their number.
    appended: Option<Appended>,
    stored: usize,
    /// Whether a part of the publish is not stored, and whether a part is in doubt.
    is_cut: bool,
    is_uncertain: bool,
}

/// The outcome of a message or a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<T> {
    /// All of it is stored.
    Stored(T),
    /// No part of it is stored.
    NotStored,
    /// Some or all of it may be stored.
    Unknown,
}

/// A publish with an outcome.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered<A> {
    /// The receiver of the answer.
    pub answer: A,
    /// The number of events; 1 if there are none, for example in the end of a topic.
    pub count: usize,
    /// The offsets of the first and the last event. Other events and unused offsets may lie between. A publish with the outcome
    /// [`Outcome::NotStored`] may be [stored in part](Self::part).
    pub outcome: Outcome<Appended>,
    /// The offsets and the number of the first events, if they are stored and the others are not.
    pub part: Option<(Appended, usize)>,
}

impl<K: Mark, A> Outbox<K, A> {
    /// Creates an empty outbox.
    pub fn new(bounds: MessageBounds) -> Self {
        Self {
            bounds,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            publishes: VecDeque::new(),
            dropped: Payloads::default(),
            bytes: 0,
        }
    }

    /// Returns the bounds of a message.
    pub fn bounds(&self) -> MessageBounds {
        self.bounds
    }

    /// Takes a publish, and leaves `payloads` empty. Without a mark, `payloads` must have at least one event;
    /// with a mark, at most one.
    pub fn push(&mut self, payloads: &mut Payloads, mark: Option<K>, answer: A, now_us: u64) {
        let count = payloads.count().max(usize::from(mark.is_some()));
        self.publishes.push_back(Publish {
            answer,
            count,
            left: count,
            appended: None,
            stored: 0,
            is_cut: false,
            is_uncertain: false,
        });
        self.bytes += payloads.parts_bytes() + mark.as_ref().map_or(0, Mark::bytes);
        if mark.is_some() {
            let payloads = std::mem::take(payloads);
            return self.waiting.push_back(Message { payloads, mark, arrived_us: now_us });
        }
        // A publish in one message is stored as a whole or not at all.
        let is_whole = self.room_in(&Payloads::default(), payloads, 0) == count;
        let mut from = 0;
        while from < count {
            let fitting = match self.waiting.back() {
                Some(last) if last.mark.is_none() && now_us <= last.arrived_us + JOINED_US_MAX => {
                    self.room_in(&last.payloads, payloads, from)
                }
                _ => 0,
            };
            let fitting = if is_whole && fitting < count { 0 } else { fitting };
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

    /// Returns how many events of `payloads` from `from` on fit into a message.
    fn room_in(&self, message: &Payloads, payloads: &Payloads, from: usize) -> usize {
        let separated = message.joined_bytes() + usize::from(!message.is_empty());
        let bytes_max = self.bounds.bytes_max.min(self.bounds.batch_bytes_max);
        let bytes = bytes_max.saturating_sub(separated);
        payloads.fitting(from, bytes).min(self.bounds.events_max.saturating_sub(message.count()))
    }

    /// Takes the next message, if one [is due](Self::is_due). `number` identifies the message for
    /// [`Self::settle`], and must be unique.
    pub fn take(&mut self, number: u64) -> Option<Message<K>> {
        if !self.is_due() {
            return None;
        }
        let message = self.waiting.pop_front()?;
        self.in_flight.push_back(InFlight {
            number,
            events: message.payloads.count().max(1),
            bytes: message.bytes(),
            may_overlap: message.may_overlap(),
        });
        Some(message)
    }

    /// Takes the outcome of a message in flight, with the offset of its first event if it is stored. Returns
    /// the publishes that are complete now. `None` if no message has this number.
    pub fn settle(
        &mut self,
        number: u64,
        outcome: Outcome<u64>,
    ) -> Option<impl Iterator<Item = Answered<A>>> {
        // Messages overlap only if each has one publish, so the index of the message is also that of its
        // publish.
        let at = self.in_flight.iter().position(|message| message.number == number)?;
        let InFlight { events, bytes, .. } = self.in_flight.remove(at)?;
        self.bytes -= bytes;
        let mut place = 0;
        for publish in self.publishes.iter_mut().skip(at) {
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
                    publish.stored += part;
                }
            }
        }
        if outcome == Outcome::NotStored {
            self.drop_cut();
        }
        let is_answered = |publish: &&Publish<A>| publish.left == 0;
        let answered = self.publishes.iter().skip(at).take_while(is_answered).count();
        Some(self.publishes.drain(at..at + answered).map(Publish::answered))
    }

    /// Drops the waiting events of a publish whose events before them are not stored, so that the first ones of a publish
    /// are stored, or none. They are at the front: only a message without a mark has a part of a publish, and it is in flight alone.
    fn drop_cut(&mut self) {
        let Some(cut) = self.publishes.iter_mut().find(|publish| publish.left > 0) else { return };
        if !cut.is_cut {
            return;
        }
        while cut.left > 0
            && let Some(message) = self.waiting.front_mut()
        {
            let count = message.payloads.count();
            let dropped = cut.left.min(count);
            self.dropped.extend(&message.payloads, 0..dropped);
            let mut rest = Payloads::default();
            rest.extend(&message.payloads, dropped..count);
            self.bytes -= message.payloads.parts_bytes() - rest.parts_bytes();
            message.payloads = rest;
            if dropped == count {
                self.waiting.pop_front();
            }
            cut.left -= dropped;
        }
    }

    /// Takes the events that were dropped since the last call: [`Self::settle`] drops those of a publish whose earlier events
    /// are not stored. The owner calls this after each `settle`.
    pub fn take_dropped(&mut self) -> Payloads {
        std::mem::take(&mut self.dropped)
    }

    /// Gives up all publishes. The outcome of those in flight is unknown; the others are not stored.
    pub fn abandon(&mut self) -> impl Iterator<Item = Answered<A>> {
        let (mut all, mut answered) = (std::mem::take(&mut self.publishes), Vec::new());
        let mut in_flight: usize = self.in_flight.drain(..).map(|message| message.events).sum();
        for publish in &mut all {
            publish.is_uncertain |= in_flight > 0;
            in_flight = in_flight.saturating_sub(publish.left);
            publish.is_cut = true;
        }
        self.bytes = 0;
        self.waiting.clear();
        answered.extend(all.into_iter().map(Publish::answered));
        answered.into_iter()
    }

    /// Records that the store has a new epoch, so offsets identify other events. The outcome of publishes
    /// that already have offsets is unknown.
    pub fn restart(&mut self) {
        let begun = self.publishes.iter_mut().filter(|publish| publish.appended.is_some());
        begun.for_each(|publish| publish.is_uncertain = true);
    }

    /// Returns whether a message is in flight.
    pub fn has_in_flight(&self, number: u64) -> bool {
        self.in_flight.iter().any(|message| message.number == number)
    }

    /// Returns whether a message can be taken now.
    pub fn is_due(&self) -> bool {
        let Some(next) = self.waiting.front() else { return false };
        match self.in_flight.front() {
            None => true,
            Some(first) => {
                first.may_overlap
                    && next.may_overlap()
                    && self.in_flight.len() < self.bounds.in_flight_max
            }
        }
    }

    /// Returns whether no message waits or is in flight.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.waiting.is_empty()
    }

    /// Returns the bytes of events, keys and marks that wait or are in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<K: Mark> Message<K> {
    fn may_overlap(&self) -> bool {
        self.mark.as_ref().is_some_and(Mark::may_overlap)
    }

    fn bytes(&self) -> usize {
        self.payloads.parts_bytes() + self.mark.as_ref().map_or(0, Mark::bytes)
    }
}

impl<A> Publish<A> {
    fn answered(self) -> Answered<A> {
        let (outcome, part) = match (self.appended, self.is_cut, self.is_uncertain) {
            (Some(appended), false, false) => (Outcome::Stored(appended), None),
            (appended, true, false) => {
                (Outcome::NotStored, appended.map(|appended| (appended, self.stored)))
            }
            _ => (Outcome::Unknown, None),
        };
        Answered { answer: self.answer, count: self.count, outcome, part }
    }
}
