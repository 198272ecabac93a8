//! Tokens, keys and limits that are reloaded on SIGHUP.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use rustix::process::{Signal, kill_process};
use serde_json::json;
use thalweg_testing::TemporaryPath;

use super::{EC, bearer, disconnecting::publish_without_end, key_set, token};
use crate::harness::{Received, Reply, Server, Transport, Upstream, close};

struct Settings(TemporaryPath);

impl Settings {
    fn new(name: &str, text: &str) -> Self {
        Self(TemporaryPath::file(name, text))
    }

    fn change(&self, server: &Server, text: &str, said: &str) {
        std::fs::write(&*self.0, text).expect("a file");
        kill_process(server.pid(), Signal::HUP).expect("a signal");
        server.has_said(said);
    }
}

/// Tables of tokens, from their short forms with one or two rights.
fn tables(tokens: &[&str]) -> String {
    let table = |token: &&str| {
        let mut parts = token.split(',').filter_map(|part| part.split_once('='));
        let (name, secret) = parts.next().expect("a secret");
        let rights = parts.map(|(right, topics)| format!("{right} = [\"{topics}\"]\n"));
        let rights: String = rights.collect();
        format!("[[token]]\nname = \"{name}\"\nsecret = \"{secret}\"\n{rights}")
    };
    tokens.iter().map(table).collect()
}

#[test]
fn tokens_are_read_again_and_no_connection_is_lost() {
    let all = tables(&["a=one,subscribe=**", "b=two,subscribe=**,publish=**"]);
    let settings = Settings::new("again", &all);
    let path = settings.0.text();
    let server = Server::start(&["--config", path, "--shards", "2"]);
    let with = |token: &str| ("Authorization", format!("Bearer {token}"));
    let open = |token: &str| {
        let (name, value) = with(token);
        let mut subscriber =
            server.subscribe_with(Transport::WebSocket, "/cars", &[(name, &value)]);
        subscriber.confirmed();
        subscriber.command(r#"{"command":"subscribe","topic":"bikes"}"#);
        subscriber.confirmed();
        subscriber
    };
    let (mut kept, mut gone, mut less) = (open("two"), open("one"), open("two"));
    drop(less.command(r#"{"command":"unsubscribe","topic":"cars"}"#));
    let fewer = tables(&["b=two,subscribe=cars,publish=**", "c=three,subscribe=**"]);
    settings.change(&server, &fewer, "loaded tokens");
    assert_eq!(gone.next(), close(Transport::WebSocket, 4004, "expired", true));
    for subscriber in [&mut kept, &mut less] {
        let Received::TopicEnd(topic, _, code) = subscriber.next() else { panic!("an end") };
        assert_eq!((&*topic, &*code), ("bikes", "forbidden"));
    }
    let (name, value) = with("two");
    let ask = |token: &str| {
        let (name, value) = with(token);
        server.ask("GET", "/v1/topics/cars?limit=1", &[(name, &value)], "").status
    };
    assert_eq!(server.ask("POST", "/v1/topics/cars", &[(name, &value)], "7").status, 200);
    assert_eq!(kept.numbers(1).0, [7]);
    assert_eq!([ask("one"), ask("two"), ask("three")], [401, 200, 200]);
    // An invalid file changes nothing.
    settings.change(&server, r#"token = ["nonsense"]"#, "keeping the old ones");
    assert_eq!([ask("one"), ask("two"), ask("three")], [401, 200, 200]);
}

#[test]
fn a_reload_without_tokens_opens_nothing() {
    let settings = Settings::new("empty", &tables(&["a=one,publish=**"]));
    let server = Server::start(&["--config", settings.0.text()]);
    settings.change(&server, "", "keeping the old ones");
    server.ask("POST", "/v1/topics/cars", &[], "7").refused(401, "unauthorized");
}

#[test]
fn a_publisher_of_lines_ends_with_its_right() {
    for (left, status, code) in [
        (&["b=two,publish=**"][..], 401, "unauthorized"),
        (&["a=one,publish=users/bob/out", "b=two,subscribe=x"], 403, "forbidden"),
    ] {
        let settings = Settings::new(
            "publisher",
            &tables(&["a=one,publish=users/alice/out", "b=two,subscribe=x"]),
        );
        let server = Server::start(&["--config", settings.0.text()]);
        let mut turns = 0;
        let ended = publish_without_end(&server, "Bearer one", || {
            turns += 1;
            // The server needs its head first.
            if turns == 2 {
                settings.change(&server, &tables(left), "loaded tokens");
            }
        });
        ended.refused(status, code);
    }
}

#[test]
fn keys_that_were_read_stay_when_settings_are_read_again() {
    let answers = Arc::new(AtomicBool::new(true));
    let issuer = Upstream::start({
        let answers = Arc::clone(&answers);
        move |_| match answers.load(Relaxed) {
            true => Reply::json("", &key_set("one")),
            false => Reply::with(500, "", "not now"),
        }
    });
    let all = format!("jwks-url = \"{}\"\n", issuer.url("/keys"));
    let settings = Settings::new("keys", &all);
    let server = Server::start(&["--config", settings.0.text()]);
    let get = |subject: &str| {
        let token = token(EC[0], Some("one"), json!({ "sub": subject }));
        let target = format!("/v1/topics/users/{subject}/in?limit=1");
        server.ask("GET", &target, &[("Authorization", &*bearer(&token))], "")
    };
    get("alice").refused(404, "no_such_topic");
    answers.store(false, Relaxed);
    let more = format!("{all}allow-origin = [\"https://app.example\"]\n");
    settings.change(&server, &more, "loaded tokens");
    get("bob").refused(404, "no_such_topic");
    get("alice").refused(404, "no_such_topic");
}

#[test]
fn a_ticket_has_the_rights_of_its_token_at_the_time_of_use() {
    let settings = Settings::new("ticket", &tables(&["a=one,subscribe=**", "b=two,publish=**"]));
    let server = Server::start(&["--config", settings.0.text()]);
    let ticket = |token: &str| {
        let answer = server.ask("POST", "/v1/tickets", &[("Authorization", token)], "").json();
        answer["ticket"].as_str().expect("a ticket").to_owned()
    };
    let (gone, less) = (ticket("Bearer one"), ticket("Bearer two"));
    settings.change(&server, &tables(&["b=two,publish=cars"]), "loaded tokens");
    server.get(&format!("/v1/topics/t?limit=1&ticket={gone}")).refused(401, "unauthorized");
    server
        .ask("POST", &format!("/v1/topics/bikes?ticket={less}"), &[], "1")
        .refused(403, "forbidden");
}

/// A client of a former trusted proxy must not count as a loopback client.
#[test]
fn proxies_are_those_of_the_start() {
    let settings = Settings::new("proxies", "trusted-proxy = [\"127.0.0.1\"]\n");
    let server = Server::start(&["--config", settings.0.text()]);
    server.get("/metrics").refused(401, "unauthorized");
    settings.change(&server, "", "loaded tokens");
    server.get("/metrics").refused(401, "unauthorized");
}

#[test]
fn limits_are_reloaded_and_connections_stay() {
    let narrow = "trusted-proxy = [\"127.0.0.1\"]\n[limits]\nconnections-per-address = 1\n\
                  address-rates = { handshakes = 1 }\n";
    let settings = Settings::new("limits", narrow);
    let path = settings.0.text();
    let server = Server::start(&["--config", path, "--shards", "2", "--demo"]);
    let from = |address| [("X-Forwarded-For", address)];
    let subscribe = || server.subscribe_with(Transport::WebSocket, "/echo", &from("192.0.2.1"));
    let mut first = subscribe();
    first.confirmed();
    let ask = |address| {
        let target = "/v1/topics/echo?limit=1";
        server.ask("GET", target, &from(address), "")
    };
    ask("192.0.2.1").refused(429, "too_many_from_address");
    server.has_said("address=\"192.0.2.1\"");
    // One per second allows ten at once.
    let refused =
        |address| (0..30).map(|_| ask(address)).filter(|response| response.status == 429).count();
    assert!(refused("192.0.2.2") >= 15);
    let wide =
        narrow.replace("address = 1", "address = 3").replace("handshakes = 1", "handshakes = 1000");
    settings.change(&server, &wide, "reloaded tokens, origins, host names and limits");
    assert_eq!(refused("192.0.2.3"), 0);
    let mut second = subscribe();
    second.confirmed();
    server.ask("POST", "/v1/topics/echo", &[], "7");
    for subscriber in [&mut first, &mut second] {
        assert_eq!(subscriber.numbers(1).0, [7]);
    }
}
