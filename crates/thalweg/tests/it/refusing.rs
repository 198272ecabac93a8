//! Refusals of requests with a body reach a client that sends the whole body before it reads.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::harness::{Raw, Server, TlsClient, chunk, ticking, unharmed};

const TIMES: usize = 100;

/// The number of parallel clients: the machine has few cores.
const AT_A_TIME: usize = 4;

const TOKEN: [&str; 4] = [
    "--token",
    "publisher=the-right-one,subscribe=**,publish=**,inspect=**,admin=true",
    "--token",
    "everybody,subscribe=**",
];

/// Requests that the server refuses after the head, and the code of the refusal.
const REFUSED: [(&str, &[&str], &str); 5] = [
    ("/v1/topics/t", &["--header", "Authorization: Bearer wrong"], "401"),
    ("/v1/topics/t", &["--header", "Origin: https://elsewhere.example"], "403"),
    ("/nowhere", &[], "404"),
    ("/healthz", &[], "405"),
    ("/v1/topics/a//b", &[], "400"),
];

/// Returns the status that curl prints, and how curl exited.
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
                    // From a body of one frame to the largest one that the server discards.
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

/// The server waits for a missing body for a limited time, and not at all for a large one or one that waits for `100 Continue`.
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
    // No `100 Continue` precedes it.
    check("Content-Length: 60000\r\nExpect: 100-continue", "");
}

/// More bodies than the server discards at the same time: further ones are refused at once, and no other client waits.
#[test]
fn bodies_that_never_arrive_block_no_client() {
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

#[test]
fn a_connection_goes_on_after_a_refusal() {
    let server = Server::start(&[&TOKEN[..], &["--tls-self-signed"]].concat());
    let mut raw = TlsClient::raw(server.address);
    for _ in 0..3 {
        raw.ask("POST", "/v1/topics/t", &[], &"1".repeat(60_000));
        raw.answer().refused(401, "unauthorized");
    }
}
