//! Chromium itself, where there is one: without it, the tests of its load say so.

use super::process::RunningBrowser;
use super::processes::Snapshot;
use super::tab::Tab;
use super::{Chromium, find};
use crate::measure::ProcessKind;
use crate::scenario::Settings;
use crate::subject::Cores;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

/// CPU by /proc may differ from Chromium's own by so much…
const APART_MAX: f64 = 0.05;
/// …and by the ticks in which that is counted.
const TICKS_S: f64 = 0.03;
/// A page that is busy for a while, and its browser with it.
const BUSY: &str = "(async () => { \
    const until = performance.now() + 1500; \
    while (performance.now() < until) { \
        await fetch('/healthz').then((it) => it.text()); \
        for (let i = 0; i < 1e6; i++) Math.sqrt(i); \
    } })()";

/// Time of the page's thread for the same work, ms: the least of some times.
const WORK: &str = "(() => { \
    const once = () => { \
        const begun = performance.now(); \
        for (let i = 0, sum = 0; i < 2e7; i++) sum += Math.sqrt(i); \
        return performance.now() - begun; \
    }; \
    return Math.min(...Array.from({ length: 5 }, once)); })()";
/// Five minutes of a message each millisecond, by a clock of its own: the first time that is known from 100 s on, the events at
/// its end, whether all points are right, and their number.
const FIVE_MINUTES: &str = "\
    const timeline = new Timeline(); \
    for (; now < 300000; now++) timeline.add({ events: 100, dueUs: now * 1000 }, 10); \
    const points = timeline.since(100000); \
    const isRight = points.slice(0, -1).every(([ms, events]) => events === (ms + 1) * 100); \
    return [points[0][0], points.at(-1)[1], isRight, points.length];";

fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
                let mut request = [0; 4096];
                while socket.read(&mut request).is_ok_and(|read| read > 0) {
                    if socket.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    origin
}

fn start() -> Option<RunningBrowser> {
    let (cores, log) = (Cores::allowed().unwrap(), File::create("/dev/null").unwrap());
    Some(RunningBrowser::start(&find().ok()?, &cores, &Settings::default(), &log).unwrap())
}

#[test]
fn cpu_by_process_kind_agrees_with_the_report_of_chromium() {
    let Some(mut process) = start() else { return };
    let tab = Tab::open(&mut process.cdp, &serve(), false).unwrap();
    tab.evaluate::<Value>(&mut process.cdp, BUSY).unwrap();
    let seen = Snapshot::new(process.pid());
    let response = process.cdp.call(None, "SystemInfo.getProcessInfo", &json!({})).unwrap();
    let mut compared = Vec::new();
    for info in response["processInfo"].as_array().unwrap() {
        let pid = info["id"].as_u64().unwrap() as u32;
        let reported_s = info["cpuTime"].as_f64().unwrap();
        let (kind, cpu_ns) = seen.process(pid).unwrap();
        let seen_s = cpu_ns as f64 / 1e9;
        assert!(
            (seen_s - reported_s).abs() <= reported_s * APART_MAX + TICKS_S,
            "{info}: {seen_s} s"
        );
        let expected = match info["type"].as_str().unwrap() {
            "browser" => ProcessKind::Browser,
            "renderer" => ProcessKind::Tab,
            "GPU" => ProcessKind::Gpu,
            "network.mojom.NetworkService" => ProcessKind::Network,
            _ => ProcessKind::Other,
        };
        assert_eq!(kind, expected, "{info}");
        compared.push((kind, reported_s));
    }
    let busy = |kind| compared.iter().any(|(known, s)| *known == kind && *s > 0.1);
    assert!(busy(ProcessKind::Tab) && busy(ProcessKind::Network), "{compared:?}");
    process.stop();
}

#[test]
fn a_tab_that_is_slowed_down_is_slower() {
    let Some(mut process) = start() else { return };
    let tab = Tab::open(&mut process.cdp, &serve(), false).unwrap();
    // The least of several, by turns: other load slows both.
    let mut least_ms = [f64::INFINITY; 2];
    for _ in 0..5 {
        for (least_ms, times) in least_ms.iter_mut().zip([1, 6]) {
            tab.slow_down(&mut process.cdp, times).unwrap();
            let ms: f64 = tab.evaluate(&mut process.cdp, WORK).unwrap();
            *least_ms = least_ms.min(ms);
        }
    }
    let [alone_ms, slowed_ms] = least_ms;
    assert!(slowed_ms > 2.0 * alone_ms, "{slowed_ms} ms, and {alone_ms} ms at full speed");
    process.stop();
}

#[test]
fn minutes_are_followed_in_bounded_memory() {
    let Some(mut process) = start() else { return };
    let tab = Tab::open(&mut process.cdp, &serve(), false).unwrap();
    let timeline = include_str!("../../../../web/lab/page/timeline.js");
    let clock = "let now = 0; const performance = { timeOrigin: 0, now: () => now };";
    let expression = format!("(() => {{ {clock}\n{timeline}\n{FIVE_MINUTES} }})()");
    let (from_ms, events, is_right, points): (f64, u64, bool, usize) =
        tab.evaluate(&mut process.cdp, &expression).unwrap();
    assert!((99_900.0..=100_000.0).contains(&from_ms) && is_right, "from {from_ms} ms, {is_right}");
    assert_eq!(events, 30_000_000);
    assert!((1000..=16384).contains(&points), "{points} points");
    process.stop();
}

#[test]
fn a_stopped_browser_leaves_no_process() {
    let Some(process) = start() else { return };
    let (pid, folder) = (process.pid(), process.folder().to_owned());
    assert!(folder.exists());
    process.stop();
    assert!(Snapshot::new(pid).process(pid).is_none() && !folder.exists());
    let (cores, log) = (Cores::allowed().unwrap(), File::create("/dev/null").unwrap());
    let version = Chromium::new(find().unwrap(), cores, log).version().unwrap();
    assert!(version.starts_with("Chromium "), "{version}");
}
