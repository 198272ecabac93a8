use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Debug, Clone)]
enum OutboxStep {
    /// A publish of events of these lengths, with a key or without.
    Publish {
        lengths: Vec<usize>,
        mark: Option<bool>,
    },
    Take,
    /// The outcome of one of the messages in flight. A stored one comes after so many others.
    Settle(usize, Outcome<u64>),
}

impl Mark for bool {
    fn may_overlap(&self) -> bool {
        *self
    }
}

impl Mark for &str {
    fn may_overlap(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.len()
    }
}

fn step() -> impl Strategy<Value = OutboxStep> {
    prop_oneof![
        3 => (vec(1..20_usize, 1..12), prop::option::weighted(0.5, prop::bool::weighted(0.8)))
            .prop_map(|(mut lengths, mark)| {
                lengths.truncate(if mark.is_some() { 1 } else { 12 });
                OutboxStep::Publish { lengths, mark }
            }),
        4 => Just(OutboxStep::Take),
        3 => (0..IN_FLIGHT_MAX, prop_oneof![
            4 => (1..5_u64).prop_map(Outcome::Stored),
            1 => Just(Outcome::NotStored),
            1 => Just(Outcome::Unknown),
        ])
        .prop_map(|(which, outcome)| OutboxStep::Settle(which, outcome)),
    ]
}

const IN_FLIGHT_MAX: usize = 3;

const BOUNDS: MessageBounds = MessageBounds {
    events_max: 8,
    bytes_max: 60,
    batch_bytes_max: 40,
    in_flight_max: IN_FLIGHT_MAX,
};

type Events = Vec<Vec<u8>>;

/// A store that assigns offsets, and the knowledge of publishers.
#[derive(Default)]
struct World {
    sequence: u64,
    /// Each stored event and its offset.
    stored: Vec<(u64, Vec<u8>)>,
    /// The events of each publish, and the outcome of each message with some of them.
    publishes: Vec<(Events, Vec<Outcome<u64>>)>,
    answered: BTreeSet<usize>,
    taken: u64,
    /// The number, whether it may overlap, and the events.
    in_flight: Vec<(u64, bool, Events)>,
}

impl World {
    fn answer(&mut self, answered: &Answered<usize>) {
        assert!(self.answered.insert(answered.answer), "answered twice");
        let (events, outcomes) = &self.publishes[answered.answer];
        assert_eq!(answered.count, events.len());
        let is_stored = |outcome: &Outcome<u64>| matches!(outcome, Outcome::Stored(_));
        match answered.outcome {
            Outcome::Stored(_) => assert!(outcomes.iter().all(is_stored)),
            Outcome::NotStored => {
                let stored = outcomes.iter().take_while(|outcome| is_stored(outcome)).count();
                assert!(outcomes[stored..].iter().all(|outcome| *outcome == Outcome::NotStored));
                assert!(stored < outcomes.len());
                assert_eq!(answered.part.is_some(), stored > 0);
            }
            Outcome::Unknown => assert!(outcomes.contains(&Outcome::Unknown)),
        }
        let part = match answered.outcome {
            Outcome::Stored(appended) => Some((appended, answered.count)),
            Outcome::NotStored | Outcome::Unknown => answered.part,
        };
        if let Some((Appended { first, end }, count)) = part {
            let offset = |event: &Vec<u8>| {
                self.stored.iter().find(|(_, stored)| stored == event).map(|(offset, _)| *offset)
            };
            let offsets: Vec<u64> =
                events[..count].iter().map(|event| offset(event).expect("stored")).collect();
            assert_eq!((offsets[0], offsets[offsets.len() - 1] + 1), (first, end));
            assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]), "out of order");
            assert!(events[count..].iter().all(|event| offset(event).is_none()));
        }
        let bytes = events.iter().map(Vec::len).sum::<usize>() + events.len() - 1;
        if events.len() <= BOUNDS.events_max && bytes <= BOUNDS.batch_bytes_max {
            assert_eq!(outcomes.len(), 1, "it is in one message");
        }
    }

    fn settle(&mut self, outbox: &mut Outbox<bool, usize>, which: usize, outcome: Outcome<u64>) {
        if self.in_flight.is_empty() {
            return;
        }
        let (number, _, events) = self.in_flight.remove(which % self.in_flight.len());
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
        let answered: Vec<_> = outbox.settle(number, outcome).expect("it is in flight").collect();
        answered.iter().for_each(|answered| self.answer(answered));
        assert!(outbox.settle(number, Outcome::Unknown).is_none(), "it is not any more");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn publishers_keep_their_order_and_learn_where_their_events_are(
        steps in vec(step(), 0..120)
    ) {
        let (mut outbox, mut world) = (Outbox::new(BOUNDS), World::default());
        let calm = std::iter::repeat_n([OutboxStep::Take, OutboxStep::Settle(0, Outcome::Stored(1))], 400).flatten();
        for step in steps.into_iter().chain(calm) {
            match step {
                OutboxStep::Publish { lengths, mark } => {
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
                    outbox.push(&mut payloads, mark, number, 0);
                    prop_assert!(payloads.is_empty());
                }
                OutboxStep::Take => {
                    world.taken += 1;
                    let Some(Message { payloads, mark, .. }) = outbox.take(world.taken) else {
                        prop_assert!(!world.in_flight.is_empty() || outbox.is_empty());
                        continue;
                    };
                    let may_overlap = mark == Some(true);
                    let others = &world.in_flight;
                    prop_assert!(others.len() < IN_FLIGHT_MAX);
                    prop_assert!(others.is_empty() || may_overlap, "it overtakes one before");
                    prop_assert!(others.iter().all(|(_, may_overlap, _)| *may_overlap));
                    prop_assert!((1..=BOUNDS.events_max).contains(&payloads.count()));
                    prop_assert!(payloads.joined().len() <= BOUNDS.batch_bytes_max);
                    prop_assert!(mark.is_none() || payloads.count() == 1);
                    let events = payloads.iter().map(<[u8]>::to_vec).collect();
                    world.in_flight.push((world.taken, may_overlap, events));
                }
                OutboxStep::Settle(which, outcome) => world.settle(&mut outbox, which, outcome),
            }
        }
        prop_assert!(outbox.is_empty());
        prop_assert_eq!((outbox.bytes(), world.answered.len()), (0, world.publishes.len()));
    }
}

fn settle<K: Mark>(
    outbox: &mut Outbox<K, u8>,
    number: u64,
    outcome: Outcome<u64>,
) -> Vec<Answered<u8>> {
    outbox.settle(number, outcome).expect("it is in flight").collect()
}

#[test]
fn keyed_messages_are_in_flight_together_and_nothing_overtakes_others() {
    let mut outbox: Outbox<bool, u8> = Outbox::new(BOUNDS);
    let marks = [Some(true), Some(true), None, Some(true), Some(false)];
    for (answer, mark) in (0..).zip(marks) {
        let mut payloads = Payloads::from_lines(b"1".to_vec()).unwrap();
        outbox.push(&mut payloads, mark, answer, 0);
    }
    assert!(outbox.take(1).is_some() && outbox.take(2).is_some());
    assert!(outbox.take(3).is_none(), "one without a key waits for all before it");
    let answers = |answered: Vec<Answered<u8>>| -> Vec<u8> {
        answered.into_iter().map(|answered| answered.answer).collect()
    };
    assert_eq!(answers(settle(&mut outbox, 2, Outcome::Stored(9))), [1], "the later one first");
    assert!(outbox.take(3).is_none());
    assert_eq!(answers(settle(&mut outbox, 1, Outcome::Unknown)), [0]);
    assert!(outbox.take(3).is_some() && outbox.take(4).is_none());
    assert_eq!(answers(settle(&mut outbox, 3, Outcome::Stored(10))), [2]);
    assert!(outbox.take(4).is_some() && outbox.take(5).is_none());
    assert_eq!(answers(settle(&mut outbox, 4, Outcome::Stored(11))), [3]);
    assert!(outbox.take(5).is_some());
    assert_eq!(
        outbox.abandon().map(|settled| settled.outcome).collect::<Vec<_>>(),
        [Outcome::Unknown]
    );
}

#[test]
fn events_published_meanwhile_share_a_message() {
    let mut outbox: Outbox<bool, u8> = Outbox::new(BOUNDS);
    for answer in 0..4 {
        let mut payloads = Payloads::default();
        let write = |out: &mut Vec<u8>| {
            out.push(b'1');
            Ok::<_, ()>(())
        };
        payloads.push(write).unwrap();
        outbox.push(&mut payloads, None, answer, 0);
        if answer == 0 {
            assert_eq!(outbox.take(1).map(|message| message.payloads.count()), Some(1));
        }
    }
    assert!(outbox.take(2).is_none(), "one is in flight");
    assert_eq!(settle(&mut outbox, 1, Outcome::Stored(8)).len(), 1);
    assert_eq!(outbox.take(2).map(|message| message.payloads.count()), Some(3));
    let settled = settle(&mut outbox, 2, Outcome::Stored(24)).into_iter();
    let answers: Vec<_> = settled.map(|settled| (settled.answer, settled.outcome)).collect();
    let at = |offset| Outcome::Stored(Appended { first: offset, end: offset + 1 });
    assert_eq!(answers, [(1, at(24)), (2, at(25)), (3, at(26))]);
}

#[test]
fn a_message_without_events_has_its_turn_and_its_answer() {
    let mut outbox: Outbox<&str, u8> = Outbox::new(BOUNDS);
    let mut payloads = Payloads::default();
    let write = |out: &mut Vec<u8>| {
        out.push(b'1');
        Ok::<_, ()>(())
    };
    payloads.push(write).unwrap();
    outbox.push(&mut payloads, None, 0, 0);
    outbox.push(&mut payloads, Some("end"), 1, 0);
    assert_eq!(outbox.take(1).and_then(|message| message.mark), None);
    assert_eq!(settle(&mut outbox, 1, Outcome::Stored(8)).len(), 1);
    assert_eq!(outbox.take(2).and_then(|message| message.mark), Some("end"));
    assert!(outbox.take(3).is_none() && !outbox.is_empty(), "it is in flight");
    let answered = settle(&mut outbox, 2, Outcome::NotStored);
    assert_eq!(answered.first().map(|answered| answered.outcome), Some(Outcome::NotStored));
    assert!(outbox.is_empty());
}

#[test]
fn a_publish_that_is_stored_in_part_has_its_first_events_in_the_answer() {
    let publish = |outbox: &mut Outbox<bool, u8>, answer| {
        let mut payloads = Payloads::from_lines(b"1\n2\n3".to_vec()).unwrap();
        outbox.push(&mut payloads, None, answer, 0);
    };
    let mut outbox: Outbox<bool, u8> = Outbox::new(MessageBounds { events_max: 1, ..BOUNDS });
    let mut settled = |outcomes: &[Outcome<u64>]| {
        publish(&mut outbox, 0);
        let mut answered = Vec::new();
        for (number, outcome) in (0..).zip(outcomes) {
            assert!(outbox.take(number).is_some());
            answered.extend(settle(&mut outbox, number, *outcome));
        }
        assert!(
            outbox.is_empty() && outbox.bytes() == 0,
            "no event is sent after one that is not stored"
        );
        answered.into_iter().map(|answered| (answered.outcome, answered.part)).collect::<Vec<_>>()
    };
    let (stored, not) = (Outcome::Stored, Outcome::<u64>::NotStored);
    let part = Some((Appended { first: 8, end: 17 }, 2));
    assert_eq!(settled(&[stored(8), stored(16), not]), [(Outcome::NotStored, part)]);
    let part = Some((Appended { first: 24, end: 25 }, 1));
    assert_eq!(settled(&[stored(24), not]), [(Outcome::NotStored, part)]);
    assert_eq!(settled(&[not]), [(Outcome::NotStored, None)]);
    assert_eq!(settled(&[stored(48), Outcome::Unknown, not]), [(Outcome::Unknown, None)]);
}

#[test]
fn a_publish_that_is_not_stored_leaves_the_others_in_their_messages() {
    let mut outbox: Outbox<bool, u8> = Outbox::new(MessageBounds { events_max: 2, ..BOUNDS });
    for (answer, lines) in (0..).zip(["1\n2\n3\n4\n5", "6"]) {
        outbox.push(&mut Payloads::from_lines(lines.into()).unwrap(), None, answer, 0);
    }
    assert!(outbox.take(0).is_some());
    let answered = settle(&mut outbox, 0, Outcome::NotStored);
    assert_eq!(answered.iter().map(|answered| answered.answer).collect::<Vec<_>>(), [0]);
    assert_eq!(outbox.take_dropped().joined(), b"3,4,5");
    let message = outbox.take(1).expect("a message");
    assert_eq!((message.payloads.joined(), outbox.bytes()), (&b"6"[..], 1));
    let answered = settle(&mut outbox, 1, Outcome::Stored(7));
    let expected = Outcome::Stored(Appended { first: 7, end: 8 });
    assert_eq!((answered[0].answer, answered[0].outcome), (1, expected));
    assert!(outbox.is_empty() && outbox.bytes() == 0);
}

#[test]
fn a_publish_that_fits_into_a_message_and_a_batch_is_not_split() {
    let bounds = MessageBounds { events_max: 4, batch_bytes_max: 9, ..BOUNDS };
    let mut outbox: Outbox<bool, u8> = Outbox::new(bounds);
    let publishes =
        ["1\n2", "3\n4\n5", "6", "123\n12345", "7", "1234\n12345", "12345678901", "7\n8\n9\n1\n2"];
    for (answer, lines) in (0..).zip(publishes) {
        outbox.push(&mut Payloads::from_lines(lines.into()).unwrap(), None, answer, 0);
    }
    let messages = (0..).map_while(|number| {
        let message = outbox.take(number)?;
        settle(&mut outbox, number, Outcome::Unknown);
        Some(String::from_utf8(message.payloads.joined().to_vec()).expect("text"))
    });
    let messages: Vec<String> = messages.collect();
    let expected =
        ["1,2", "3,4,5,6", "123,12345", "7,1234", "12345", "12345678901", "7,8,9,1", "2"];
    assert_eq!(messages, expected);
}

#[test]
fn keys_count_for_the_size_of_a_message() {
    let mut outbox: Outbox<bool, u8> = Outbox::new(BOUNDS);
    let mut payloads = Payloads::from_lines(b"1\n2\n3\n4\n5\n6".to_vec()).unwrap();
    (0..6).for_each(|_| payloads.push_key("0123456789"));
    outbox.push(&mut payloads, None, 0, 0);
    for number in 0..3 {
        let message = outbox.take(number).expect("a message");
        assert_eq!(message.payloads.count(), 2);
        assert!(message.payloads.joined_bytes() <= BOUNDS.batch_bytes_max);
        settle(&mut outbox, number, Outcome::Unknown);
    }
    assert!(outbox.is_empty());
}

#[test]
fn keys_and_marks_count_for_the_bytes_of_an_outbox() {
    let mut outbox: Outbox<&str, u8> = Outbox::new(BOUNDS);
    let keyed = |text: &str, key: &str| {
        let mut payloads = Payloads::from_lines(text.into()).expect("events");
        (0..payloads.count()).for_each(|_| payloads.push_key(key));
        payloads
    };
    // Six events of one byte, whose keys have twelve with their quotation marks.
    outbox.push(&mut keyed("1\n2\n3\n4\n5\n6", "0123456789"), None, 0, 0);
    assert_eq!(outbox.bytes(), 6 * 13);
    outbox.push(&mut keyed("7", "k"), Some("mark"), 1, 0);
    assert_eq!(outbox.bytes(), 6 * 13 + 4 + 4);
    outbox.take(1).expect("a message");
    assert_eq!(outbox.bytes(), 6 * 13 + 4 + 4, "they are still here");
    settle(&mut outbox, 1, Outcome::Stored(8));
    assert_eq!(outbox.bytes(), 4 * 13 + 4 + 4);
    // The rest of the publish is dropped.
    outbox.take(2).expect("a message");
    settle(&mut outbox, 2, Outcome::NotStored);
    assert_eq!(outbox.bytes(), 4 + 4);
    outbox.take(3).expect("a message");
    settle(&mut outbox, 3, Outcome::Unknown);
    assert!(outbox.is_empty() && outbox.bytes() == 0);
}

#[test]
fn abandoned_events_are_answered() {
    let mut outbox: Outbox<bool, u8> = Outbox::new(MessageBounds { events_max: 1, ..BOUNDS });
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
    outbox.take(1);
    assert_eq!(settle(&mut outbox, 1, Outcome::Stored(8)).len(), 0);
    outbox.take(2);
    assert_eq!(settle(&mut outbox, 2, Outcome::Stored(9)).len(), 1);
    outbox.take(3);
    let outcomes: Vec<_> =
        outbox.abandon().map(|settled| (settled.answer, settled.outcome)).collect();
    assert_eq!(outcomes, [(1, Outcome::Unknown), (2, Outcome::NotStored)]);
    assert!(outbox.is_empty() && outbox.bytes() == 0);
}

#[test]
fn a_publish_joins_no_message_that_has_waited_long() {
    let mut outbox: Outbox<bool, u8> = Outbox::new(BOUNDS);
    for (answer, now_us) in [(0, 5), (1, 5 + JOINED_US_MAX), (2, 6 + JOINED_US_MAX)] {
        let mut payloads = Payloads::default();
        let write = |out: &mut Vec<u8>| {
            out.push(b'1');
            Ok::<_, ()>(())
        };
        payloads.push(write).unwrap();
        outbox.push(&mut payloads, None, answer, now_us);
    }
    let first = outbox.take(1).expect("a message");
    assert_eq!((first.payloads.count(), first.arrived_us), (2, 5));
    assert_eq!(settle(&mut outbox, 1, Outcome::NotStored).len(), 2);
    let second = outbox.take(2).expect("another");
    assert_eq!((second.payloads.count(), second.arrived_us), (1, 6 + JOINED_US_MAX));
}
