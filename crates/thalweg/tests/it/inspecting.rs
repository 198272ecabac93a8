//! The rights to see metrics and the list of topics, and their separate listener.

use crate::harness::{Answer, Raw, Server, TlsClient, Transport};

const PUBLISH: (&str, &str) = ("Authorization", "Bearer publish-secret");
const SUBSCRIBE: (&str, &str) = ("Authorization", "Bearer subscribe-secret");
const INSPECT: (&str, &str) = ("Authorization", "Bearer inspect-secret");

const PUBLISH_TOKEN: [&str; 2] =
    ["--token", "publisher=publish-secret,subscribe=**,publish=**,inspect=**,admin=true"];
const SUBSCRIBE_TOKEN: [&str; 2] = ["--token", "subscriber=subscribe-secret,subscribe=**"];
const INSPECT_TOKEN: [&str; 2] = ["--token", "inspector=inspect-secret,inspect=**"];

const ANYWHERE: [&str; 4] =
    ["--listen", "0.0.0.0:0", "--token", "everybody,subscribe=**,publish=**"];
const ADMIN: [&str; 2] = ["--admin-listen", "127.0.0.1:0"];

const INSPECTED: [&str; 3] = ["/metrics", "/v1/topics", "/v1/topics?limit=1&prefix=a"];

/// Metrics and the list are available to clients with a header of `right`, and not to clients with one of `wrong`.
fn check(flags: &[&[&str]], right: &[(&str, &str)], wrong: &[(&str, &str)], says: &str) {
    let server = Server::start(&flags.concat());
    for target in INSPECTED {
        for token in right {
            let shown = server.ask("GET", target, &[*token], "");
            assert_eq!(shown.status, 200, "{flags:?} {token:?} {target}");
        }
        for token in wrong {
            let refused = server.ask("GET", target, &[*token], "");
            let (status, code) =
                if *token == NONE { (401, "unauthorized") } else { (403, "forbidden") };
            let sentence = refused.refused(status, code);
            assert!(sentence.contains(says), "{flags:?} {token:?} {target}: {sentence}");
            let scheme = (status == 401).then_some("Bearer");
            assert_eq!(refused.header("www-authenticate"), scheme);
        }
    }
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
}

const NONE: (&str, &str) = ("X-Nothing", "");

#[test]
fn on_loopback_everybody_may_inspect_until_others_are_told_apart() {
    check(&[], &[NONE, INSPECT], &[], "");
    check(&[&PUBLISH_TOKEN], &[PUBLISH], &[NONE], "needs a token");
    check(&[&["--allow-host", "push.example"]], &[], &[NONE], "--admin-listen");
    check(&[&["--trusted-proxy", "127.0.0.1"]], &[], &[NONE], "--admin-listen");
    let tokens: [&[&str]; 2] = [&PUBLISH_TOKEN, &SUBSCRIBE_TOKEN];
    check(&tokens, &[PUBLISH], &[NONE, SUBSCRIBE], "needs a token");
    check(&[&INSPECT_TOKEN], &[INSPECT], &[NONE], "needs a token");
}

/// This listener requires no token. A web page may resolve its own name to this machine.
#[test]
fn an_admin_listener_elsewhere_has_no_name_that_is_not_allowed() {
    let server = Server::start(&[
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "0.0.0.0:0",
        "--allow-host",
        "metrics.example",
    ]);
    let address = server.admin_address();
    let ask = |method: &str, path: &str, host: &str, body: &str| {
        let mut raw = Raw::connect(address);
        let length = body.len();
        raw.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        raw.answer()
    };
    for host in ["127.0.0.1:9090", "192.0.2.1", "[2001:db8::1]:80", "localhost", "metrics.example"]
    {
        assert_eq!(ask("GET", "/metrics", host, "").status, 200, "{host}");
    }
    let said = ask("GET", "/metrics", "page.example", "").refused(421, "bad_host");
    assert!(
        said.contains("use the IP address of this listener")
            && said.contains("--allow-host page.example"),
        "{said}"
    );
    let everybody = r#"{"topics":"**"}"#;
    ask("POST", "/v1/admin/disconnect", "page.example", everybody).refused(421, "bad_host");
}

#[test]
fn elsewhere_inspecting_needs_a_token() {
    check(&[&ANYWHERE], &[], &[NONE], "--admin-listen");
    check(&[&ANYWHERE, &PUBLISH_TOKEN], &[PUBLISH], &[NONE], "needs a token");
    let all: [&[&str]; 4] = [&ANYWHERE, &PUBLISH_TOKEN, &SUBSCRIBE_TOKEN, &INSPECT_TOKEN];
    check(&all, &[PUBLISH, INSPECT], &[NONE, SUBSCRIBE], "needs a token");
}

#[test]
fn the_inspect_token_is_for_nothing_else() {
    let server = Server::start(&[PUBLISH_TOKEN, SUBSCRIBE_TOKEN, INSPECT_TOKEN].concat());
    for (method, target) in [
        ("POST", "/v1/topics/t"),
        ("GET", "/v1/topics/t?limit=1"),
        ("GET", "/v1/topics/t?transport=sse"),
        ("GET", "/runs"),
    ] {
        server.ask(method, target, &[INSPECT], "1").refused(403, "forbidden");
    }
    let ticket = server.ask("POST", "/v1/tickets", &[INSPECT], "").json();
    let ticket = ticket["ticket"].as_str().expect("a ticket");
    let with_it = |target: &str| server.get(&format!("{target}ticket={ticket}"));
    with_it("/v1/topics/t?transport=sse&").refused(403, "forbidden");
    // The ticket is used up.
    with_it("/v1/topics?").refused(401, "unauthorized");
    let wrong = [("Authorization", "Bearer inspect-secre")];
    server.ask("GET", "/metrics", &wrong, "").refused(401, "unauthorized");
}

fn ask(server: &Server, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
    let mut raw = Raw::connect(server.admin_address());
    raw.ask(method, target, headers, "");
    raw.answer()
}

#[test]
fn a_separate_listener_shows_metrics_without_a_token() {
    for more in [&["--tls-self-signed"][..], &PUBLISH_TOKEN, &INSPECT_TOKEN] {
        let server = Server::start(&[&ANYWHERE[..], &ADMIN, more].concat());
        for target in ["/metrics", "/v1/topics", "/healthz", "/readyz"] {
            assert_eq!(ask(&server, "GET", target, &[]).status, 200, "{more:?} {target}");
            ask(&server, "POST", target, &[]).refused(405, "method_not_allowed");
        }
        // The other listener has not changed.
        if more != ["--tls-self-signed"] {
            server.get("/metrics").refused(401, "unauthorized");
        } else {
            let mut raw = TlsClient::raw(server.address);
            raw.ask("GET", "/metrics", &[], "");
            raw.answer().refused(401, "unauthorized");
        }
    }
}

#[test]
fn a_listener_of_its_own_shows_nothing_else() {
    let server = Server::start(&ADMIN);
    server.publish("t", 0..1);
    let list = ask(&server, "GET", "/v1/topics?limit=1", &[]);
    assert!(String::from_utf8_lossy(&list.body).contains("\"topic\":\"t\""), "{list:?}");
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/v1/topics/t"),
        ("GET", "/v1/topics/t?limit=1"),
        ("POST", "/v1/topics/t"),
        ("POST", "/v1/tickets"),
        ("POST", "/v1/commands"),
        ("GET", "/runs"),
    ] {
        ask(&server, method, target, &[]).refused(404, "not_found");
        ask(&server, method, target, &Transport::WebSocket.headers()).refused(404, "not_found");
    }
    let stream = ask(&server, "GET", "/v1/topics?topic=t&transport=sse", &[]);
    assert_eq!(stream.status, 200);
    assert!(String::from_utf8_lossy(&stream.body).starts_with("{\"topics\":"), "{stream:?}");
    let mut raw = Raw::connect(server.admin_address());
    raw.ask("GET", "/metrics", &[("Content-Length", "6")], "a body");
    raw.answer().refused(400, "bad_parameter");
    // No page may read the metrics: neither from another origin, nor through its own name for this machine.
    ask(&server, "GET", "/metrics", &[("Origin", "https://a.example")]).refused(403, "bad_origin");
    ask(&server, "GET", "/metrics", &[("Host", "evil.example")]).refused(421, "bad_host");
}

/// When all connections are in use, metrics are needed most. The listener has a few connections of its own.
#[test]
fn a_listener_of_its_own_has_places_of_its_own() {
    let server = Server::start(&[&ADMIN[..], &["--set", "limits.connections=1"]].concat());
    let mut taken = Raw::connect(server.address);
    taken.ask("GET", "/healthz", &[], "");
    assert_eq!(taken.answer().status, 200);
    assert_eq!(ask(&server, "GET", "/metrics", &[]).status, 200);
    let idle: Vec<Raw> = (0..80).map(|_| Raw::connect(server.admin_address())).collect();
    let mut one_more = Raw::connect(server.admin_address());
    one_more.answer().refused(503, "too_many_connections");
    drop(idle);
}

#[test]
fn an_admin_address_that_is_taken_is_named_with_its_flag() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = other.local_addr().expect("its address").to_string();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", &taken])
        .output()
        .expect("run the binary");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--admin-listen"), "{said}");
}
