use std::collections::VecDeque;

use super::{Appended, Payloads};

/// How much one message of a fed stream may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageBounds {
    /// Events. The offset of an event is the message's sequence number times this, plus its
    /// place in the message, so all who read a stream must have the same.
    pub events_max: usize,
    /// Bytes of events, with a separator between two. Every event must fit.
    pub bytes_max: usize,
}

/// Events of one topic on their way to a store that gives their order: one message at a time is
/// under way, and what is published meanwhile is the next one. So publishers keep their order
/// whatever the store does, and the slower it is the more events share a message.
///
/// `K` marks a publish that may be repeated: it is a message of its own. `A` is where a publish's
/// answer goes. Pure: its owner takes messages out ([`Self::take`]) and says what became of each
/// ([`Self::settle`]).
#[derive(Debug)]
pub struct Outbox<K, A> {
    bounds: MessageBounds,
    waiting: VecDeque<Message<K>>,
    /// Events of the message that is under way; 0 if none is.
    under_way: usize,
    /// In the order of their events, of which the first belong to the message under way.
    publishes: VecDeque<Publish<A>>,
    bytes: usize,
}

/// Events that are stored together.
#[derive(Debug)]
pub struct Message<K> {
    /// The events: at least one.
    pub payloads: Payloads,
    /// Set if it may be a repetition of an earlier one.
    pub key: Option<K>,
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
    /// How many events it had.
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

    /// Takes a publish with at least one event, and leaves `payloads` empty. One with a key has
    /// exactly one event.
    pub fn push(&mut self, payloads: &mut Payloads, key: Option<K>, answer: A) {
        let count = payloads.count();
        self.publishes.push_back(Publish {
            answer,
            count,
            left: count,
            appended: None,
            is_cut: false,
            is_uncertain: false,
        });
        self.bytes += payloads.bytes_of_events();
        if key.is_some() {
            let payloads = std::mem::take(payloads);
            return self.waiting.push_back(Message { payloads, key });
        }
        let mut from = 0;
        while from < count {
            let fitting = match self.waiting.back() {
                Some(last) if last.key.is_none() => self.room_in(&last.payloads, payloads, from),
                _ => 0,
            };
            let room = match fitting {
                0 => self.room_in(&Payloads::default(), payloads, from).max(1),
                fitting => fitting,
            };
            if fitting == 0 {
                self.waiting.push_back(Message { payloads: Payloads::default(), key: None });
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
        let bytes = self.bounds.bytes_max.saturating_sub(separated);
        payloads.fitting(from, bytes).min(self.bounds.events_max.saturating_sub(message.count()))
    }

    /// The next message, if none is under way. Now it is.
    pub fn take(&mut self) -> Option<Message<K>> {
        if self.under_way > 0 {
            return None;
        }
        let message = self.waiting.pop_front()?;
        self.under_way = message.payloads.count();
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

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        /// A publish of events of these lengths, with a key or without.
        Publish {
            lengths: Vec<usize>,
            keyed: bool,
        },
        Take,
        /// The message under way is stored after so many others, or not.
        Settle(Outcome<u64>),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (vec(1..20_usize, 1..12), prop::bool::weighted(0.2)).prop_map(|(mut lengths, keyed)| {
                lengths.truncate(if keyed { 1 } else { 12 });
                Step::Publish { lengths, keyed }
            }),
            4 => Just(Step::Take),
            3 => prop_oneof![
                4 => (1..5_u64).prop_map(Outcome::Stored),
                1 => Just(Outcome::NotStored),
                1 => Just(Outcome::Unknown),
            ]
            .prop_map(Step::Settle),
        ]
    }

    const BOUNDS: MessageBounds = MessageBounds { events_max: 8, bytes_max: 60 };

    type Events = Vec<Vec<u8>>;

    /// What a store that gives numbers has, and what publishers know of it.
    #[derive(Default)]
    struct World {
        sequence: u64,
        /// Each stored event and its offset.
        stored: Vec<(u64, Vec<u8>)>,
        /// The events of each publish, and what became of each message with some of them.
        publishes: Vec<(Events, Vec<Outcome<u64>>)>,
        answered: usize,
        under_way: Option<Vec<Vec<u8>>>,
    }

    impl World {
        fn answer(&mut self, answered: &Answered<usize>) {
            assert_eq!(answered.answer, self.answered, "answers come in order");
            self.answered += 1;
            let (events, outcomes) = &self.publishes[answered.answer];
            assert_eq!(answered.count, events.len());
            let is_stored = |outcome: &Outcome<u64>| matches!(outcome, Outcome::Stored(_));
            match answered.outcome {
                Outcome::Stored(_) => assert!(outcomes.iter().all(is_stored)),
                Outcome::NotStored => {
                    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::NotStored));
                }
                Outcome::Unknown => assert!(
                    outcomes.contains(&Outcome::Unknown)
                        || (outcomes.contains(&Outcome::NotStored)
                            && outcomes.iter().any(is_stored))
                ),
            }
            if let Outcome::Stored(Appended { first, end }) = answered.outcome {
                let offset = |event: &Vec<u8>| {
                    self.stored.iter().find(|(_, stored)| stored == event).expect("stored").0
                };
                let offsets: Vec<u64> = events.iter().map(offset).collect();
                assert_eq!((offsets[0], offsets[offsets.len() - 1] + 1), (first, end));
                assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]), "out of order");
            }
        }

        fn settle(&mut self, outbox: &mut Outbox<(), usize>, outcome: Outcome<u64>) {
            let Some(events) = self.under_way.take() else { return };
            for (of, outcomes) in &mut self.publishes {
                if of.iter().any(|event| events.contains(event)) {
                    outcomes.push(outcome);
                }
            }
            let outcome = match outcome {
                Outcome::Stored(others) => {
                    self.sequence += others;
                    let first = self.sequence * BOUNDS.events_max as u64;
                    self.stored.extend((first..).zip(events));
                    Outcome::Stored(first)
                }
                other => other,
            };
            let answered: Vec<_> = outbox.settle(outcome).collect();
            answered.iter().for_each(|answered| self.answer(answered));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn publishers_keep_their_order_and_learn_where_their_events_are(
            steps in vec(step(), 0..120)
        ) {
            let (mut outbox, mut world) = (Outbox::new(BOUNDS), World::default());
            let calm = std::iter::repeat_n([Step::Take, Step::Settle(Outcome::Stored(1))], 400).flatten();
            for step in steps.into_iter().chain(calm) {
                match step {
                    Step::Publish { lengths, keyed } => {
                        let number = world.publishes.len();
                        let event = |(nth, length): (usize, &usize)| {
                            format!("[{number},{nth},\"{}\"]", "x".repeat(*length)).into_bytes()
                        };
                        let events: Vec<Vec<u8>> = lengths.iter().enumerate().map(event).collect();
                        let mut payloads = Payloads::default();
                        for event in &events {
                            let pushed: Result<(), ()> = payloads.push(|out| {
                                out.extend_from_slice(event);
                                Ok(())
                            });
                            prop_assert!(pushed.is_ok());
                        }
                        world.publishes.push((events, Vec::new()));
                        outbox.push(&mut payloads, keyed.then_some(()), number);
                        prop_assert!(payloads.is_empty());
                    }
                    Step::Take => {
                        let Some(Message { payloads, key }) = outbox.take() else {
                            prop_assert!(world.under_way.is_some() || outbox.is_empty());
                            continue;
                        };
                        prop_assert!(world.under_way.is_none(), "two under way");
                        prop_assert!((1..=BOUNDS.events_max).contains(&payloads.count()));
                        prop_assert!(payloads.joined().len() <= BOUNDS.bytes_max);
                        prop_assert!(key.is_none() || payloads.count() == 1);
                        world.under_way = Some(payloads.iter().map(<[u8]>::to_vec).collect());
                    }
                    Step::Settle(outcome) => world.settle(&mut outbox, outcome),
                }
            }
            prop_assert!(outbox.is_empty());
            prop_assert_eq!((outbox.bytes(), world.answered), (0, world.publishes.len()));
        }
    }

    #[test]
    fn what_is_published_meanwhile_shares_a_message() {
        let mut outbox: Outbox<(), u8> =
            Outbox::new(MessageBounds { events_max: 8, bytes_max: 60 });
        for answer in 0..4 {
            let mut payloads = Payloads::default();
            let write = |out: &mut Vec<u8>| {
                out.push(b'1');
                Ok::<_, ()>(())
            };
            payloads.push(write).unwrap();
            outbox.push(&mut payloads, None, answer);
            if answer == 0 {
                assert_eq!(outbox.take().map(|message| message.payloads.count()), Some(1));
            }
        }
        assert!(outbox.take().is_none(), "one is under way");
        assert_eq!(outbox.settle(Outcome::Stored(8)).count(), 1);
        assert_eq!(outbox.take().map(|message| message.payloads.count()), Some(3));
        let settled = outbox.settle(Outcome::Stored(24));
        let answers: Vec<_> = settled.map(|it| (it.answer, it.outcome)).collect();
        let at = |offset| Outcome::Stored(Appended { first: offset, end: offset + 1 });
        assert_eq!(answers, [(1, at(24)), (2, at(25)), (3, at(26))]);
    }

    #[test]
    fn what_is_given_up_is_answered() {
        let bounds = MessageBounds { events_max: 1, bytes_max: 60 };
        let mut outbox: Outbox<(), u8> = Outbox::new(bounds);
        for answer in 0..3 {
            let mut payloads = Payloads::default();
            for _ in 0..2 {
                let write = |out: &mut Vec<u8>| {
                    out.push(b'1');
                    Ok::<_, ()>(())
                };
                payloads.push(write).unwrap();
            }
            outbox.push(&mut payloads, None, answer);
        }
        outbox.take();
        assert_eq!(outbox.settle(Outcome::Stored(8)).count(), 0);
        outbox.take();
        assert_eq!(outbox.settle(Outcome::Stored(9)).count(), 1);
        outbox.take();
        let outcomes: Vec<_> = outbox.abandon().map(|it| (it.answer, it.outcome)).collect();
        assert_eq!(outcomes, [(1, Outcome::Unknown), (2, Outcome::NotStored)]);
        assert!(outbox.is_empty() && outbox.bytes() == 0);
    }
}
