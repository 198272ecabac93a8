//! Publishers and subscribers that move from node to node, and their state for the driver.

mod publisher;
mod subscriber;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::Serialize;
use thalweg_client::{Position, Transport};

use super::{
    ledger::{Ledger, Told, Totals},
    nodes::{Addresses, Nodes},
    pulse::Pulse,
};
use crate::harness::{LOOK_AGAIN_AFTER, Patience};
use publisher::Kind;
use thalweg_testing::let_pass;

const TOPIC: &str = "cars";

const PUBLISHERS: [Kind; 5] = [Kind::Keyed, Kind::Plain, Kind::Keyed, Kind::Plain, Kind::Racing];

/// The publisher of the last event, in the ledger.
const LAST: usize = PUBLISHERS.len();

const SUBSCRIBERS: [Transport; 5] = Transport::ALL;

pub(super) struct Load {
    shared: Arc<Shared>,
    publishers: Vec<JoinHandle<()>>,
    subscribers: Vec<JoinHandle<()>>,
}

struct Shared {
    nodes: Addresses,
    /// The position before the first event.
    begin: Position,
    is_over: AtomicBool,
    state: Mutex<State>,
}

struct State {
    ledger: Ledger,
    answers: Answers,
    /// Publishes that are confirmed with an offset.
    publishing: Pulse,
    subscribers: [Subscriber; SUBSCRIBERS.len()],
    /// The begin of the publish that was confirmed last, and its offset.
    stored_last: (Instant, u64),
}

/// Requests by their results. A publish with a key may take several.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Answers {
    pub(super) stored: u64,
    /// 503: the event is not stored.
    pub(super) unavailable: u64,
    /// 503 `unknown`.
    pub(super) unknown: u64,
    /// 422 for a key that is used with another body, as expected.
    pub(super) key_reused: u64,
    /// No connection: the node is down.
    pub(super) not_connected: u64,
    /// The connection ended without a response.
    pub(super) cut: u64,
}

struct Subscriber {
    events: Pulse,
    /// Its current node, and the number of its connections.
    node: usize,
    connections: u64,
    cut: Option<Cut>,
}

struct Cut {
    at: Instant,
    /// The connection that ends with the node.
    connection: u64,
    /// The time until the next event on another connection.
    back: Option<Duration>,
}

/// Measurements since [`Load::watch`].
#[derive(Debug, Serialize)]
pub(super) struct Seen {
    /// The longest time without an event, by transport.
    pub(super) silence_s: BTreeMap<&'static str, f64>,
    /// The longest time without a confirmed publish.
    pub(super) publishing_silence_s: f64,
    /// By transport, for a subscriber whose node was killed: the time until it received an event from another one.
    pub(super) back_s: BTreeMap<&'static str, f64>,
}

pub(super) struct Outcome {
    pub(super) totals: Totals,
    pub(super) answers: Answers,
    /// Descriptions of the first errors, enough to find the cause.
    pub(super) violations: Vec<String>,
}

impl Load {
    pub(super) fn start(nodes: &Nodes, seed: u64) -> Self {
        let nodes = nodes.addresses();
        let mut seeds = fastrand::Rng::with_seed(seed);
        let begin = publisher::first(&nodes);
        let now = Instant::now();
        let subscriber =
            |_| Subscriber { events: Pulse::new(now), node: 0, connections: 0, cut: None };
        let state = State {
            ledger: Ledger::new(PUBLISHERS.len() + 1, SUBSCRIBERS.len(), begin.offset),
            answers: Answers::default(),
            publishing: Pulse::new(now),
            subscribers: SUBSCRIBERS.map(subscriber),
            stored_last: (now, begin.offset),
        };
        let (is_over, state) = (AtomicBool::new(false), Mutex::new(state));
        let shared = Arc::new(Shared { nodes, begin, is_over, state });
        let mut spawn = |run: fn(&Shared, usize, fastrand::Rng), index| {
            let (shared, rng) = (Arc::clone(&shared), seeds.fork());
            thread::spawn(move || run(&shared, index, rng))
        };
        let publishers = (0..PUBLISHERS.len()).map(|index| spawn(publisher::run, index)).collect();
        let subscribers =
            (0..SUBSCRIBERS.len()).map(|index| spawn(subscriber::run, index)).collect();
        Self { shared, publishers, subscribers }
    }

    /// Restarts the measurements that [`Self::seen`] returns.
    pub(super) fn watch(&self) {
        let mut state = self.shared.state();
        state.publishing.restart();
        for subscriber in &mut state.subscribers {
            subscriber.events.restart();
            subscriber.cut = None;
        }
    }

    /// Records that a node is killed now: its subscribers must reconnect to another one.
    pub(super) fn cut(&self, node: usize) {
        let at = Instant::now();
        for subscriber in
            self.shared.state().subscribers.iter_mut().filter(|subscriber| subscriber.node == node)
        {
            subscriber.cut = Some(Cut { at, connection: subscriber.connections, back: None });
        }
    }

    /// Waits until a publish that begins after this call is stored, and every subscriber has received everything up to it.
    /// Otherwise returns what is missing when nothing happens any more.
    pub(super) fn await_flow(&self) -> Result<(), &'static str> {
        let begun = Instant::now();
        let (mut stored, mut patience) = (None, Patience::new());
        while !patience.is_over() {
            let state = self.shared.state();
            let (since, offset) = state.stored_last;
            if stored.is_none() && since > begun {
                stored = Some(offset);
            }
            if stored.is_some_and(|offset| state.ledger.got_by_all() >= offset) {
                return Ok(());
            }
            drop(state);
            let_pass(LOOK_AGAIN_AFTER);
        }
        Err(stored.map_or("nothing is stored any more", |_| "a subscriber gets nothing any more"))
    }

    /// Returns how many publishes were answered with an offset.
    pub(super) fn stored(&self) -> u64 {
        self.shared.state().answers.stored
    }

    pub(super) fn seen(&self) -> Seen {
        let (state, now) = (self.shared.state(), Instant::now());
        let named = || SUBSCRIBERS.map(Transport::name).into_iter().zip(&state.subscribers);
        let back = |subscriber: &Subscriber| {
            let cut = subscriber.cut.as_ref()?;
            // This subscriber has not reconnected, and has waited for at least this long.
            Some(cut.back.unwrap_or(now - cut.at).as_secs_f64())
        };
        Seen {
            silence_s: named()
                .map(|(name, subscriber)| (name, subscriber.events.silence_max(now).as_secs_f64()))
                .collect(),
            publishing_silence_s: state.publishing.silence_max(now).as_secs_f64(),
            back_s: named()
                .filter_map(|(name, subscriber)| Some((name, back(subscriber)?)))
                .collect(),
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.shared.state().ledger.is_clean()
    }

    /// Ends the load: publishers first, so that there is a last event, up to which all subscribers read.
    pub(super) fn end(self) -> Outcome {
        self.shared.is_over.store(true, Relaxed);
        self.publishers.into_iter().for_each(|thread| thread.join().expect("a publisher"));
        publisher::last(&self.shared);
        self.subscribers.into_iter().for_each(|thread| thread.join().expect("a subscriber"));
        let shared = Arc::into_inner(self.shared).expect("all threads have ended");
        let state = shared.state.into_inner().expect("a thread that did not panic");
        let (totals, violations) = state.ledger.finish();
        Outcome { totals, answers: state.answers, violations }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread that did not panic")
    }
}

impl State {
    fn tell(&mut self, publisher: usize, number: u64, begun: Instant, told: Told) {
        self.ledger.tell(publisher, number, told);
        if let Told::Stored(offset) = told {
            self.publishing.beat(Instant::now());
            self.stored_last = (begun, offset);
        }
    }
}
