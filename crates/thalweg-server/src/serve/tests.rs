//! A server with a protocol besides Thalweg's own, and one whose event loop is blocked.

mod client;

use std::{net::SocketAddr, time::Duration};

use thalweg_testing::{let_pass, wait_for};
use thalweg_token::Rights;
use tokio::runtime;

use self::client::TestClient;
use super::{NEAR_TIMER, Server, serve_with};
use crate::{
    config::{Access, Config, NamedToken},
    protocol::{Accepted, Mount, Opening, tests},
    refusal::Refusal,
};

/// How long a request to `/block` blocks its event loop. A timer of the loop is due before, so it fires late.
const BLOCKED: Duration = NEAR_TIMER.saturating_mul(2);

/// Blocks the event loop, as an expensive request would. The path has no resource.
fn block(_: &Opening<'_>) -> Result<Option<Accepted>, Refusal> {
    let_pass(BLOCKED);
    Ok(None)
}

/// A server with lines at `/lines`, until the test is over.
struct Running(Option<Server>);

impl Running {
    fn start(config: Config) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let mounts = vec![
            Mount { path: "/lines".into(), accept: tests::accept, token_parameter: None },
            Mount { path: "/block".into(), accept: block, token_parameter: None },
        ];
        let server = serve_with(Config { listen, ..config }, Vec::new(), mounts);
        Self(Some(server.expect("a server")))
    }

    fn address(&self) -> SocketAddr {
        self.0.as_ref().expect("a server").address()
    }

    /// Opens a connection and shakes hands.
    fn open(&self) -> TestClient {
        let mut client = TestClient::connect(self.address(), "/lines", &[]);
        assert_eq!(client.head_status(), 101);
        client.shake_hands();
        client
    }

    fn drain(&mut self) {
        let Some(server) = self.0.take() else { return };
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(server.drain());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.drain();
    }
}

fn config() -> Config {
    Config { shards: 2, ..Config::default() }
}

#[test]
fn commands_of_another_protocol_subscribe_and_publish() {
    let running = Running::start(config());
    let mut client = running.open();
    client.say("sub t");
    let said = [client.next(), client.next()];
    assert_eq!(said[0], "1 done t");
    assert!(said[1].ends_with(r#""events":[]}"#), "{said:?}");
    client.say("pub t hi there");
    let mut said = [client.next_but_positions(), client.next_but_positions()];
    said.sort();
    assert_eq!(said[0], "2 published 1 to t");
    assert!(said[1].ends_with(r#""events":["hi there"]}"#), "{said:?}");
    client.say("shout t");
    assert_eq!(client.next(), "3 bad_command");
    client.say("unsub u");
    assert_eq!(client.next(), "4 not_subscribed");
}

#[test]
fn records_of_one_message_are_executed_in_order() {
    let running = Running::start(config());
    let mut client = running.open();
    let topics = 0..50;
    // Half of the topics are on the other shard.
    let records: Vec<String> = topics.clone().map(|n| format!("sub t{n}\nunsub t{n}")).collect();
    client.say(&records.join("\n"));
    for n in topics {
        for nth in [2 * n + 1, 2 * n + 2] {
            assert_eq!(client.next_but_positions(), format!("{nth} done t{n}"));
        }
    }
}

#[test]
fn replies_come_in_the_order_of_commands_if_the_protocol_wants_that() {
    let running = Running::start(config());
    let mut client = running.open();
    // Half of the topics are on the other shard, whose replies take longer than refusals.
    let records: Vec<String> = (0..50).map(|n| format!("pub t{n} x\nshout")).collect();
    client.say(&records.join("\n"));
    for n in 0..50 {
        assert_eq!(client.next(), format!("{} published 1 to t{n}", 2 * n + 1));
        assert_eq!(client.next(), format!("{} bad_command", 2 * n + 2));
    }
}

#[test]
fn a_connection_that_breaks_the_protocol_is_closed_in_its_words() {
    let running = Running::start(config());
    let mut client = TestClient::connect(running.address(), "/lines", &[]);
    assert_eq!((client.head_status(), client.next()), (101, "hello, who are you?".into()));
    client.say("sub t");
    assert_eq!(client.next(), "bye 1002");
    assert_eq!(client.next_frame(), Some((0x8, [&[3, 234], "protocol error".as_bytes()].concat())));
}

/// Returns the first message of the server in a WebSocket over HTTP/2.
async fn first_message_of_tunnel(address: SocketAddr) -> Vec<u8> {
    let socket = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let (mut client, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    tokio::spawn(connection);
    // The settings of the server allow extended CONNECT.
    while !client.is_extended_connect_protocol_enabled() {
        tokio::task::yield_now().await;
    }
    let request = http::Request::builder()
        .method(http::Method::CONNECT)
        .uri(format!("http://{address}/lines"))
        .header("sec-websocket-version", "13")
        .extension(h2::ext::Protocol::from_static("websocket"))
        .body(())
        .expect("a request");
    let (answer, _upload) = client.send_request(request, false).expect("a stream");
    let mut body = answer.await.expect("an answer").into_body();
    body.data().await.expect("data").expect("a frame").to_vec()
}

#[test]
fn a_protocol_speaks_first_over_http2() {
    let running = Running::start(config());
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let first = runtime.expect("a runtime").block_on(first_message_of_tunnel(running.address()));
    assert_eq!(first, [&[0x81, 19], &b"hello, who are you?"[..]].concat());
}

#[test]
fn a_drain_ends_a_connection_in_its_words() {
    let mut running = Running::start(config());
    let mut client = running.open();
    running.drain();
    assert_eq!(client.next(), "bye 1001");
}

#[test]
fn heartbeats_that_are_always_wanted_come_beside_events() {
    let running = Running::start(Config { heartbeat: Duration::from_millis(60), ..config() });
    let (mut client, mut publisher) = (running.open(), running.open());
    client.say("sub t");
    let (mut beats, mut events) = (0, 0);
    // A server that sends heartbeats only to clients without other data would send none.
    while beats < 3 || events < 3 {
        assert!(events < 10_000, "{beats} heartbeats beside {events} events");
        publisher.say("pub t x");
        match client.next_or_beat() {
            beat if beat == "beat" => beats += 1,
            _ => events += 1,
        }
        while !publisher.next().contains("published") {}
    }
}

#[test]
fn a_mount_answers_what_is_negotiated_and_passes_on_what_is_not_its_own() {
    let running = Running::start(config());
    let ask = |method, path| TestClient::ask(running.address(), method, path, &[]);
    let (status, negotiated) = ask("POST", "/lines/negotiate");
    assert_eq!((status, negotiated.len()), (200, "lines/1 ".len() + 32), "{negotiated}");
    assert_eq!(ask("GET", "/lines").0, 426);
    for path in ["/lines/other", "/line", "/linesman"] {
        assert_eq!(ask("GET", path).0, 404, "{path}");
    }
}

#[test]
fn a_mount_is_behind_the_gate() {
    let tokens = vec![
        NamedToken::new("subscriber", "right", Rights::to_subscribe()),
        NamedToken::new("publisher", "publisher", Rights::all()),
    ];
    let access = Access { tokens, ..Access::default() };
    let running = Running::start(Config { access, ..config() });
    let connect = |headers: &[&str]| TestClient::connect(running.address(), "/lines", headers);
    for (status, headers) in [
        (403, ["Origin: https://elsewhere.example"]),
        (421, ["Host: elsewhere.example"]),
        (401, ["Authorization: Bearer wrong"]),
    ] {
        assert_eq!(connect(&headers).head_status(), status, "{headers:?}");
    }
    for (token, command, expected) in [
        (None, "sub t", "1 unauthorized"),
        (None, "pub t x", "1 unauthorized"),
        (Some("right"), "sub t", "1 done t"),
        (Some("right"), "pub t x", "1 forbidden"),
        (Some("publisher"), "pub t x", "1 published 1 to t"),
    ] {
        let header = token.map(|token| format!("Authorization: Bearer {token}"));
        let mut client = connect(&header.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(client.head_status(), 101);
        client.shake_hands();
        client.say(command);
        assert_eq!(client.next_but_positions(), expected, "{token:?}: {command}");
    }
}

#[test]
fn a_blocked_event_loop_is_measured_as_a_delay() {
    let running = Running::start(Config { shards: 1, ..config() });
    let ask = |path| TestClient::ask(running.address(), "GET", path, &[]);
    assert_eq!(ask("/block").0, 404);
    let least_s = (BLOCKED - NEAR_TIMER).as_secs_f64();
    wait_for("the delay of the blocked loop", || {
        let (_, text) = ask("/metrics");
        let sum = text
            .lines()
            .find_map(|line| line.strip_prefix("thalweg_loop_delay_seconds_sum{shard=\"0\"} "));
        let sum_s: f64 = sum.expect("the sum").parse().expect("a number");
        (sum_s >= least_s).then_some(())
    });
}
