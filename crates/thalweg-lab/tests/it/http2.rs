//! The swarm over HTTP/2, against a server made with the h2 crate.

use crate::swarm::Blind;
use bytes::Bytes;
use h2::{SendStream, server};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg_lab::scenario::{Dialect, Drive, Settings, Transport};
use thalweg_lab::swarm::{Outcome, Workload, run};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Makes of the first subscriber's next event, by its number, what it gets.
type Fault = fn(u64, String) -> Vec<String>;

struct Topic {
    subscribers: Mutex<Vec<SendStream<Bytes>>>,
    fault: Fault,
    framing: fn(&str) -> String,
}

/// Serves on a thread of its own until the process ends.
fn serve(transport: Transport, fault: Fault) -> std::io::Result<SocketAddr> {
    let framing: fn(&str) -> String = match transport {
        Transport::Sse => |envelope| format!("data:{envelope}\nid:1.1\n\n"),
        _ => |envelope| format!("{envelope}\n"),
    };
    let topic = Arc::new(Topic { subscribers: Mutex::default(), fault, framing });
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
                // Whoever leaves is the end of its task, not of the test.
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
            let mut stream = respond.send_response(response, false)?;
            stream.send_data(self.framed(&envelope(0, "")), false)?;
            self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        }
        Ok(())
    }

    fn framed(&self, envelope: &str) -> Bytes {
        (self.framing)(envelope).into()
    }

    async fn publish(
        &self,
        mut reader: BufReader<TcpStream>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).await?;
        }
        let mut number = 0;
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).await?;
            let length = usize::from_str_radix(size.trim(), 16)?;
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk).await?;
            if length == 0 {
                return Ok(());
            }
            let mut events: VecDeque<&str> =
                std::str::from_utf8(&chunk[..length])?.lines().collect();
            while let Some(event) = events.pop_front() {
                number += 1;
                self.fan_out(number, event);
            }
        }
    }

    fn fan_out(&self, number: u64, event: &str) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, stream) in subscribers.iter_mut().enumerate() {
            let events =
                if index == 0 { (self.fault)(number, event.into()) } else { vec![event.into()] };
            for event in events {
                let is_end = event == "END";
                let bytes =
                    if is_end { Bytes::new() } else { self.framed(&envelope(number, &event)) };
                // Whoever has gone, has gone.
                let _ = stream.send_data(bytes, is_end);
            }
        }
    }
}

fn envelope(number: u64, event: &str) -> String {
    format!(r#"{{"topic":"bench/0","position":"1.{number}","first":{number},"events":[{event}]}}"#)
}

fn settings(transport: Transport, event_bytes: u32) -> Settings {
    let (connections, streams, window) = (20, 10, 3);
    Settings { transport, connections, streams, window, event_bytes, ..Settings::default() }
}

fn measure(settings: &Settings, fault: Fault) -> anyhow::Result<Outcome> {
    let transport = settings.transport;
    let workload = Workload {
        address: serve(transport, fault)?,
        dialect: Dialect::Thalweg,
        path: None,
        settings,
        drive: Drive::Posted,
        start_us: 0,
        warm_up: Duration::from_millis(50),
        measured: Duration::from_millis(150),
    };
    run(&workload, &mut Blind)
}

fn intact(_: u64, event: String) -> Vec<String> {
    vec![event]
}

#[test]
fn the_ledger_of_every_stream_is_whole() {
    // The largest are cut over several HTTP/2 frames.
    for (transport, event_bytes) in
        [(Transport::Sse, 200), (Transport::HttpStreaming, 200), (Transport::Sse, 40_000)]
    {
        let outcome = measure(&settings(transport, event_bytes), intact).unwrap();
        assert_eq!(outcome.ledger.to_string(), "whole", "{transport} {event_bytes}");
        assert!(outcome.traffic.events > 50, "{:?}", outcome.traffic);
    }
}

#[test]
fn windows_are_given_back() {
    // What is under way is more than a stream's window, and all together more
    // than the connection's.
    let settings =
        Settings { connections: 2, streams: 2, window: 8, ..settings(Transport::Sse, 1 << 20) };
    let outcome = measure(&settings, intact).unwrap();
    assert_eq!(outcome.ledger.to_string(), "whole");
    assert!(outcome.ledger.delivered >= 16, "{}", outcome.ledger.delivered);
}

/// The ledger, or the reason why there is none.
fn check(fault: Fault, expected: &str) {
    let found = match measure(&settings(Transport::Sse, 200), fault) {
        Ok(outcome) => outcome.ledger.to_string(),
        Err(error) => format!("{error:#}"),
    };
    assert!(found.contains(expected), "{found:?} should say {expected:?}");
}

#[test]
fn faults_on_one_stream_are_seen() {
    check(|number, event| if number == 9 { vec![] } else { vec![event] }, "1 missing");
    check(|number, event| vec![event; if number == 9 { 2 } else { 1 }], "1 duplicated");
    check(
        |number, event| match number {
            9 => vec![event.replacen("xx", "xy", 1)],
            _ => vec![event],
        },
        "1 corrupt",
    );
    check(
        |number, event| if number == 9 { vec!["END".into()] } else { vec![event] },
        "1 connections cut",
    );
}
