//! Refusals of requests with a body arrive, at whoever sends it before he listens.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::harness::{Raw, Server, TlsClient, chunk, ticking, unharmed};

/// As many as the issue asks for.
const TIMES: usize = 100;

/// At a time: the machine has few cores.
const AT_A_TIME: usize = 4;

const TOKEN: [&str; 2] = ["--publish-token", "the-right-one"];

/// Requests that their head is enough to refuse, and what with.
const REFUSED: [(&str, &[&str], &str); 5] = [
    ("/v1/topics/t", &["--header", "Authorization: Bearer wrong"], "401"),
    ("/v1/topics/t", &["--header", "Origin: https://elsewhere.example"], "403"),
    ("/nowhere", &[], "404"),
    ("/healthz", &[], "405"),
    ("/v1/topics/a//b", &[], "400"),
];

/// What curl says the status is, and how it ended.
fn curl(url: &str, arguments: &[&str], bytes: usize) -> (String, Option<i32>) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "20", "--output", "/dev/null"]);
    command.args(["--write-out", "%{http_code}", "--data", &"x".repeat(bytes)]);
    let output = command.args(arguments).arg(url).stdin(Stdio::null()).output();
    let output = output.expect("run curl");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

fn all_arrive(server: &Server, scheme: &str, version: &str) {
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let number @ 0..TIMES = taken.fetch_add(1, Relaxed) {
                    let (path, headers, status) = REFUSED[number % REFUSED.len()];
                    // From what one frame takes to all that is read away.
                    let bytes = [100, 20_000, 40_000, 65_536][number % 4];
                    let url = format!("{scheme}://{}{path}", server.address);
                    let said = curl(&url, &[headers, &[version]].concat(), bytes);
                    let expected = (status.to_owned(), Some(0));
                    assert_eq!(said, expected, "{number}: {version} {path}, {bytes} bytes");
                }
            });
        }
    });
}

#[test]
fn curl_hears_a_hundred_of_a_hundred_refusals_over_http2() {
    all_arrive(&Server::start(&TOKEN), "http", "--http2-prior-knowledge");
}

#[test]
fn curl_hears_a_hundred_of_a_hundred_refusals_over_tls() {
    let server = Server::start(&[&TOKEN[..], &["--tls-self-signed"]].concat());
    all_arrive(&server, "https", "--http2");
}

#[test]
fn curl_hears_a_hundred_of_a_hundred_refusals_over_http1() {
    all_arrive(&Server::start(&TOKEN), "http", "--http1.1");
}

/// A body that never comes is not waited for without end, a large one and one that is
/// held back not at all.
#[test]
fn a_refusal_does_not_wait_for_a_body_that_does_not_come() {
    let server = Server::start(&TOKEN);
    let check = |headers: &str, sent: &str| {
        let mut raw = Raw::connect(server.address);
        let head = format!("POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n");
        raw.send(head + sent);
        let answer = raw.answer();
        answer.refused(401, "unauthorized");
    };
    check("Content-Length: 60000", "begun");
    check("Transfer-Encoding: chunked", &chunk("1"));
    check("Content-Length: 1000000", "");
    // No `100 Continue` comes before it.
    check("Content-Length: 60000\r\nExpect: 100-continue", "");
}

/// More of them than are read away at a time: the rest is answered at once, and nobody
/// else waits.
#[test]
fn bodies_that_are_not_sent_are_in_nobodys_way() {
    let server = ticking(&[]);
    let head = "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n";
    unharmed(&server, || {
        let mut raws: Vec<Raw> = (0..400).map(|_| Raw::connect(server.address)).collect();
        for raw in &mut raws {
            raw.send(head);
        }
        for raw in &mut raws {
            raw.answer().refused(404, "not_found");
        }
    });
}

/// The connection is of use afterwards.
#[test]
fn a_connection_goes_on_after_a_refusal() {
    let server = Server::start(&[&TOKEN[..], &["--tls-self-signed"]].concat());
    let mut raw = TlsClient::raw(server.address);
    for _ in 0..3 {
        raw.ask("POST", "/v1/topics/t", &[], &"1".repeat(60_000));
        raw.answer().refused(401, "unauthorized");
    }
}
