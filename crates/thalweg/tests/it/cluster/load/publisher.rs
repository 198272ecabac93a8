use std::{
    io::{Error, ErrorKind, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use thalweg_client::Position;
use thalweg_testing::{let_pass, read_to_end};

use super::{Answers, LAST, PUBLISHERS, Shared, TOPIC, Told};
use crate::{
    cluster::nodes::Addresses,
    harness::{Patience, wait_for},
};

/// The pause between two publishes of one publisher: the load leaves the cluster time for other work.
const PAUSE: Duration = Duration::from_millis(2);

/// The pause of a racing publisher: JetStream delays the nodes that lose a race, and with them their other publishes.
const RACE_PAUSE: Duration = Duration::from_millis(100);

/// The pause before a publish is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// After this many events the racing publisher sends another body with a used key.
const OTHER_BODY_EVERY: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Publishes once, whatever the response.
    Plain,
    /// Publishes with a key until the event is stored.
    Keyed,
    /// Publishes to three nodes at once, with the same key.
    Racing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// Has the body.
    Stored(String),
    Unavailable,
    Unknown,
    KeyReused,
    NotConnected,
    Cut,
    /// Any response that no publish should get.
    Other(String),
}

pub(super) fn run(shared: &Shared, publisher: usize, mut rng: fastrand::Rng) {
    while !shared.is_over.load(Relaxed) {
        let begun = Instant::now();
        let (number, event) = shared.state().ledger.begin(publisher);
        let key = format!("{publisher}-{number}");
        let told = match PUBLISHERS[publisher] {
            Kind::Plain => told(&shared.post(shared.nodes.any(&mut rng).1, &event, None)),
            Kind::Keyed => told(&shared.post_until_stored(&mut rng, &event, &key)),
            Kind::Racing => {
                let told = shared.race(&mut rng, &event, &key);
                if number.is_multiple_of(OTHER_BODY_EVERY) {
                    shared.post_other_body(&mut rng, &key);
                }
                told
            }
        };
        shared.state().tell(publisher, number, begun, told);
        let_pass(if PUBLISHERS[publisher] == Kind::Racing { RACE_PAUSE } else { PAUSE });
    }
}

/// Publishes the event at which every subscriber ends.
pub(super) fn last(shared: &Shared) {
    let (begun, mut rng) = (Instant::now(), fastrand::Rng::new());
    let (number, event) = shared.state().ledger.begin(LAST);
    let answer = shared.post_until_stored(&mut rng, &event, "last");
    shared.state().tell(LAST, number, begun, told(&answer));
}

/// Publishes an event and returns its position. Later events are the load.
pub(super) fn first(nodes: &Addresses) -> Position {
    wait_for("a first event", || match post(nodes.any(&mut fastrand::Rng::new()).1, "0", None) {
        Answer::Stored(body) => Some(position(&body).expect("a position")),
        _ => None,
    })
}

impl Shared {
    /// Publishes once, and counts the response.
    fn post(&self, node: SocketAddr, event: &str, key: Option<&str>) -> Answer {
        let answer = post(node, event, key);
        let mut state = self.state();
        let Answers { stored, unavailable, unknown, key_reused, not_connected, cut } =
            &mut state.answers;
        match &answer {
            Answer::Stored(_) => *stored += 1,
            Answer::Unavailable => *unavailable += 1,
            Answer::Unknown => *unknown += 1,
            Answer::KeyReused => *key_reused += 1,
            Answer::NotConnected => *not_connected += 1,
            Answer::Cut => *cut += 1,
            Answer::Other(what) => state.ledger.contradict(&format!("{event} was answered {what}")),
        }
        answer
    }

    /// Publishes repeatedly, each time at any node.
    fn post_until_stored(&self, rng: &mut fastrand::Rng, event: &str, key: &str) -> Answer {
        self.post_until(rng, event, key, |answer| matches!(answer, Answer::Stored(_)))
    }

    fn post_until(
        &self,
        rng: &mut fastrand::Rng,
        event: &str,
        key: &str,
        is_enough: impl Fn(&Answer) -> bool,
    ) -> Answer {
        let mut patience = Patience::new();
        loop {
            let answer = self.post(self.nodes.any(rng).1, event, Some(key));
            if is_enough(&answer) || matches!(answer, Answer::Other(_)) {
                return answer;
            }
            if patience.is_over() {
                self.state().ledger.contradict(&format!("{event} is not stored: {answer:?}"));
                return answer;
            }
            let_pass(RETRY_PAUSE);
        }
    }

    /// Publishes the same event with the same key to three nodes at once, until each confirms it. All responses must be the same.
    fn race(&self, rng: &mut fastrand::Rng, event: &str, key: &str) -> Told {
        let nodes = self.nodes.three(rng);
        let answers = thread::scope(|scope| {
            let post = |node| {
                let mut rng = rng.fork();
                scope.spawn(move || match self.post(node, event, Some(key)) {
                    answer @ (Answer::Stored(_) | Answer::KeyReused) => answer,
                    _ => self.post_until_stored(&mut rng, event, key),
                })
            };
            nodes.map(post).map(|thread| thread.join().expect("a thread that did not panic"))
        });
        if answers.iter().any(|answer| *answer != answers[0]) {
            self.state().ledger.contradict(&format!("{event} was answered {answers:?}"));
        }
        told(&answers[0])
    }

    fn post_other_body(&self, rng: &mut fastrand::Rng, key: &str) {
        let is_enough = |answer: &Answer| matches!(answer, Answer::KeyReused | Answer::Stored(_));
        let answer = self.post_until(rng, "\"other\"", key, is_enough);
        if answer != Answer::KeyReused {
            self.state()
                .ledger
                .contradict(&format!("another body for {key} was answered {answer:?}"));
        }
    }
}

fn told(answer: &Answer) -> Told {
    match answer {
        Answer::Stored(body) => Told::Stored(position(body).expect("a position").offset),
        Answer::Unavailable | Answer::NotConnected | Answer::KeyReused => Told::NotStored,
        Answer::Unknown | Answer::Cut | Answer::Other(_) => Told::Unknown,
    }
}

fn position(body: &str) -> Option<Position> {
    let answer: serde_json::Value = serde_json::from_str(body).ok()?;
    answer["position"].as_str()?.parse().ok()
}

fn post(node: SocketAddr, event: &str, key: Option<&str>) -> Answer {
    match try_post(node, event, key) {
        Ok((200, body)) => Answer::Stored(body),
        Ok((503, body)) if body.contains("\"unknown\"") => Answer::Unknown,
        Ok((503, _)) => Answer::Unavailable,
        Ok((422, body)) if body.contains("\"key_reused\"") => Answer::KeyReused,
        Ok((status, body)) => Answer::Other(format!("{status} {body}")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Answer::NotConnected,
        Err(_) => Answer::Cut,
    }
}

fn try_post(node: SocketAddr, event: &str, key: Option<&str>) -> std::io::Result<(u16, String)> {
    let mut socket = TcpStream::connect(node)?;
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /v1/topics/{TOPIC} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{key}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{event}",
        event.len()
    );
    socket.write_all(request.as_bytes())?;
    let cut = || Error::from(ErrorKind::UnexpectedEof);
    let answer = String::from_utf8(read_to_end(&socket)?).map_err(|_| cut())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(cut)?, body.to_owned()))
}
