//! The time of the next fetch, from a response's headers (RFC 9111). Pure.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, StatusCode, header};

use crate::config::Pace;

/// The maximum number of seconds in a header. Larger numbers count as this one (RFC 9111 §1.2.2).
const DELTA_SECONDS_MAX: u64 = 1 << 31;

/// Returns the time after which a resource with these response headers is fetched again. With `max-age` this is when the response
/// stops being fresh (RFC 9111 §4.2). A resource that is regenerated every `max-age` also tells when it was generated: if
/// `Last-Modified` + `max-age` is in the future and earlier, that time counts. Both use the upstream's own clock (`Date`), or
/// else `now`, when the response came (RFC 9110 §6.6.1).
///
/// A response without any freshness (`max-age=0`, `Expires: -1`) asks caches to revalidate, and does not tell how often the
/// resource changes: frameworks send it by default. The configured pace counts then. It also counts for a response that an
/// overloaded cache has served stale, unless its own lifetime is shorter.
pub(super) fn next_fetch(headers: &HeaderMap, now: SystemTime, pace: Pace) -> Duration {
    let directives = CacheControl::from_headers(headers);
    let lifetime = match directives.max_age {
        Some(max_age) => Some(max_age),
        None => lifetime_by_expires(headers, now),
    };
    let wanted = match lifetime {
        _ if directives.is_uncacheable => pace.default,
        None | Some(Duration::ZERO) => pace.default,
        Some(lifetime) if lifetime <= age(headers) => pace.default.min(lifetime),
        Some(lifetime) => {
            let age = age(headers);
            let left = lifetime.saturating_sub(age);
            let since_made = since_modified(headers, now).map(|since| since + age);
            let until_made = since_made.and_then(|since| lifetime.checked_sub(since));
            until_made.filter(|until| !until.is_zero()).map_or(left, |until| until.min(left))
        }
    };
    wanted.clamp(pace.least, pace.most)
}

/// Returns how long a response asks clients to wait (RFC 9110 §10.2.3), if it does.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Some(seconds) = delta_seconds(text) {
        return Some(seconds);
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(sent(headers, now)).unwrap_or_default())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Document,
    Unchanged,
    /// No document, and asking again is useless for a while.
    Gone,
    Failed,
}

/// Returns the meaning of a status (RFC 9110 §15). `is_conditional`: the request named a version.
pub(super) fn outcome(status: StatusCode, is_conditional: bool) -> Outcome {
    match status.as_u16() {
        200 | 203 => Outcome::Document,
        304 if is_conditional => Outcome::Unchanged,
        400 | 404 | 410 | 501 => Outcome::Gone,
        _ => Outcome::Failed,
    }
}

/// The relevant directives of `Cache-Control` (RFC 9111 §5.2.2).
#[derive(Debug, Default, PartialEq, Eq)]
struct CacheControl {
    max_age: Option<Duration>,
    /// Whether caches must not store the response, or must revalidate it each time. Such a response has no lifetime.
    is_uncacheable: bool,
}

impl CacheControl {
    fn from_headers(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let mut shared: Option<Duration> = None;
        let lines = headers.get_all(header::CACHE_CONTROL).into_iter();
        for line in lines.filter_map(|line| line.to_str().ok()) {
            for directive in line.split(',') {
                let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
                // A lifetime that is no number is zero (RFC 9111 §4.2.1).
                let age = delta_seconds(value.trim().trim_matches('"')).unwrap_or_default();
                // The smaller of two values (RFC 9111 §4.2.1 leaves the choice).
                let smaller =
                    |other: Option<Duration>| Some(other.map_or(age, |smallest| smallest.min(age)));
                match name.trim().to_ascii_lowercase().as_str() {
                    "max-age" => found.max_age = smaller(found.max_age),
                    "s-maxage" => shared = smaller(shared),
                    "no-store" | "no-cache" => found.is_uncacheable = true,
                    _ => {}
                }
            }
        }
        // The server is a shared cache: it serves many clients (RFC 9111 §5.2.2.10).
        found.max_age = shared.or(found.max_age);
        found
    }
}

fn lifetime_by_expires(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let expires = headers.get(header::EXPIRES)?;
    let Some(expires) = expires.to_str().ok().and_then(|date| httpdate::parse_http_date(date).ok())
    else {
        // An invalid date, such as `0`, means expired (RFC 9111 §5.3).
        return Some(Duration::ZERO);
    };
    Some(expires.duration_since(sent(headers, now)).unwrap_or_default())
}

/// Returns the age of a response when it was sent (RFC 9111 §5.1).
fn age(headers: &HeaderMap) -> Duration {
    let age = headers.get(header::AGE).and_then(|age| delta_seconds(age.to_str().ok()?.trim()));
    age.unwrap_or_default()
}

/// Parses a number of seconds (RFC 9111 §1.2.2). A number of any size is valid: if large ones were
/// rejected, the server would fetch most often where it should wait longest.
fn delta_seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = is_number.then(|| text.parse::<u64>().unwrap_or(DELTA_SECONDS_MAX))?;
    Some(Duration::from_secs(seconds.min(DELTA_SECONDS_MAX)))
}

/// Returns the time from the resource's modification to the response.
fn since_modified(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let made = date(headers, header::LAST_MODIFIED)?;
    sent(headers, now).duration_since(made).ok()
}

/// Returns when the response was sent, by the upstream's clock if given, or else when it came.
fn sent(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    date(headers, header::DATE).unwrap_or(now)
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    const NOON: &str = "Sun, 22 Nov 2026 12:00:00 GMT";
    const BEFORE: &str = "Sun, 22 Nov 2026 11:59:57 GMT";
    const LONG_BEFORE: &str = "Sun, 22 Nov 2026 08:00:00 GMT";
    const AFTER: &str = "Sun, 22 Nov 2026 12:00:10 GMT";
    const BEYOND_U64: &str = "99999999999999999999999999";

    #[test]
    fn a_response_says_when_to_ask_again() {
        let check = |lines: &[(&'static str, &str)], expected_ms: u64| {
            let now = httpdate::parse_http_date(NOON).unwrap();
            let next = next_fetch(&headers(lines), now, Pace::default());
            assert_eq!(next, Duration::from_millis(expected_ms), "{lines:?}");
        };
        check(&[], 5_000);
        check(&[("cache-control", "max-age=2")], 2_000);
        check(&[("cache-control", "public, Max-Age=\"2\"")], 2_000);
        check(&[("cache-control", "max-age=60, s-maxage=3")], 3_000);
        check(&[("cache-control", "s-maxage=60, max-age=3")], 60_000);
        check(&[("cache-control", "max-age=60"), ("cache-control", "max-age=3")], 3_000);
        check(&[("cache-control", "max-age=60"), ("age", "50")], 10_000);
        check(&[("cache-control", "max-age=60"), ("age", "70")], 5_000);
        check(&[("cache-control", "max-age=60"), ("age", "60")], 5_000);
        check(&[("cache-control", "max-age=2"), ("age", "70")], 2_000);
        check(&[("cache-control", "max-age=60"), ("age", "-3")], 60_000);
        // No freshness at all, the default of Rails, Symfony and ASP.NET.
        check(&[("cache-control", "max-age=0, private, must-revalidate")], 5_000);
        check(&[("cache-control", "max-age=60, s-maxage=0")], 5_000);
        for none in ["max-age=soon", "max-age", "max-age=", "max-age=-1", "max-age=+9"] {
            check(&[("cache-control", none)], 5_000);
        }
        for large in ["99999999", "2147483648", "4294967296", "9223372036854775808", BEYOND_U64] {
            check(&[("cache-control", &format!("max-age={large}"))], 300_000);
            check(&[("cache-control", &format!("max-age=0, s-maxage={large}"))], 300_000);
            check(&[("cache-control", "max-age=60"), ("age", large)], 5_000);
            let old = [("date", NOON), ("last-modified", BEFORE), ("age", large)];
            let lifetime = format!("max-age={large}");
            check(&[&old[..], &[("cache-control", &lifetime)]].concat(), 5_000);
        }
        check(&[("cache-control", "no-cache, max-age=60")], 5_000);
        check(&[("cache-control", "no-store")], 5_000);
        // Modified three seconds ago, and every five.
        let dates = [("date", NOON), ("last-modified", BEFORE)];
        check(&[&dates[..], &[("cache-control", "max-age=5")]].concat(), 2_000);
        check(&[&dates[..], &[("cache-control", "max-age=10"), ("age", "3")]].concat(), 4_000);
        let old = [("date", NOON), ("last-modified", LONG_BEFORE), ("cache-control", "max-age=5")];
        check(&old, 5_000);
        let ahead = [("date", NOON), ("last-modified", AFTER), ("cache-control", "max-age=5")];
        check(&ahead, 5_000);
        for date in [&[("date", "yesterday")][..], &[]] {
            let made = [("last-modified", BEFORE), ("cache-control", "max-age=5")];
            check(&[date, &made].concat(), 2_000);
        }
        check(&[("expires", AFTER)], 10_000);
        check(&[("date", NOON), ("expires", AFTER)], 10_000);
        for past in ["0", "-1", "never", NOON, LONG_BEFORE] {
            check(&[("date", NOON), ("expires", past)], 5_000);
        }
        check(&[("date", NOON), ("expires", AFTER), ("cache-control", "max-age=1")], 1_000);
    }

    #[test]
    fn a_status_says_what_becomes_of_a_topic() {
        let check = |status: u16, is_conditional, expected| {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(outcome(status, is_conditional), expected, "{status}");
        };
        check(200, true, Outcome::Document);
        check(304, true, Outcome::Unchanged);
        check(304, false, Outcome::Failed);
        for status in [400, 404, 410, 501] {
            check(status, true, Outcome::Gone);
        }
        for status in [204, 206, 301, 401, 403, 429, 500, 502, 503] {
            check(status, false, Outcome::Failed);
        }
    }

    #[test]
    fn a_response_may_ask_for_a_pause() {
        let now = httpdate::parse_http_date(LONG_BEFORE).unwrap();
        let check = |lines: &[(&'static str, &str)], expected: Option<u64>| {
            let wait = retry_after(&headers(lines), now);
            assert_eq!(wait, expected.map(Duration::from_secs), "{lines:?}");
        };
        check(&[], None);
        check(&[("retry-after", "120")], Some(120));
        check(&[("retry-after", AFTER), ("date", NOON)], Some(10));
        check(&[("retry-after", LONG_BEFORE)], Some(0));
        check(&[("retry-after", "-1")], None);
        for large in ["2147483648", "4294967296", BEYOND_U64] {
            check(&[("retry-after", large)], Some(DELTA_SECONDS_MAX));
        }
    }
}
