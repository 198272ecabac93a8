//! Programs in place of a server or proxy, which may send anything.

use thalweg_testing::RefusingAddress;

use super::{Diagnosis, PATIENTLY, WITHOUT_IDLE};
use crate::harness::{Reply, Upstream, response};

const CONFIRMATION: &str = r#"{"topic":"news","position":"9f.1","first":2,"events":[]}"#;
const ECHO: &str = r#"{"answer":{"data":"thalweg doctor"}}"#;
const NDJSON: &str = "Content-Type: application/x-ndjson\r\n";

/// Data that does not come is late after this time.
const SOON: [&str; 2] = ["--wait", "1s"];

fn diagnose(answer: impl Fn() -> Reply + Send + Sync + 'static) -> Diagnosis {
    let foreign = Upstream::start(move |_| answer());
    Diagnosis::from_url(&foreign.url(""), &[&SOON, &WITHOUT_IDLE])
}

fn says(part: &str, answer: impl Fn() -> Reply + Send + Sync + 'static) {
    let diagnosis = diagnose(answer);
    diagnosis.has("problem", "server", part);
    assert_eq!(diagnosis.lines.len(), 1, "{diagnosis}");
}

#[test]
fn other_answers_than_thalwegs_are_named() {
    says("redirects to https://push.example/: use that URL", || {
        Reply::with(301, "Location: https://push.example/\r\n", "")
    });
    says("is not that of a Thalweg server", || Reply::with(200, "", "<html>Welcome"));
    says("a proxy answers 502", || Reply::with(502, "", "<html>Bad Gateway"));
    says("refuses the request (401)", || Reply::with(401, "", "login"));
    says("such as /live/", || Reply::with(404, "", "nothing here"));
    says("no answer within 1s", || Reply::Never(Vec::new()));
    says("no answer within 1s", || Reply::Never(b"HTTP/1.1 200 OK\r\nA: ".to_vec()));
    says("the connection was cut", || Reply::Last(b"HTTP/1.1 ".to_vec()));
    let draining = r#"{"error":{"code":"draining","message":"the server stops"}}"#;
    says("not ready: the server stops", move || Reply::with(503, "", draining));
}

#[test]
fn an_address_where_nobody_listens_is_named() {
    let nobody = RefusingAddress::new().expect("an address where nobody listens");
    let url = format!("http://{}", nobody.address());
    let diagnosis = Diagnosis::from_url(&url, &[&PATIENTLY]);
    diagnosis.has("problem", "server", "check the host and the port");
}

/// A body is read up to a bound, and a line of the report stays a line.
#[test]
fn a_hostile_server_changes_nothing_but_its_line() {
    says("is not that of a Thalweg server", || {
        let head = "Content-Length: 99999999999\r\n";
        Reply::Never(response(200, head, &vec![b'x'; 2 << 20]))
    });
    let message =
        r"no\nok       sse                 all is well\u001b[2J".to_owned() + &"x".repeat(9000);
    let body = format!(r#"{{"error":{{"code":"not_found","message":"{message}"}}}}"#);
    let diagnosis = diagnose(move || Reply::with(404, "", &body));
    assert_eq!(diagnosis.lines.len(), 1, "{diagnosis}");
    let line = &diagnosis.lines[0];
    assert!(line.len() < 1500 && !line.contains(char::is_control), "{line}");
}

/// A proxy in front of a server with the topic `news`: it knows no WebSockets, holds Server-Sent Events back if the client accepts gzip,
/// and ends HTTP streaming after the first message. Long polls have no answer.
#[test]
fn each_transport_has_its_own_problem() {
    let proxy = Upstream::start(|asked| {
        let accept = asked.header("accept").unwrap_or_default();
        if asked.path == "/v1/commands" {
            return Reply::json("", &ECHO);
        }
        if asked.path.contains("?limit=1") {
            return Reply::json("", &CONFIRMATION);
        }
        if asked.header("upgrade").is_some() {
            return Reply::with(400, "", "<html>Bad Request");
        }
        if asked.path.contains("wait=") {
            return Reply::Never(Vec::new());
        }
        match accept {
            "text/event-stream" if asked.header("accept-encoding").is_some() => {
                Reply::Never(response(200, "Content-Type: text/event-stream\r\n", b""))
            }
            "text/event-stream" => {
                let message = format!("data: {CONFIRMATION}\n\n");
                Reply::Never(response(
                    200,
                    "Content-Type: text/event-stream\r\n",
                    message.as_bytes(),
                ))
            }
            _ => Reply::Last(response(200, NDJSON, format!("{CONFIRMATION}\n").as_bytes())),
        }
    });
    let url = proxy.url("/v1/topics/news");
    let diagnosis = Diagnosis::from_url(&url, &[&["--wait", "3s"], &["--idle", "60s"]]);
    diagnosis.has("ok", "server", "is a Thalweg server and answers");
    diagnosis.has("problem", "websocket", "strips the upgrade to a WebSocket (status 400)");
    diagnosis.has("problem", "sse", "only without Accept-Encoding");
    diagnosis.has("problem", "long-polling", "holds data back");
    diagnosis.has("ok", "http-streaming", "the confirmation arrives");
    diagnosis.has("problem", "http-streaming idle", "a stream without events ends after");
    assert!(diagnosis.find("sse idle").is_none(), "{diagnosis}");
    assert!(diagnosis.said.ends_with("4 problems found\n"), "{diagnosis}");
}

#[test]
fn clocks_that_differ_are_named() {
    let proxy = Upstream::start(|asked| match asked.path.as_str() {
        "/v1/commands" => {
            let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
            Reply::json(date, &ECHO)
        }
        _ => Reply::with(500, "", ""),
    });
    let diagnosis = Diagnosis::from_url(&proxy.url(""), &[&PATIENTLY, &WITHOUT_IDLE]);
    diagnosis.has("problem", "clock", "s behind this machine's");
    diagnosis.has("problem", "access", "answered by a proxy (status 500)");
}

#[test]
fn a_second_cors_header_is_named() {
    let origin = "Access-Control-Allow-Origin: https://app.example\r\n";
    let allow = "Access-Control-Allow-Origin: https://app.example\r\n\
                 Access-Control-Allow-Headers: authorization, content-type\r\n";
    let once = Upstream::start(move |_| Reply::json(allow, &ECHO));
    let more: [&[&str]; 3] = [&PATIENTLY, &WITHOUT_IDLE, &["--origin", "https://app.example"]];
    Diagnosis::from_url(&once.url(""), &more).has("ok", "origin", "may use");
    let twice = Upstream::start(move |_| {
        let headers = [allow, allow].concat();
        Reply::json(&headers, &ECHO)
    });
    Diagnosis::from_url(&twice.url(""), &more).has("problem", "origin", "twice");
    let bare = Upstream::start(move |_| Reply::json(origin, &ECHO));
    Diagnosis::from_url(&bare.url(""), &more).has("problem", "origin", "browsers reject");
    let never = Upstream::start(|_| Reply::json("", &ECHO));
    Diagnosis::from_url(&never.url(""), &more).has(
        "problem",
        "origin",
        "let the proxy pass OPTIONS",
    );
}
