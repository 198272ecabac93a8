use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
};

use thalweg_core::fanout::{ConnectionFraming, ResponseMode};
use thalweg_wire::Format;
use tokio::sync::oneshot;

use super::*;
use crate::{
    access::{AccessPolicy, MadeOf},
    config::Access,
    connection_limits::Address,
    protocol::signalr,
    transport::{Polls, pipe},
};

const SECOND_US: u64 = 1_000_000;

/// Returns a connection to a hub whose client sends nothing since time 0.
fn connection(format: Format, writer: Writer) -> Connection {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let access = AccessPolicy::new(&Access::default(), listen, MadeOf::default(), None);
    let holder = access.expect("a policy").holders.everybody();
    let address = Address::from_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let client = Client { identity: holder.identity, address, is_counted: false };
    let framing = ConnectionFraming::new(format);
    let subscriber = Subscriber::new(format, b"", &[], ResponseMode::Endless, framing);
    let protocol = signalr::tests::accepted();
    let mut connection =
        Connection::new(writer, subscriber, protocol, (client, holder, None), None, 1, None);
    connection.forgive_silence(0);
    connection
}

/// Asserts that the client has been silent for too long after this time, and not before.
fn assert_silent_after(connection: &Connection, seconds: u64) {
    let end_us = seconds * SECOND_US;
    assert!(!connection.is_silent(end_us));
    assert!(connection.is_silent(end_us + 1));
}

#[test]
fn a_client_may_be_silent_for_30_s_after_its_last_data() {
    let (end, _body) = pipe(1024, &Rc::default());
    let mut connection = connection(Format::SIGNALR_SSE, Writer::Pipe(end));
    assert_silent_after(&connection, 30);
    let (taken, _answer) = oneshot::channel();
    connection.take_records("{\"type\":6}\u{1e}".into(), taken, 20 * SECOND_US);
    assert_silent_after(&connection, 50);
}

/// A poll waits for 25 s at most.
#[test]
fn the_silence_of_a_client_that_polls_begins_when_its_poll_is_over() {
    let mut connection = connection(Format::SIGNALR_POLLS, Writer::Polls(Polls::default()));
    assert_silent_after(&connection, 30);
    let (poll, answer) = oneshot::channel();
    connection.take_poll(poll, 10 * SECOND_US);
    assert!(!connection.is_silent(1000 * SECOND_US), "its poll waits");
    drop(answer);
    assert_silent_after(&connection, 10 + 25 + 30);
    // Records do not replace a poll.
    let (taken, _answer) = oneshot::channel();
    connection.take_records("{\"type\":6}\u{1e}".into(), taken, 60 * SECOND_US);
    assert_silent_after(&connection, 10 + 25 + 30);
}
