//! Tests each rule of `docs/reference/access.md`.

mod hosts;
mod tokens;

use http::{HeaderName, HeaderValue, Request, Version, request::Parts};

use super::*;
use crate::config::NamedToken;

const LOOPBACK: &str = "127.0.0.1:8080";
const ANYWHERE: &str = "0.0.0.0:8080";

/// A token with all rights and one for subscribers; without that one, everybody may subscribe.
fn access(publish: &str, subscribe: &str) -> Access {
    let tokens = [
        NamedToken::new("publisher", publish, Rights::all()),
        NamedToken::new("subscriber", subscribe, Rights::to_subscribe()),
    ];
    let tokens = tokens.into_iter().filter(|token| !token.secret.as_bytes().is_empty());
    let everybody = (!publish.is_empty() && subscribe.is_empty()).then(Rights::to_subscribe);
    Access { tokens: tokens.collect(), everybody, ..Access::default() }
}

/// All clients may subscribe and publish.
fn open() -> Access {
    let [subscribe, publish] = [Topics::all(), Topics::all()];
    let everybody = Some(Rights { subscribe, publish, ..Rights::default() });
    Access { everybody, ..Access::default() }
}

fn allowing(origins: &[&str], hosts: &[&str]) -> Access {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Access { origins: list(origins), hosts: list(hosts), ..Access::default() }
}

fn policy(access: &Access, listen: &str) -> Result<AccessPolicy, String> {
    AccessPolicy::new(access, listen.parse().unwrap(), MadeOf::default(), None)
}

/// A request as `METHOD URL`, then headers.
fn request(line: &str, headers: &[(&str, &str)]) -> Parts {
    let (method, url) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut parts = request.body(()).unwrap().into_parts().0;
    // Only HTTP/1.0 works without Host.
    parts.version = match (parts.headers.contains_key("host"), parts.uri.authority()) {
        (true, _) => Version::HTTP_11,
        (false, Some(_)) => Version::HTTP_2,
        (false, None) => Version::HTTP_10,
    };
    parts
}

fn code<T>(answer: &Result<T, Refusal>) -> Option<ErrorCode> {
    answer.as_ref().err().map(|refusal| refusal.code)
}

#[test]
fn a_server_that_others_reach_needs_tokens_or_rights_of_everybody() {
    let check = |access: &Access, listen: &str, wrong: &[&str]| {
        let error = policy(access, listen).err();
        assert_eq!(error.is_some(), !wrong.is_empty(), "{listen} {access:?}: {error:?}");
        for word in wrong {
            assert!(error.as_ref().is_some_and(|error| error.contains(word)), "{word}: {error:?}");
        }
    };
    for loopback in [LOOPBACK, "[::1]:1", "127.9.9.9:1", "[::ffff:127.0.0.1]:1"] {
        check(&access("", ""), loopback, &[]);
    }
    for anywhere in [ANYWHERE, "[::]:1", "192.168.1.1:1", "[fe80::1]:1"] {
        check(&access("", ""), anywhere, &["--token", "everybody", anywhere]);
        check(&access("p", ""), anywhere, &[]);
        check(&open(), anywhere, &[]);
        check(&access("", "s"), anywhere, &[]);
    }
    check(&access("p", "s"), LOOPBACK, &[]);
    check(&access("p", "p"), LOOPBACK, &["publisher", "subscriber", "the same"]);
    let empty = vec![NamedToken::new("dash", "", Rights::all())];
    let access = Access { tokens: empty, ..Access::default() };
    check(&access, LOOPBACK, &["token dash", "is empty"]);
}

#[test]
fn origins_and_hosts_of_the_lists_are_checked() {
    let check = |origin: &str, right: bool| {
        let policy = policy(&allowing(&[origin], &[]), LOOPBACK);
        assert_eq!(policy.is_ok(), right, "{origin}");
        assert!(policy.err().is_none_or(|error| error.contains(origin)), "{origin}");
    };
    for right in
        ["*", "null", "https://app.example", "http://[::1]:3000", "chrome-extension://abcdef"]
    {
        check(right, true);
    }
    for wrong in [
        "",
        "app.example",
        "https://",
        "://a",
        "https://app.example/",
        "https://app.example/path",
        "https://a.example:port",
        "https://a.example:99999",
        "https://user@a.example",
        "https://*.example",
        "1https://a",
    ] {
        check(wrong, false);
    }
    for wrong in ["", "http://a.example", "a.example:80", "a b", "*", "[::1"] {
        assert!(policy(&allowing(&[], &[wrong]), LOOPBACK).is_err(), "{wrong}");
    }
}

#[test]
fn web_pages_need_an_origin_that_may() {
    enum Seen {
        Own,
        Other(&'static str),
        Refused,
    }
    use Seen::{Other, Own, Refused};
    let check = |allowed: &[&str], origin: &str, host: &str, expected: Seen| {
        let access = Access { everybody: open().everybody, ..allowing(allowed, &[]) };
        let request = request("GET /", &[("origin", origin), ("host", host)]);
        let seen = policy(&access, ANYWHERE).unwrap().admit(&request, false);
        let seen = seen.map(|admitted| admitted.cors).map_err(|refusal| refusal.code);
        let expected = match expected {
            Own => Ok(None),
            Other(answer) => Ok(Some(answer.parse().unwrap())),
            Refused => Err(ErrorCode::BadOrigin),
        };
        assert_eq!(seen, expected, "{origin} at {host}, {allowed:?}");
    };
    let app = "https://app.example";
    let check_own = |origin: &str, host: &str, is_own: bool| {
        check(&[], origin, host, if is_own { Own } else { Refused });
    };
    check_own(app, "app.example", true);
    check_own(app, "App.Example:443", true);
    check_own(app, "app.example:80", false);
    check_own("http://app.example", "app.example:80", true);
    check_own("http://app.example:8080", "app.example:8080", true);
    check_own("http://app.example:8080", "app.example", false);
    check_own("http://localhost:3000", "localhost:8080", false);
    check_own("http://[::1]:8080", "[::1]:8080", true);
    check_own("https://sub.app.example", "app.example", false);
    check_own("https://app.example.evil.example", "app.example", false);
    check_own("null", "app.example", false);
    check_own("", "app.example", false);
    check_own("https://app.example https://app.example", "app.example", false);
    // A proxy that terminates TLS: the server sees neither.
    check_own("https://push.example", "push.example", true);

    check(&[app], app, "push.example", Other(app));
    check(&["HTTPS://App.Example:443"], app, "push.example", Other(app));
    check(&[app], "http://app.example", "push.example", Refused);
    check(&[app], "https://app.example:8443", "push.example", Refused);
    check(&[app], app, "app.example", Own);
    check(&[app], "null", "push.example", Refused);
    check(&["null"], "null", "push.example", Other("null"));
    check(&["null"], app, "push.example", Refused);
    check(&["null"], "garbage", "push.example", Refused);
    check(&["*"], app, "push.example", Other("*"));
    check(&["*"], "null", "push.example", Other("*"));
    check(&["tauri://localhost"], "tauri://localhost", "localhost", Other("tauri://localhost"));

    let two = request("GET /", &[("host", "a"), ("origin", "http://a"), ("origin", "http://a")]);
    let policy = policy(&open(), ANYWHERE).unwrap();
    assert_eq!(code(&policy.admit(&two, false)), Some(ErrorCode::BadOrigin));
}

#[test]
fn a_page_without_tls_is_none_of_a_server_with_it() {
    let policy = policy(&open(), ANYWHERE).unwrap();
    let check = |origin: &str, host: &str, is_https: bool, is_own: bool| {
        let request = request("GET /", &[("origin", origin), ("host", host)]);
        let expected = (!is_own).then_some(ErrorCode::BadOrigin);
        assert_eq!(code(&policy.admit(&request, is_https)), expected, "{origin} at {host}");
    };
    check("https://a.example", "a.example", true, true);
    check("http://a.example", "a.example", true, false);
    check("http://a.example:8443", "a.example:8443", true, false);
    check("http://a.example:443", "a.example:443", true, false);
    check("http://a.example", "a.example", false, true);
    check("https://a.example", "a.example", false, true);
}

#[test]
fn without_an_origin_other_sites_may_only_lead_here() {
    let check = |allowed: &[&str], line: &str, [site, mode, dest]: [&str; 3], right: bool| {
        let headers =
            [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
        let mut parts = request(line, &[("host", "localhost")]);
        for (name, value) in headers.into_iter().filter(|(_, value)| !value.is_empty()) {
            parts.headers.insert(name, value.parse().unwrap());
        }
        let seen = code(&policy(&allowing(allowed, &[]), LOOPBACK).unwrap().admit(&parts, false));
        let expected = (!right).then_some(ErrorCode::BadOrigin);
        assert_eq!(seen, expected, "{line} {site} {mode} {dest}");
    };
    let app: &[&str] = &["https://app.example"];
    for allowed in [&[], app] {
        check(allowed, "POST /", ["", "", ""], true);
        check(allowed, "POST /", ["same-origin", "cors", "empty"], true);
        check(allowed, "GET /", ["none", "navigate", "document"], true);
        for site in ["cross-site", "same-site"] {
            check(allowed, "GET /", [site, "navigate", "document"], true);
            check(allowed, "GET /", [site, "navigate", "iframe"], !allowed.is_empty());
            check(allowed, "GET /", [site, "no-cors", "image"], false);
            check(allowed, "GET /", [site, "no-cors", "script"], false);
            check(allowed, "GET /", [site, "", ""], false);
            check(allowed, "POST /", [site, "navigate", "document"], false);
            check(allowed, "POST /", [site, "no-cors", "empty"], false);
        }
    }
}

#[test]
fn browsers_are_told_what_a_page_may() {
    let policy = policy(&allowing(&["https://app.example"], &[]), LOOPBACK).unwrap();
    fn text(headers: impl Iterator<Item = (HeaderName, HeaderValue)>) -> Vec<String> {
        headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }
    let app = ("origin", "https://app.example");
    let own = policy.admit(&request("GET /", &[("host", "localhost")]), false).unwrap();
    assert_eq!(text(own.headers()), ["vary: Origin"]);
    let other = policy.admit(&request("GET /", &[("host", "localhost"), app]), false).unwrap();
    let of_all = [
        "access-control-allow-origin: https://app.example",
        "access-control-expose-headers: idempotency-replayed, retry-after, \
         thalweg-position, thalweg-resume, x-request-id",
        "vary: Origin",
    ];
    assert_eq!(text(other.headers()), of_all);
    let asks = ("access-control-request-method", "POST");
    let preflight = request("OPTIONS /", &[asks]);
    let preflight = other.preflight(&preflight).unwrap();
    let of_preflights = [
        "access-control-allow-methods: GET, POST, DELETE",
        "access-control-allow-headers: authorization, content-type, idempotency-key, \
         last-event-id, cache-control, x-request-id, x-requested-with, x-signalr-user-agent",
        "access-control-max-age: 600",
    ];
    assert_eq!(text(preflight), [of_all, of_preflights].concat());
    assert!(other.preflight(&request("OPTIONS /", &[])).is_none());
    assert!(other.preflight(&request("POST /", &[asks])).is_none());
}

#[test]
fn shards_share_an_access_policy() {
    fn check<T: Send + Sync>() {}
    check::<AccessPolicy>();
}
