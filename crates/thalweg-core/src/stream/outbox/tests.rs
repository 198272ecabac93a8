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

const BOUNDS: MessageBounds = MessageBounds { events_max: 8, bytes_max: 60, batch_bytes_max: 60 };

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
                    || (outcomes.contains(&Outcome::NotStored) && outcomes.iter().any(is_stored))
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
                    outbox.push(&mut payloads, keyed.then_some(()), number, 0);
                    prop_assert!(payloads.is_empty());
                }
                Step::Take => {
                    let Some(Message { payloads, mark, .. }) = outbox.take() else {
                        prop_assert!(world.under_way.is_some() || outbox.is_empty());
                        continue;
                    };
                    prop_assert!(world.under_way.is_none(), "two under way");
                    prop_assert!((1..=BOUNDS.events_max).contains(&payloads.count()));
                    prop_assert!(payloads.joined().len() <= BOUNDS.bytes_max);
                    prop_assert!(mark.is_none() || payloads.count() == 1);
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
        Outbox::new(MessageBounds { events_max: 8, bytes_max: 60, batch_bytes_max: 60 });
    for answer in 0..4 {
        let mut payloads = Payloads::default();
        let write = |out: &mut Vec<u8>| {
            out.push(b'1');
            Ok::<_, ()>(())
        };
        payloads.push(write).unwrap();
        outbox.push(&mut payloads, None, answer, 0);
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
fn a_message_without_events_has_its_turn_and_its_answer() {
    let bounds = MessageBounds { events_max: 8, bytes_max: 60, batch_bytes_max: 60 };
    let mut outbox: Outbox<&str, u8> = Outbox::new(bounds);
    let mut payloads = Payloads::default();
    let write = |out: &mut Vec<u8>| {
        out.push(b'1');
        Ok::<_, ()>(())
    };
    payloads.push(write).unwrap();
    outbox.push(&mut payloads, None, 0, 0);
    outbox.push(&mut payloads, Some("end"), 1, 0);
    assert_eq!(outbox.take().and_then(|message| message.mark), None);
    assert_eq!(outbox.settle(Outcome::Stored(8)).count(), 1);
    assert_eq!(outbox.take().and_then(|message| message.mark), Some("end"));
    assert!(outbox.take().is_none() && !outbox.is_empty(), "it is under way");
    assert_eq!(
        outbox.settle(Outcome::NotStored).next().map(|it| it.outcome),
        Some(Outcome::NotStored)
    );
    assert!(outbox.is_empty());
}

#[test]
fn what_is_given_up_is_answered() {
    let bounds = MessageBounds { events_max: 1, bytes_max: 60, batch_bytes_max: 60 };
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
        outbox.push(&mut payloads, None, answer, 0);
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

#[test]
fn a_publish_joins_no_message_that_has_waited_long() {
    let mut outbox: Outbox<(), u8> = Outbox::new(BOUNDS);
    for (answer, now_us) in [(0, 5), (1, 5 + JOINED_US_MAX), (2, 6 + JOINED_US_MAX)] {
        let mut payloads = Payloads::default();
        let write = |out: &mut Vec<u8>| {
            out.push(b'1');
            Ok::<_, ()>(())
        };
        payloads.push(write).unwrap();
        outbox.push(&mut payloads, None, answer, now_us);
    }
    let first = outbox.take().expect("a message");
    assert_eq!((first.payloads.count(), first.arrived_us), (2, 5));
    assert_eq!(outbox.settle(Outcome::NotStored).count(), 2);
    let second = outbox.take().expect("another");
    assert_eq!((second.payloads.count(), second.arrived_us), (1, 6 + JOINED_US_MAX));
}
