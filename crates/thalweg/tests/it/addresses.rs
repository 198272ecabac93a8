//! Client addresses: the address of a connection, or the one that a trusted proxy names. Also other headers
//! of a trusted proxy, and names and origins of a server outside of loopback.

use crate::harness::{Line, OPEN, Raw, Response, Server, TRUSTED, TlsClient, Transport, wait_for};

const SUBSCRIBE: &str = "/v1/topics/t?transport=sse";

/// Starts a server that allows three connections per address.
fn server_of_three() -> Server {
    Server::start(&[&TRUSTED[..], &OPEN, &["--set", "limits.connections-per-address=3"]].concat())
}

/// Subscribes as a client with these headers. Returns the status and the connection.
fn subscribe(server: &Server, headers: &[(&str, &str)]) -> (u16, Raw) {
    let mut raw = Raw::connect(server.address);
    raw.ask("GET", SUBSCRIBE, headers, "");
    let head = raw.until(b"\r\n\r\n", "a response head").expect("a response head");
    let head = String::from_utf8(head).expect("a head is text");
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), raw)
}

/// A client may have three subscriptions. The fourth is refused, whichever of these ways the proxy uses to
/// name the client, and another client's is accepted.
fn check(ways: &[&[(&str, &str)]], other: &[(&str, &str)]) {
    let server = server_of_three();
    let first: Vec<_> = (0..3).map(|_| subscribe(&server, ways[0])).collect();
    assert!(first.iter().all(|(status, _)| *status == 200), "{ways:?}");
    for way in ways {
        assert_eq!(subscribe(&server, way).0, 429, "{way:?}");
    }
    assert_eq!(subscribe(&server, other).0, 200, "{other:?}");
    drop(first);
    wait_for("a place of the proxy's own", || {
        (server.ask("GET", "/healthz", &[], "").status == 200).then_some(())
    });
    assert!(server.count("thalweg_refused_total{code=\"too_many_from_address\"}") > 0);
}

#[test]
fn a_client_of_a_trusted_proxy_is_counted_by_the_last_address() {
    let x = "X-Forwarded-For";
    check(
        &[
            &[(x, "192.0.2.1")],
            &[(x, "192.0.2.1:4711")],
            &[(x, "::ffff:192.0.2.1")],
            &[(x, "198.51.100.7, 192.0.2.1")],
            &[(x, "198.51.100.7"), (x, "192.0.2.1")],
            &[(x, "198.51.100.7"), (x, "203.0.113.9"), (x, "192.0.2.1, 127.0.0.1")],
            &[("Forwarded", "for=192.0.2.1")],
            &[("Forwarded", "for=198.51.100.7, for=192.0.2.1;proto=https, for=127.0.0.1")],
            &[("Forwarded", "for=\"198.51.100.7, for=192.0.2.1")],
        ],
        &[(x, "192.0.2.1, 192.0.2.2")],
    );
}

#[test]
fn the_first_64_bits_of_ipv6_are_counted() {
    let x = "X-Forwarded-For";
    check(
        &[
            &[(x, "2001:db8::1")],
            &[(x, "2001:db8::2:3:4:5")],
            &[(x, "[2001:db8::6]:47")],
            &[("Forwarded", "for=\"[2001:db8::7]:47\"")],
        ],
        &[(x, "2001:db8:0:1::1")],
    );
}

#[test]
fn a_request_without_a_named_client_counts_for_the_proxy() {
    let x = "X-Forwarded-For";
    check(
        &[
            &[],
            &[(x, "unknown")],
            &[(x, "192.0.2.1, garbage")],
            &[("Forwarded", "for=_hidden")],
            &[("Forwarded", "for=unknown;proto=https")],
            &[("Forwarded", "by=192.0.2.1")],
            // The client itself writes the other header.
            &[(x, "unknown"), ("Forwarded", "for=192.0.2.7")],
            &[(x, "unix:"), ("Forwarded", "for=192.0.2.8")],
            &[(x, "192.0.2.9"), ("Forwarded", "for=_x")],
        ],
        &[(x, "192.0.2.1")],
    );
}

/// A client may add the header that its proxy does not write. That has no effect.
#[test]
fn two_headers_that_name_different_clients_are_refused() {
    let server = server_of_three();
    let headers = [("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=198.51.100.7")];
    let refused = server.ask("GET", "/v1/topics/t?limit=1", &headers, "");
    refused.refused(400, "bad_parameter");
    assert_eq!(server.ask("GET", "/healthz", &headers[..1], "").status, 200);
}

/// Without a trusted proxy the headers have no effect, and loopback is not counted.
#[test]
fn others_headers_mean_nothing() {
    let server = Server::start(&["--set", "limits.connections-per-address=3"]);
    let forged = [("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=198.51.100.7")];
    let all: Vec<_> = (0..8).map(|_| subscribe(&server, &forged)).collect();
    assert!(all.iter().all(|(status, _)| *status == 200));
}

const CLIENT: [(&str, &str); 1] = [("X-Forwarded-For", "192.0.2.1")];

fn is_refused(server: &Server) -> bool {
    server.ask("GET", "/v1/topics/t?limit=1", &CLIENT, "").status == 429
}

/// The limit holds over every transport, and a closed connection frees its place.
#[test]
fn a_subscription_through_a_proxy_has_a_place_of_its_client() {
    for transport in Transport::ALL {
        has_a_place(transport, |server| Line::Http1(server.address));
        has_a_place(transport, |server| Line::Http2(server.http2()));
    }
}

fn has_a_place(transport: Transport, line: impl Fn(&Server) -> Line) {
    let server = server_of_three();
    let (line, position) = (line(&server), server.publish("t", 0..1).position);
    let query = match transport {
        // The poll waits, because nothing follows this position.
        Transport::LongPolling => format!("wait=20s&cursor={position}"),
        _ => transport.query().unwrap_or_default().to_owned(),
    };
    let target = format!("/v1/topics/t?{query}");
    let headers = [&transport.headers()[..], &CLIENT].concat();
    let mut three: Vec<_> = (0..3).map(|_| line.start(&target, &headers)).collect();
    if transport == Transport::LongPolling {
        server.await_connections(3);
    } else {
        for socket in &mut three {
            assert!(matches!(socket.response_head().status, 101 | 200), "{transport:?}");
        }
    }
    assert!(is_refused(&server), "{transport:?} {line:?}");
    drop(three);
    wait_for("their places", || (!is_refused(&server)).then_some(()));
}

/// A request with a slow body counts as well.
#[test]
fn a_request_through_a_proxy_has_a_place_of_its_client() {
    let server = server_of_three();
    let client = server.http2();
    let slow: Vec<_> = (0..3).map(|_| client.start_open("POST", "/v1/topics/t", &CLIENT)).collect();
    // A request for metrics before all of them are connected would take the place of one.
    server.await_metric("thalweg_requests", |requests| requests == 3.0);
    assert!(is_refused(&server));
    drop(slow);
    wait_for("their places", || (!is_refused(&server)).then_some(()));
}

/// The default is a tenth of all connections, and at least a hundred.
#[test]
fn one_address_has_a_tenth_of_all_places_by_default() {
    for (all, of_one) in [("300", 100), ("1500", 150)] {
        let all_places = format!("limits.connections={all}");
        let server = Server::start(&[&TRUSTED[..], &OPEN, &["--set", &all_places]].concat());
        let client = server.http2();
        let mut streams: Vec<_> =
            (0..=of_one).map(|_| client.start("GET", SUBSCRIBE, &CLIENT, b"")).collect();
        let statuses: Vec<u16> =
            streams.iter_mut().map(|stream| stream.response_head().status).collect();
        let served = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!((served, statuses[of_one]), (of_one, 429), "of {all}");
    }
}

#[test]
fn a_network_of_proxies_may_be_trusted() {
    let trusted = ["--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.0/8"];
    let server =
        Server::start(&[&trusted[..], &["--set", "limits.connections-per-address=1"]].concat());
    let headers = [("X-Forwarded-For", "192.0.2.1, 10.1.2.3, 10.200.0.1")];
    let (status, _subscriber) = subscribe(&server, &headers);
    assert_eq!(status, 200);
    assert!(is_refused(&server));
    assert_eq!(server.ask("GET", "/healthz", &[("X-Forwarded-For", "11.0.0.1")], "").status, 200);
}

fn ask(mut raw: Raw, headers: &[(&str, &str)]) -> u16 {
    raw.ask("GET", "/v1/topics/t?wait=0", headers, "");
    let head = raw.until(b"\r\n\r\n", "a response head").expect("a response head");
    String::from_utf8_lossy(&head)
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("one")
}

#[test]
fn a_page_without_tls_is_none_of_a_server_with_it() {
    let server = Server::start(&["--tls-self-signed"]);
    let port = server.address.port();
    let host = format!("localhost:{port}");
    for (scheme, status) in [("https", 200), ("http", 403)] {
        let origin = format!("{scheme}://{host}");
        let headers = [("Host", host.as_str()), ("Origin", origin.as_str())];
        assert_eq!(ask(TlsClient::raw(server.address), &headers), status, "{origin}");
    }
}

/// A proxy that ends TLS says so. Without such a header both schemes are accepted.
#[test]
fn a_trusted_proxys_word_on_tls_holds() {
    let trusting = Server::start(&[&TRUSTED[..], &OPEN].concat());
    let other = Server::start(&[]);
    let http = ("Origin", "http://localhost");
    let https = ("Origin", "https://localhost");
    for (told, name, of_http) in [
        (("X-Forwarded-Proto", "https"), "https", 403),
        (("Forwarded", "for=192.0.2.1;proto=https"), "https", 403),
        (("X-Forwarded-Proto", "http"), "http", 200),
        (("X-Unknown", "https"), "nothing", 200),
    ] {
        assert_eq!(ask(Raw::connect(trusting.address), &[told, http]), of_http, "{name}");
        assert_eq!(ask(Raw::connect(trusting.address), &[told, https]), 200, "{name}");
        assert_eq!(ask(Raw::connect(other.address), &[told, http]), 200, "{name}");
    }
}

#[test]
fn names_that_are_given_hold_off_loopback_as_well() {
    let anywhere = ["--listen", "0.0.0.0:0", "--token", "everybody,subscribe=**,publish=**"];
    let named = Server::start(&[&anywhere[..], &["--allow-host", "push.example"]].concat());
    let any = Server::start(&anywhere);
    let ask = |server: &Server, host: &str| -> Response {
        server.ask("GET", "/v1/topics/t?wait=0", &[("Host", host)], "")
    };
    for host in ["push.example", "PUSH.example:8443", "localhost:1", "127.0.0.1"] {
        assert_eq!(ask(&named, host).status, 200, "{host}");
    }
    for host in ["evil.example", "push.example.evil.example", "192.0.2.1", ""] {
        ask(&named, host).refused(421, "bad_host");
        assert_eq!(ask(&any, host).status, 200, "{host}");
    }
}
