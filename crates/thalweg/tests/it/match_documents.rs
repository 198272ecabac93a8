//! The load that broke other servers: large documents, many versions, clients that never read, a killed server.

use serde_json::Value;
use thalweg_match_feed::{Match, Size};

use crate::harness::{Program, Server, Socket, Transport, request, thalweg};

const VALUES: [&str; 2] = ["--topic", "matchesfeed/**,kind=value"];

const TOPIC: &str = "matchesfeed/8/matchcentre";

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

const MIB: usize = 1 << 20;

/// The memory of a server without clients, and the default for pinned batches.
const RESIDENT_BYTES_MAX: usize = 64 * MIB;
const PINNED_BYTES_MAX: usize = 8 * MIB;

const BYTES_FOR_EACH: usize = 2 << 10;

/// Publishes the next version. Returns its epoch.
fn publish(server: &Server, game: &mut Match) -> String {
    game.advance();
    let position = server.post(TOPIC, "application/json", game.json()).published().position;
    position.split('.').next().expect("an epoch").to_owned()
}

fn parse(json: impl AsRef<[u8]>) -> Value {
    serde_json::from_slice(json.as_ref()).expect("JSON")
}

/// Opens connections that request the topic and never read, over each transport, with and without patches.
fn open_silent_connections(server: &Server, count: usize) -> Vec<Socket> {
    let websocket = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhhbHdlZyBzYXlzIGhpIQ=="),
    ];
    let sse = [("Accept", "text/event-stream")];
    let lines = [("Accept", "application/x-ndjson")];
    let headers: [&[(&str, &str)]; 3] = [&websocket, &sse, &lines];
    let connect = |index: usize| {
        let deltas = if index.is_multiple_of(2) { "patch" } else { "none" };
        let target = format!("/v1/topics/{TOPIC}?deltas={deltas}");
        let mut socket = server.connect();
        socket.send_if_open(request("GET", &target, headers[index % headers.len()], b""));
        socket
    };
    (0..count).map(connect).collect()
}

#[test]
fn clients_that_never_read_cost_their_cursors() {
    const CLIENTS: usize = 500;
    let server = Server::start(&VALUES);
    let mut game = Match::new(1, "8", Size::Large);
    publish(&server, &mut game);
    let never = open_silent_connections(&server, CLIENTS);
    server.await_connections(CLIENTS);
    let mut reader = server.subscribe(Transport::WebSocket, &format!("/{TOPIC}"));
    assert!(reader.envelope().events.is_empty());
    let newest = |reader: &mut crate::harness::Subscriber, game: &Match| {
        while reader.envelope().events != [parse(game.json())] {}
    };
    let mut memory = Vec::new();
    for _ in 0..4 {
        for _ in 0..50 {
            publish(&server, &mut game);
        }
        newest(&mut reader, &game);
        memory.push(server.memory());
    }
    // Most of these clients are connected but do not read: their memory stays within the budget.
    let bound = RESIDENT_BYTES_MAX + CLIENTS * BYTES_FOR_EACH + PINNED_BYTES_MAX;
    assert!(memory.iter().all(|bytes| *bytes <= bound), "{memory:?}, of {bound}");
    let grown = memory[3].saturating_sub(memory[1]);
    assert!(grown < 4 * MIB, "{memory:?}: it grows with each version");
    assert!(server.metric("thalweg_pinned_bytes") <= PINNED_BYTES_MAX as f64);
    drop(never);
}

/// Each client reconnects, gets another epoch, and ends with the published document, also if versions arrive during the kill.
#[test]
fn clients_of_a_killed_server_end_with_the_published_document() {
    let transports = ["websocket", "sse", "http-streaming", "long-polling", "forever-frame"];
    let server = Server::start(&VALUES);
    let address = server.address.to_string();
    let url = format!("http://{address}/v1/topics/{TOPIC}");
    let mut game = Match::new(2, "8", Size::Medium);
    publish(&server, &mut game);
    let mut tails = transports.map(|transport| thalweg(&["tail", &url, "--transport", transport]));
    let equal = |tails: &mut [Program], game: &Match| {
        let document = parse(game.json());
        for tail in tails {
            while parse(tail.line().expect("a document")) != document {}
        }
    };
    equal(&mut tails, &game);
    let before = publish(&server, &mut game);
    // Before the kill one whole body has arrived, and half of the next one.
    let mut publisher = server.connect();
    let mut begun = 0;
    while server.metric("thalweg_patches_made_total") < 10.0 {
        game.advance();
        let posted = request("POST", &format!("/v1/topics/{TOPIC}"), &JSON, game.json());
        publisher.send_if_open(&posted);
        publisher.send_if_open(&posted[..posted.len() / 2]);
        publisher = server.connect();
        begun += 1;
        assert!(begun < 1_000, "no patches are made of it");
    }
    server.kill();
    let server = Server::start(&[&VALUES[..], &["--listen", &address]].concat());
    let after: Vec<_> = (0..10).map(|_| publish(&server, &mut game)).collect();
    assert_ne!(before, after[0]);
    equal(&mut tails, &game);
}

#[test]
fn a_patch_is_made_once_for_all() {
    let server = Server::start(&[&VALUES[..], &["--shards", "2"]].concat());
    let mut game = Match::new(3, "8", Size::Small);
    publish(&server, &mut game);
    let target = format!("/{TOPIC}?deltas=patch");
    let transports = [Transport::WebSocket, Transport::Sse, Transport::HttpStreaming];
    let mut subscribers: Vec<_> = transports
        .into_iter()
        .flat_map(|transport| (0..4).map(move |_| transport))
        .map(|transport| server.subscribe(transport, &target))
        .collect();
    let versions = subscribers.iter_mut().map(|subscriber| {
        subscriber.confirmed();
        subscriber.envelope().events
    });
    versions.for_each(|version| assert_eq!(version, [parse(game.json())]));
    for _ in 0..10 {
        publish(&server, &mut game);
        for subscriber in &mut subscribers {
            assert!(subscriber.envelope().patch.is_some());
        }
    }
    let count = |what: &str| server.metric(&format!("thalweg_patches_{what}_total"));
    assert_eq!((count("made"), count("given_up")), (10.0, 0.0));
}
