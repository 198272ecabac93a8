//! Publishing to NATS for a subject that reads a stream, and counts as it likes.

use crate::listen::{listen, read_head};
use crate::swarm::{Blind, load};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_lab::load_generator::{Cluster, Load, Outcome, run};
use thalweg_lab::scenario::{Drive, Program, PublishTo, Settings};
use thalweg_lab::swarm::Swarm;

/// Returns the messages that the subject claims to have read, for those that were stored.
type Count = fn(u64) -> u64;

/// A NATS server that stores nothing, and acknowledges everything.
fn nats(stored: Arc<AtomicU64>) -> std::io::Result<SocketAddr> {
    listen(move |mut connection: TcpStream| {
        connection.set_nodelay(true)?;
        connection.write_all(b"INFO {}\r\nPING\r\n")?;
        let mut reader = BufReader::new(connection.try_clone()?);
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["HPUB", "thalweg.bench.0", _, head, all] = words[..] else { continue };
            let (head, all) = (size(head)?, size(all)?);
            let mut message = vec![0; all + 2];
            reader.read_exact(&mut message)?;
            assert_eq!(&message[..head], b"NATS/1.0\r\nThalweg: 1\r\n\r\n");
            let events = String::from_utf8_lossy(&message[head..all]);
            assert_eq!(events.split('\n').map(str::len).collect::<Vec<_>>(), [200; 5]);
            stored.fetch_add(1, Relaxed);
            connection.write_all(b"MSG i 1 25\r\n{\"stream\":\"x\", \"seq\":100}\r\n")?;
        }
    })
}

/// A subject that claims to have read so much.
fn subject(stored: Arc<AtomicU64>, count: Count) -> std::io::Result<SocketAddr> {
    listen(move |mut connection: TcpStream| {
        let head = read_head(&mut BufReader::new(connection.try_clone()?))?;
        assert!(head.starts_with("GET /metrics "));
        let read = count(stored.load(Relaxed));
        write!(connection, "HTTP/1.1 200 OK\r\n\r\nx 1\nthalweg_nats_messages_total {read}\n")
    })
}

fn measure(rate: u32, count: Count) -> anyhow::Result<Outcome> {
    let stored = Arc::<AtomicU64>::default();
    let settings = Settings {
        rate,
        message_events: 5,
        publish_to: PublishTo::Nats,
        event_bytes: 200,
        ..Settings::default()
    };
    let cluster = Cluster { nats: Some(nats(Arc::clone(&stored))?), nodes: Vec::new() };
    let load = load(subject(stored, count)?, &Program::Thalweg, &settings, Drive::Stored, [20, 50]);
    run(&Swarm, &Load { cluster, ..load }, &mut Blind)
}

#[test]
fn the_subjects_own_count_is_compared_with_stored_events() {
    // As fast as it is acknowledged, and at a rate.
    for rate in [0, 10_000] {
        let honest = measure(rate, |messages| messages).unwrap();
        assert_eq!(honest.ledger.to_string(), "whole", "{rate}");
        assert!(honest.traffic.events > 0 && honest.ledger.delivered > honest.traffic.events);
        assert_eq!(honest.traffic.events % 5, 0);
        let boast = measure(rate, |messages| messages + messages.min(1)).unwrap_err().to_string();
        assert!(boast.contains("the subject says that it has read"), "{boast}");
    }
    let lossy = measure(0, |messages| messages.saturating_sub(1)).unwrap();
    assert_eq!(lossy.ledger.to_string(), "5 missing");
}

#[test]
fn without_a_nats_server_there_is_nothing_to_publish_to() {
    let settings = Settings { rate: 10, ..Settings::default() };
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let load = load(address, &Program::Thalweg, &settings, Drive::Stored, [0, 1]);
    let error = run(&Swarm, &load, &mut Blind).unwrap_err().to_string();
    assert_eq!(error, "this subject has no NATS server to publish to");
}

fn size(digits: &str) -> std::io::Result<usize> {
    digits.parse().map_err(std::io::Error::other)
}
