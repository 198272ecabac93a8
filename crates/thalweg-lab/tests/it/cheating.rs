//! A subject that cheats is caught by the ledger, in every dialect and over every transport.

use crate::fake::{self, Fault};
use crate::quiet::undisturbed;
use crate::swarm::{ALL, measure_at};
use thalweg_lab::scenario::{Peer, Program, Transport};

/// What speaks each dialect that has a ledger, and the transports it has.
fn cheaters() -> [(Program, &'static [Transport]); 3] {
    let socketio = include_str!("../../../../lab/subjects/socketio/subject.toml");
    let socketio = Peer::read(socketio, "").map(Box::new).map(Program::Peer);
    [
        (Program::Thalweg, &ALL),
        (Program::Limit, &[Transport::Websocket, Transport::Sse, Transport::HttpStreaming]),
        (socketio.expect("its subject.toml"), &[Transport::Websocket]),
    ]
}

/// From this event on nobody can take what is cheated for the first event, and its number has
/// as many digits as those near it.
const CHEATED: u64 = 20;

/// Every ledger of a subject that makes this of `CHEATED` and sends all else as it is.
fn check(cheat: impl Fn(&str) -> Vec<String> + Clone + Send + 'static, expected: &str) {
    let fault = move || {
        let cheat = cheat.clone();
        move |number, event: &str| match number {
            CHEATED => cheat(event),
            _ => vec![event.to_owned()],
        }
    };
    check_fault(|| Box::new(fault()), expected);
}

fn check_fault(fault: impl Fn() -> Fault, expected: &str) {
    undisturbed(|| {
        for (program, transports) in &cheaters() {
            for &transport in *transports {
                let outcome = fake::serve(fault())
                    .map_err(anyhow::Error::from)
                    .and_then(|address| measure_at(address, program, 3, transport));
                let found = match outcome {
                    Ok(outcome) => outcome.ledger.to_string(),
                    Err(error) => format!("{error:#}"),
                };
                assert_eq!(found, expected, "{program:?} over {transport}");
            }
        }
    });
}

/// The event under another number or time, with a checksum that holds.
fn forged(event: &str, change: impl FnOnce(&mut u64, &mut u64)) -> String {
    let number =
        |name| event.split_once(name).and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
    let (Some(mut seq), Some(mut due)) = (number("\"seq\":"), number("\"due\":")) else {
        return format!("not an event: {event}");
    };
    change(&mut seq, &mut due);
    let pad = event.split('"').nth_back(1).unwrap_or_default();
    let crc = crc32fast::hash(format!("{seq}{due}{pad}").as_bytes());
    format!(r#"{{"seq":{seq},"due":{due},"crc":"{crc:08x}","pad":"{pad}"}}"#)
}

#[test]
fn an_event_is_forged_as_the_lab_would_write_it() {
    let event = forged(r#"{"seq":1,"due":1000,"crc":"","pad":""}"#, |_, _| {});
    assert_eq!(event, r#"{"seq":1,"due":1000,"crc":"cf001a20","pad":""}"#);
}

#[test]
fn what_is_dropped_is_missing() {
    check(|_| vec![], "1 missing");
}

#[test]
fn what_is_repeated_is_a_duplicate() {
    check(|event| vec![event.to_owned(); 2], "1 duplicated");
}

#[test]
fn what_overtakes_is_seen() {
    check_fault(
        || {
            let mut held = None;
            Box::new(move |number, event| match number {
                CHEATED => {
                    held = Some(event.to_owned());
                    vec![]
                }
                _ => [event.to_owned()].into_iter().chain(held.take()).collect(),
            })
        },
        "1 reordered",
    );
}

#[test]
fn a_changed_byte_is_corrupt() {
    check(|event| vec![event.replacen("xx", "xy", 1)], "1 missing, 1 corrupt");
}

#[test]
fn an_event_of_before_is_no_new_one() {
    check_fault(
        || {
            let mut cached = String::new();
            Box::new(move |number, event| {
                let before = std::mem::replace(&mut cached, event.to_owned());
                vec![if number == CHEATED { before } else { event.to_owned() }]
            })
        },
        "1 missing, 1 duplicated",
    );
}

/// From a run before, or so that it looks faster than it was.
#[test]
fn an_event_of_another_time_is_corrupt() {
    check(|event| vec![forged(event, |_, due| *due += 1)], "1 missing, 1 corrupt");
}

#[test]
fn what_was_not_published_yet_is_early() {
    check(|event| vec![event.to_owned(), forged(event, |seq, _| *seq += 50)], "1 early");
}
