//! `thalweg doctor`: what it says about servers, proxies and programs that are neither.
//!
//! - `paths`: proxies that strip, buffer and cut
//! - `foreign`: servers that the test writes

mod foreign;
mod paths;

use crate::harness::{Server, thalweg};

/// Longer than a busy machine needs for an answer.
const PATIENTLY: [&str; 2] = ["--wait", "60s"];
const WITHOUT_IDLE: [&str; 2] = ["--idle", "0"];

const STREAMS: [&str; 4] = ["websocket", "sse", "http-streaming", "long-polling"];

/// The output of a run.
struct Diagnosis {
    lines: Vec<String>,
    is_healthy: bool,
    said: String,
}

impl Diagnosis {
    fn from_url(url: &str, more: &[&[&str]]) -> Self {
        let arguments = [&["doctor", url], &*more.concat()].concat();
        let mut program = thalweg(&arguments);
        let lines: Vec<String> = std::iter::from_fn(|| program.line()).collect();
        let (status, said) = program.end();
        assert!(matches!(status.code(), Some(0 | 1)), "{status}: {said}");
        Self { lines, is_healthy: status.success(), said }
    }

    fn of_server(server: &Server, more: &[&[&str]]) -> Self {
        Self::from_url(&format!("http://{}", server.address), more)
    }

    fn find(&self, check: &str) -> Option<&str> {
        let named = format!("{check:<20}");
        let lines = self.lines.iter().map(String::as_str);
        lines.into_iter().find(|line| line.get(9..).is_some_and(|rest| rest.starts_with(&named)))
    }

    /// Asserts the verdict of a check, and a part of its sentence.
    fn has(&self, verdict: &str, check: &str, part: &str) {
        let line = self.find(check).unwrap_or_else(|| panic!("no {check}: {self}"));
        assert!(line.starts_with(verdict) && line.contains(part), "{check} {part:?}: {self}");
        assert_eq!(self.is_healthy, !self.lines.iter().any(|line| line.starts_with("problem")));
    }

    fn is_in_order(&self) {
        assert!(self.is_healthy, "{self}");
        for check in STREAMS {
            self.has("ok", check, " arrives within ");
        }
    }
}

impl std::fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#?}; it said: {}", self.lines, self.said)
    }
}

#[test]
fn a_server_without_a_proxy_is_in_order() {
    let server = Server::start(&["--heartbeat", "500ms"]);
    let diagnosis = Diagnosis::of_server(&server, &[&PATIENTLY, &["--idle", "4s"]]);
    diagnosis.is_in_order();
    diagnosis.has("ok", "server", "is a Thalweg server, version ");
    diagnosis.has("ok", "clock", "agree");
    diagnosis.has("ok", "own-origin", "may use the server");
    diagnosis.has("note", "http2", "no TLS");
    for check in STREAMS {
        diagnosis.has("ok", &format!("{check} idle"), "stays open for 4s");
    }
    assert!(diagnosis.said.contains("Keeping streams open"), "{diagnosis}");
    let topics = server.get("/v1/topics?prefix=thalweg-doctor").text();
    assert!(topics.contains(r#""topics":[]"#), "{topics}");
}

#[test]
fn findings_are_also_json() {
    let server = Server::start(&[]);
    let more: [&[&str]; 3] = [&PATIENTLY, &WITHOUT_IDLE, &["--json"]];
    let diagnosis = Diagnosis::of_server(&server, &more);
    let summary: serde_json::Value = serde_json::from_str(&diagnosis.lines.concat()).expect("JSON");
    assert_eq!(summary["problems"], 0, "{summary}");
    assert!(diagnosis.is_healthy && diagnosis.said.is_empty(), "{diagnosis}");
    let checks = summary["checks"].as_array().expect("checks");
    let sse = checks.iter().find(|check| check["check"] == "sse").expect("sse");
    assert_eq!(sse["verdict"], "ok", "{sse}");
}

#[test]
fn tls_is_checked_and_offers_http2() {
    let server = Server::start(&["--tls-self-signed"]);
    let url = format!("https://localhost:{}", server.address.port());
    let diagnosis = Diagnosis::from_url(&url, &[&PATIENTLY]);
    diagnosis.has("problem", "server", "--cacert");
    assert_eq!(diagnosis.lines.len(), 1, "{diagnosis}");
    let diagnosis = Diagnosis::from_url(&url, &[&PATIENTLY, &WITHOUT_IDLE, &["--insecure"]]);
    diagnosis.is_in_order();
    diagnosis.has("ok", "http2", "offered");
}

#[test]
fn a_client_that_may_only_read_names_a_topic() {
    let rights = ["--token", "everybody,subscribe=news/**"];
    let server = Server::start(&rights);
    let diagnosis = Diagnosis::of_server(&server, &[&PATIENTLY, &WITHOUT_IDLE]);
    diagnosis.has("problem", "access", "name a topic that it may read");
    let url = format!("http://{}/v1/topics/news/today", server.address);
    let diagnosis = Diagnosis::from_url(&url, &[&PATIENTLY, &WITHOUT_IDLE]);
    diagnosis.is_in_order();
    diagnosis.has("ok", "sse", "the confirmation");
    // A topic of a URL gets no events, although its reader could publish them.
    assert!(server.get("/v1/topics/news/today?limit=1").text().contains(r#""events":[]"#));
}

#[test]
fn a_client_that_may_not_publish_is_told() {
    let server = Server::start(&["--token", "everybody,subscribe=**"]);
    let diagnosis = Diagnosis::of_server(&server, &[&PATIENTLY, &WITHOUT_IDLE]);
    diagnosis.is_in_order();
    diagnosis.has("note", "publish", "needs a token");
}

#[test]
fn origins_are_checked_with_a_preflight() {
    let app = "https://app.example";
    let server = Server::start(&[]);
    let more: [&[&str]; 3] = [&PATIENTLY, &WITHOUT_IDLE, &["--origin", app]];
    let diagnosis = Diagnosis::of_server(&server, &more);
    diagnosis.has("problem", "origin", "--allow-origin https://app.example");
    let server = Server::start(&["--allow-origin", app]);
    let diagnosis = Diagnosis::of_server(&server, &more);
    diagnosis.has("ok", "origin", app);
    diagnosis.is_in_order();
}

#[test]
fn a_path_that_the_proxy_does_not_remove_is_named() {
    let server = Server::start(&[]);
    let url = format!("http://{}/live/", server.address);
    let diagnosis = Diagnosis::from_url(&url, &[&PATIENTLY, &WITHOUT_IDLE]);
    diagnosis.has("problem", "server", "let it remove the path");
    assert_eq!(diagnosis.lines.len(), 1, "{diagnosis}");
}

/// A heartbeat that is longer than `--idle` looks like one that is held back.
#[test]
fn a_missing_heartbeat_is_a_problem() {
    let server = Server::start(&["--heartbeat", "1h"]);
    let diagnosis = Diagnosis::of_server(&server, &[&PATIENTLY, &["--idle", "1s"]]);
    for check in ["websocket idle", "sse idle", "http-streaming idle"] {
        diagnosis.has("problem", check, "no heartbeat arrives within 1s");
    }
}
