//! Malicious publishers and readers. Only they bear the cost.

use std::collections::HashSet;
use std::fmt::Write as _;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::json;

use super::{
    publish,
    stream::{Columns, MEDIA_TYPE, StreamItem},
};
use crate::harness::{
    H2, Raw, Server, TlsClient, kind, offset, ticking, unharmed, unharmed_over, wait_for,
};

/// The name is lower-case, as in HTTP/2.
const ACCEPT: [(&str, &str); 1] = [("accept", MEDIA_TYPE)];

/// RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The maximum size of a frame of undeclared columns: 8 bytes per cell, and the rest of the frame.
const FRAME_BYTES_MAX: usize = 10 << 20;

fn wide(members: usize, value: &str) -> String {
    let member = |number| format!("\"member{number}\":{value}");
    format!("{{{}}}\n", (0..members).map(member).collect::<Vec<_>>().join(","))
}

#[test]
fn a_publisher_cannot_have_readers_come_again_for_ever() {
    const POSTS: usize = 200;
    let server = ticking(&[]);
    publish(&server, "cars", "{}\n");
    let mut stream = Columns::open(&server, "cars?cursor=earliest");
    let mut reopened = 0;
    unharmed(&server, || {
        for number in 0..POSTS {
            // Each event has another member with another type.
            let value = ["1", "\"x\"", "[]", "true"][number % 4];
            publish(&server, "cars", &format!("{{\"m{}\":{value}}}\n", number / 2));
        }
        let mut seen = 0;
        while seen < POSTS + 1 {
            match stream.next() {
                StreamItem::Rows(rows) => seen += rows.len(),
                StreamItem::NoRows => {}
                last => {
                    assert_eq!(last, StreamItem::Close(4003, "reload".into(), true));
                    stream = Columns::open(&server, &format!("cars?cursor={}", stream.cursor));
                    reopened += 1;
                }
            }
        }
    });
    assert!((10..=64).contains(&reopened), "{reopened}");
    assert_eq!(stream.columns, ["value:Utf8"], "everything fits from here on");
    assert!(server.metric("thalweg_columns_changed_total") <= 64.0);
    publish(&server, "cars", "[[7]]\n");
    assert_eq!(stream.rows_next(), vec![((POSTS + 2) as u64, json!({"value": [[7]]}))]);
}

#[test]
fn malicious_events_reach_their_readers() {
    let server = ticking(&["--topic", "**,history-bytes=32MiB"]);
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let numbers = "[1e308,-1e-308,-0,9223372036854775808,0.1e1]";
    let mut flood = String::new();
    for number in 0..8_000 {
        let _ = writeln!(flood, "{{\"s\":\"{number:08x}{}\"}}", "x".repeat(40));
    }
    let batches = [
        ("wide", wide(256, "\"x\"") + &"{}\n".repeat(500)),
        ("too wide", wide(257, "1")),
        ("long names", format!("{{\"{}\":1,\"{}\":2}}\n", "a".repeat(70_000), "b".repeat(70_000))),
        ("long string", format!("{{\"s\":\"{}\"}}\n", "\\u00e9".repeat(150_000))),
        ("nested", format!("{{\"n\":{nested}}}\n")),
        ("nested row", format!("{nested}\n")),
        ("numbers", format!("{numbers}\n")),
        ("half a pair", "{\"\\ud800\":\"\\udfff\",\"\\ufffd\":1}\n".to_owned()),
        ("twice", "{\"a\":1,\"a\":\"x\",\"a\":null}\n".to_owned()),
        ("offsets", "{\"_offset\":\"x\",\"__offset\":[],\"offset\":1}\n".to_owned()),
        ("flood", flood),
    ];
    let before = server.memory();
    unharmed(&server, || {
        for (topic, lines) in &batches {
            let topic = topic.replace(' ', "-");
            let count = publish(&server, &topic, lines).count as usize;
            let mut stream = Columns::open(&server, &format!("{topic}?cursor=earliest"));
            assert_eq!(stream.next(), StreamItem::NoRows, "{topic}");
            let rows = stream.take(count);
            assert_eq!(rows.last().map(|(offset, _)| *offset), Some(count as u64), "{topic}");
            let unique: HashSet<&String> = stream.columns.iter().collect();
            assert_eq!(unique.len(), stream.columns.len(), "{topic}: a name for each column");
        }
    });
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 6 * FRAME_BYTES_MAX, "{grown}");
}

/// Rows without values for most columns make frames much larger than the published events. A batch has a
/// bound, or its schema becomes one column.
#[test]
fn a_few_bytes_do_not_become_a_frame_without_bound() {
    const ROWS: usize = 8_000;
    let server = ticking(&[]);
    for members in [100, 256] {
        let topic = format!("wide/{members}");
        publish(&server, &topic, &wide(members, "0.5"));
        let mut stream = Columns::open(&server, &format!("{topic}?cursor=earliest"));
        assert_eq!(stream.take_after_confirmation(1).len(), 1);
        let before = server.memory();
        unharmed(&server, || publish(&server, &topic, &"{}\n".repeat(ROWS)));
        // One post may become several batches. Those with too many cells have another schema.
        let mut taken = 0;
        while taken < ROWS {
            let used = stream.socket.used();
            match stream.next() {
                StreamItem::Rows(rows) => taken += rows.len(),
                StreamItem::Close(4003, ..) => {
                    stream = Columns::open(&server, &format!("{topic}?cursor={}", stream.cursor));
                    continue;
                }
                _ => {}
            }
            assert!(stream.socket.used() - used < FRAME_BYTES_MAX, "{}", stream.socket.used());
        }
        let grown = server.memory().saturating_sub(before);
        assert!(grown < 5 * FRAME_BYTES_MAX, "{members}: {grown}");
    }
}

/// If a frame is larger than its events, too slow reading counts until its end.
#[test]
fn a_client_that_reads_less_than_its_share_of_a_large_frame_is_stalled() {
    const ROWS: usize = 8_000;
    // All events of a post are in one batch.
    let topic = ["--topic", "wide,flush=300ms,batch-bytes=1MiB"];
    let unsent = [
        "--write-timeout",
        "500ms",
        "--set",
        "tuning.unsent-bytes=4KiB",
        "--set",
        "tuning.send-buffer-bytes=16KiB",
    ];
    let server = Server::start(&[&topic[..], &unsent].concat());
    let text = "x".repeat(110);
    publish(&server, "wide", &wide(120, "0.5"));
    publish(&server, "wide", &format!("{{\"text\":\"{text}\"}}\n").repeat(ROWS));
    // With small kernel buffers the server notices each read at once.
    let socket = thalweg_testing::connect(server.address);
    set_socket_recv_buffer_size(&socket, 32 << 10).expect("set SO_RCVBUF");
    let mut raw = Raw::over(socket);
    raw.ask("GET", "/v1/topics/wide?cursor=earliest", &ACCEPT, "");
    // The client reads more than all events have, at full speed. Most of the frame remains.
    assert!(raw.exact(2 << 20, "more than its events").is_some());
    wait_for("it to be stalled", || {
        raw.some(3_000);
        (server.count("thalweg_closed_total{code=\"4002\"}") == 1).then_some(())
    });
}

#[test]
fn readers_of_a_few_bytes_at_a_time_do_not_slow_others_down() {
    let settings = [
        "--set",
        "tuning.unsent-bytes=4KiB",
        "--set",
        "tuning.send-buffer-bytes=16KiB",
        "--shards",
        "1",
    ];
    for tls in [false, true] {
        let tls_flag = tls.then_some("--tls-self-signed");
        let server = ticking(&[&settings[..], tls_flag.as_slice()].concat());
        let connect = || match tls {
            true => TlsClient::raw(server.address),
            false => Raw::connect(server.address),
        };
        let mut publisher = connect();
        let lines = "{\"n\":1,\"car\":\"c1\",\"speed\":73.5,\"on\":true}\n".repeat(8_000);
        for _ in 0..4 {
            let json = [("Content-Type", "application/x-ndjson")];
            publisher.ask("POST", "/v1/topics/cars", &json, &lines);
            assert_eq!(publisher.answer().status, 200);
        }
        unharmed_over(&server, connect(), || {
            let mut readers: Vec<Raw> = (0..10).map(|_| connect()).collect();
            for (number, raw) in readers.iter_mut().enumerate() {
                let target = format!("/v1/topics/cars?cursor=earliest&_={number}");
                raw.ask("GET", &target, &ACCEPT, "");
            }
            for _ in 0..40 {
                readers.iter_mut().for_each(|raw| raw.some(512));
                thalweg_testing::let_pass(crate::harness::LOOK_AGAIN_AFTER);
            }
        });
    }
}

/// HTTP/2 streams that the client never reads hold only their beginning, and end when they stall.
#[test]
fn streams_that_are_never_read_go_again() {
    const STREAMS: u32 = 30;
    let server = ticking(&["--write-timeout", "1s"]);
    publish(&server, "cars", &wide(100, "\"x\""));
    let before = server.memory();
    unharmed(&server, || {
        let mut connections = Vec::new();
        for _ in 0..3 {
            let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
            for number in 0..STREAMS {
                // The first stream may have stalled when the last one is requested.
                h2.get(2 * number + 1, "/v1/topics/cars?cursor=earliest", &ACCEPT);
            }
            connections.push(h2);
        }
        wait_for("all of them to be stalled", || {
            let stalled = server.count("thalweg_closed_total{code=\"4002\"}");
            let left = server.count("thalweg_piped_connections");
            (stalled > u64::from(STREAMS) && left == 0).then_some(())
        });
        let reset = connections[0].until(|frame| frame.kind == kind::RST_STREAM);
        assert!(reset.is_some(), "a reset");
    });
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown}");
    // The bystander has disconnected, too.
    server.await_connections(0);
}

/// The stream has the time between the request and the first row, and the head.
#[test]
fn readers_that_leave_at_once_leave_nothing() {
    let server = ticking(&["--shards", "2"]);
    let position = publish(&server, "cars", &"{\"n\":1,\"car\":\"c1\"}\n".repeat(5_000)).position;
    unharmed(&server, || {
        for number in 0..300 {
            let mut raw = Raw::connect(server.address);
            let cursor = offset(&position) * number / 300;
            let epoch = position.split_once('.').map_or("", |(epoch, _)| epoch);
            let target = format!("/v1/topics/cars?cursor={epoch}.{cursor}");
            raw.ask("GET", &target, &ACCEPT, "");
            if number % 3 == 0 {
                raw.exact(number as usize, "a part of the head");
            }
        }
    });
    server.await_connections(0);
    let mut stream = Columns::open(&server, "cars?cursor=earliest");
    assert_eq!(stream.take_after_confirmation(5_000).len(), 5_000);
}
