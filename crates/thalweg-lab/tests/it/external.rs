//! Endpoints that are not made for the lab: servers that live in the test.

mod arriving;
mod compressed;
mod dialects;
mod misbehaving;
mod opening;
mod responses;
mod sending;
mod sequences;
mod server;
mod slow;
mod timestamps;
mod trust;

use crate::swarm::{Blind, load};
use server::{Peer, Script, script, serve};
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_lab::load_generator::{self, Figures, Interrupted, Moment, Observer, Outcome};
use thalweg_lab::measure::Received;
use thalweg_lab::scenario::{Drive, Endpoint, OpeningStep, Program, Settings, Transport, Typed};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;

const PACE: Duration = Duration::from_millis(1);

fn typed(url: String) -> Typed {
    Typed { url, ..Typed::default() }
}

fn visit(typed: &Typed, connections: u32) -> anyhow::Result<Outcome> {
    visit_for(typed, connections, 20, 150)
}

fn visit_for(
    typed: &Typed,
    connections: u32,
    warm_up_ms: u64,
    measured_ms: u64,
) -> anyhow::Result<Outcome> {
    run(typed, connections, warm_up_ms, measured_ms, &mut Blind)
}

fn run(
    typed: &Typed,
    connections: u32,
    warm_up_ms: u64,
    measured_ms: u64,
    observer: &mut dyn Observer,
) -> anyhow::Result<Outcome> {
    let settings = Settings { connections, ..Settings::default() };
    run_with(typed, settings, warm_up_ms, measured_ms, observer)
}

/// The same with other settings: with a rate, messages are sent to it.
fn run_with(
    typed: &Typed,
    settings: Settings,
    warm_up_ms: u64,
    measured_ms: u64,
    observer: &mut dyn Observer,
) -> anyhow::Result<Outcome> {
    let endpoint = Endpoint::read(typed)?;
    let settings = Settings { transport: endpoint.transport, ..settings };
    let sends = settings.rate > 0
        || settings.transport == Transport::Websocket && endpoint.think_us.is_some();
    // The endpoint has its own.
    let address = SocketAddr::from(([0, 0, 0, 0], 0));
    let program = Program::Url(Box::new(endpoint));
    let drive = if sends { Drive::Send } else { Drive::Listen };
    let load = load(address, &program, &settings, drive, [warm_up_ms, measured_ms]);
    load_generator::run(&Swarm, &load, observer)
}

fn received(typed: &Typed, connections: u32) -> Received {
    received_in(visit(typed, connections))
}

fn received_in(outcome: anyhow::Result<Outcome>) -> Received {
    outcome.expect("an endpoint that is received").received.expect("what was received")
}

/// Calls `say` again and again, until the client is gone.
fn forever(mut say: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        say()?;
        thalweg_testing::let_pass(PACE);
    }
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nServer: test\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Events of 11 bytes over any transport, in many ways.
fn every_transport() -> Vec<(&'static str, Option<&'static str>, Script)> {
    let websocket = |mut peer: Peer| {
        peer.upgrade("")?;
        forever(|| peer.frame(0x81, br#"{"id":1234}"#))
    };
    let fragments = |mut peer: Peer| {
        peer.upgrade("")?;
        forever(|| {
            peer.frame(0x02, br#"{"id"#)?;
            peer.frame(0x89, b"ping")?;
            peer.frame(0x00, b"")?;
            peer.frame(0x80, br#"":1234}"#)
        })
    };
    let sse = |mut peer: Peer| {
        peer.say(&format!("{SSE}\r\n\u{FEFF}retry: 5\r\n"))?;
        forever(|| peer.say("id: 1\r\ndata: {\"id\":\r\ndata:1234}\r\n\r\n:comment\r\n\r\n"))
    };
    let sse_in_chunks = |mut peer: Peer| {
        peer.say(&format!("{SSE}Transfer-Encoding: chunked\r\n\r\n"))?;
        // No chunk is an event.
        forever(|| peer.say(&[chunk("data"), chunk(": {\"id\":12345}\n"), chunk("\n")].concat()))
    };
    let lines_in_chunks = |mut peer: Peer| {
        peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        forever(|| peer.say(&[chunk("{\"id\""), chunk(":1234}\r\n\r\n")].concat()))
    };
    let lines_of_a_length = |mut peer: Peer| {
        peer.say("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
        forever(|| peer.say("{\"id\":1234}\n"))
    };
    let lines = |mut peer: Peer| {
        peer.say("HTTP/1.0 200 OK\r\n\r\n")?;
        forever(|| peer.say("{\"id\":1234}\n"))
    };
    let streaming = Some("http-streaming");
    vec![
        ("ws", None, script(websocket)),
        ("ws", None, script(fragments)),
        ("http", None, script(sse)),
        ("http", Some("sse"), script(sse_in_chunks)),
        ("http", streaming, script(lines_in_chunks)),
        ("http", streaming, script(lines_of_a_length)),
        ("http", streaming, script(lines)),
    ]
}

#[test]
fn every_transport_is_received() {
    undisturbed(|| {
        for (index, (scheme, transport, script)) in every_transport().into_iter().enumerate() {
            let address = serve(script);
            let typed = Typed {
                transport: transport.map(str::to_owned),
                ..typed(format!("{scheme}://{address}/live?a=b"))
            };
            let Outcome { received, traffic, latency, span_us, .. } = visit(&typed, 3).unwrap();
            let received = received.unwrap();
            assert_eq!((received.connections, received.established), (3, 3), "{index}");
            assert_eq!((received.refused.count, received.ended_early.count), (0, 0), "{index}");
            assert!(received.events > 10, "{index}: {received:?}");
            let bytes = if index == 2 || index == 3 { 12 } else { 11 };
            assert_eq!(received.payload_bytes, bytes * received.events, "{index}");
            assert_eq!(received.event_bytes_max, bytes);
            assert!(received.wire_bytes > received.payload_bytes);
            let (text, binary) =
                if index == 1 { (0, received.events) } else { (received.events, 0) };
            assert_eq!((received.text_events, received.binary_events), (text, binary), "{index}");
            assert_eq!(
                received.signs_of_life > 0,
                [1, 2, 4].contains(&index),
                "{index}: {received:?}"
            );
            assert!(
                received.json_tried > 0 && received.json_found == received.json_tried,
                "{index}: {received:?}"
            );
            let (min, max) =
                (received.events_per_connection_min, received.events_per_connection_max);
            assert!(
                0 < min && min <= max && 3 * min <= received.events && received.events <= 3 * max
            );
            assert!(received.intervals.is_some(), "{index}");
            assert_eq!((received.timestamps.clone(), latency.quantile_us(0.5)), (None, None));
            assert_eq!(
                (traffic.events, traffic.wire_bytes),
                (received.events, received.wire_bytes)
            );
            assert_eq!(received.span_us, span_us);
            assert_eq!(received.answer.address, address.to_string());
            assert_eq!(received.answer.is_chunked, [3, 4].contains(&index));
            assert_eq!(received.answer.server.is_some(), [2, 3].contains(&index));
            let written = serde_json::to_string(&received).unwrap();
            assert_eq!(serde_json::from_str::<Received>(&written).unwrap(), received);
        }
    });
}

/// Delays last at least as long as they should, and the client's own time is less than the test's whole visit.
#[test]
fn set_up_intervals_and_silences_are_as_long_as_they_are() {
    undisturbed(|| {
        let (set_up, apart) = (Duration::from_millis(40), Duration::from_millis(30));
        let answered = script(move |mut peer| {
            thalweg_testing::let_pass(set_up);
            peer.upgrade("")?;
            loop {
                peer.frame(0x81, b"event")?;
                peer.frame(0x81, b"event")?;
                thalweg_testing::let_pass(apart);
            }
        });
        let visited = std::time::Instant::now();
        let received = received(&typed(format!("ws://{}/", serve(answered))), 2);
        let within = visited.elapsed().as_micros() as u64;
        let set_up_us = received.set_up.unwrap().p50_us;
        assert!((40_000..within).contains(&set_up_us), "{set_up_us} of {within}");
        // Histograms are exact to three digits; a sleep is not shorter than it should be.
        let intervals = received.intervals.unwrap();
        assert!((29_900..within).contains(&intervals.max_us), "{intervals:?}");
        assert!(intervals.p50_us < 29_000, "two events come together: {intervals:?}");
        assert!((29_000..=received.span_us).contains(&received.silence_us_max), "{received:?}");
    });
}

#[test]
fn silence_before_the_span_does_not_count() {
    undisturbed(|| {
        // Each connection hears one event, long before the span.
        let once = script(|mut peer| {
            peer.upgrade("")?;
            peer.frame(0x81, b"event")?;
            peer.read_frame().map(drop)
        });
        let received =
            received_in(visit_for(&typed(format!("ws://{}/", serve(once))), 2, 300, 100));
        assert_eq!((received.events, received.intervals), (0, None));
        assert_eq!(received.silence_us_max, received.span_us);
        // And again in the span, so that far more than it lies between the two.
        let twice = script(|mut peer| {
            peer.upgrade("")?;
            peer.frame(0x81, b"event")?;
            thalweg_testing::let_pass(Duration::from_millis(420));
            peer.frame(0x81, b"event")?;
            peer.read_frame().map(drop)
        });
        let received =
            received_in(visit_for(&typed(format!("ws://{}/", serve(twice))), 2, 300, 200));
        assert_eq!(received.intervals, None);
        assert!(received.silence_us_max <= received.span_us, "{received:?}");
    });
}

#[test]
fn the_typed_url_is_reported() {
    undisturbed(|| {
        let (sender, receiver) = channel();
        let sender = Mutex::new(sender);
        let address = serve(script(move |mut peer| {
            peer.upgrade("Sec-WebSocket-Protocol: graphql-transport-ws\r\n")?;
            let mut sent = vec![
                peer.head.lines().next().unwrap_or_default().to_owned(),
                peer.header("Authorization").to_owned(),
                peer.header("Sec-WebSocket-Protocol").to_owned(),
                peer.header("Sec-WebSocket-Key").to_owned(),
            ];
            let mut masks = Vec::new();
            for _ in 0..2 {
                let (first, mask, text) = peer.read_frame()?;
                sent.push(format!("{first:x} {}", text.escape_ascii()));
                masks.push(mask);
            }
            // Events only for those who answer pings.
            peer.frame(0x89, b"are you there?")?;
            let (first, mask, text) = peer.read_frame()?;
            sent.push(format!("{first:x} {}", text.escape_ascii()));
            masks.push(mask);
            masks.dedup();
            sent.push(format!("{} masks", masks.len()));
            let _ = sender.lock().map(|sender| sender.send(sent));
            for _ in 0..50 {
                peer.frame(0x81, b"event")?;
                thalweg_testing::let_pass(PACE);
            }
            // At the end the client says goodbye.
            let (first, _, code) = peer.read_frame()?;
            let _ = sender.lock().map(|sender| sender.send(vec![format!("{first:x} {code:?}")]));
            Ok(())
        }));
        let typed = Typed {
            headers: vec!["Authorization: Bearer secret".to_owned()],
            subprotocol: Some("graphql-transport-ws".to_owned()),
            opening: ["{\"type\":\"connection_init\"}", "second"]
                .map(|text| OpeningStep::Send(text.to_owned()))
                .to_vec(),
            ..typed(format!("ws://{address}/graphql?x=1"))
        };
        let received = received_in(visit_for(&typed, 1, 0, 400));
        assert!(
            received.events > 0 && received.json_found == 0 && received.json_tried > 0,
            "{received:?}"
        );
        assert_eq!(received.answer.subprotocol.as_deref(), Some("graphql-transport-ws"));
        let sent = thalweg_testing::receive(&receiver, "an answer").unwrap();
        assert_eq!(
            sent[..3],
            ["GET /graphql?x=1 HTTP/1.1", "Bearer secret", "graphql-transport-ws"]
        );
        assert_eq!(sent[3].len(), 24);
        assert_eq!(
            sent[4..],
            [
                "81 {\\\"type\\\":\\\"connection_init\\\"}",
                "81 second",
                "8a are you there?",
                "3 masks"
            ]
        );
        assert_eq!(thalweg_testing::receive(&receiver, "an answer").unwrap(), ["88 [3, 232]"]);
    });
}

#[derive(Default)]
struct Notes {
    moments: Vec<String>,
    connections: usize,
    ends_at: usize,
}

impl Observer for Notes {
    fn at(&mut self, moment: Moment<'_>) {
        self.moments.push(format!("{moment:?}"));
    }
    fn progress(&mut self, figures: Figures<'_>) -> ControlFlow<()> {
        self.connections = self.connections.max(figures.connections);
        self.ends_at = self.ends_at.saturating_sub(1);
        if self.ends_at == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn an_observer_gets_every_moment_and_may_end_the_run() {
    undisturbed(|| {
        let (_, _, script) = every_transport().swap_remove(0);
        let typed = typed(format!("ws://{}/", serve(script)));
        let mut notes = Notes::default();
        run(&typed, 2, 1, 250, &mut notes).unwrap();
        assert_eq!(notes.moments, ["Open", "Warm", "Begin", "End", "Over { stopped_ports: [] }"]);
        assert_eq!(notes.connections, 2);
        let mut notes = Notes { ends_at: 3, ..Notes::default() };
        let error = run(&typed, 2, 1, 3_600_000, &mut notes).unwrap_err();
        assert!(error.is::<Interrupted>(), "{error}");
    });
}

#[test]
fn names_and_both_families_of_addresses_are_reached() {
    undisturbed(|| {
        let (_, _, script) = every_transport().swap_remove(0);
        let address = serve(Arc::clone(&script));
        let found = received(&typed(format!("ws://localhost:{}/", address.port())), 3);
        assert_eq!((found.established, found.answer.address), (3, address.to_string()));
        // Not every machine has IPv6.
        let Ok(address) = server::serve_at("[::1]:0", None, script) else { return };
        assert_eq!(received(&typed(format!("ws://{address}/")), 3).established, 3);
    });
}
