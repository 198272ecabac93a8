//! Delays before reconnecting (`docs/reference/errors.md`, "Reconnecting"): exponential backoff with jitter, which
//! spreads the reconnections of clients that lost their connections together.

use std::time::{Duration, SystemTime};

use hyper::header::{HeaderMap, RETRY_AFTER};

use crate::limits::{
    BACKOFF_FIRST, BACKOFF_MAX, BACKOFF_SOON, RETRY_AFTER_JITTER, RETRY_AFTER_MAX, SHORT_LIFE,
};

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Successive connections that lived for less than [`SHORT_LIFE`].
    failures: u32,
}

impl Backoff {
    /// Returns the delay before the next attempt, after a connection that worked for `lived` (zero if it was not
    /// established). `random` in 0..1 adds jitter. The delay is not shorter than `retry_after`.
    pub(crate) fn next(
        &mut self,
        lived: Duration,
        retry_after: Option<Duration>,
        random: f64,
    ) -> Duration {
        let random = random.clamp(0.0, 1.0);
        let bound = if lived >= SHORT_LIFE {
            self.failures = 0;
            BACKOFF_SOON
        } else {
            let doubled = BACKOFF_FIRST.saturating_mul(1 << self.failures.min(16));
            self.failures = self.failures.saturating_add(1);
            doubled.min(BACKOFF_MAX)
        };
        let delay = bound.mul_f64((1.0 + random) / 2.0);
        match retry_after {
            Some(wait) if !wait.is_zero() => delay.max(wait + RETRY_AFTER_JITTER.mul_f64(random)),
            _ => delay,
        }
    }
}

/// Returns the wait that the headers of a response ask for (RFC 9110 §10.2.3), if any.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let wait = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number with too many digits means the longest wait.
        value.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs)
    } else {
        httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        now_ms: u64,
        sequences: Vec<Sequence>,
    }

    #[derive(Deserialize)]
    struct Sequence {
        what: String,
        rounds: Vec<Round>,
    }

    #[derive(Deserialize)]
    struct Round {
        lived_ms: u64,
        retry_after: Option<String>,
        delay_ms: [u128; 2],
    }

    #[test]
    fn delays_are_those_of_the_golden_vectors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/reconnecting.json");
        let vectors: Vectors = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(vectors.now_ms);
        assert!(!vectors.sequences.is_empty());
        for Sequence { what, rounds } in &vectors.sequences {
            for (random, side) in [(0.0, 0), (1.0, 1)] {
                let mut backoff = Backoff::default();
                for (number, round) in rounds.iter().enumerate() {
                    let mut headers = HeaderMap::new();
                    if let Some(value) = &round.retry_after {
                        headers.insert(RETRY_AFTER, value.parse().unwrap());
                    }
                    let lived = Duration::from_millis(round.lived_ms);
                    let delay = backoff.next(lived, retry_after(&headers, now), random);
                    assert_eq!(delay.as_millis(), round.delay_ms[side], "{what}, round {number}");
                }
            }
        }
    }

    #[test]
    fn the_largest_delay_stays() {
        let mut backoff = Backoff::default();
        let delays = (0..100).map(|_| backoff.next(Duration::ZERO, None, 1.0));
        assert!(delays.skip(4).all(|delay| delay == BACKOFF_MAX));
    }
}
