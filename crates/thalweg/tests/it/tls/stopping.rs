use std::time::Duration;

use super::{count, has_counted, secure, unharmed};
use crate::harness::{Raw, TlsClient, wait_for};

/// A topic with 100 kB, 200 times per second.
const HOSE: [&str; 4] =
    ["--source", "hose=dummy,interval=5ms,size=100000", "--topic", "**,history-bytes=1MiB"];

fn subscribe(raw: &mut Raw, transport: &str) {
    raw.ask("GET", &format!("/v1/topics/hose?transport={transport}"), &[], "");
    raw.until(b"\r\n\r\n", "a response head").expect("a response head");
}

#[test]
fn readers_that_stop_hold_little() {
    const READERS: usize = 64;
    let server = secure(&[&HOSE[..], &["--write-timeout", "60s"]].concat());
    let before = server.memory();
    unharmed(&server, || {
        let mut raws: Vec<Raw> = (0..READERS).map(|_| TlsClient::raw(server.address)).collect();
        for raw in &mut raws {
            subscribe(raw, "sse");
        }
        wait_for("all of them to be full", || {
            (count(&server, "thalweg_blocked_connections") >= READERS as u64).then_some(())
        });
        thalweg_testing::let_pass(Duration::from_millis(500));
        let grown = server.memory().saturating_sub(before);
        // Four records each, and the memory of TLS itself.
        assert!(grown < 48 << 20, "{grown} bytes for {READERS} readers");
    });
    has_counted(&server, "thalweg_blocked_connections", 0);
}

#[test]
fn a_reader_that_stops_in_a_frame_is_reset_after_the_stall() {
    let server = secure(&[&HOSE[..], &["--write-timeout", "500ms"]].concat());
    unharmed(&server, || {
        let mut stopped = ["sse", "http-streaming", "forever-frame"].map(|transport| {
            let mut raw = TlsClient::raw(server.address);
            subscribe(&mut raw, transport);
            raw
        });
        has_counted(&server, "thalweg_closed_total{code=\"4002\"}", 3);
        for raw in &mut stopped {
            raw.rest("the reset");
        }
    });
}

#[test]
fn a_reader_that_goes_on_hears_of_its_gap() {
    let server = secure(&HOSE);
    unharmed(&server, || {
        let mut raw = TlsClient::raw(server.address);
        subscribe(&mut raw, "http-streaming");
        wait_for("it to be full", || {
            (count(&server, "thalweg_blocked_connections") > 0).then_some(())
        });
        thalweg_testing::let_pass(Duration::from_millis(300));
        loop {
            let told = raw.message("the next line");
            if told["gap"]["reason"] == "slow" {
                break;
            }
        }
    });
}
