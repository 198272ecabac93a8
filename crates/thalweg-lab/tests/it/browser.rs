//! A subject that broadcasts to a tab of Chromium: the findings of the page's ledger.

use crate::listen::{listen, read_head, text_frame, upgraded};
use crate::swarm::{Blind, load};
use std::fs::OpenOptions;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use thalweg_lab::browser::{Chromium, find};
use thalweg_lab::load_generator::{Load, Outcome, monotonic_us, run};
use thalweg_lab::scenario::{Consumer, Drive, Program, Settings};
use thalweg_lab::subject::Cores;

const BATCH: u64 = 10;
const INTERVAL: Duration = Duration::from_millis(5);
const MEASURED: Duration = Duration::from_millis(400);
/// The batch that is changed: it cannot pass for the first.
const CHEATED: u64 = 30;

type Cheat = fn(u64, Vec<String>) -> Vec<Vec<String>>;

fn serve(cheat: Cheat) -> std::io::Result<SocketAddr> {
    listen(move |connection| attend(connection, cheat))
}

fn attend(mut socket: TcpStream, cheat: Cheat) -> std::io::Result<()> {
    let head = read_head(&mut BufReader::new(socket.try_clone()?))?;
    if !head.contains("Upgrade: websocket") {
        return socket.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\
              Connection: close\r\n\r\nok\n",
        );
    }
    socket.write_all(upgraded(&head, "").as_bytes())?;
    let mut begun = 0;
    for number in 0.. {
        let due_us = monotonic_us();
        let row = |seq| format!(r#"[{seq},{due_us},1,116.92,40.67,"rest"]"#);
        let rows = (begun + 1..=begun + BATCH).map(row).collect();
        begun += BATCH;
        for rows in cheat(number, rows) {
            let (first, rows) = (begun + 1 - BATCH, rows.join(","));
            let envelope = format!(
                r#"{{"topic":"bench/0","position":"1.{begun}","first":{first},"events":[{rows}]}}"#
            );
            socket.write_all(&text_frame(&envelope))?;
        }
        thalweg_testing::let_pass(INTERVAL);
    }
    Ok(())
}

/// `None` where there is no Chromium, which is noted where `make test` counts such tests.
fn measure(cheat: Cheat, consumer: Consumer, measured: Duration) -> Option<Outcome> {
    let program = match find() {
        Ok(program) => program,
        Err(why) => {
            thalweg_testing::skipped(&why.to_string());
            return None;
        }
    };
    let log = OpenOptions::new().write(true).open("/dev/null").expect("nowhere");
    let chromium = Chromium::new(program, Cores::allowed().expect("cores"), log);
    let settings = Settings {
        connections: 2,
        batch: BATCH as u32,
        interval_us: INTERVAL.as_micros() as u64,
        consumer,
        ..Settings::default()
    };
    let address = serve(cheat).expect("a server");
    let load = Load {
        measured,
        ..load(address, &Program::Limit, &settings, Drive::GeneratedLoad, [100, 0])
    };
    Some(run(&chromium, &load, &mut Blind).expect("a sample"))
}

/// A busy machine may not reach the changed batch within a short span.
fn check(cheat: Cheat, consumer: Consumer, expected: &str) {
    for (measured, is_last) in [(MEASURED, false), (4 * MEASURED, false), (16 * MEASURED, true)] {
        let Some(outcome) = measure(cheat, consumer, measured) else { return };
        let seen = outcome.ledger.to_string();
        if seen == expected {
            return;
        }
        assert!(!is_last && seen == "whole", "{seen}, not {expected}: {:?}", outcome.failure);
    }
}

#[test]
fn an_honest_subject_has_a_whole_ledger_and_the_browser_is_seen() {
    for consumer in [Consumer::Rows, Consumer::Raw] {
        let Some(outcome) = measure(|_, rows| vec![rows], consumer, MEASURED) else { return };
        assert_eq!(outcome.ledger.to_string(), "whole");
        assert!(outcome.traffic.events > 0 && outcome.ledger.delivered >= outcome.traffic.events);
        // At the span's edges a batch counts in proportion.
        let per_envelope = outcome.traffic.events as f64 / outcome.traffic.envelopes as f64;
        assert_eq!(per_envelope.round(), BATCH as f64);
        let used = outcome.browser.expect("what the browser used");
        assert!(used.cpu_ns() > 0 && used.heap_bytes > 0, "{used:?}");
        let late_us = outcome.latency.quantile_us(0.5).expect("latencies");
        // The clocks of page and machine are compared; here both are this machine's.
        assert!(late_us < 1_000_000, "{late_us}");
    }
}

#[test]
fn a_subject_that_cheats_is_caught_in_the_tab() {
    check(
        |number, rows| if number == CHEATED { vec![] } else { vec![rows] },
        Consumer::Rows,
        "20 missing",
    );
    check(
        |number, rows| if number == CHEATED { vec![rows.clone(), rows] } else { vec![rows] },
        Consumer::Raw,
        "20 duplicated",
    );
    check(
        |number, mut rows| {
            if number == CHEATED {
                rows.pop();
            }
            vec![rows]
        },
        Consumer::Rows,
        "20 missing, 2 corrupt",
    );
}
