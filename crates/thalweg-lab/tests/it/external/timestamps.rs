//! Latency, from timestamps in every unit.

use super::server::{Peer, Script, script, serve};
use super::{forever, received, typed, visit};
use humantime::format_rfc3339_millis;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_lab::measure::{TimestampUnit, Timestamps};
use thalweg_lab::scenario::Typed;
use thalweg_testing::undisturbed;

/// Events are as old as this when they are sent.
const AGE: Duration = Duration::from_millis(1500);
const AGE_US: u64 = 1_500_000;
/// Less than an error by a unit.
const LATE_US: u64 = 60_000_000;

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970")
}

/// Sends the result of `event` for the time.
fn stamped(event: impl Fn(Duration) -> String + Copy + Send + Sync + 'static) -> Script {
    script(move |mut peer: Peer| {
        peer.upgrade("")?;
        forever(|| peer.frame(0x81, event(since_1970()).as_bytes()))
    })
}

fn stamps(script: Script, path: &str) -> Timestamps {
    let timestamp = Some(path.to_owned());
    let found = received(&Typed { timestamp, ..typed(format!("ws://{}/", serve(script))) }, 2);
    let stamps = found.timestamps.expect("a path was given");
    assert_eq!(stamps.read + stamps.ahead + stamps.missing, found.events);
    assert!(found.events > 10);
    stamps
}

#[test]
fn a_known_age_is_measured_in_every_unit() {
    undisturbed(|| {
        let check = |script, path: &str, unit| {
            let stamps = stamps(script, path);
            assert_eq!((stamps.unit, stamps.ahead, stamps.missing), (Some(unit), 0, 0), "{path}");
            let latency = stamps.latency.unwrap();
            assert!(AGE_US <= latency.p50_us && latency.max_us < LATE_US, "{unit:?}: {latency:?}");
        };
        check(
            stamped(|now| format!(r#"{{"t":{}}}"#, (now - AGE).as_secs())),
            "t",
            TimestampUnit::Seconds,
        );
        check(
            stamped(|now| format!(r#"{{"t":{:.6}}}"#, (now - AGE).as_secs_f64())),
            "$.t",
            TimestampUnit::Seconds,
        );
        check(
            stamped(|now| format!(r#"{{"a":[0,{{"t":{}}}]}}"#, (now - AGE).as_millis())),
            "a[1].t",
            TimestampUnit::Milliseconds,
        );
        check(
            stamped(|now| format!(r#"[{{"x":"}}","t" : {} }}]"#, (now - AGE).as_micros())),
            "/0/t",
            TimestampUnit::Microseconds,
        );
        check(
            stamped(|now| format!(r#"{{"t":"{}"}}"#, (now - AGE).as_nanos())),
            "t",
            TimestampUnit::Nanoseconds,
        );
        check(
            stamped(|now| {
                format!(r#"{{"t":"{}"}}"#, format_rfc3339_millis(UNIX_EPOCH + now - AGE))
            }),
            "t",
            TimestampUnit::Rfc3339,
        );
        check(stamped(|now| (now - AGE).as_millis().to_string()), "$", TimestampUnit::Milliseconds);
    });
}

#[test]
fn a_clock_that_runs_ahead_is_reported() {
    undisturbed(|| {
        let hour = Duration::from_secs(3600);
        let ahead = move |now: Duration| format!(r#"{{"t":{}}}"#, (now + hour).as_millis());
        let stamps = stamps(stamped(ahead), "t");
        assert_eq!((stamps.read, stamps.missing, stamps.latency), (0, 0, None));
        // The real lateness, and an hour ahead.
        assert!(stamps.ahead_us_max <= 3_600_000_000, "{stamps:?}");
        assert!(stamps.ahead_us_max > 3_600_000_000 - LATE_US, "{stamps:?}");
    });
}

#[test]
fn events_without_a_timestamp_are_counted() {
    undisturbed(|| {
        let some = |now: Duration| match now.as_millis() % 2 {
            0 => format!(r#"{{"t":{}}}"#, (now - AGE).as_millis()),
            _ => r#"{"t":17}"#.to_owned(),
        };
        let found = stamps(stamped(some), "t");
        assert!(found.read > 0 && found.missing > 0 && found.ahead == 0, "{found:?}");
        let url = format!("ws://{}/", serve(stamped(|_| "not JSON".to_owned())));
        let timestamp = Some("t".to_owned());
        let refused = visit(&Typed { timestamp, ..typed(url) }, 2).expect_err("no time at all");
        assert!(refused.to_string().contains("no message has a time at t"), "{refused:#}");
    });
}
