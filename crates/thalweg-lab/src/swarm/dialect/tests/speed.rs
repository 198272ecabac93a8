//! Measures the swarm's time to read and check an event in each dialect: its ceiling without sockets, whose cost is the same for all
//! dialects. The test measures time, so run it by itself:
//!
//! ```sh
//! cargo test --release -p thalweg-lab --lib dialect::tests::speed -- --ignored --nocapture
//! ```

use super::super::*;
use crate::measure::statistics::median;
use crate::scenario::Drive;
use crate::swarm::carrier::websocket::tests::frame;
use crate::swarm::json_string;
use crate::swarm::parser::Stage;
use crate::swarm::receiver::Receiver;
use crate::swarm::tests::fed::Fed;
use rustix::time::{ClockId, clock_gettime};

/// Events of a round, published before the round begins.
const EVENTS: u32 = 4096;
const ROUNDS: usize = 60;
/// One read of a socket.
const READ_BYTES: usize = 64 << 10;
const EVENT_BYTES: u32 = 128;

/// Writes events, with `behind` earlier events before them, as a server of a dialect does.
type Write = fn(behind: u64, events: &[&[u8]], out: &mut Vec<u8>);

fn text(parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend(frame(0x81, &parts.concat()));
}

fn sse(parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(&parts.concat());
    out.extend_from_slice(b"\n\n");
}

fn envelope(behind: u64, events: &[&[u8]]) -> Vec<u8> {
    let (first, last) = (behind + 1, behind + events.len() as u64);
    let head =
        format!("{{\"topic\":\"bench/0\",\"position\":\"1.{last}\",\"first\":{first},\"events\":[");
    [head.as_bytes(), &events.join(&b',')[..], b"]}"].concat()
}

/// Name, transport, events per message, dialect, and writer of the messages.
type Spoken = (&'static str, Transport, usize, Box<dyn Dialect>, Write);

fn spoken(settings: &Settings) -> Vec<Spoken> {
    use Transport::{Sse, Websocket};
    let over = |transport| Settings { transport, ..settings.clone() };
    vec![
        ("raw", Websocket, 1, Box::new(raw::Raw), |_, events, out| text(events, out)),
        ("thalweg", Websocket, 4, Box::new(thalweg::Thalweg), |behind, events, out| {
            text(&[&envelope(behind, events)], out);
        }),
        ("limit", Websocket, 1, Box::new(limit::Limit), |behind, events, out| {
            text(&[&envelope(behind, events)], out);
        }),
        ("socketio", Websocket, 1, Box::new(socketio::SocketIo), |_, events, out| {
            text(&[b"42[\"event\",\"bench/0\",", events[0], b"]"], out);
        }),
        ("engineio", Websocket, 1, Box::new(socketio::EngineIo), |_, events, out| {
            text(&[b"4", events[0]], out);
        }),
        ("sockjs", Websocket, 1, Box::new(sockjs::SockJs::new(settings)), |_, events, out| {
            let mut escaped = Vec::new();
            json_string::escape(events[0], &mut escaped);
            text(&[b"a[\"", &escaped, b"\"]"], out);
        }),
        ("primus", Websocket, 1, Box::new(primus::Primus), |_, events, out| text(events, out)),
        ("nats", Websocket, 4, Box::new(nats::Nats::new(settings)), |_, events, out| {
            let line = |event: &&[u8]| {
                [format!("MSG bench/0 1 {}\r\n", event.len()).as_bytes(), event, b"\r\n"].concat()
            };
            out.extend(frame(0x82, &events.iter().flat_map(line).collect::<Vec<u8>>()));
        }),
        ("nchan", Websocket, 1, Box::new(nchan::Nchan), |_, events, out| text(events, out)),
        (
            "centrifugo",
            Websocket,
            1,
            Box::new(centrifugo::Centrifugo::new(settings)),
            |_, events, out| {
                let head = b"{\"push\":{\"channel\":\"bench/0\",\"pub\":{\"data\":";
                text(&[head, events[0], b"}}}"], out);
            },
        ),
        ("raw", Sse, 1, Box::new(raw::Raw), |_, events, out| sse(events, out)),
        ("thalweg", Sse, 4, Box::new(thalweg::Thalweg), |behind, events, out| {
            sse(&[&envelope(behind, events)], out);
        }),
        ("nchan", Sse, 1, Box::new(nchan::Nchan), |_, events, out| {
            out.extend_from_slice(b"id: 1700000000:0\n");
            sse(events, out);
        }),
        (
            "centrifugo",
            Sse,
            1,
            Box::new(centrifugo::Centrifugo::new(&over(Sse))),
            |_, events, out| {
                let head = b"{\"channel\":\"bench/0\",\"pub\":{\"data\":";
                sse(&[head, events[0], b"}}"], out);
            },
        ),
        ("mercure", Sse, 1, Box::new(mercure::Mercure), |_, events, out| {
            out.extend_from_slice(b"id: urn:uuid:6b1f1f1e-0000-4000-8000-000000000000\n");
            sse(events, out);
        }),
    ]
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
#[ignore = "it measures time"]
#[expect(clippy::print_stdout, reason = "it prints its results for the person who runs it")]
fn the_cost_of_an_event_to_the_swarm() {
    let settings = Settings {
        connections: 1,
        event_bytes: EVENT_BYTES,
        window: EVENTS,
        ..Settings::default()
    };
    let mut all: Vec<_> = spoken(&settings)
        .into_iter()
        .map(|(name, transport, each, dialect, write)| {
            let settings = Settings { transport, ..settings.clone() };
            let receiver = Receiver::new(&settings, Drive::PublishedLoad, 0, dialect.escapes());
            let mut fed = Fed::speaking(dialect, &settings);
            (fed.receiver, fed.session.stage) = (receiver, Stage::Established);
            fed.receiver.begin_read(2);
            ((name, transport), each, write, fed, Vec::new())
        })
        .collect();
    for round in 0..ROUNDS as u64 {
        for (_, each, write, fed, times) in &mut all {
            let (mut lines, mut stream) = (Vec::new(), Vec::new());
            fed.receiver.topics()[0].publish(1, &mut lines);
            let events: Vec<&[u8]> = lines.trim_ascii_end().split(|byte| *byte == b'\n').collect();
            let mut behind = round * u64::from(EVENTS);
            for some in events.chunks(*each) {
                write(behind, some, &mut stream);
                behind += some.len() as u64;
            }
            let begin_ns = cpu_ns();
            for piece in stream.chunks(READ_BYTES) {
                fed.feed(piece).expect("what this dialect says");
            }
            times.push((cpu_ns() - begin_ns) as f64 / f64::from(EVENTS));
            assert!(fed.receiver.topics()[0].is_settled(), "{:?}", fed.receiver.ledger);
        }
    }
    let raw_ns = median(&all[0].4).expect("rounds");
    println!("CPU of the swarm for an event of {EVENT_BYTES} bytes, without the socket");
    for ((name, transport), each, _, _, times) in &all {
        let ns = median(times).expect("rounds");
        println!(
            "{name:<10} {:<9} {each} in a message  {ns:6.0} ns  {:5.2} × raw  {:5.1} million/s",
            transport.to_string(),
            ns / raw_ns,
            1e3 / ns
        );
    }
}
