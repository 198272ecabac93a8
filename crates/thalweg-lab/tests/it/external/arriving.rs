//! Connections that arrive while others send.

use super::server::{script, serve};
use super::{run_with, typed};
use crate::swarm::Blind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_lab::scenario::Settings;
use thalweg_testing::undisturbed;

#[test]
fn connections_arrive_at_a_rate_and_send() {
    undisturbed(|| {
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&arrived);
        let address = serve(script(move |mut peer| {
            times.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            peer.echo()
        }));
        let settings = Settings {
            connections: 9,
            rate: 50,
            arrivals: "20/s".parse().unwrap(),
            ..Settings::default()
        };
        // The span is shorter than the arrivals, which last 0.4 s.
        let outcome = run_with(&typed(format!("ws://{address}/")), settings, 20, 100, &mut Blind);
        let outcome = outcome.unwrap();
        let received = outcome.received.unwrap();
        assert_eq!((received.connections, received.established), (9, 9), "{received:?}");
        let exchanged = received.exchanged.unwrap();
        assert!(exchanged.answered > 9 && exchanged.unanswered == 0, "{exchanged:?}");
        // Half of the connections send at any time, on average.
        let all = 9.0 * 50.0 * outcome.span_us as f64 / 1e6;
        assert!((exchanged.sent as f64) < 0.8 * all, "{exchanged:?} of {all}");
        let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(arrived[8] - arrived[0] >= Duration::from_millis(395), "{arrived:?}");
    });
}
