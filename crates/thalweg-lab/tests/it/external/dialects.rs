//! Small servers of the protocols of `--dialect`. Each sends events only to clients that open the connection as the protocol
//! demands and answer a ping.

use super::opening::read;
use super::server::{Peer, script, serve};
use super::{PACE, received, typed, visit};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_lab::measure::Received;
use thalweg_lab::scenario::Typed;
use thalweg_testing::undisturbed;

fn speak(
    dialect: &str,
    subscribe: &str,
    auth: Option<&str>,
    attend: fn(&mut Peer) -> io::Result<()>,
) -> Typed {
    let address = serve(script(move |mut peer| attend(&mut peer)));
    Typed {
        dialect: Some(dialect.to_owned()),
        subscribe: vec![subscribe.to_owned()],
        auth: auth.map(str::to_owned),
        timestamp: Some("ts".to_owned()),
        sequence: Some("n".to_owned()),
        ..typed(format!("ws://{address}/"))
    }
}

/// Sends events with a number and a time, within this envelope, until the client is gone.
fn events(peer: &mut Peer, before: &str, behind: &str) -> io::Result<()> {
    for number in 7.. {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        let event = format!(r#"{{"n":{number},"ts":{}}}"#, since_1970.as_micros());
        peer.frame(0x81, format!("{before}{event}{behind}").as_bytes())?;
        thalweg_testing::let_pass(PACE);
    }
    Ok(())
}

fn assert_understood(typed: &Typed) -> Received {
    let received = received(typed, 2);
    let (stamps, numbers) = (received.timestamps.as_ref(), received.sequenced);
    let (stamps, numbers) = (stamps.expect("times"), numbers.expect("numbers"));
    assert_eq!((received.established, received.ended_early.count), (2, 0), "{received:?}");
    assert!(received.events > 10 && received.events == numbers.read, "{received:?}");
    assert_eq!((stamps.missing, numbers.missing, numbers.lost, numbers.duplicated), (0, 0, 0, 0));
    received
}

fn socketio(peer: &mut Peer) -> io::Result<()> {
    let is_right = peer.head.starts_with("GET /socket.io/?EIO=4&transport=websocket ");
    peer.upgrade("")?;
    peer.frame(0x81, br#"0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#)?;
    read(peer, r#"40{"token":"x"}"#)?;
    peer.frame(0x81, br#"40{"sid":"b"}"#)?;
    read(peer, if is_right { r#"42["join","room 1"]"# } else { "another path" })?;
    peer.frame(0x81, b"2")?;
    read(peer, "3")?;
    events(peer, r#"42["price","#, "]")
}

fn graphql(peer: &mut Peer) -> io::Result<()> {
    peer.upgrade("Sec-WebSocket-Protocol: graphql-transport-ws\r\n")?;
    read(peer, r#"{"type":"connection_init","payload":{"token":"x"}}"#)?;
    peer.frame(0x81, br#"{"type":"ping"}"#)?;
    read(peer, r#"{"type":"pong"}"#)?;
    peer.frame(0x81, br#"{"type":"connection_ack"}"#)?;
    read(
        peer,
        r#"{"id":"1","payload":{"query":"subscription { car { n ts } }"},"type":"subscribe"}"#,
    )?;
    events(peer, r#"{"id":"1","type":"next","payload":{"data":{"car":"#, "}}}")
}

fn signalr(peer: &mut Peer) -> io::Result<()> {
    peer.upgrade("")?;
    read(peer, "{\"protocol\":\"json\",\"version\":1}\u{1e}")?;
    peer.frame(0x81, b"{}\x1e{\"type\":6}\x1e")?;
    let call = r#"{"arguments":["room 1"],"invocationId":"1","target":"Join","type":1}"#;
    read(peer, &format!("{call}\u{1e}"))?;
    read(peer, "{\"type\":6}\u{1e}")?;
    peer.frame(0x81, b"{\"type\":3,\"invocationId\":\"1\",\"result\":null}\x1e")?;
    events(peer, r#"{"type":1,"target":"Price","arguments":["#, "]}\u{1e}")
}

fn centrifugo(peer: &mut Peer) -> io::Result<()> {
    peer.upgrade("")?;
    read(peer, r#"{"id":1,"connect":{"token":"x"}}"#)?;
    peer.frame(0x81, br#"{"id":1,"connect":{"client":"a","ping":25,"pong":true}}"#)?;
    read(peer, r#"{"id":2,"subscribe":{"channel":"room 1"}}"#)?;
    peer.frame(0x81, b"{\"id\":2,\"subscribe\":{}}\n{}")?;
    read(peer, "{}")?;
    peer.frame(0x81, br#"{"push":{"channel":"room 1","join":{"info":{"client":"b"}}}}"#)?;
    events(peer, r#"{"push":{"channel":"room 1","pub":{"data":"#, r#","offset":1}}}"#)
}

#[test]
fn connections_open_as_their_protocol_demands() {
    undisturbed(|| {
        let auth = Some(r#"{"token":"x"}"#);
        assert_understood(&speak("socketio", r#"["join","room 1"]"#, auth, socketio));
        let query = "subscription { car { n ts } }";
        let inside = |typed: Typed| Typed {
            timestamp: Some("car.ts".to_owned()),
            sequence: Some("$.car.n".to_owned()),
            ..typed
        };
        let received = assert_understood(&inside(speak("graphql-ws", query, auth, graphql)));
        assert_eq!(received.answer.subprotocol.as_deref(), Some("graphql-transport-ws"));
        assert_understood(&speak("signalr", r#"["Join", "room 1"]"#, None, signalr));
        assert_understood(&speak("centrifugo", "room 1", auth, centrifugo));
    });
}

#[test]
fn a_refusal_within_the_protocol_is_a_refused_connection() {
    undisturbed(|| {
        let check = |dialect: &str, replies: &[&'static str], expected: &str| {
            let replies = replies.to_vec();
            let address = serve(script(move |mut peer| {
                let is_graphql = peer.header("Sec-WebSocket-Protocol") == "graphql-transport-ws";
                let more = "Sec-WebSocket-Protocol: graphql-transport-ws\r\n";
                peer.upgrade(if is_graphql { more } else { "" })?;
                for reply in &replies {
                    peer.frame(0x81, reply.as_bytes())?;
                }
                while peer.read_frame().is_ok() {}
                Ok(())
            }));
            let typed = Typed {
                dialect: Some(dialect.to_owned()),
                subscribe: vec!["x".to_owned()],
                ..typed(format!("ws://{address}/"))
            };
            let error = visit(&typed, 2).unwrap_err().to_string();
            assert!(error.contains(&format!("2× {expected}")), "{dialect}: {error}");
        };
        let open = r#"0{"sid":"a"}"#;
        let denied = r#"44{"message":"not authorized"}"#;
        check("socketio", &[open, denied], r#"it said {"message":"not authorized"}"#);
        let failed = "{\"error\":\"Requested protocol 'json' is not available.\"}\u{1e}";
        check("signalr", &[failed], "it said {\"error\":\"Requested protocol");
        let forbidden = "{}\u{1e}{\"type\":3,\"invocationId\":\"1\",\"error\":\"forbidden\"}\u{1e}";
        check("signalr", &[forbidden], "it said {\"type\":3,");
        let unknown = r#"{"id":2,"error":{"code":102,"message":"unknown channel"}}"#;
        let connected = r#"{"id":1,"connect":{}}"#;
        check("centrifugo", &[connected, unknown], r#"it said {"id":2,"error""#);
        let invalid = r#"{"id":"1","type":"error","payload":[{"message":"invalid"}]}"#;
        check("graphql-ws", &[invalid], "it said {\"id\":\"1\",\"type\":\"error\"");
    });
}
