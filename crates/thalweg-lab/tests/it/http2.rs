//! The swarm over HTTP/2, against a server made with the h2 crate.

use crate::fake::{DOCUMENT_ENVELOPES, RELOAD, cursor, envelope};
use crate::swarm::{Blind, found, load};
use bytes::Bytes;
use h2::{SendStream, server};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_lab::load_generator::{Outcome, run};
use thalweg_lab::scenario::{Drive, Program, Settings, Transport};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Turns the first subscriber's next event, by its number, into other ones.
type Fault = fn(u64, String) -> Vec<String>;

struct Topic {
    state: Mutex<State>,
    fault: Fault,
    transport: Transport,
}

#[derive(Default)]
struct State {
    subscribers: Vec<Subscriber>,
    /// The events so far; the first has number 1.
    history: Vec<String>,
}

struct Subscriber {
    stream: SendStream<Bytes>,
    sent: usize,
}

/// Serves on a thread of its own until the process ends.
fn serve(transport: Transport, fault: Fault) -> std::io::Result<SocketAddr> {
    let topic = Arc::new(Topic { state: Mutex::default(), fault, transport });
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let listener = TcpListener::from_std(listener)?;
            loop {
                let (socket, _) = listener.accept().await?;
                let topic = Arc::clone(&topic);
                // A client that leaves ends its task, not the test.
                tokio::task::spawn_local(async move {
                    let _ = topic.attend(socket).await;
                });
            }
        })
    });
    Ok(address)
}

impl Topic {
    async fn attend(&self, socket: TcpStream) -> Result<(), Box<dyn std::error::Error>> {
        socket.set_nodelay(true)?;
        let mut first = [0; 3];
        while socket.peek(&mut first).await? < first.len() {}
        if &first == b"POS" {
            return self.publish(BufReader::new(socket)).await;
        }
        let mut connection = server::handshake(socket).await?;
        while let Some(request) = connection.accept().await {
            let (request, mut respond) = request?;
            assert_eq!(request.uri().path(), "/v1/topics/bench/0");
            let response = http::Response::builder().status(200).body(())?;
            let stream = respond.send_response(response, false)?;
            let query = request.uri().query().unwrap_or_default();
            self.subscribe(stream, cursor(query), query.contains("wait=0"))?;
        }
        Ok(())
    }

    fn subscribe(
        &self,
        mut stream: SendStream<Bytes>,
        cursor: Option<usize>,
        is_all: bool,
    ) -> Result<(), h2::Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let from = cursor.unwrap_or(state.history.len());
        stream.send_data(self.framed(&envelope(from as u64, "")), is_all)?;
        let mut subscriber = Subscriber { stream, sent: 0 };
        let missed: Vec<String> = state.history[from..].to_vec();
        for (number, event) in (from as u64 + 1..).zip(missed) {
            // A poll gets one event at a time here.
            if is_all || !self.send(&mut subscriber, &[envelope(number, &event)]) {
                return Ok(());
            }
        }
        if !is_all {
            state.subscribers.push(subscriber);
        }
        Ok(())
    }

    /// Returns whether it is to be sent more.
    fn send(&self, subscriber: &mut Subscriber, envelopes: &[String]) -> bool {
        for envelope in envelopes {
            subscriber.sent += 1;
            // The client may be gone.
            let _ = subscriber.stream.send_data(self.framed(envelope), false);
        }
        let is_over = match self.transport {
            Transport::LongPolling => subscriber.sent > 0,
            Transport::ForeverFrame => subscriber.sent >= DOCUMENT_ENVELOPES,
            _ => false,
        };
        if is_over {
            let last = match self.transport {
                Transport::ForeverFrame => self.framed(RELOAD),
                _ => Bytes::new(),
            };
            let _ = subscriber.stream.send_data(last, true);
        }
        !is_over
    }

    fn framed(&self, envelope: &str) -> Bytes {
        let framed = match self.transport {
            Transport::Sse => format!("data:{envelope}\nid:1.1\n\n"),
            Transport::ForeverFrame => {
                format!("<script nonce=\"x\">receive('{envelope}')</script>\n")
            }
            _ => format!("{envelope}\n"),
        };
        framed.into()
    }

    async fn publish(
        &self,
        mut reader: BufReader<TcpStream>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).await?;
        }
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).await?;
            let length = usize::from_str_radix(size.trim(), 16)?;
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk).await?;
            if length == 0 {
                return Ok(());
            }
            for event in std::str::from_utf8(&chunk[..length])?.lines() {
                self.fan_out(event);
            }
        }
    }

    fn fan_out(&self, event: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.history.push(event.to_owned());
        let number = state.history.len() as u64;
        let mut index = 0;
        state.subscribers.retain_mut(|subscriber| {
            index += 1;
            let events =
                if index == 1 { (self.fault)(number, event.into()) } else { vec![event.into()] };
            if events.iter().any(|event| event == "END") {
                let _ = subscriber.stream.send_data(Bytes::new(), true);
                return false;
            }
            let sent: Vec<String> = events.iter().map(|event| envelope(number, event)).collect();
            self.send(subscriber, &sent)
        });
    }
}

fn settings(transport: Transport, event_bytes: u32) -> Settings {
    let (connections, streams, window) = (20, 10, 3);
    Settings { transport, connections, streams, window, event_bytes, ..Settings::default() }
}

fn measure(settings: &Settings, fault: Fault) -> anyhow::Result<Outcome> {
    let address = serve(settings.transport, fault)?;
    let load = load(address, &Program::Thalweg, settings, Drive::PublishedLoad, [50, 150]);
    run(&Swarm, &load, &mut Blind)
}

fn intact(_: u64, event: String) -> Vec<String> {
    vec![event]
}

#[test]
fn the_ledger_of_every_stream_is_whole() {
    undisturbed(|| {
        // The largest are cut over several HTTP/2 frames.
        for (transport, event_bytes) in [
            (Transport::Sse, 200),
            (Transport::HttpStreaming, 200),
            (Transport::ForeverFrame, 200),
            (Transport::LongPolling, 200),
            (Transport::Sse, 40_000),
            (Transport::LongPolling, 40_000),
        ] {
            let outcome = measure(&settings(transport, event_bytes), intact).unwrap();
            assert_eq!(outcome.ledger.to_string(), "whole", "{transport} {event_bytes}");
            assert!(outcome.traffic.events > 50, "{:?}", outcome.traffic);
        }
    });
}

#[test]
fn windows_are_given_back() {
    undisturbed(|| {
        // More is under way than a stream's window, and all together more than the connection's.
        let settings =
            Settings { connections: 2, streams: 2, window: 8, ..settings(Transport::Sse, 1 << 20) };
        let outcome = measure(&settings, intact).unwrap();
        assert_eq!(outcome.ledger.to_string(), "whole");
        assert!(outcome.ledger.delivered >= 16, "{}", outcome.ledger.delivered);
    });
}

/// The ledger, or the reason why there is none.
fn check(transports: &[Transport], fault: Fault, expected: &str) {
    for &transport in transports {
        let found = found(measure(&settings(transport, 200), fault));
        assert!(found.contains(expected), "{transport}: {found:?} should say {expected:?}");
    }
}

#[test]
fn faults_on_one_stream_are_seen() {
    undisturbed(|| {
        // Perhaps no poll waits when the ninth event comes.
        let endless = [Transport::Sse, Transport::ForeverFrame];
        let skipped: Fault = |number, event| if number == 9 { vec![] } else { vec![event] };
        check(&endless, skipped, "1 missing");
        check(
            &endless,
            |number, event| vec![event; if number == 9 { 2 } else { 1 }],
            "1 duplicated",
        );
        check(
            &endless,
            |number, event| match number {
                9 => vec![event.replacen("xx", "xy", 1)],
                _ => vec![event],
            },
            "1 corrupt",
        );
        check(
            &endless,
            |number, event| if number == 9 { vec!["END".into()] } else { vec![event] },
            "1 connection cut",
        );
    });
}
