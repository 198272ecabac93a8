//! Histories that many clients request, with and without reading.

use super::{COST_MAX, INITIAL_WINDOW_SIZE, await_some, fill, with_history};
use crate::harness::{H2, OPEN, Raw, TRUSTED, kind, unharmed, wait_for};

/// The history is shared: sixteen clients that do not read it cost almost nothing, and no other client waits for them.
#[test]
fn unread_history_delays_no_client() {
    let server = with_history(&[]);
    unharmed(&server, || {
        let before = server.memory();
        let mut stopped = Vec::new();
        for _ in 0..16 {
            let mut raw = Raw::connect(server.address);
            raw.ask("GET", "/v1/topics/read?limit=10000", &[], "");
            stopped.push(raw);
        }
        let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
        for number in 0..64 {
            h2.get(2 * number + 1, "/v1/topics/read?limit=10000", &[]);
        }
        for raw in &mut stopped {
            raw.until(b"\r\n\r\n", "a head").expect("an answer");
        }
        for _ in 0..20 {
            assert_eq!(server.get("/v1/topics/read?limit=1000").json()["events"][399], event());
        }
        let grown = server.memory().saturating_sub(before);
        assert!(grown < COST_MAX, "{grown} bytes for answers that nobody reads");
    });
    server.has_refused("busy", 0);
    assert_eq!(server.count("thalweg_answers_cut_total"), 0);
}

/// Clients that read their responses are never refused: they wait for each other.
#[test]
fn history_that_many_take_at_once_reaches_all_of_them() {
    let server = with_history(&["--shards", "1"]);
    let path = "/v1/topics/read?limit=10000";
    let whole = server.get(path).body.len();
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                let answer = server.get(path);
                assert_eq!((answer.status, answer.body.len()), (200, whole));
            });
        }
    });
    server.has_counted("thalweg_answers_cut_total", 0);
}

/// A client that reads nothing loses its place to a waiting one.
#[test]
fn history_that_hundreds_do_not_read_stays_available() {
    let server = with_history(&[&["--shards", "1"], &TRUSTED[..], &OPEN].concat());
    let path = "/v1/topics/read?limit=10000";
    let whole = server.get(path).body.len();
    let _untaken: Vec<_> = (0..200)
        .map(|number| {
            let mut socket = Raw::connect(server.address);
            let client = format!("192.0.2.{}", number % 100);
            socket.ask("GET", path, &[("X-Forwarded-For", &client)], "");
            socket
        })
        .collect();
    // Each new client waits for an earlier one to leave.
    for _ in 0..20 {
        assert_eq!(server.get(path).body.len(), whole);
    }
    assert!(server.count("thalweg_answers_cut_total") >= 100);
}

fn event() -> String {
    "x".repeat(10_000)
}

/// Batches that have left the history are kept for these clients only: each client has a share, and all have a bound.
#[test]
fn history_kept_for_clients_that_do_not_read_is_bounded() {
    let server =
        with_history(&[&["--topic", "**,history-bytes=4MiB"], &TRUSTED[..], &OPEN].concat());
    let of = |client: &str| {
        let mut raw = Raw::connect(server.address);
        let headers = [("X-Forwarded-For", client)];
        raw.ask("GET", "/v1/topics/read?limit=10000", &headers, "");
        raw
    };
    unharmed(&server, || {
        let mut first = of("192.0.2.1");
        first.until(b"\r\n\r\n", "a head").expect("an answer");
        fill(&server, 45);
        wait_for("what it keeps to be seen", || {
            (server.count("thalweg_answer_pinned_bytes") > 2 << 20).then_some(())
        });
        of("192.0.2.1").answer().refused(503, "busy");
        let mut whole = of("192.0.2.2");
        assert_eq!(whole.answer().status, 200);
        let mut others = Vec::new();
        for client in 2..9 {
            let mut raw = of(&format!("192.0.2.{client}"));
            raw.until(b"\r\n\r\n", "a head").expect("an answer");
            others.push(raw);
            fill(&server, 45);
        }
        await_some(&server, "thalweg_answers_cut_total");
        wait_for("the rest to be within the bound", || {
            (server.count("thalweg_answer_pinned_bytes") <= 8 << 20).then_some(())
        });
    });
}

#[test]
fn history_that_many_keep_together_counts_once() {
    let server = with_history(&["--topic", "**,history-bytes=4MiB", "--shards", "1"]);
    let mut keeping = Vec::new();
    for _ in 0..20 {
        let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
        h2.get(1, "/v1/topics/read?limit=10000", &[]);
        h2.until_kind(kind::HEADERS).expect("an answer");
        keeping.push(h2);
    }
    fill(&server, 45);
    wait_for("what they keep to be seen", || {
        let pinned = server.count("thalweg_answer_pinned_bytes");
        (3 << 20..5 << 20).contains(&pinned).then_some(())
    });
    assert_eq!(server.count("thalweg_answers_cut_total"), 0);
}
