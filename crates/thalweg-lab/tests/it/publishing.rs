//! Publishing for its own sake, to a subject that counts as it likes.

use crate::listen::{header, lines_in_chunks, listen, read_head};
use crate::swarm::{Blind, assert_negotiated, load};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use thalweg_lab::load_generator::{Outcome, run};
use thalweg_lab::scenario::{Drive, Program, Request, Settings};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;

const CONNECTIONS: u32 = 2;

/// Returns the events that the subject claims to have, for those in a request.
type Count = fn(u64) -> u64;

fn serve(count: Count) -> std::io::Result<SocketAddr> {
    listen(move |connection| attend(connection, count))
}

fn attend(mut connection: TcpStream, count: Count) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    loop {
        let head = read_head(&mut reader)?;
        let events = match header(&head, "Content-Length").parse::<usize>() {
            Ok(length) => {
                reader.read_exact(&mut vec![0; length])?;
                1
            }
            Err(_) => {
                let mut lines = 0;
                lines_in_chunks(&mut reader, |_| lines += 1)?;
                lines
            }
        };
        let body = format!("{{\"count\":{}}}", count(events));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all(format!("{head}{body}").as_bytes())?;
    }
}

fn measure(request: Request, count: Count) -> anyhow::Result<Outcome> {
    let connections = CONNECTIONS;
    let settings = Settings { connections, request, event_bytes: 200, ..Settings::default() };
    let load = load(serve(count)?, &Program::Thalweg, &settings, Drive::Publish, [20, 50]);
    run(&Swarm, &load, &mut Blind)
}

#[test]
fn the_subjects_own_count_is_compared_with_sent_events() {
    undisturbed(|| {
        for request in [Request::Ndjson, Request::Single] {
            let honest = measure(request, |events| events).unwrap();
            assert_eq!(honest.ledger.to_string(), "whole", "{request:?}");
            assert!(honest.traffic.events > 0 && honest.ledger.delivered > honest.traffic.events);
            assert_negotiated(&honest);
            assert!(honest.traffic.wire_bytes > 200 * honest.traffic.events);
            let boast = measure(request, |events| events + 1).unwrap_err().to_string();
            assert!(boast.contains("the subject acknowledged"), "{request:?}: {boast}");
        }
        // One per connection's long request, at warm-up and in the span.
        let lossy = measure(Request::Ndjson, |events| events - 1).unwrap();
        assert_eq!(lossy.ledger.missing, 2 * u64::from(CONNECTIONS));
        // One per request.
        let deaf = measure(Request::Single, |events| events - 1).unwrap();
        assert!(deaf.traffic.events == 0 && deaf.ledger.missing > 0, "{:?}", deaf.ledger);
    });
}
