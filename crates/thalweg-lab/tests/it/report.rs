//! A report opens in a browser, asks for nothing, and shows its charts.

use anyhow::Context;
use std::path::Path;
use std::process::Command;
use thalweg_lab::measure::{Delays, Latency, MachineNote, Point, Sample, Step, Traffic, Verdict};
use thalweg_lab::report::{Manifest, Summary, html};
use thalweg_lab::scenario::{Changes, Plan, read};
use thalweg_testing::TemporaryPath;

/// A part for every kind of chart.
const SCENARIOS: [(&str, &str); 3] = [
    ("published-load", "connections = [100, 1000]\nevent_bytes = [128, 1024]"),
    ("ceiling", "connections = 100"),
    ("round-trip", "connections = 1\nrequests = [100, 200]"),
];

fn summary(drive: &str, cells: &str) -> anyhow::Result<Summary> {
    let text = format!(
        "name = \"example\"\ndrive = \"{drive}\"\n[[cells]]\n{cells}\n\
         [[subjects]]\nprogram = \"limit\"\n[[subjects]]\nprogram = \"thalweg\"\n"
    );
    let plan: Plan = read(&text, &Changes::default(), &[])?;
    let samples: Vec<Sample> = plan
        .slots()
        .map(|slot| {
            let cost = 1_000_000 * (10 + slot.subject as u64) + u64::from(slot.repeat);
            let mut latency = Latency::default();
            (1..=1000).for_each(|us| latency.record(us, 10));
            Sample {
                latency: latency.percentiles(),
                part: slot.part,
                cell: slot.cell,
                subject: slot.subject,
                repeat: slot.repeat,
                verdict: if slot.cell == 0 { Verdict::Subject } else { Verdict::Schedule },
                span_us: 1_000_000,
                subject_cpu_ns: cost,
                traffic: Traffic { events: 10_000, reads: 5000, ..Traffic::default() },
                timeline: (0..5)
                    .map(|look| Point {
                        at_us: look * 200_000,
                        rss_bytes: 5_000_000,
                        cpu_ns: look * 50_000_000,
                        latency: Some(Delays { p50_us: 50, p99_us: 90, ..Delays::default() }),
                        silence_us: 95,
                        ..Point::default()
                    })
                    .collect(),
                steps: vec![
                    Step { rate: 1000.0, p99_us: 900, ..Step::default() },
                    Step {
                        rate: 2000.0,
                        p99_us: 90_000,
                        missed: Some("p99".to_owned()),
                        ..Step::default()
                    },
                ],
                ..Sample::default()
            }
        })
        .collect();
    let manifest = Manifest::new("0", "thalweg-lab bench", MachineNote::default());
    Ok(Summary::new(&plan, &samples, manifest))
}

/// The browser's page, and its complaints.
fn open(folder: &Path, page: &str) -> anyhow::Result<(String, String)> {
    let file = folder.join("report.html");
    std::fs::write(&file, page)?;
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run"])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0", "--dump-dom"])
        // The page draws its charts after it has loaded.
        .args(["--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .context("install chromium: apt-get install chromium")?;
    let reported = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((reported(&output.stdout), reported(&output.stderr)))
}

/// The page that `npm run build` makes in `web`; `None` if it is not built.
fn page() -> Option<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/ui/dist/report.html");
    std::fs::read_to_string(file).ok()
}

#[test]
fn a_report_opens_in_a_browser_without_a_word_of_complaint() -> anyhow::Result<()> {
    let Some(built) = page() else {
        eprintln!("skipped: build the pages with `make pages`");
        return Ok(());
    };
    let folder = TemporaryPath::folder("report");
    for (drive, cells) in SCENARIOS {
        let page = html(&summary(drive, cells)?, &built)?;
        let (dom, log) = open(&folder, &page)?;
        // As its console is logged: errors of pages, and what a policy refused.
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{drive}: {complaints:?}");
        assert!(dom.contains("<h1>") && dom.contains("How it was measured"), "{drive}: {log}");
        assert!(dom.contains("<canvas") && dom.contains("<svg"), "{drive}: {log}");
        let titles =
            dom.split("<summary>").skip(1).filter_map(|rest| rest.split("</summary>").next());
        let curves = titles.filter(|title| title.contains(" over time")).count();
        assert_eq!(curves, 5, "{drive}");
    }
    // The log does hold what a page complains of, or the above would say nothing.
    let page = html(&summary("published-load", "")?, &built)?;
    let asking = page.replace("</main>", "</main><img src=\"https://127.0.0.1:1/\" alt=\"\">");
    let (_, log) = open(&folder, &asking)?;
    assert!(log.lines().any(|line| line.contains("CONSOLE")), "{log}");
    Ok(())
}
