use serde_json::json;

use super::{
    publish,
    stream::{Columns, StreamItem},
};
use crate::harness::{Http2, STALLS_SOON, Server, Socket, at, offset, request, wait_for};

fn close(code: u64, reason: &str, reconnect: bool) -> StreamItem {
    StreamItem::Close(code, reason.into(), reconnect)
}

fn both(server: &Server, http2: &Http2, target: &str) -> [Columns; 2] {
    let accept = [("Accept", super::stream::MEDIA_TYPE)];
    let path = format!("/v1/topics/{target}");
    let second = http2.start("GET", &path, &accept, b"");
    [Columns::open(server, target), Columns::answered(second)]
}

#[test]
fn a_server_that_stops_says_so() {
    let mut server = Server::start(&["--shutdown-timeout", "30s"]);
    publish(&server, "cars", "{\"n\":1}\n");
    let http2 = server.http2();
    let targets = ["cars?cursor=earliest", "empty"];
    let mut streams: Vec<Columns> =
        targets.into_iter().flat_map(|target| both(&server, &http2, target)).collect();
    server.await_connections(4);
    server.terminate();
    for stream in &mut streams {
        assert_eq!(stream.last_words(), close(1001, "draining", true));
    }
    drop(streams);
    assert!(server.exit().success());
}

#[test]
fn a_topic_that_is_deleted_ends_its_streams_after_its_last_row() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        publish(&server, "cars", "{\"n\":1}\n");
        let http2 = server.http2();
        let mut streams: Vec<Columns> =
            (0..2).flat_map(|_| both(&server, &http2, "cars?cursor=earliest")).collect();
        server.await_connections(4);
        publish(&server, "cars", "{\"n\":2}\n");
        assert_eq!(server.ask("DELETE", "/v1/topics/cars", &[], "").status, 204);
        for stream in &mut streams {
            assert_eq!(stream.take_after_confirmation(2).len(), 2);
            assert_eq!(stream.next(), close(4500, "ended", false));
            assert_eq!(stream.ended_by.as_deref(), Some("deleted"));
        }
    }
}

#[test]
fn an_idle_stream_has_heartbeats_without_rows() {
    let server = Server::start(&["--heartbeat", "200ms"]);
    publish(&server, "cars", "{\"n\":1,\"car\":\"c1\"}\n");
    for mut stream in both(&server, &server.http2(), "cars") {
        for _ in 0..3 {
            assert_eq!(stream.next(), StreamItem::NoRows);
        }
    }
    assert!(server.metric("thalweg_heartbeats_total") >= 4.0);
}

#[test]
fn an_interval_brings_several_batches_at_once() {
    let server = Server::start(&["--heartbeat", "1h"]);
    publish(&server, "cars", "{\"n\":0}\n");
    let mut stream = Columns::open(&server, "cars?interval=300ms");
    assert_eq!(stream.next(), StreamItem::NoRows);
    for n in 1..=20 {
        publish(&server, "cars", &format!("{{\"n\":{n}}}\n"));
    }
    let rows = stream.take(20);
    assert_eq!(rows[19], (21, json!({"n": 20})));
}

#[test]
fn streams_on_all_shards_are_the_same_bytes() {
    let server = Server::start(&["--shards", "2", "--heartbeat", "1h"]);
    publish(&server, "cars", "{\"n\":0,\"car\":\"c1\"}\n");
    let accept = [("Accept", super::stream::MEDIA_TYPE)];
    let mut sockets: Vec<Socket> = (0..8).map(|_| server.connect()).collect();
    for socket in &mut sockets {
        socket.send(request("GET", "/v1/topics/cars?cursor=earliest", &accept, b""));
        assert_eq!(socket.response_head().status, 200);
    }
    server.await_connections(8);
    let on_each = server.ask("GET", "/metrics", &[], "").text();
    for shard in ["0", "1"] {
        let line = format!("thalweg_connections{{shard=\"{shard}\"}} ");
        let count = on_each.lines().find_map(|text| text.strip_prefix(&line));
        assert!(count.is_some_and(|count| count != "0"), "{line}: {count:?}");
    }
    for n in 1..20 {
        publish(&server, "cars", &format!("{{\"n\":{n},\"car\":\"c{n}\"}}\n{{\"n\":null}}\n"));
    }
    server.ask("DELETE", "/v1/topics/cars", &[], "");
    let mut bodies = sockets.into_iter().map(|mut socket| socket.rest("the end of a stream"));
    let first = bodies.next().expect("a body");
    assert!(first.len() > 1000);
    assert!(bodies.all(|body| body == first), "other bytes for others");
}

/// This is far more than history and kernel hold.
const LINES: &str =
    "{\"n\":1,\"text\":\"........................................................\"}\n";
const POSTS: usize = 60;
const LINES_PER_POST: usize = 4_000;

/// Returns a stream that was confirmed, and then fell behind the history.
fn fallen_behind(server: &Server, topic: &str, policy: &str) -> Columns {
    publish(server, topic, LINES);
    let target = format!("{topic}?policy={policy}&cursor=earliest");
    let mut slow = Columns::open_on(Socket::connect_narrow(server.address), &target);
    assert_eq!(slow.take_after_confirmation(1).len(), 1);
    for _ in 0..POSTS {
        publish(server, topic, &LINES.repeat(LINES_PER_POST));
    }
    slow
}

#[test]
fn a_slow_stream_ends_and_its_successor_gets_the_gap() {
    let server = Server::start(&["--topic", "**,history-bytes=256KiB"]);
    let head = 1 + (POSTS * LINES_PER_POST) as u64;
    for (policy, expected) in [
        ("skip", close(4003, "reload", true)),
        ("latest", close(4003, "reload", true)),
        ("close", close(4500, "ended", false)),
    ] {
        let topic = format!("cars/{policy}");
        let mut slow = fallen_behind(&server, &topic, policy);
        assert_eq!(slow.last_words(), expected, "{policy}");
        let seen = offset(&slow.cursor);
        assert!(seen < head, "{policy}: it fell behind");
        let again = format!("{topic}?policy={policy}&cursor={}", slow.cursor);
        if policy == "close" {
            assert_eq!(slow.ended_by.as_deref(), Some("slow"));
            for mut stream in both(&server, &server.http2(), &again) {
                assert_eq!(stream.resume(), Some("end; code=trimmed"));
                assert_eq!(stream.cursor, slow.cursor, "it names where its client is");
                assert_eq!(stream.last_words(), expected);
                assert_eq!(stream.ended_by.as_deref(), Some("trimmed"));
            }
            continue;
        }
        let mut stream = Columns::open(&server, &again);
        let (from, resume) = (offset(&stream.cursor), stream.resume().map(str::to_owned));
        let missed = from - seen;
        assert_eq!(resume, Some(format!("gap; reason=trimmed; missed={missed}")), "{policy}");
        assert_eq!(stream.cursor, at(&slow.cursor, from));
        let rest = (head - from) as usize;
        assert_eq!(stream.take_after_confirmation(rest).last().map(|row| row.0), Some(head));
    }
}

/// A client that reads nothing of a partly sent frame is reset, without a close message.
#[test]
fn a_client_that_reads_nothing_of_a_frame_is_stalled() {
    let server = Server::start(&STALLS_SOON);
    publish(&server, "cars", &LINES.repeat(8_000));
    let mut socket = Socket::connect_narrow(server.address);
    let accept = [("Accept", super::stream::MEDIA_TYPE)];
    socket.send(request("GET", "/v1/topics/cars?cursor=earliest", &accept, b""));
    wait_for("the reader to be stalled", || {
        (server.count("thalweg_closed_total{code=\"4002\"}") == 1).then_some(())
    });
    let mut stream = Columns::answered(socket);
    assert_eq!(stream.last_words(), StreamItem::Cut);
}
