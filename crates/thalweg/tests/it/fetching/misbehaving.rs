//! Upstreams that misbehave: they delay their own topics only.

use std::io::Write;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use thalweg_testing::RefusingAddress;

use super::{await_version, expect_version, serve};
use crate::harness::{Reply, Transport, Upstream, response};

/// The first response of each topic is wrong, the second one right.
const WRONG: [&str; 16] = [
    "slow-head",
    "slow-body",
    "cut-off",
    "hung-up",
    "longer",
    "shorter",
    "not-modified",
    "huge",
    "endless",
    "bomb",
    "garbage-coding",
    "unknown-coding",
    "no-json",
    "no-http",
    "status-500",
    "status-403",
];

fn wrong(topic: &str) -> Reply {
    let chunked = "Transfer-Encoding: chunked\r\n";
    match topic {
        "slow-head" => Reply::Never(Vec::new()),
        "slow-body" => Reply::Never(response(200, "Content-Length: 9\r\n", b"[1,")),
        "cut-off" => Reply::Last(response(200, chunked, b"2\r\n[1\r\n")),
        "hung-up" => Reply::Last(Vec::new()),
        "longer" => Reply::Last(response(200, "Content-Length: 9\r\n", b"[1]")),
        "shorter" => Reply::Last(response(200, "Content-Length: 2\r\n", b"[1]")),
        "not-modified" => Reply::with(304, "ETag: \"x\"\r\n", ""),
        "huge" => Reply::Last(response(200, "Content-Length: 999999999\r\n", &[b' '; 99_999])),
        "endless" => {
            let chunk = [&b"fff\r\n"[..], &[b' '; 0xfff], b"\r\n"].concat();
            Reply::Never(response(200, chunked, &chunk.repeat(99)))
        }
        "bomb" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&vec![b' '; 16 << 20]).expect("memory");
            let body = encoder.finish().expect("memory");
            Reply::with(200, "Content-Encoding: gzip\r\n", body)
        }
        "garbage-coding" => Reply::with(200, "Content-Encoding: gzip\r\n", "[1]"),
        "unknown-coding" => Reply::with(200, "Content-Encoding: zstd\r\n", "[1]"),
        "no-json" => Reply::with(200, "Content-Type: application/json\r\n", "<html>"),
        "no-http" => Reply::Last(b"SSH-2.0-So\r\n\r\n".to_vec()),
        "status-500" => Reply::with(500, "", "[1]"),
        "status-403" => Reply::with(403, "", "[1]"),
        _ => panic!("{topic}"),
    }
}

#[test]
fn every_wrong_response_is_followed_by_a_retry() {
    let upstream = Upstream::start(|asked| match asked.before {
        0 => wrong(asked.path.trim_start_matches("/f/")),
        _ => Reply::json("Cache-Control: max-age=250\r\n", &"[\"right\"]"),
    });
    let server = serve(&upstream, ",timeout=2s,max-body=64KiB", &[]);
    let subscribers: Vec<_> =
        WRONG.map(|topic| server.subscribe(Transport::Sse, &format!("/f/{topic}"))).into();
    for (mut subscriber, topic) in subscribers.into_iter().zip(WRONG) {
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().events, [json!(["right"])], "{topic}");
        let asked = upstream.asked(&format!("/f/{topic}"));
        assert_eq!(asked.len(), 2, "{topic}");
        // The fetcher backs off, with some jitter.
        let waited = asked[1].at - asked[0].at;
        assert!(waited >= Duration::from_millis(250), "{topic}: {waited:?}");
    }
    let metric = |name: &str| server.metric(&format!("thalweg_upstream_{name}_total"));
    assert_eq!(metric("errors"), WRONG.len() as f64);
    let (timeouts, too_large) = (metric("timeouts"), metric("too_large"));
    // Two upstreams are slow, with the head or with the body. On a busy machine others may take as long,
    // among them a body that is too large.
    assert!(timeouts >= 2.0 && too_large <= 3.0 && timeouts + too_large >= 5.0);
    assert_eq!(metric("fetches"), 2.0 * WRONG.len() as f64);
}

#[test]
fn a_document_over_the_limit_of_events_is_not_taken() {
    let upstream = Upstream::start(|_| Reply::json("", &format!("{:?}", "x".repeat(2_000))));
    let server = serve(&upstream, "", &["--set", "limits.event-bytes=1KiB"]);
    let mut subscriber = server.subscribe(Transport::Sse, "/f/large");
    subscriber.confirmed();
    server.await_metric("thalweg_upstream_too_large_total", |count| count >= 1.0);
    assert_eq!(server.metric("thalweg_events_published_total"), 0.0);
}

#[test]
fn a_redirect_is_followed_on_its_host_and_nowhere_else() {
    let other = Upstream::start(|_| Reply::json("", &"\"elsewhere\""));
    let elsewhere = other.address;
    let upstream = Upstream::start(move |asked| {
        let host = asked.header("host").expect("a host");
        let location = match &*asked.path {
            "/f/path" => "/moved?to=it".to_owned(),
            "/f/sibling" => "../moved?to=it#part".to_owned(),
            "/f/scheme" => format!("//{host}/moved?to=it"),
            "/f/url" => format!("http://{host}/moved?to=it"),
            "/f/other" => format!("http://{elsewhere}/f/other"),
            "/f/relative" => format!("//{elsewhere}/f/relative"),
            "/f/user" => format!("http://{host}@{elsewhere}/f/user"),
            "/f/named" => format!("http://me@{host}/moved?to=it"),
            "/f/tls" => format!("https://{host}/moved?to=it"),
            "/f/file" => "file:///etc/passwd".to_owned(),
            "/f/circle" => "/f/circle".to_owned(),
            _ => return Reply::json("Cache-Control: max-age=250\r\n", &"\"moved\""),
        };
        Reply::with(302, &format!("Location: {location}\r\n"), "")
    });
    let server = serve(&upstream, "", &[]);
    for topic in ["path", "url", "sibling", "scheme"] {
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/f/{topic}"));
        expect_version(&mut subscriber, &json!("moved"));
    }
    assert_eq!(upstream.asked("/moved?to=it").len(), 4);
    let refused = ["other", "relative", "user", "named", "tls", "file", "circle"];
    let subscribers = refused.map(|topic| server.subscribe(Transport::Sse, &format!("/f/{topic}")));
    for topic in refused {
        let times = if topic == "circle" { 4 } else { 1 };
        upstream.await_asked(&format!("/f/{topic}"), times);
    }
    let all = refused.len() as f64;
    server.await_metric("thalweg_upstream_redirects_refused_total", |count| count >= all);
    assert_eq!((other.count(), upstream.asked("/moved?to=it").len()), (0, 4));
    drop(subscribers);
}

#[test]
fn dates_that_cannot_be_do_no_harm() {
    let upstream = Upstream::start(|asked| {
        let headers = match asked.before {
            0 => "Date: yesterday\r\nLast-Modified: never\r\nCache-Control: max-age=1\r\n",
            1 => {
                "Date: Sun, 22 Nov 1970 12:00:00 GMT\r\nCache-Control: max-age=1\r\n\
                 Last-Modified: Sun, 22 Nov 2037 12:00:00 GMT\r\n"
            }
            2 => "Expires: 0\r\n",
            3 => "Cache-Control: max-age=soon\r\nAge: -1\r\n",
            _ => "Cache-Control: max-age=250\r\n",
        };
        Reply::json(headers, &asked.before)
    });
    // Every long time is longer than a test waits.
    let server = serve(&upstream, ",min-interval=20ms,max-age=20ms", &[]);
    let mut subscriber = server.subscribe(Transport::Sse, "/f/dates");
    // The first two are fresh for a second. A subscriber on a busy machine may skip the next ones.
    expect_version(&mut subscriber, &json!(0));
    expect_version(&mut subscriber, &json!(1));
    assert_eq!(await_version(&mut subscriber, 4), 4);
    let asked = upstream.asked("/f/dates");
    for pair in asked[..3].windows(2) {
        assert!(pair[1].at - pair[0].at >= Duration::from_secs(1), "{asked:?}");
    }
}

/// A number of seconds that does not fit into 32 bits, or into 64, counts as a large one (RFC 9111 §1.2.2),
/// and a response without freshness does not say how often it changes.
#[test]
fn no_lifetime_makes_an_upstream_be_asked_all_the_time() {
    let lifetimes = [
        "Cache-Control: max-age=4294967296",
        "Cache-Control: s-maxage=99999999999999999999999",
        "Cache-Control: max-age=0, private, must-revalidate",
        "Cache-Control: max-age=-1",
        "Expires: -1",
        "Expires: Sun, 22 Nov 1970 12:00:00 GMT",
        "Cache-Control: max-age=60\r\nAge: 60",
    ];
    let upstream = Upstream::start(move |asked| {
        let number: usize = asked.path.trim_start_matches("/f/").parse().expect("a number");
        Reply::json(&format!("{}\r\n", lifetimes[number]), &asked.before)
    });
    let server = serve(&upstream, ",min-interval=1ms,max-age=2s,max-interval=2s", &[]);
    let subscribers = [0, 1, 2, 3, 4, 5, 6]
        .map(|number| server.subscribe(Transport::Sse, &format!("/f/{number}")));
    for (number, mut subscriber) in subscribers.into_iter().enumerate() {
        expect_version(&mut subscriber, &json!(0));
        expect_version(&mut subscriber, &json!(1));
        let asked = upstream.asked(&format!("/f/{number}"));
        let waited = asked[1].at - asked[0].at;
        assert!(waited >= Duration::from_secs(2), "{}: {waited:?}", lifetimes[number]);
    }
    // A huge age means a stale response, and is no reason to wait for an hour.
    let stale = Upstream::start(|asked| {
        let headers = "Cache-Control: max-age=3600\r\nAge: 4294967296\r\n";
        Reply::json(headers, &asked.before)
    });
    let server = serve(&stale, ",max-age=20ms,max-interval=1h", &[]);
    await_version(&mut server.subscribe(Transport::Sse, "/f/x"), 1);
}

#[test]
fn retry_after_delays_the_next_fetch() {
    let upstream = Upstream::start(|asked| match (asked.before, &*asked.path) {
        (0, "/f/seconds") => Reply::with(503, "Retry-After: 2\r\n", ""),
        // The time is that of the upstream's clock.
        (0, "/f/date") => {
            let dates = "Date: Sun, 22 Nov 1970 12:00:00 GMT\r\n\
                         Retry-After: Sun, 22 Nov 1970 12:00:02 GMT\r\n";
            Reply::with(429, dates, "")
        }
        // The wait is at most `most`.
        (0, "/f/long") => Reply::with(503, "Retry-After: 36000\r\n", ""),
        (0, _) => Reply::with(503, "Retry-After: 99999999999999999999\r\n", ""),
        _ => Reply::json("Cache-Control: max-age=250\r\n", &"1"),
    });
    let server = serve(&upstream, ",max-interval=2s", &[]);
    let topics = ["f/seconds", "f/date", "f/long", "f/beyond"];
    let subscribers = topics.map(|topic| server.subscribe(Transport::Sse, &format!("/{topic}")));
    for (mut subscriber, topic) in subscribers.into_iter().zip(topics) {
        expect_version(&mut subscriber, &json!(1));
        let asked = upstream.asked(&format!("/{topic}"));
        assert!(asked[1].at - asked[0].at >= Duration::from_secs(2), "{asked:?}");
    }
}

#[test]
fn an_upstream_that_is_not_there_is_tried_again() {
    let refusing = RefusingAddress::new().expect("an address");
    let server = crate::harness::Server::start(&[
        "--upstream",
        &format!("f/**=http://{}/{{topic}},linger=0", refusing.address()),
    ]);
    let mut subscriber = server.subscribe(Transport::Sse, "/f/x");
    subscriber.confirmed();
    server.await_metric("thalweg_upstream_errors_total", |errors| errors >= 2.0);
    drop(subscriber);
    server.await_metric("thalweg_upstream_topics", |topics| topics == 0.0);
}
