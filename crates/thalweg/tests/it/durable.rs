//! `--data`: topics that survive the death of the server.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use thalweg_testing::{TemporaryPath, let_pass};

use crate::{
    harness::{Received, Server, Subscriber, Transport, offset, skipped, wait_for},
    operations::{has_metrics, metrics_asked_for},
};

const JSON: &str = "application/json";

/// How often the server is killed under load, unless `THALWEG_KILLS` says.
const KILLS: u64 = 5;

/// A directory that is removed after the test.
pub(crate) struct Directory(TemporaryPath);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(TemporaryPath::new("data"))
    }

    pub(crate) fn path(&self) -> &str {
        self.0.text()
    }

    pub(crate) fn start(&self, more: &[&str]) -> Server {
        Server::start(&[&["--data", self.path()], more].concat())
    }
}

/// Receives `count` events; a gap fails the test. Returns them and the last position.
fn events(subscriber: &mut Subscriber, count: usize) -> (Vec<Value>, String) {
    let (mut events, mut position) = (Vec::new(), String::new());
    while events.len() < count {
        let envelope = subscriber.envelope();
        events.extend(envelope.events);
        position = envelope.position;
    }
    (events, position)
}

fn numbers(range: std::ops::Range<u64>) -> Vec<Value> {
    range.map(Value::from).collect()
}

fn post_with_key(server: &Server, topic: &str, key: &str, body: &str) -> (Option<String>, String) {
    let headers = [("Idempotency-Key", key), ("Content-Type", JSON)];
    let answer = server.ask("POST", &format!("/v1/topics/{topic}"), &headers, body);
    let replayed = answer.header("idempotency-replayed").map(str::to_owned);
    (replayed, answer.published().position)
}

#[test]
fn everything_is_there_after_a_kill() {
    let directory = Directory::new();
    let settings = ["--topic", "v/**,kind=value", "--shards", "2"];
    let server = directory.start(&settings);
    let middle = server.publish("t", 0..5).position;
    server.publish("other", 0..3);
    server.publish("t", 5..10);
    server.publish("gone", 0..3);
    server.ask("DELETE", "/v1/topics/gone", &[], "");
    for version in 0..3 {
        server.post("v/a", JSON, json!({"version": version}).to_string()).published();
    }
    server.post("v/gone", JSON, "1").published();
    server.ask("DELETE", "/v1/topics/v/gone", &[], "");
    let (_, keyed) = post_with_key(&server, "t", "k", "10");
    server.kill();

    let server = directory.start(&settings);
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, &format!("/t?cursor={middle}"));
        let (received, position) = events(&mut subscriber, 6);
        assert_eq!((received, &position), (numbers(5..11), &keyed), "{transport:?}");
        let mut subscriber = server.subscribe(transport, "/t?cursor=earliest");
        assert_eq!(events(&mut subscriber, 11).0, numbers(0..11));
        let mut subscriber = server.subscribe(transport, "/v/a");
        assert_eq!(events(&mut subscriber, 1).0, [json!({"version": 2})]);
    }
    assert_eq!(post_with_key(&server, "t", "k", "10"), (Some("true".to_owned()), keyed.clone()));
    for gone in ["gone", "v/gone"] {
        let page = server.get(&format!("/v1/topics/{gone}?limit=10"));
        assert!(
            page.text().contains("no_such_topic") || page.json()["events"] == json!([]),
            "{gone}"
        );
    }
    // The next events follow, in the same epoch.
    let mut subscriber = server.subscribe(Transport::Sse, &format!("/t?cursor={keyed}"));
    subscriber.confirmed();
    let next = server.publish("t", 11..12).position;
    assert_eq!(events(&mut subscriber, 1), (numbers(11..12), next.clone()));
    let epoch = |position: &str| position.split_once('.').expect("a position").0.to_owned();
    assert_eq!(epoch(&next), epoch(&middle));
    assert!(offset(&next) > offset(&keyed));
}

/// Damages the place of an event in the files of a server that has ended.
fn damage(directory: &Directory, event: &str) {
    let mut count = 0;
    for entry in std::fs::read_dir(&*directory.0).expect("a directory") {
        let path = entry.expect("an entry").path();
        let mut bytes = std::fs::read(&path).expect("a file");
        let found = bytes.windows(event.len()).position(|window| window == event.as_bytes());
        if let Some(at) = found {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).expect("written");
            count += 1;
        }
    }
    assert_eq!(count, 1, "files with {event}");
}

/// Receives events up to the last one, and null for each gap.
fn until(subscriber: &mut Subscriber, last: &str) -> Vec<Value> {
    let mut received = Vec::new();
    while received.last() != Some(&json!(last)) {
        match subscriber.news() {
            Received::Envelope(envelope) => received.extend(envelope.events),
            Received::Gap(gap) => {
                assert_eq!((gap.missed, gap.reason.as_str()), (None, "trimmed"));
                received.push(Value::Null);
            }
            other => panic!("{other:?}"),
        }
    }
    received
}

#[test]
fn damaged_events_are_a_gap_for_each_reader_and_those_before_stay() {
    let directory = Directory::new();
    let server = directory.start(&[]);
    let publish = |server: &Server, nth: u64| {
        server.post("other", JSON, "0").published();
        server.post("t", JSON, format!("\"event {nth}\"")).published().position
    };
    let positions: Vec<_> = (0..8).map(|nth| publish(&server, nth)).collect();
    server.kill();
    damage(&directory, "event 3");
    // The newest group, too.
    damage(&directory, "event 7");
    let server = directory.start(&[]);
    let next = publish(&server, 8);
    let events = |numbers: &[u64]| -> Vec<Value> {
        let text = |nth: &u64| if *nth == 0 { Value::Null } else { json!(format!("event {nth}")) };
        numbers.iter().map(text).collect()
    };
    for transport in Transport::ALL.into_iter().cycle().take(2 * Transport::ALL.len()) {
        let mut earliest = server.subscribe(transport, "/t?cursor=earliest");
        let received = until(&mut earliest, "event 8");
        let expected = [&[json!("event 0")], &*events(&[1, 2, 0, 4, 5, 6, 0, 8])].concat();
        assert_eq!(received, expected, "{transport:?}");
        let cases: [(usize, &[u64]); 4] =
            [(2, &[0, 4, 5, 6, 0, 8]), (3, &[4, 5, 6, 0, 8]), (6, &[0, 8]), (7, &[8])];
        for (nth, expected) in cases {
            let mut after = server.subscribe(transport, &format!("/t?cursor={}", positions[nth]));
            assert_eq!(until(&mut after, "event 8"), events(expected), "{transport:?} {nth}");
        }
    }
    let page = server.get(&format!("/v1/topics/t?limit=9&cursor={}", positions[2])).json();
    assert_eq!(page["gap"], json!({"missed": null, "reason": "trimmed"}));
    assert_eq!(page["events"], json!(["event 4", "event 5", "event 6"]));
    server.kill();
    // A kill without damage adds no gap.
    let server = directory.start(&[]);
    publish(&server, 9);
    let mut after = server.subscribe(Transport::Sse, &format!("/t?cursor={next}"));
    assert_eq!(until(&mut after, "event 9"), events(&[9]));
    let mut earliest = server.subscribe(Transport::Sse, "/t?cursor=earliest");
    assert_eq!(until(&mut earliest, "event 9").iter().filter(|event| event.is_null()).count(), 2);
}

/// Returns the time in RFC 3339, after the events before and before those after it.
pub(crate) fn time_between() -> String {
    // The clock of the server has steps of 4 ms.
    let_pass(Duration::from_millis(20));
    let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let_pass(Duration::from_millis(20));
    now
}

#[test]
fn a_subscription_begins_with_the_events_since_a_time() {
    for is_durable in [false, true] {
        let directory = Directory::new();
        let settings = ["--shards", "2"];
        let mut server =
            if is_durable { directory.start(&settings) } else { Server::start(&settings) };
        for number in 0..300 {
            server.publish("t", number..number + 1);
            server.publish("other", 0..1);
        }
        let time = time_between();
        server.publish("t", 300..302);
        server.publish("t", 302..305);
        let later = time_between();
        for life in 0..2 {
            for transport in Transport::ALL {
                let begun = |since: &str| {
                    let mut subscriber = server.subscribe(transport, &format!("/t?since={since}"));
                    subscriber.confirmed();
                    subscriber
                };
                let received = events(&mut begun(&time), 5).0;
                assert_eq!(received, numbers(300..305), "{transport:?} {life}");
                let received = events(&mut begun("1h"), 305).0;
                assert_eq!(received, numbers(0..305), "{transport:?} {life}");
            }
            let page = server.get(&format!("/v1/topics/t?limit=2&since={later}")).json();
            assert_eq!((&page["events"], &page["gap"]), (&json!([]), &Value::Null), "{life}");
            let page = server.get(&format!("/v1/topics/t?limit=2&since={time}")).json();
            assert_eq!((&page["events"], &page["gap"]), (&json!([300, 301]), &Value::Null));
            let mut subscriber = server.subscribe(Transport::WebSocket, "");
            let cursor = format!("since.{time}");
            let command = json!({"command": "subscribe", "topic": "t", "cursor": cursor});
            subscriber.say(&command.to_string());
            wait_for("the events", || match subscriber.news() {
                Received::Envelope(envelope) => (!envelope.events.is_empty())
                    .then(|| assert_eq!(envelope.events[0], json!(300), "{life}")),
                _ => None,
            });
            if !is_durable {
                break;
            }
            server.kill();
            server = directory.start(&settings);
        }
        for (query, code) in [
            ("since=yesterday", "bad_cursor"),
            ("since=10m&cursor=earliest", "bad_parameter"),
            ("since=10m&newest=5", "bad_parameter"),
        ] {
            server.get(&format!("/v1/topics/t?{query}&limit=5")).refused(400, code);
        }
    }
}

#[test]
fn the_newest_events_are_those_on_disk() {
    let directory = Directory::new();
    let settings = ["--shards", "2"];
    let mut server = directory.start(&settings);
    for number in 0..60 {
        server.publish("t", 3 * number..3 * number + 3);
        server.publish("other", 0..1);
    }
    // Memory gets an event after its publish was answered.
    wait_for("the newest event", || {
        let page = server.get("/v1/topics/t?newest=1").json();
        (page["events"] == json!([179])).then_some(())
    });
    for life in 0..3 {
        for (count, from) in [(1, 179), (2, 178), (100, 80), (180, 0), (500, 0)] {
            let page = server.get(&format!("/v1/topics/t?newest={count}")).json();
            let expected = (json!(numbers(from..180)), Value::Null);
            assert_eq!((page["events"].clone(), page["gap"].clone()), expected, "{count} {life}");
            for transport in Transport::ALL {
                let target = format!("/t?newest={count}");
                let mut subscriber = server.subscribe(transport, &target);
                subscriber.confirmed();
                let received = events(&mut subscriber, (180 - from) as usize).0;
                assert_eq!(received, numbers(from..180), "{transport:?} {count} {life}");
            }
        }
        server.kill();
        server = directory.start(&settings);
    }
}

#[test]
fn a_query_continues_over_its_stored_events() {
    let directory = Directory::new();
    let sql = "sums=SELECT window_start, sum(n) AS n FROM tumble(t, 1s) GROUP BY window_start";
    let settings = ["--topic", "t,columns=n:int time:time", "--query", sql];
    let row = |second: u64, n: u64| format!("[{n},\"2022-07-13T21:09:{second:02}.000Z\"]\n");
    let publish = |server: &Server, rows: String| {
        server.post("t", "application/x-ndjson", rows).published();
    };
    let server = directory.start(&settings);
    publish(&server, row(1, 1) + &row(2, 10) + &row(3, 20) + &row(3, 21));
    server.kill();
    let server = directory.start(&settings);
    let mut subscriber = server.subscribe(Transport::Sse, "/sums?cursor=earliest");
    // It closes the window whose events were stored before the kill.
    publish(&server, row(4, 5));
    let row = |second: u64, sum: u64| json!([format!("2022-07-13T21:09:{second:02}Z"), sum]);
    assert_eq!(events(&mut subscriber, 3).0, [row(1, 1), row(2, 10), row(3, 41)]);
}

#[test]
fn the_reference_has_the_metrics_of_the_directory() {
    let directory = Directory::new();
    let server = directory.start(&[]);
    let asked_for = metrics_asked_for();
    has_metrics(&server, asked_for.iter().filter(|(_, name)| name.starts_with("thalweg_disk_")));
    let metrics = server.get("/metrics").text();
    let page = include_str!("../../../../docs/reference/metrics.md");
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE thalweg_disk_"));
    let rows = types.filter_map(|line| line.split_once(' '));
    let rows: Vec<_> =
        rows.map(|(name, kind)| format!("| `thalweg_disk_{name}` | {kind} |")).collect();
    let missing: Vec<_> = rows.iter().filter(|row| !page.contains(*row)).collect();
    assert!(missing.is_empty() && rows.len() == 11, "{missing:?} of {rows:?}");
}

#[test]
fn topics_on_disk_are_listed_before_they_are_opened() {
    let directory = Directory::new();
    let settings = ["--store", "v/**,kind=value", "--store", "stored/**", "--shards", "2"];
    let server = directory.start(&settings);
    let names: Vec<String> = (0..25).map(|nth| format!("stored/{nth:02}")).collect();
    for name in names.iter().map(String::as_str).chain(["v/a", "stored/gone", "v/gone", "memory"]) {
        server.publish(name, 0..2);
    }
    for gone in ["stored/gone", "v/gone"] {
        server.ask("DELETE", &format!("/v1/topics/{gone}"), &[], "");
    }
    server.kill();
    let server = directory.start(&settings);
    let last = server.publish("stored/24", 2..3).position;
    let list = |query: &str| {
        let list = server.get(&format!("/v1/topics?{query}")).json();
        let topics = list["topics"].as_array().expect("a list").clone();
        let names = topics.iter().map(|topic| topic["topic"].as_str().expect("text").to_owned());
        (names.collect::<Vec<_>>(), list["more"] == json!(true))
    };
    let expected: Vec<String> = names.iter().cloned().chain(["v/a".to_owned()]).collect();
    assert_eq!(list(""), (expected, false));
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let (page, more) = list(&format!("prefix=stored/&limit=7&after={after}"));
        assert!(page.len() <= 7);
        after = page.last().expect("a topic").clone();
        paged.extend(page);
        if !more {
            break;
        }
    }
    assert_eq!(paged, names);
    let open = |name: &str| {
        let list = server.get(&format!("/v1/topics?prefix={name}")).json();
        list["topics"][0].clone()
    };
    let stored = json!({"topic": "stored/03", "position": null, "events": 0, "subscribers": 0});
    assert_eq!(open("stored/03"), stored);
    wait_for("the event in memory", || {
        (open("stored/24")["position"] == json!(last)).then_some(())
    });
}

#[test]
fn a_directory_has_one_server() {
    let directory = Directory::new();
    let _server = directory.start(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let output =
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", directory.path()]).output();
    let output = output.expect("run the binary");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        !output.status.success() && said.contains("another process uses the data directory"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Publishers note each answered event, while the server dies again and again.
#[test]
fn answered_events_survive_kills_under_load() {
    let kills = std::env::var("THALWEG_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills = kills.unwrap_or(KILLS);
    let directory = Directory::new();
    let mut answered: BTreeMap<u64, u64> = BTreeMap::new();
    let next = AtomicU64::new(0);
    for life in 0..kills {
        let mut server = directory.start(&["--store", "**"]);
        let is_over = AtomicBool::new(false);
        let noted = std::thread::scope(|scope| {
            let publishers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut noted = Vec::new();
                        while !is_over.load(Relaxed) {
                            let number = next.fetch_add(1, Relaxed);
                            let Some(position) = try_publish(&server, number) else { break };
                            noted.push((offset(&position), number));
                        }
                        noted
                    })
                })
                .collect();
            let enough = next.load(Relaxed) + 40 + life % 50;
            wait_for("publishes", || (next.load(Relaxed) >= enough).then_some(()));
            server.kill_now();
            is_over.store(true, Relaxed);
            publishers
                .into_iter()
                .flat_map(|thread| thread.join().expect("no panic"))
                .collect::<Vec<_>>()
        });
        for (offset, number) in noted {
            assert_eq!(answered.insert(offset, number), None, "{offset} is given twice");
        }
        server.exit();
    }
    let server = directory.start(&["--store", "**"]);
    let mut subscriber = server.subscribe(Transport::Sse, "/t?cursor=earliest");
    let (mut stored, mut seen) = (BTreeMap::new(), std::collections::BTreeSet::new());
    let last = *answered.keys().last().expect("some were answered");
    while stored.keys().last().is_none_or(|stored| *stored < last) {
        match subscriber.news() {
            Received::Envelope(envelope) => {
                let end = offset(&envelope.position);
                let first = end + 1 - envelope.events.len() as u64;
                for (offset, event) in (first..).zip(&envelope.events) {
                    let number = event.as_u64().expect("a number");
                    assert!(seen.insert(number), "{number} is stored twice");
                    stored.insert(offset, number);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    for (offset, number) in &answered {
        assert_eq!(stored.get(offset), Some(number), "the answered event at {offset}");
    }
    println!(
        "{kills} kills: {} events were sent, {} answered, {} are stored",
        next.load(Relaxed),
        answered.len(),
        stored.len()
    );
}

fn try_publish(server: &Server, number: u64) -> Option<String> {
    let mut socket = std::net::TcpStream::connect(server.address).ok()?;
    let body = number.to_string();
    let request = format!(
        "POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    std::io::Write::write_all(&mut socket, request.as_bytes()).ok()?;
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut socket, &mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let body: Value = serde_json::from_str(body.trim()).ok()?;
    Some(body["position"].as_str()?.to_owned())
}

/// A small file system, if this user may mount one.
struct SmallDisk(Directory);

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<Self> {
        let directory = Directory::new();
        std::fs::create_dir(&*directory.0).expect("a directory");
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs", directory.path()]).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn a_full_disk_refuses_publishes_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(110) else {
        return skipped("a small file system needs root");
    };
    // It leaves room for one file of the log and no run.
    let filler = disk.0.0.join("filler");
    std::fs::write(&filler, vec![0; 40 << 20]).expect("written");
    let data = disk.0.0.join("data");
    let settings = ["--data", data.to_str().expect("text")];
    let server = Server::start(&settings);
    let mut subscriber = server.subscribe(Transport::Sse, "/t");
    subscriber.confirmed();
    // Each request takes several records, the last ones of which may find no room.
    let line = format!("\"{}\"\n", "x".repeat(10_000)).repeat(300);
    let mut count = 0;
    let refused = loop {
        let answer = server.post("t", "application/x-ndjson", &line);
        if answer.status != 200 {
            break answer;
        }
        count += 300;
        assert!(count < 20_000, "the disk is never full");
    };
    let message = refused.refused(507, "storage_full");
    assert!(message.contains("full"), "{message}");
    count += refused.json()["published"]["count"].as_u64().unwrap_or(0) as usize;
    assert_eq!(events(&mut subscriber, count).0.len(), count, "subscribers continue");
    let after = server.get("/v1/topics/t?limit=1&cursor=newest.1").json();
    if let Some(published) = refused.json()["published"]["position"].as_str() {
        assert_eq!(after["position"], json!(published), "the answer names all stored events");
    }
    server.kill();
    let server = Server::start(&settings);
    server.post("t", "application/x-ndjson", &line).refused(507, "storage_full");
    std::fs::remove_file(filler).expect("removed");
    let position = wait_for("room", || {
        let answer = server.post("t", JSON, "1");
        (answer.status == 200).then(|| answer.published().position)
    });
    wait_for("the event", || {
        let page = server.get("/v1/topics/t?limit=1&cursor=newest.1").json();
        (page["position"] == json!(position)).then(|| assert_eq!(page["events"], json!([1])))
    });
}
