//! A subject that broadcasts on a schedule of its own, and does not keep it.

use crate::listen::{listen, read_head, text_frame, upgraded};
use crate::swarm::{Blind, load};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use thalweg_lab::load_generator::{Load, Outcome, monotonic_us, run};
use thalweg_lab::scenario::{Drive, Program, Settings};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;

const BATCH: u64 = 2;
const INTERVAL_US: u64 = 5000;
const CONNECTIONS: u64 = 3;

struct Tick {
    /// The time from when the event was due to when it is sent…
    late_us: u64,
    /// …and from when it was due to when it claims to have been due.
    stamped_late_us: u64,
}

const IN_TIME: Tick = Tick { late_us: 0, stamped_late_us: 0 };

/// Not while a test lasts.
const NEVER: Tick = Tick { late_us: 3_600_000_000, stamped_late_us: 0 };

/// Serves until the process ends; `tick` returns the fate of each.
fn serve(start_us: u64, tick: fn(u64) -> Option<Tick>) -> std::io::Result<SocketAddr> {
    listen(move |connection| broadcast(connection, start_us, tick))
}

fn broadcast(
    mut socket: TcpStream,
    start_us: u64,
    tick: fn(u64) -> Option<Tick>,
) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let head = read_head(&mut BufReader::new(socket.try_clone()?))?;
    socket.write_all(upgraded(&head, "").as_bytes())?;
    let mut say = |seq: u64, rows: &[String]| {
        let (first, rows) = (seq + 1 - rows.len() as u64, rows.join(","));
        socket.write_all(&text_frame(&format!(
            r#"{{"topic":"bench/0","position":"1.{seq}","first":{first},"events":[{rows}]}}"#
        )))
    };
    say(0, &[])?;
    let mut seq = 0;
    for number in 0.. {
        let Some(Tick { late_us, stamped_late_us }) = tick(number) else { continue };
        let due_us = start_us + number * INTERVAL_US;
        let wait_us = (due_us + late_us).saturating_sub(monotonic_us());
        thalweg_testing::let_pass(Duration::from_micros(wait_us));
        let stamp_us = due_us + stamped_late_us;
        let rows: Vec<String> =
            (1..=BATCH).map(|row| format!(r#"[{},{stamp_us},"rest"]"#, seq + row)).collect();
        seq += BATCH;
        say(seq, &rows)?;
    }
    Ok(())
}

fn measure(tick: fn(u64) -> Option<Tick>) -> anyhow::Result<Outcome> {
    measure_as(Drive::GeneratedLoad, tick)
}

fn measure_as(drive: Drive, tick: fn(u64) -> Option<Tick>) -> anyhow::Result<Outcome> {
    let settings = Settings {
        connections: CONNECTIONS as u32,
        batch: BATCH as u32,
        interval_us: INTERVAL_US,
        arrivals: "1000/s".parse().expect("a rate"),
        stay_ms: 100,
        ..Settings::default()
    };
    let start_us = monotonic_us() + 300_000;
    let address = serve(start_us, tick)?;
    let load = load(address, &Program::Thalweg, &settings, drive, [60, 200]);
    run(&Swarm, &Load { start_us, ..load }, &mut Blind)
}

/// Every row that was due in the span has a latency.
fn assert_recorded(outcome: &Outcome) {
    assert_eq!(outcome.failure, None);
    let recorded: u64 = outcome.latency.buckets().map(|(_, count)| count).sum();
    let due = outcome.span_us / INTERVAL_US * BATCH * CONNECTIONS;
    assert!(recorded.abs_diff(due) <= BATCH * CONNECTIONS, "{recorded} of {due}");
}

fn assert_whole(outcome: &Outcome) {
    assert_eq!(outcome.ledger.to_string(), "whole");
    assert_recorded(outcome);
}

#[test]
fn a_generator_on_schedule_is_whole() {
    undisturbed(|| {
        assert_whole(&measure(|_| Some(IN_TIME)).unwrap());
    });
}

#[test]
fn a_late_generator_that_says_so_is_only_late() {
    undisturbed(|| {
        // Events that come in the span were due before it, and those due in it come later.
        let late = |_| Some(Tick { late_us: 450_000, stamped_late_us: 0 });
        let outcome = measure(late).unwrap();
        assert_whole(&outcome);
        assert!(outcome.latency.quantile_us(0.0).unwrap() >= 449_000);
    });
}

#[test]
fn a_generator_that_falls_behind_is_late_by_its_lag() {
    undisturbed(|| {
        // A second's worth of ticks takes twenty.
        let slow = |number| Some(Tick { late_us: 19 * number * INTERVAL_US, stamped_late_us: 0 });
        let outcome = measure(slow).unwrap();
        assert_recorded(&outcome);
    });
}

fn check_broken(tick: fn(u64) -> Option<Tick>) {
    let why = measure(tick).expect("an outcome").failure.unwrap_or_default();
    assert!(why.contains("did not keep its schedule"), "{why:?}");
}

#[test]
fn late_generators_with_late_stamps_are_caught() {
    undisturbed(|| {
        check_broken(|_| Some(Tick { late_us: 30_000, stamped_late_us: 30_000 }));
        // Only for a moment.
        check_broken(|number| match number {
            40..50 => Some(Tick { late_us: 20_000, stamped_late_us: 20_000 }),
            _ => Some(IN_TIME),
        });
    });
}

#[test]
fn generators_that_skip_ticks_are_caught() {
    undisturbed(|| {
        check_broken(|number| (number % 2 == 0).then_some(IN_TIME));
    });
}

#[test]
fn a_stopped_generator_owes_its_due_events() {
    undisturbed(|| {
        // In the middle of the span.
        let stopped = measure(|number| {
            let is_over = number >= 35;
            Some(Tick { late_us: if is_over { 3_600_000_000 } else { 0 }, ..IN_TIME })
        });
        let missing = stopped.unwrap().ledger.missing;
        assert!(missing > 0 && missing.is_multiple_of(BATCH), "{missing}");
    });
}

#[test]
fn generators_that_restart_for_a_resuming_client_are_caught() {
    undisturbed(|| {
        // This server has no history: a client that comes again gets everything again.
        let outcome = measure_as(Drive::Stampede, |_| Some(IN_TIME)).unwrap();
        assert_eq!(outcome.traffic.events, CONNECTIONS);
        let ledger = outcome.ledger;
        assert!(ledger.duplicated > 0 && ledger.missing == 0, "{ledger}");
    });
}

#[test]
fn generators_silent_to_new_connections_are_caught() {
    undisturbed(|| {
        for drive in [Drive::Ramp, Drive::Churn, Drive::Stampede] {
            let error = measure_as(drive, |_| Some(NEVER)).unwrap_err().to_string();
            assert!(error.contains("silent"), "{drive:?}: {error}");
        }
    });
}

#[test]
fn generators_that_stop_for_new_connections_are_caught() {
    undisturbed(|| {
        for drive in [Drive::Ramp, Drive::Churn, Drive::Stampede] {
            // The subject sends while the others come, and then no more.
            let outcome =
                measure_as(drive, |number| Some(if number < 5 { IN_TIME } else { NEVER })).unwrap();
            assert!(outcome.ledger.missing > 0, "{drive:?}: {}", outcome.ledger);
        }
    });
}
