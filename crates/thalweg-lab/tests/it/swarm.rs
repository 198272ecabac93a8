//! The swarm's ledger, over real sockets.

use crate::fake::serve;
use crate::listen::listen;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use thalweg_lab::load_generator::{
    Cluster, Figures, Interrupted, Load, Moment, Observer, Outcome, run,
};
use thalweg_lab::scenario::{Drive, Program, Settings, Transport};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;

pub(crate) struct Blind;

impl Observer for Blind {}

pub(crate) const ALL: [Transport; 5] = [
    Transport::Websocket,
    Transport::Sse,
    Transport::HttpStreaming,
    Transport::ForeverFrame,
    Transport::LongPolling,
];

fn measure(
    transport: Transport,
    fault: impl FnMut(u64, &str) -> Vec<String> + Send + 'static,
) -> anyhow::Result<Outcome> {
    measure_at(serve(fault)?, &Program::Thalweg, 3, transport)
}

/// Posts to five connections, with so many events outstanding.
pub(crate) fn measure_at(
    address: SocketAddr,
    program: &Program,
    window: u32,
    transport: Transport,
) -> anyhow::Result<Outcome> {
    measure_with(&mut Blind, address, program, window, transport)
}

fn measure_with(
    observer: &mut dyn Observer,
    address: SocketAddr,
    program: &Program,
    window: u32,
    transport: Transport,
) -> anyhow::Result<Outcome> {
    let settings =
        Settings { transport, connections: 5, window, event_bytes: 200, ..Settings::default() };
    let cluster = Cluster { nats: Some(address), ..Cluster::default() };
    let load = load(address, program, &settings, Drive::PublishedLoad, [50, 150]);
    run(&Swarm, &Load { cluster, ..load }, observer)
}

/// Returns a load with a warm-up and a span.
pub(crate) fn load<'a>(
    address: SocketAddr,
    program: &'a Program,
    settings: &'a Settings,
    drive: Drive,
    [warm_up_ms, measured_ms]: [u64; 2],
) -> Load<'a> {
    let [warm_up, measured] = [warm_up_ms, measured_ms].map(Duration::from_millis);
    let (start_us, cluster) = (0, Cluster::default());
    Load { address, program, settings, drive, start_us, warm_up, measured, cluster }
}

/// Returns the ledger, or the reason why there is none.
pub(crate) fn found(outcome: anyhow::Result<Outcome>) -> String {
    outcome.map_or_else(|error| format!("{error:#}"), |outcome| outcome.ledger.to_string())
}

/// A proxy to this server that resets its first connections.
fn resetting(server: SocketAddr, resets: usize) -> SocketAddr {
    let accepted = AtomicUsize::new(0);
    listen(move |client| {
        if accepted.fetch_add(1, Ordering::Relaxed) < resets {
            // Closing with unread bytes resets the connection (RFC 9293 §3.6.1).
            client.peek(&mut [0])?;
            return Ok(());
        }
        let server = TcpStream::connect(server)?;
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || io::copy(&mut from, &mut to));
        io::copy(&mut &server, &mut &client).map(drop)
    })
    .expect("a listener")
}

#[test]
fn a_connection_that_fails_is_dialed_a_second_time_and_counted() {
    undisturbed(|| {
        for transport in [Transport::Websocket, Transport::Sse] {
            let server = serve(|_, event| vec![event.to_owned()]).unwrap();
            let measure = |resets| {
                let address = resetting(server, resets);
                measure_at(address, &Program::Thalweg, 3, transport)
            };
            let outcome = measure(1).unwrap();
            assert_eq!((&*outcome.ledger.to_string(), outcome.redialed), ("whole", 1));
            let refused = measure(1000).unwrap_err().to_string();
            assert!(refused.contains("was refused"), "{refused}");
        }
    });
}

/// Other programs may use the swarm's core.
struct Sharing;

impl Observer for Sharing {
    fn shares_core(&self) -> bool {
        true
    }
}

#[test]
fn a_swarm_polls_on_no_core_that_others_use() {
    let polls_ns = |observer: &mut dyn Observer| {
        let address = serve(|_, event| vec![event.to_owned()]).unwrap();
        let found =
            measure_with(observer, address, &Program::Thalweg, 1, Transport::Websocket).unwrap();
        assert!(found.traffic.events > 0 && found.swarm_cpu_ns > 0);
        found.swarm_cpu_all_ns.saturating_sub(found.swarm_cpu_ns)
    };
    let (alone, shared) = (polls_ns(&mut Blind), polls_ns(&mut Sharing));
    assert!(shared < alone / 2, "{shared} ns of polls on a shared core, {alone} ns on its own");
}

#[test]
fn a_sound_subject_has_a_whole_ledger_over_every_transport() {
    undisturbed(|| {
        for transport in ALL {
            let outcome = measure(transport, |_, event| vec![event.to_owned()]).unwrap();
            assert_eq!(outcome.ledger.to_string(), "whole", "{transport}");
            assert!(outcome.traffic.events > 100, "{:?}", outcome.traffic);
            assert!(outcome.traffic.wire_bytes > 200 * outcome.traffic.events);
            assert_eq!(
                outcome.latency.buckets().map(|(_, count)| count).sum::<u64>(),
                outcome.traffic.events
            );
            // As many were outstanding as the window says, within a verdict's tolerance.
            let littles_ratio = outcome.littles_ratio.unwrap();
            let slack_us = outcome.swarm_away_us + outcome.latency.quantile_us(1.0).unwrap();
            let apart_max = 0.1 + slack_us as f64 / outcome.span_us as f64;
            assert!((littles_ratio - 1.0).abs() < apart_max, "{transport}: {littles_ratio}");
            assert!(outcome.warm_up.took_us >= 50_000);
            assert_negotiated(&outcome);
            assert!(outcome.span_us >= 150_000 && outcome.swarm_cpu_ns > 0);
        }
    });
}

pub(crate) fn assert_negotiated(outcome: &Outcome) {
    let facts = &outcome.negotiated.facts;
    let fact = |name| facts.iter().find(|(of, _)| of == name).map(|(_, value)| &**value);
    assert_eq!(fact("HTTP"), Some("HTTP/1.1"), "{facts:?}");
    assert_eq!((fact("TLS"), fact("swarm TCP_NODELAY")), (Some("none"), Some("true")));
    assert!(fact("swarm SO_SNDBUF").is_some() && fact("status").is_some(), "{facts:?}");
}

#[test]
fn a_search_for_the_ceiling_reports_negotiated_values() {
    undisturbed(|| {
        let settings =
            Settings { connections: 2, rate: 1000, p99_us_max: 20_000, ..Settings::default() };
        let address = serve(|_, event| vec![event.to_owned()]).unwrap();
        let load = load(address, &Program::Thalweg, &settings, Drive::Ceiling, [20, 50]);
        assert_negotiated(&run(&Swarm, &load, &mut Blind).unwrap());
    });
}

/// The ledger of every transport, or the reason why there is none.
fn check(fault: impl FnMut(u64, &str) -> Vec<String> + Clone + Send + 'static, expected: &str) {
    for transport in ALL {
        let found = found(measure(transport, fault.clone()));
        assert!(found.contains(expected), "{transport}: {found:?} should say {expected:?}");
    }
}

#[test]
fn an_announced_gap_is_a_hole() {
    undisturbed(|| {
        check(
            |number, event| match number {
                9 => vec![
                    r#"{"topic":"bench/0","position":"1.9","gap":{"missed":1,"reason":"slow"}}"#
                        .into(),
                ],
                _ => vec![event.into()],
            },
            "1 gap announced",
        );
    });
}

/// With one event outstanding no next one would be published if the window waited for one that was announced as dropped.
#[test]
fn a_gap_of_any_size_does_not_stop_the_window() {
    undisturbed(|| {
        for missed in ["1", "null", "18446744073709551615"] {
            let gap = format!(
                r#"{{"topic":"bench/0","position":"1.9","gap":{{"missed":{missed},"reason":"slow"}}}}"#
            );
            let fault = move |number, event: &str| match number {
                9 => vec![gap.clone()],
                _ => vec![event.to_owned()],
            };
            let address = serve(fault).unwrap();
            let outcome = measure_at(address, &Program::Thalweg, 1, Transport::Sse).unwrap();
            assert_eq!(outcome.ledger.to_string(), "1 gap announced", "{missed}");
            assert!(outcome.traffic.events > 20, "{missed}: {:?}", outcome.traffic);
        }
    });
}

#[test]
fn malformed_envelopes_are_quoted() {
    undisturbed(|| {
        check(|_, _| vec![r#"{"topic":7}"#.into()], r#"not an envelope of the wire: {"topic":"#);
    });
}

#[test]
fn a_connection_that_ends_is_seen() {
    undisturbed(|| {
        check(
            |number, event| if number == 9 { vec!["END".into()] } else { vec![event.into()] },
            "1 connection cut",
        );
    });
}

#[test]
fn an_observer_can_end_it() {
    undisturbed(|| {
        struct Impatient;
        impl Observer for Impatient {
            fn progress(&mut self, _: Figures<'_>) -> ControlFlow<()> {
                ControlFlow::Break(())
            }
        }
        let settings = Settings { connections: 1, ..Settings::default() };
        let address = serve(|_, event| vec![event.into()]).unwrap();
        let load = load(address, &Program::Thalweg, &settings, Drive::PublishedLoad, [0, 60_000]);
        assert!(run(&Swarm, &load, &mut Impatient).unwrap_err().is::<Interrupted>());
    });
}

/// Looks for this long whenever there is time for it.
struct Thorough(Duration);

impl Observer for Thorough {
    fn at(&mut self, moment: Moment<'_>) {
        if matches!(moment, Moment::Open | Moment::Warm | Moment::Over { .. }) {
            thalweg_testing::let_pass(self.0);
        }
    }
}

#[test]
fn long_looks_are_in_no_latency() {
    undisturbed(|| {
        let look = Duration::from_millis(400);
        // Events are always under way.
        let settings =
            Settings { connections: 2, rate: 2000, event_bytes: 128, ..Settings::default() };
        let address = serve(|_, event| vec![event.to_owned()]).unwrap();
        let load = load(address, &Program::Thalweg, &settings, Drive::PublishedLoad, [50, 200]);
        let outcome = run(&Swarm, &load, &mut Thorough(look)).unwrap();
        assert_eq!(outcome.ledger.to_string(), "whole");
        let max_us = outcome.latency.quantile_us(1.0).unwrap();
        assert!(u128::from(max_us) < look.as_micros(), "{max_us}");
        assert!(u128::from(outcome.swarm_away_us) < look.as_micros(), "{}", outcome.swarm_away_us);
        // Every event that was due in the span has its latency, and no other.
        let recorded: u64 = outcome.latency.buckets().map(|(_, count)| count).sum();
        let due = 2 * outcome.pacing.unwrap().scheduled;
        assert!(recorded.abs_diff(due) <= 2, "{recorded} of {due}");
    });
}
