//! Preferences of a client: lists of names with weights (RFC 9110 §12.4.2, §12.5.1, §12.5.3).

use http::{HeaderMap, HeaderName, header};

/// A weight, in thousandths: 0 is "not acceptable".
type Weight = u16;

/// The weight without `q`, or with a `q` that is no number.
const WEIGHT_MAX: Weight = 1000;

/// Returns whether a client names `value` with a weight above 0, for example `text/event-stream` in Accept. A wildcard does not count.
pub(crate) fn takes(headers: &HeaderMap, header: &HeaderName, value: &str) -> bool {
    named(headers, header, value) > 0
}

/// Returns whether a client prefers `value`, which it names, to `other`, which a wildcard may mean. Equal weights prefer `value`.
pub(crate) fn prefers(headers: &HeaderMap, header: &HeaderName, value: &str, other: &str) -> bool {
    let weight = named(headers, header, value);
    weight > 0 && weight >= allowed(headers, header, other)
}

/// Returns whether a client prefers a body that is compressed with gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let weight = named(headers, &header::ACCEPT_ENCODING, "gzip");
    // An uncompressed body is acceptable, but the last choice for a client that does not name it.
    weight > 0 && weight >= named(headers, &header::ACCEPT_ENCODING, "identity")
}

/// Returns the value that a client names with the highest weight above 0, or the first of several with this weight.
pub(crate) fn preferred<'a>(
    headers: &HeaderMap,
    header: &HeaderName,
    values: impl DoubleEndedIterator<Item = &'a str>,
) -> Option<&'a str> {
    let weighed = values.map(|value| (named(headers, header, value), value));
    let best = weighed.filter(|(weight, _)| *weight > 0).rev().max_by_key(|(weight, _)| *weight);
    best.map(|(_, value)| value)
}

/// Returns the weight of `value` by its name; 0 if it is not named.
fn named(headers: &HeaderMap, header: &HeaderName, value: &str) -> Weight {
    highest(headers, header, |item| item.eq_ignore_ascii_case(value)).unwrap_or(0)
}

/// Returns the weight of `value` by the most specific matching item: its name, `text/*`, `*/*` or `*`.
pub(crate) fn allowed(headers: &HeaderMap, header: &HeaderName, value: &str) -> Weight {
    let of_name = || highest(headers, header, |item| item.eq_ignore_ascii_case(value));
    let of_type = || {
        let (kind, _) = value.split_once('/')?;
        highest(headers, header, |item| {
            item.strip_suffix("/*").is_some_and(|item| item.eq_ignore_ascii_case(kind))
        })
    };
    let of_all = || highest(headers, header, |item| item == "*/*" || item == "*");
    of_name().or_else(of_type).or_else(of_all).unwrap_or(0)
}

/// Returns the highest weight of the items that `means` accepts; `None` if there is none.
fn highest(
    headers: &HeaderMap,
    header: &HeaderName,
    means: impl Fn(&str) -> bool,
) -> Option<Weight> {
    let said = headers.get_all(header).into_iter();
    let items = said.filter_map(|said| said.to_str().ok()).flat_map(|said| said.split(','));
    let weights = items.filter_map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_it = parts.next().is_some_and(&means);
        is_it.then(|| parts.find_map(weight).unwrap_or(WEIGHT_MAX))
    });
    weights.max()
}

/// Parses the weight in a parameter; `None` if the parameter is not `q`.
fn weight(parameter: &str) -> Option<Weight> {
    let (name, value) = parameter.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let weight = value.trim().parse::<f32>().ok().filter(|weight| (0.0..=1.0).contains(weight));
    Some(weight.map_or(WEIGHT_MAX, |weight| (weight * f32::from(WEIGHT_MAX)).round() as Weight))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accept(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(text).unwrap())])
    }

    #[test]
    fn the_highest_weight_wins_and_zero_excludes() {
        let check = |text: &str, expected: Option<&str>| {
            let known = ["text/event-stream", "application/x-ndjson"];
            assert_eq!(
                preferred(&accept(text), &header::ACCEPT, known.into_iter()),
                expected,
                "{text}"
            );
        };
        let (sse, lines) = (Some("text/event-stream"), Some("application/x-ndjson"));
        check("text/event-stream", sse);
        check("application/x-ndjson, text/event-stream", sse);
        check("text/event-stream;q=0.5, application/x-ndjson;q=0.501", lines);
        check("text/event-stream; Q=0.5 , application/x-ndjson ;q = 0.4", sse);
        check("text/event-stream;q=0", None);
        check("text/event-stream;q=0.000, */*", None);
        check("text/event-stream;charset=utf-8;q=0.1, application/x-ndjson;q=0.09", sse);
        check("text/event-stream;q=0, application/x-ndjson;q=0.001", lines);
        check("text/event-stream;q=many", sse);
        check("*/*, text/*", None);
        check("", None);
    }

    #[test]
    fn the_most_specific_item_says_the_weight() {
        let check = |text: &str, expected| {
            assert_eq!(allowed(&accept(text), &header::ACCEPT, "text/plain"), expected, "{text}");
        };
        check("*/*;q=0.1, text/*;q=0.2, text/plain;q=0.3", 300);
        check("text/plain;q=0.3, text/*;q=1", 300);
        check("*/*, text/*;q=0.2", 200);
        check("*/*;q=0.1", 100);
        check("text/html", 0);
        check("text/plain;q=0, */*", 0);
        let both = accept("application/json;q=0.5, */*;q=0.8");
        assert!(!prefers(&both, &header::ACCEPT, "application/json", "text/plain"));
        assert!(prefers(
            &accept("application/json, */*"),
            &header::ACCEPT,
            "application/json",
            "a/b"
        ));
    }

    #[test]
    fn a_client_may_prefer_uncompressed_answers() {
        let check = |text: &str, expected| {
            let value = HeaderValue::from_str(text).unwrap();
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]);
            assert_eq!(takes_gzip(&headers), expected, "{text}");
        };
        check("gzip, deflate, br", true);
        check("gzip;q=0.5", true);
        check("gzip;q=0.5, identity;q=0.1", true);
        check("gzip;q=0.5, identity", false);
        check("gzip;q=0", false);
        check("identity, *;q=0", false);
    }
}
