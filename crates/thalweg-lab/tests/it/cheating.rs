//! A subject that cheats is caught by the ledger, in every dialect and over every transport.

use crate::fake::{self, Fault};
use crate::swarm::{ALL, Blind, found, load, measure_at};
use thalweg_lab::load_generator::run;
use thalweg_lab::scenario::{Drive, Peer, Program, Settings, Transport};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;

/// Programs that speak the wire, and their transports.
fn cheaters() -> [(Program, &'static [Transport]); 2] {
    [
        (Program::Thalweg, &ALL),
        (Program::Limit, &[Transport::Websocket, Transport::Sse, Transport::HttpStreaming]),
    ]
}

/// Peers of the other dialects, and their transports.
fn peers() -> Vec<(Program, Transport)> {
    let over_websocket =
        ["raw", "socketio", "engineio", "sockjs", "primus", "nats", "nchan", "centrifugo"];
    let over_sse = ["raw", "nchan", "mercure"];
    let websocket = over_websocket.map(|dialect| (peer(dialect), Transport::Websocket));
    websocket.into_iter().chain(over_sse.map(|dialect| (peer(dialect), Transport::Sse))).collect()
}

fn peer(dialect: &str) -> Program {
    let text = format!("name='x'\ntitle='x'\ndialect='{dialect}'\ndrives=[]\ncommand=['x']\n");
    Program::Peer(Box::new(Peer::read(&text, "").expect(dialect)))
}

/// From this event on a changed event cannot pass for the first one, and its number has as many digits as those near it.
const CHEATED: u64 = 20;

/// Every ledger of a subject that changes `CHEATED` like this and sends all else as it is.
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
                assert_eq!(found(outcome), expected, "{program:?} over {transport}");
            }
        }
    });
}

#[test]
fn a_cheat_is_caught_in_every_dialect() {
    // Drops every tenth event, has one of them from before, sends one ahead of its time.
    let cheats = || -> Fault {
        let mut cached = String::new();
        Box::new(move |number, event| {
            let before = std::mem::replace(&mut cached, event.to_owned());
            match number {
                10 | 20 => vec![],
                25 => vec![before],
                29 => vec![event.to_owned(), forged(event, |seq, _| *seq += 50)],
                _ => vec![event.to_owned()],
            }
        })
    };
    undisturbed(|| {
        for (program, transport) in peers() {
            let found = |fault: Fault| {
                let address = fake::serve(fault).expect("a server");
                let outcome = measure_at(address, &program, 3, transport);
                outcome.expect("it goes on").ledger.to_string()
            };
            let name = format!("{:?} over {transport}", program.dialect());
            assert_eq!(found(Box::new(|_, event| vec![event.to_owned()])), "whole", "{name}");
            assert_eq!(found(cheats()), "3 missing, 1 duplicated, 1 early", "{name}");
        }
    });
}

/// Returns the messages in place of an event, which follows another one.
type Cheat = fn(&str, &str) -> Vec<String>;

#[test]
fn a_cheat_is_caught_in_deltas() {
    let program = peer("centrifugo");
    let (deltas, connections, window, event_bytes) = (true, 5, 3, 200);
    let settings = Settings { deltas, connections, window, event_bytes, ..Settings::default() };
    let check = |cheat: Cheat, expected: &str| {
        undisturbed(|| {
            let mut cached = String::new();
            let address = fake::serve(move |number, event| {
                let before = std::mem::replace(&mut cached, event.to_owned());
                if number == CHEATED { cheat(event, &before) } else { vec![event.to_owned()] }
            });
            let address = address.expect("a server");
            let load = load(address, &program, &settings, Drive::PublishedLoad, [50, 150]);
            assert_eq!(found(run(&Swarm, &load, &mut Blind)), expected);
        });
    };
    check(|event, _| vec![event.to_owned()], "whole");
    check(|_, _| vec![], "1 missing");
    check(|event, _| vec![event.to_owned(); 2], "1 duplicated");
    check(|event, _| vec![event.replacen("xx", "xy", 1)], "1 missing, 1 corrupt");
    check(|_, before| vec![before.to_owned()], "1 missing, 1 corrupt");
    // 200 bytes from the second of 200 on.
    check(|_, _| vec![push(CHEATED, r"38\n38@1,0;")], "1 missing, 1 corrupt");
    check(|event, _| vec![event.to_owned(), push(CHEATED + 50, r"0\n0;")], "1 early");
}

/// A publication with this delta, in a JSON string.
fn push(offset: u64, delta: &str) -> String {
    format!(
        r#"{{"push":{{"channel":"deltas:bench/0","pub":{{"data":"{delta}","offset":{offset},"delta":true}}}}}}"#
    )
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
fn dropped_events_are_missing() {
    check(|_| vec![], "1 missing");
}

#[test]
fn repeated_events_are_duplicates() {
    check(|event| vec![event.to_owned(); 2], "1 duplicated");
}

#[test]
fn overtaking_events_are_detected() {
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
fn events_before_their_publication_are_early() {
    check(|event| vec![event.to_owned(), forged(event, |seq, _| *seq += 50)], "1 early");
}
