//! Connections that read slowly.

use super::server::{script, serve};
use super::{received_in, run_with, typed};
use crate::swarm::Blind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_lab::measure::SlowReaders;
use thalweg_lab::scenario::Settings;
use thalweg_testing::undisturbed;

#[test]
fn slow_readers_are_in_no_figure_and_hold_up_the_server() {
    undisturbed(|| {
        let sent: Arc<[AtomicU64; 3]> = Arc::default();
        let counts = Arc::clone(&sent);
        let address = serve(script(move |mut peer| {
            peer.upgrade("")?;
            let message = [b'x'; 60_000];
            loop {
                peer.frame(0x82, &message)?;
                counts[peer.number].fetch_add(1, Ordering::Relaxed);
            }
        }));
        let settings = Settings { connections: 3, slow: 1, ..Settings::default() };
        let outcome = run_with(&typed(format!("ws://{address}/")), settings, 20, 600, &mut Blind);
        let received = received_in(outcome);
        assert_eq!(received.established, 3);
        assert_eq!(received.slow, Some(SlowReaders { connections: 1, ended: 0 }));
        assert_eq!(received.silent, 0);
        assert!(received.events_per_connection_min > 0, "{received:?}");
        let mut sent = [0, 1, 2].map(|number| sent[number].load(Ordering::Relaxed));
        sent.sort_unstable();
        assert!(sent[0] * 2 < sent[1], "{sent:?}");
    });
}

#[test]
fn a_slow_reader_that_the_server_ends_is_counted() {
    undisturbed(|| {
        let address = serve(script(|mut peer| {
            peer.upgrade("")?;
            for _ in 0..30 {
                peer.frame(0x81, b"1")?;
                thalweg_testing::let_pass(super::PACE * 10);
            }
            peer.frame(0x88, b"\x0f\xa0too slow")?;
            peer.read_frame().map(drop)
        }));
        let settings = Settings { connections: 2, slow: 1, ..Settings::default() };
        let outcome = run_with(&typed(format!("ws://{address}/")), settings, 20, 900, &mut Blind);
        let received = received_in(outcome);
        assert_eq!(received.slow, Some(SlowReaders { connections: 1, ended: 1 }));
        assert_eq!(received.ended_early.count, 1, "{received:?}");
    });
}
