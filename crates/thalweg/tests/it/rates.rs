//! Rate limits of clients, and the log of refusals.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{OPEN, Response, Server, TRUSTED, Transport, wait_for};

/// Starts a server for which the test names the client's address, as its proxy.
fn server(more: &[&str]) -> Server {
    // Tokens of a test's own say who may do what.
    let open: &[&str] = if more.contains(&"--token") { &[] } else { &OPEN };
    Server::start(&[&TRUSTED[..], open, more].concat())
}

fn ask(server: &Server, method: &str, target: &str, from: &str, body: &str) -> Response {
    let headers = [("X-Forwarded-For", from), ("Content-Type", "application/json")];
    server.ask(method, target, &headers, body)
}

fn wait_s(refused: &Response) -> u64 {
    refused.header("retry-after").expect("a time").parse().expect("seconds")
}

/// How many tokens of a bucket come back while a test runs, at `rate` a second: the machine may be busy.
struct Refill(Instant);

impl Refill {
    fn most(&self, rate: f64) -> usize {
        (self.0.elapsed().as_secs_f64() * rate).ceil() as usize
    }
}

/// Asks until an answer is 429, and returns it. The server answers `burst` requests before, and as many more as come back
/// meanwhile, at one or two a second.
fn exhaust(burst: usize, mut request: impl FnMut() -> Response) -> Response {
    let refill = Refill(Instant::now());
    for answered in 0.. {
        let answer = request();
        if answer.status == 429 {
            let most = burst + refill.most(2.0);
            assert!((burst..=most).contains(&answered), "{answered} of {burst} to {most}");
            return answer;
        }
    }
    unreachable!("a server that answers all requests")
}

#[test]
fn an_address_makes_ten_seconds_worth_of_requests_at_once() {
    let server = server(&["--set", "limits.address-rates.handshakes=1"]);
    let read = |from: &str| ask(&server, "GET", "/v1/topics/t?limit=1", from, "");
    read("192.0.2.1").refused(404, "no_such_topic");
    let refused = exhaust(9, || read("192.0.2.1"));
    let said = refused.refused(429, "too_many_requests");
    assert!(said.contains("requests from this address: try again in"), "{said}");
    assert!((1..=2).contains(&wait_s(&refused)), "{}", wait_s(&refused));
    // Other clients, and requests that are no handshake, are not limited.
    read("192.0.2.2").refused(404, "no_such_topic");
    assert_eq!(ask(&server, "POST", "/v1/topics/t", "192.0.2.1", "1").status, 200);
    // An IPv6 network counts as one address.
    let mut hosts = 0..;
    exhaust(10, || read(&format!("2001:db8::{:x}", hosts.next().expect("a host"))))
        .refused(429, "too_many_requests");
    server.has_refused("too_many_requests", 2);
}

/// Verifying a token costs more than most requests. Clients of the same address without a token, or with a
/// known one, are not limited.
#[test]
fn wrong_tokens_are_limited_without_affecting_others() {
    let key = format!("@{}/../thalweg-token/tests/keys/ec.public.pem", env!("CARGO_MANIFEST_DIR"));
    let settings = [
        "--set",
        "limits.address-rates.handshakes=20",
        "--token",
        "p=secret,publish=**,subscribe=**",
    ];
    let server = server(&[&settings[..], &["--jwt-key", &key]].concat());
    let from = ("X-Forwarded-For", "192.0.2.1");
    for (method, target) in
        [("POST", "/v1/tickets"), ("POST", "/v1/topics/t"), ("GET", "/v1/topics/t?limit=1")]
    {
        let refill = Refill(Instant::now());
        let mut verified = 0;
        for _ in 0..20 {
            let headers = [from, ("Authorization", "Bearer eyJhbGciOiJFUzI1NiJ9.e30.AAAA")];
            let answer = server.ask(method, target, &headers, "1");
            match answer.status {
                401 => verified += 1,
                429 => {}
                other => panic!("{other} {method} {target}"),
            }
        }
        // Each takes 101 of 200, and 20 come back each second.
        let most = 2 + refill.most(20.0 / 101.0);
        assert!(verified <= most, "{verified} of {most} {method} {target}");
        let known = [from, ("Authorization", "Bearer secret")];
        assert_eq!(server.ask("POST", "/v1/topics/t", &known, "1").status, 200);
        assert_eq!(server.ask("GET", "/healthz", &[from], "").status, 200);
    }
    exhaust(0, || server.ask("GET", "/v1/topics/t?limit=1&ticket=0", &[from], ""))
        .refused(429, "too_many_requests");
}

#[test]
fn events_and_bytes_are_counted() {
    let check = |rates: &str, body: &str, times: usize| {
        let server = server(&["--set", &format!("limits.address-rates.{rates}")]);
        exhaust(times, || ask(&server, "POST", "/v1/topics/t", "192.0.2.1", body))
            .refused(429, "too_many_requests");
    };
    check("publishes=1", "1", 10);
    check("bytes=10", "\"3456789\"", 11);
    let server = server(&["--set", "limits.address-rates.publishes=1"]);
    let headers = [("X-Forwarded-For", "192.0.2.1"), ("Content-Type", "application/x-ndjson")];
    let lines = "1\n".repeat(5);
    let publish = || server.ask("POST", "/v1/topics/t", &headers, &lines);
    assert_eq!(publish().published().count, 5);
    exhaust(1, publish).refused(429, "too_many_requests");
    // Publishes without events count as well.
    let server = self::server(&["--set", "limits.address-rates.bytes=10"]);
    let post = |kind: &str, body: &str| {
        let headers = [headers[0], ("Content-Type", kind)];
        server.ask("POST", "/v1/topics/t", &headers, body)
    };
    assert_eq!(post("application/x-ndjson", &"\n".repeat(50)).status, 200);
    post("application/json", &"{".repeat(50)).refused(400, "bad_event");
    exhaust(0, || post("application/json", "12345678")).refused(429, "too_many_requests");
    exhaust(0, || post("application/x-ndjson", &"\n".repeat(8))).refused(429, "too_many_requests");
}

/// Refused events are not counted, because the server does not parse them.
#[test]
fn publishes_that_are_refused_are_requests() {
    let tokens = ["--token", "p=secret,publish=**,subscribe=**", "--token", "q=other,subscribe=x"];
    let server = server(&[&tokens[..], &["--set", "limits.address-rates.handshakes=1"]].concat());
    let publish = |from: &str, token: &str| {
        let headers = [("X-Forwarded-For", from), ("Authorization", token)];
        server.ask("POST", "/v1/topics/t", &headers, "1")
    };
    for (from, token, code) in
        [("192.0.2.1", "", "unauthorized"), ("192.0.2.2", "Bearer other", "forbidden")]
    {
        let refill = Refill(Instant::now());
        let refused: Vec<_> =
            (0..20).map(|_| publish(from, token).json()["error"]["code"].clone()).collect();
        let of = |code: &str| refused.iter().filter(|refusal| *refusal == code).count();
        let most = 10 + refill.most(1.0);
        assert!(of(code) <= most && of(code) + of("too_many_requests") == 20, "{refused:?}");
        assert_eq!(publish(from, "Bearer secret").status, 200);
    }
    for target in ["/v1/admin/disconnect", "/nowhere"] {
        exhaust(0, || ask(&server, "POST", target, "192.0.2.1", "1"))
            .refused(429, "too_many_requests");
    }
}

#[test]
fn a_connection_commands_ten_seconds_worth_at_once() {
    let server = server(&["--set", "limits.connection-rates.commands=1"]);
    let open = || {
        let headers = [("X-Forwarded-For", "192.0.2.1")];
        server.subscribe_with(Transport::WebSocket, "", &headers)
    };
    let echo = json!({ "command": "echo", "id": 1, "data": 1 }).to_string();
    let mut socket = open();
    let refill = Refill(Instant::now());
    let mut answered = 0;
    let refused = loop {
        let answer = socket.command(&echo);
        if answer.get("answer").is_none_or(Value::is_null) {
            break answer;
        }
        answered += 1;
    };
    assert!((10..=10 + refill.most(1.0)).contains(&answered), "{answered}");
    assert_eq!(refused["error"]["code"], json!("too_many_requests"));
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("this connection"))
    );
    // The connection stays open, and another connection has its own limit.
    assert_eq!(open().command(&echo)["answer"]["data"], json!(1));
    wait_for("an answer", || socket.command(&echo)["answer"].is_object().then_some(()));
}

fn audited(server: &Server) -> Vec<Value> {
    let lines = server.said();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "audit").map(|line| line["fields"].clone()).collect()
}

#[test]
fn a_refusal_is_a_line_of_the_log() {
    let flags = ["--log-format", "json", "--token", "dash=s3cret,subscribe=cars"];
    let server = server(&flags);
    let headers = [
        ("X-Forwarded-For", "2001:db8::7"),
        ("Authorization", "Bearer s3cret"),
        ("X-Request-Id", "abc-123"),
    ];
    let refused = server.ask("GET", "/v1/topics/bikes?limit=1", &headers, "");
    refused.refused(403, "forbidden");
    assert_eq!(refused.header("x-request-id"), Some("abc-123"));
    let line = wait_for("a line", || audited(&server).pop());
    let expected = json!({
        "message": "refused", "code": "forbidden", "subject": "", "token": "dash", "topic": "bikes",
        "address": "2001:db8::/64", "what": "/v1/topics/bikes", "request": "abc-123", "left_out": 0,
    });
    assert_eq!(line, expected);
    // A command has an id of its client, or gets one.
    let mut socket = server.subscribe_with(Transport::WebSocket, "", &headers[..2]);
    socket.command(r#"{"command":"subscribe","id":"x7","topic":"bikes"}"#);
    let line = wait_for("a line", || audited(&server).get(1).cloned());
    assert_eq!((&line["request"], &line["token"]), (&json!("\"x7\""), &json!("dash")));
    let refused = server.get("/v1/topics/cars?limit=1");
    refused.refused(401, "unauthorized");
    let id = refused.header("x-request-id").expect("an id").to_owned();
    let line = wait_for("a line", || audited(&server).get(2).cloned());
    assert_eq!((&line["request"], &line["token"]), (&json!(id), &json!("")));
    // A mistake of a client is not logged.
    server.get("/nowhere").refused(404, "not_found");
    // An id of a client that is too long is ignored.
    let long = "x".repeat(65);
    let refused = server.ask("GET", "/v1/topics/cars?limit=1", &[("X-Request-Id", &long)], "");
    assert_ne!(refused.header("x-request-id"), Some(&*long));
}

#[test]
fn a_flood_of_refusals_is_few_lines() {
    let server = server(&["--log-format", "json", "--token", "dash=s3cret,subscribe=cars"]);
    let begun = std::time::Instant::now();
    for _ in 0..300 {
        server.get("/v1/topics/cars?limit=1").refused(401, "unauthorized");
    }
    let seconds = begun.elapsed().as_secs() as usize + 2;
    // Lines that are left out are counted, in a metric and in the next line.
    let counted = server.count("thalweg_audit_left_out_total");
    let lines = wait_for("all lines", || {
        Some(audited(&server)).filter(|lines| lines.len() as u64 + counted >= 300)
    });
    assert_eq!(lines.len() as u64 + counted, 300);
    assert!(lines.len() <= 10 * seconds, "{} lines in {seconds} s", lines.len());
    let left_out: u64 = lines.iter().filter_map(|line| line["left_out"].as_u64()).sum();
    assert!(left_out <= counted);
    server.has_refused("unauthorized", 300);
}
