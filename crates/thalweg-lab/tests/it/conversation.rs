//! Conversations: echo and round trips with a subject that takes a known time to answer.

use crate::fake::{RELOAD, cursor, envelope};
use crate::listen::{header, listen, read_head, read_message, text_frame, upgraded};
use crate::swarm::{Blind, assert_negotiated, found, load};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg_lab::load_generator::{Outcome, run};
use thalweg_lab::scenario::{Drive, Program, Settings, Transport};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;

const DELAY: Duration = Duration::from_millis(3);
const DELAY_US: f64 = 3000.0;

/// Answers to a message, by its number; perhaps none.
type Answer = fn(u64, &str) -> Vec<String>;

/// A WebSocket server that answers each message after `DELAY`.
fn serve(answer: Answer) -> std::io::Result<SocketAddr> {
    listen(move |connection| attend(connection, answer))
}

fn attend(mut connection: TcpStream, answer: Answer) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    let head = read_head(&mut reader)?;
    connection.write_all(upgraded(&head, "").as_bytes())?;
    let confirmed = r#"{"topic":"bench/0","position":"1.0","first":1,"events":[]}"#;
    connection.write_all(&text_frame(confirmed))?;
    for number in 1.. {
        let message = read_message(&mut reader)?;
        thalweg_testing::let_pass(DELAY);
        for sent in answer(number, &message) {
            connection.write_all(&text_frame(&sent))?;
        }
    }
    Ok(())
}

fn measure(drive: Drive, program: &Program, answer: Answer) -> anyhow::Result<Outcome> {
    let settings = Settings {
        transport: Transport::Websocket,
        connections: 1,
        requests: 20,
        request_us: 5000,
        ..Settings::default()
    };
    converse(serve(answer)?, &settings, drive, program)
}

fn converse(
    address: SocketAddr,
    settings: &Settings,
    drive: Drive,
    program: &Program,
) -> anyhow::Result<Outcome> {
    run(&Swarm, &load(address, program, settings, drive, [1, 50]), &mut Blind)
}

fn same(_: u64, message: &str) -> Vec<String> {
    vec![message.to_owned()]
}

/// A request as the lab makes it.
fn request(number: u64) -> String {
    let digits = (number * 0x9E37_79B9) & 0xFFFF_FFFF;
    format!("{number:08x}-7468-416c-8765-{digits:012x}")
}

/// Thalweg's answer to an echo command.
fn thalweg_echo(_: u64, message: &str) -> Vec<String> {
    let inner = message.replacen(r#"{"command":"echo","#, r#"{"answer":{"#, 1);
    vec![inner + "}"]
}

/// Returns a Runner of about 200 bytes.
fn runner(number: u64) -> String {
    format!(r#"{{"id":{number},"name":"{}"}}"#, "x".repeat(190))
}

/// Thalweg's answers to the ack of a Runner, which has the whole Runner.
fn thalweg_runner(number: u64, message: &str) -> Vec<String> {
    let command = r#"{"command":"publish","topic":"bench/0/acks","event":"#;
    let acked = message.strip_prefix(command).and_then(|rest| rest.strip_suffix('}'));
    match (number, acked) {
        // The client creates the object of the first ack.
        (1, Some(first)) => assert!(first.starts_with(r#"{"id":0,"#) && first.len() == 200),
        (_, acked) => assert_eq!(acked, Some(&*runner(number - 1))),
    }
    let published = r#"{"answer":{"topic":"bench/0/acks","position":"2.1","first":1,"count":1}}"#;
    vec![published.to_owned(), envelope(number, &runner(number))]
}

#[test]
fn an_ack_that_is_refused_ends_a_round_trip() {
    let refused = |_, _: &str| vec![r#"{"error":{"code":"forbidden","message":"no"}}"#.to_owned()];
    let failed = measure(Drive::RoundTrip, &Program::Thalweg, refused).unwrap_err();
    assert!(format!("{failed:#}").contains("forbidden"), "{failed:#}");
}

#[test]
fn a_known_delay_is_measured() {
    undisturbed(|| {
        let cases: [(Drive, Program, Answer); 4] = [
            (Drive::Echo, Program::Limit, same),
            (Drive::Echo, Program::Thalweg, thalweg_echo),
            (Drive::RoundTrip, Program::Limit, same),
            (Drive::RoundTrip, Program::Thalweg, thalweg_runner),
        ];
        for (drive, program, answer) in cases {
            let outcome = measure(drive, &program, answer).unwrap();
            let trips = outcome.round_trips.unwrap();
            assert_eq!(outcome.ledger.to_string(), "whole", "{drive:?} {program:?}");
            assert_eq!(trips.count, 20);
            assert_negotiated(&outcome);
            assert!(trips.mean_us >= DELAY_US && trips.p50_us as f64 >= DELAY_US, "{trips:?}");
            match drive {
                // One after the other: no time is counted twice, and little is lost.
                Drive::RoundTrip => {
                    assert!(20.0 * trips.mean_us <= trips.total_us as f64, "{trips:?}");
                }
                // A message that is sent late is late.
                _ => assert!(outcome.latency.quantile_us(1.0) >= Some(trips.max_us), "{trips:?}"),
            }
            let in_histogram: u64 = outcome.latency.buckets().map(|(_, count)| count).sum();
            assert_eq!(in_histogram, 20);
        }
    });
}

/// A source of Runners in documents that are to be loaded again after four.
#[derive(Default)]
struct Documents {
    open: Option<TcpStream>,
    number: usize,
}

impl Documents {
    fn attend(this: &Mutex<Documents>, mut connection: TcpStream) -> std::io::Result<()> {
        connection.set_nodelay(true)?;
        let mut reader = BufReader::new(connection.try_clone()?);
        loop {
            let head = read_head(&mut reader)?;
            let mut this = this.lock().unwrap_or_else(PoisonError::into_inner);
            if head.starts_with("GET") {
                connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                let from = cursor(&head).unwrap_or(0);
                this.open = Some(connection);
                this.say(&envelope(from as u64, ""))?;
                return if from < this.number { this.runner() } else { Ok(()) };
            }
            let length = header(&head, "Content-Length").parse().unwrap_or(0);
            reader.read_exact(&mut vec![0; length])?;
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
            this.number += 1;
            this.runner()?;
        }
    }

    /// The next Runner, if there is a document to write it in; the fourth is its last.
    fn runner(&mut self) -> std::io::Result<()> {
        let number = self.number as u64;
        self.say(&envelope(number, &format!(r#"{{"id":{number},"name":"x"}}"#)))?;
        if number.is_multiple_of(4) {
            self.say(RELOAD)?;
            self.open = None;
        }
        Ok(())
    }

    fn say(&mut self, message: &str) -> std::io::Result<()> {
        let Some(document) = &mut self.open else { return Ok(()) };
        document.write_all(format!("<script>receive('{message}')</script>\n").as_bytes())
    }
}

#[test]
fn round_trips_continue_in_the_next_document() {
    undisturbed(|| {
        let documents = Arc::new(Mutex::new(Documents::default()));
        let address = listen(move |connection| Documents::attend(&documents, connection)).unwrap();
        let transport = Transport::ForeverFrame;
        let settings = Settings { transport, connections: 1, requests: 20, ..Settings::default() };
        let outcome = converse(address, &settings, Drive::RoundTrip, &Program::Thalweg).unwrap();
        assert_eq!(outcome.ledger.to_string(), "whole");
        assert_eq!(outcome.round_trips.unwrap().count, 20);
        assert_negotiated(&outcome);
    });
}

/// The ledger, or the reason why there is none.
fn check(drive: Drive, answer: Answer, expected: &str) {
    let found = found(measure(drive, &Program::Limit, answer));
    assert!(found.contains(expected), "{found:?} should say {expected:?}");
}

const PUSH_BYTES: usize = 100;

/// A push, as the limit makes them, ahead of each answer.
fn pushing(number: u64, message: &str) -> Vec<String> {
    let padding = "x".repeat(PUSH_BYTES - 10);
    vec![envelope(number, &format!(r#"{{"pad":"{padding}"}}"#)), message.to_owned()]
}

/// 20 requests, 5 ms apart, beside a firehose that is to push every 2.5 ms.
fn beside_a_firehose(answer: Answer) -> Outcome {
    let settings = Settings {
        connections: 1,
        requests: 20,
        request_us: 5000,
        interval_us: 2500,
        dummy_bytes: PUSH_BYTES as u32,
        ..Settings::default()
    };
    let outcome = serve(answer)
        .map_err(anyhow::Error::from)
        .and_then(|address| converse(address, &settings, Drive::Echo, &Program::Limit));
    outcome.expect("a conversation beside a firehose")
}

#[test]
fn a_firehose_that_pushes_half_as_often_says_so_and_is_whole() {
    undisturbed(|| {
        let outcome = beside_a_firehose(pushing);
        assert_eq!(outcome.ledger.to_string(), "whole");
        let pushed = outcome.pushed.unwrap();
        assert_eq!((pushed.came, outcome.traffic.events), (20, 20));
        assert!(pushed.wanted.abs_diff(outcome.span_us / 2500) <= 1, "{pushed:?}");
        assert!(pushed.share().unwrap() < 0.6, "{pushed:?}");
    });
}

#[test]
fn pushes_that_are_damaged_are_in_the_ledger() {
    undisturbed(|| {
        let check = |answer: Answer, expected: (&str, u64)| {
            let outcome = beside_a_firehose(answer);
            let came = outcome.pushed.unwrap().came;
            assert_eq!((&*outcome.ledger.to_string(), came), expected);
        };
        check(
            |number, message| {
                let mut sent = pushing(number, message);
                if number == 7 {
                    sent[0] = sent[0].replacen("xx", "x", 1);
                }
                sent
            },
            ("1 corrupt", 19),
        );
        check(
            |number, message| {
                let mut sent = pushing(number, message);
                if number == 7 {
                    sent[0] = sent[0].replacen("bench/0", "bench/9", 1);
                }
                sent
            },
            ("1 corrupt", 19),
        );
    });
}

#[test]
fn answers_that_are_missing_or_wrong_are_seen() {
    undisturbed(|| {
        let silent: Answer =
            |number, message| if number == 7 { vec![] } else { vec![message.to_owned()] };
        check(Drive::Echo, silent, "1 missing");
        check(Drive::RoundTrip, silent, "silent for 2 s");
        let late: Answer = |number, message| match number {
            7 => vec![],
            // The seventh after the eighth.
            8 => vec![message.to_owned(), request(7)],
            _ => vec![message.to_owned()],
        };
        check(Drive::Echo, late, "1 reordered");
        let twice: Answer =
            |number, message| vec![message.to_owned(); if number == 7 { 2 } else { 1 }];
        check(Drive::Echo, twice, "1 duplicated");
        let unasked: Answer = |number, message| {
            if number == 7 { vec!["?".to_owned()] } else { vec![message.to_owned()] }
        };
        check(Drive::Echo, unasked, "neither an answer nor an envelope");
        // The last with the first.
        let early: Answer = |number, message| match number {
            1 => vec![message.to_owned(), request(20)],
            20 => vec![],
            _ => vec![message.to_owned()],
        };
        check(Drive::Echo, early, "1 early");
        check(Drive::RoundTrip, twice, "1 duplicated");
        let damaged: Answer = |number, message| match number {
            7 => vec![message.replacen("\"id\":", "\"ix\":", 1), message.to_owned()],
            _ => vec![message.to_owned()],
        };
        check(Drive::RoundTrip, damaged, "1 corrupt");
        // The one after it has no number.
        let highest: Answer = |number, message| match number {
            7 => vec![format!(r#"{{"id":{},"name":"x"}}"#, u64::MAX), message.to_owned()],
            _ => vec![message.to_owned()],
        };
        check(Drive::RoundTrip, highest, "1 corrupt");
    });
}
