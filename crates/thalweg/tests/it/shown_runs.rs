//! `thalweg serve --runs`: publishes the runs of the lab.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{PUBLISHER, Server, request};

/// Runs that are archived in the repository.
const ARCHIVE: &str = "../../lab/runs/2026-11-23-epyc-2";

const FILE_BYTES_MAX: u64 = 32 << 20;

const REPORT: &str = "<!doctype html><title>a report</title>";

/// A folder of runs with a run `run`, and with private files beside it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shown-{name}"));
        let _ = fs::remove_dir_all(&path);
        let place = Self(path);
        place.write("secret/report.html", "secret");
        place.write("secret/manifest.json", "{}");
        place.write("store/run/report.html", REPORT);
        place.write("store/run/plan.json", r#"{"name":"fanout","title":"one to many"}"#);
        place.write("store/run/manifest.json", r#"{"begun":"2026-01-01T00:00:00Z"}"#);
        place.write("store/run/summary.json", r#"{"parts":[]}"#);
        place
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
        fs::write(path, text).expect("write a file");
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    fn serve_with(&self, more: &[&str]) -> Server {
        let store = self.store();
        Server::start(&[&["--runs", store.to_str().expect("text")], more].concat())
    }
}

fn names(listed: &Value) -> Vec<&str> {
    let runs = listed["runs"].as_array().expect("runs");
    runs.iter().map(|run| run["name"].as_str().expect("a name")).collect()
}

#[test]
fn without_a_folder_there_are_no_runs_and_the_answer_says_how_to_have_them() {
    let server = Server::start(&[]);
    for path in ["/runs", "/runs/run/report.html"] {
        let said = server.get(path).refused(404, "not_found");
        assert!(said.contains("--runs"), "{said}");
    }
    server.get("/runsome").refused(404, "not_found");
}

#[test]
fn the_archive_is_listed_the_newest_first_and_its_files_are_as_they_lie_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(ARCHIVE);
    let server = Server::start(&["--runs", folder.to_str().expect("text")]);
    let answer = server.get("/runs");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let listed = answer.json();
    let names = names(&listed);
    assert!(names.contains(&"fanout") && names.contains(&"a1"), "{names:?}");
    assert!(!names.contains(&"swarm"), "that is no run of the lab");
    let runs = listed["runs"].as_array().expect("runs");
    let begun: Vec<&str> = runs.iter().filter_map(|run| run["begun"].as_str()).collect();
    assert_eq!(begun.len(), runs.len());
    assert!(begun.is_sorted_by(|newer, older| newer >= older), "{begun:?}");
    let a1 = runs.iter().find(|run| run["name"] == "a1").expect("a1");
    assert_eq!(a1["scenario"], "a1");
    assert_eq!(a1["title"], "experiment A1: batch size, 10 connections, one batch per millisecond");
    assert_eq!(a1["machine"], "AMD EPYC, 2 cores");
    assert!(a1["version"].as_str().is_some_and(|version| version.starts_with("0.1.0")));
    assert_eq!((&a1["has_report"], &a1["has_summary"]), (&json!(false), &json!(true)));
    let files = [
        ("manifest.json", "manifest.json", None),
        ("summary.json", "summary.json.gz", Some("gzip")),
    ];
    for (file, stored, encoding) in files {
        let answer = server.get(&format!("/runs/a1/{file}"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("content-encoding"), encoding);
        assert!(answer.body == fs::read(folder.join("a1").join(stored)).expect(file), "{file}");
    }
    let said = server.get("/runs/a1/report.html").refused(404, "not_found");
    assert!(said.contains("thalweg-lab bench export"), "{said}");
}

#[test]
fn a_report_is_shown_without_rights() {
    let place = Place::new("report");
    let server = place.serve();
    let answer = server.get("/runs/run/report.html");
    assert_eq!((answer.status, answer.text().as_str()), (200, REPORT));
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    let policy = answer.header("content-security-policy").expect("a policy");
    for directive in [
        "sandbox allow-scripts;",
        "default-src 'none';",
        "script-src 'unsafe-inline';",
        "style-src 'unsafe-inline';",
        "form-action 'none';",
        "frame-ancestors 'self'",
    ] {
        assert!(policy.contains(directive), "{policy}");
    }
    assert!(!policy.contains("allow-same-origin") && !policy.contains("connect-src"), "{policy}");
    let mut socket = server.connect();
    socket.send(request("HEAD", "/runs/run/report.html", &[("Connection", "close")], b""));
    let head = socket.response_head();
    assert_eq!(head.header("content-length"), Some(&*REPORT.len().to_string()));
    assert_eq!((head.status, socket.rest("the end").len()), (200, 0));
    for path in ["/runs", "/runs/run/report.html"] {
        server.ask("POST", path, &[], "").refused(405, "method_not_allowed");
    }
    let said = server.get("/runs?limit=5").refused(400, "bad_parameter");
    assert!(said.contains("limit"), "{said}");
}

#[test]
fn runs_that_are_written_later_are_shown() {
    let place = Place::new("later");
    let server = place.serve();
    assert_eq!(names(&server.get("/runs").json()), ["run"]);
    place.write("store/before ä/manifest.json", r#"{"begun":"2027-01-01T00:00:00Z"}"#);
    assert_eq!(names(&server.get("/runs").json()), ["before ä", "run"]);
    assert_eq!(server.get("/runs/before%20%C3%A4/manifest.json").status, 200);
    fs::rename(place.store(), place.0.join("away")).expect("rename");
    assert!(names(&server.get("/runs").json()).is_empty());
    server.get("/runs/run/report.html").refused(404, "not_found");
    fs::rename(place.0.join("away"), place.store()).expect("rename");
    assert_eq!(server.get("/runs/run/report.html").status, 200);
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let place = Place::new("paths");
    place.write("store/.hidden/report.html", "secret");
    place.write("store/report.html", "secret");
    let server = place.serve();
    let long = format!("/runs/{}/report.html", "x".repeat(300));
    for path in [
        "/runs/",
        "/runs/run",
        "/runs/run/",
        "/runs/run/plan.json",
        "/runs/run/report.html/",
        "/runs/run/%72eport.html",
        "/runs/../secret/report.html",
        "/runs/../../report.html",
        "/runs/..",
        "/runs/../..",
        "/runs/./report.html",
        "/runs//report.html",
        "/runs/../report.html",
        "/runs/%2e/report.html",
        "/runs/%2e%2e/manifest.json",
        "/runs/%2e%2e%2fsecret/report.html",
        "/runs/..%2fsecret/report.html",
        "/runs/..%5csecret/report.html",
        "/runs/%252e%252e/report.html",
        "/runs/run%2f..%2f..%2fsecret/report.html",
        "/runs/run/..%2f..%2f..%2fsecret%2freport.html",
        "/runs/run%00/report.html",
        "/runs/%ff/report.html",
        "/runs/%/report.html",
        "/runs/.hidden/report.html",
        "/runs/%2ehidden/report.html",
        &long,
    ] {
        server.get(path).refused(404, "not_found");
    }
    assert_eq!(server.get("/runs/%72un/report.html").text(), REPORT, "one spelling of another");
    assert_eq!(names(&server.get("/runs").json()), ["run"]);
}

#[test]
fn no_link_leads_out_of_the_folder() {
    let place = Place::new("links");
    let (store, secret) = (place.store(), place.0.join("secret"));
    symlink(&secret, store.join("linked")).expect("link");
    symlink("../secret", store.join("near")).expect("link");
    place.write("store/files/plan.json", "{}");
    for file in ["report.html", "manifest.json"] {
        symlink(secret.join(file), store.join("files").join(file)).expect("link");
    }
    let server = place.serve();
    let listed = server.get("/runs").json();
    assert_eq!(names(&listed), ["run", "files"]);
    assert_eq!(listed["runs"][1]["has_report"], json!(false));
    for path in [
        "/runs/linked/report.html",
        "/runs/near/report.html",
        "/runs/files/report.html",
        "/runs/files/manifest.json",
    ] {
        server.get(path).refused(404, "not_found");
    }
}

#[test]
fn a_run_whose_files_are_broken_is_listed_with_its_name() {
    let place = Place::new("broken");
    place.write("store/half/plan.json", "{\"name\": \"fan");
    place.write("store/half/manifest.json", &"[".repeat(100_000));
    place.write("store/odd/plan.json", r#"{"name": 7, "title": {}}"#);
    place.write("store/odd/manifest.json", r#"{"begun": ["x"], "machine": "x"}"#);
    fs::create_dir_all(place.store().join("folders/plan.json")).expect("make a folder");
    fs::create_dir_all(place.store().join("folders/manifest.json")).expect("make a folder");
    place.write("store/folders/summary.json", "");
    fs::write(place.store().join("bytes"), [0xff; 10]).expect("write a file");
    let server = place.serve();
    let listed = server.get("/runs").json();
    let only = |name: &str, has_summary: bool| json!({"name": name, "has_report": false, "has_summary": has_summary});
    let broken = json!([only("folders", true), only("half", false), only("odd", false)]);
    assert_eq!(listed["runs"].as_array().expect("runs")[1..], broken.as_array().expect("runs")[..]);
    // The files are served unchanged, so that a reader can find the problem.
    assert_eq!(server.get("/runs/odd/manifest.json").status, 200);
    server.get("/runs/folders/manifest.json").refused(404, "not_found");
}

#[test]
fn special_and_large_files_of_runs_block_no_client() {
    let place = Place::new("huge");
    let huge = fs::File::create(place.store().join("run/summary.json")).expect("make a file");
    huge.set_len(FILE_BYTES_MAX + 1).expect("a hole");
    let pipe = place.store().join("run/report.html");
    fs::remove_file(&pipe).expect("remove");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("run mkfifo");
    assert!(made.success());
    let server = place.serve();
    let said = server.get("/runs/run/summary.json").refused(404, "not_found");
    assert!(said.contains("larger than 32 MiB"), "{said}");
    server.get("/runs/run/report.html").refused(404, "not_found");
    assert_eq!(names(&server.get("/runs").json()), ["run"]);
    huge.set_len(FILE_BYTES_MAX).expect("a hole");
    assert_eq!(server.get("/runs/run/summary.json").body.len() as u64, FILE_BYTES_MAX);
}

/// A file is read while it is sent.
#[test]
fn unread_responses_cost_little() {
    let place = Place::new("bounded");
    let large = fs::File::create(place.store().join("run/summary.json")).expect("make a file");
    large.set_len(FILE_BYTES_MAX).expect("a hole");
    let server = place.serve();
    let path = "/runs/run/summary.json";
    let before = server.memory();
    let untaken: Vec<_> = (0..32)
        .map(|_| {
            let mut socket = server.connect();
            socket.send(request("GET", path, &[], b""));
            assert_eq!(socket.response_head().status, 200);
            socket
        })
        .collect();
    assert_eq!(server.get("/runs").status, 200);
    assert_eq!(server.get(path).body.len() as u64, FILE_BYTES_MAX);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for {} answers", untaken.len());
    drop(untaken);
    server.await_metric("thalweg_answer_bytes", |bytes| bytes == 0.0);
}

#[test]
fn many_parallel_requests_delay_no_other_client() {
    let place = Place::new("many");
    let server = place.serve_with(&["--shards", "2"]);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(server.get("/runs/run/report.html").text(), REPORT);
                    assert_eq!(names(&server.get("/runs").json()), ["run"]);
                }
            });
        }
        scope.spawn(|| {
            for number in 0..50 {
                server.publish("t", number..number + 1);
            }
        });
    });
    assert_eq!(server.get("/v1/topics/t?limit=100").json()["events"][49], json!(49));
}

#[test]
fn subscribers_may_see_the_list() {
    let place = Place::new("tokens");
    let subscribe = "subscribe-secret-1234567890";
    let everybody = place.serve_with(&PUBLISHER);
    assert_eq!(everybody.get("/runs").status, 200);
    let server = place.serve_with(&[
        "--token",
        "publisher=publish-secret-1234567890,publish=**",
        "--token",
        &format!("subscriber={subscribe},subscribe=**"),
    ]);
    let paths = ["/runs", "/runs/run/report.html", "/runs/none/report.html"];
    for path in paths {
        server.get(path).refused(401, "unauthorized");
        let wrong = [("Authorization", "Bearer wrong")];
        server.ask("GET", path, &wrong, "").refused(401, "unauthorized");
    }
    let bearer = format!("Bearer {subscribe}");
    let right = [("Authorization", bearer.as_str())];
    for path in &paths[..2] {
        assert_eq!(server.ask("GET", path, &right, "").status, 200);
    }
    let ticket = server.ask("POST", "/v1/tickets", &right, "").json();
    let ticket = ticket["ticket"].as_str().expect("a ticket");
    let framed = format!("/runs/run/report.html?ticket={ticket}");
    assert_eq!(server.get(&framed).text(), REPORT);
    server.get(&framed).refused(401, "unauthorized");
}

#[test]
fn runs_must_be_a_folder() {
    let place = Place::new("missing");
    let file = place.0.join("secret/report.html");
    for check in [&["--check"][..], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--runs"]).arg(&file).args(check);
        let output = command.output().expect("run the binary");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("thalweg-lab bench") && said.contains("--runs"), "{said}");
    }
}
