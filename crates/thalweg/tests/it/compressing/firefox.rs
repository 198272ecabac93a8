//! Firefox, whose WebSocket and EventSource keep the context of the server.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{CARS, event, publish};
use crate::harness::{Program, Reply, Server, Upstream, skipped};

const NAMES: [&str; 2] = ["websocket", "sse"];

/// Reports each message to the server of the page, by a path in hexadecimal digits, which nobody encodes.
const PAGE: &str = r#"<!doctype html><script>
const server = location.hash.slice(1), topic = "/v1/topics/cars";
function reporter(name) {
  let last = Promise.resolve(), count = 0;
  return (text) => {
    const hex = Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, "0"));
    const path = `/${name}/${count++}/${hex.join("")}`;
    last = last.then(() => fetch(path));
  };
}
const socket = new WebSocket(`ws://${server}${topic}`), overWebSocket = reporter("websocket");
socket.onmessage = ({ data }) => overWebSocket(`${socket.extensions} ${data}`);
const overSse = reporter("sse");
new EventSource(`http://${server}${topic}`).onmessage = ({ data }) => overSse(data);
</script>"#;

/// Settings of a profile that asks and fetches nothing at its start.
const SETTINGS: &str = r#"
user_pref("app.normandy.enabled", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("extensions.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,");
user_pref("toolkit.telemetry.enabled", false);
"#;

/// Returns a new profile. Processes of Firefox may still write to it after the test, so the next test deletes it.
fn profile() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("firefox");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => panic!("{folder:?}: {error}"),
        _ => {}
    }
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("user.js"), SETTINGS).expect("a file");
    folder
}

fn installed() -> Option<&'static str> {
    // Ubuntu's program of this name may only tell how to install Firefox, and fails.
    let works = |program: &&str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    ["firefox-esr", "firefox"].into_iter().find(works)
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes it");
        hex
    })
}

/// Waits for a report of this message that ends with `ending`.
fn await_report(reports: &Upstream, name: &str, number: u64, ending: &str) -> String {
    let prefix = format!("/{name}/{number}/");
    let report = reports.await_first(&prefix).path;
    assert!(report.ends_with(&hex(ending)), "{report} does not end with {ending}");
    report
}

#[test]
fn firefox_reads_every_message_byte_for_byte() {
    const EVENTS: u64 = 80;
    let Some(program) = installed() else { return skipped("there is no Firefox here") };
    let page = Upstream::start(|asked| match &*asked.path {
        "/" => Reply::with(200, "Content-Type: text/html\r\n", PAGE),
        _ => Reply::with(200, "", ""),
    });
    let origin = page.url("");
    let server = Server::start(&["--compression", "--allow-origin", &origin]);
    let mut firefox = Command::new(program);
    firefox.args(["--headless", "--no-remote", "--profile"]).arg(profile());
    firefox.arg(page.url(&format!("/#{}", server.address)));
    let _firefox = Program::start(&mut firefox);
    let confirmation = r#""events":[]}"#;
    let opened = NAMES.map(|name| await_report(&page, name, 0, confirmation));
    assert!(opened[0].contains(&hex("permessage-deflate")), "{}", opened[0]);
    let before = server.metric("thalweg_sent_bytes_total");
    let mut text_bytes = 0;
    for number in 0..EVENTS {
        publish(&server, CARS, number);
        for name in NAMES {
            let ending = format!(r#""events":[{}]}}"#, event(number));
            text_bytes += ending.len();
            await_report(&page, name, number + 1, &ending);
        }
    }
    // An EventSource does not tell how its messages came.
    let sent_bytes = server.metric("thalweg_sent_bytes_total") - before;
    assert!(sent_bytes < text_bytes as f64 * 0.8, "{sent_bytes} bytes for {text_bytes}");
}
