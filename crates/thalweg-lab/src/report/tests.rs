//! Reports as readers see them.

use super::*;
use crate::measure::comparison::{Comparison, Metric};
use crate::measure::{
    BrowserUse, Counts, KernelMemory, KindUse, Latency, MachineNote, Memory, Pacing, ProcessKind,
    RoundTrips, Sample, Traffic, Verdict,
};
use crate::scenario::{Changes, LoadIn, Plan, Slot, read};

pub(super) const SCENARIO: &str = r#"
name = "example"
title = "an example"
drive = "published-load"
repeats = 5
warm_up_ms = 100
measured_ms = 400

[[cells]]
connections = [100, 1000]

[[subjects]]
name = "limit"
program = "limit"

[[subjects]]
name = "limit again"
program = "limit"

[[subjects]]
name = "thalweg"
program = "thalweg"
"#;

/// A sample whose CPU per event depends on subject and repeat.
fn sample(slot: Slot) -> Sample {
    let events = 400_000;
    let of_subject = [1200, 1230].get(slot.subject).unwrap_or(&1500);
    let cpu_ns_per_event = of_subject + 10 * u64::from(slot.repeat);
    let mut latency = Latency::default();
    for us in 1..=1000 {
        latency.record(us * (1 + slot.subject as u64 / 2), events / 1000);
    }
    Sample {
        part: slot.part,
        cell: slot.cell,
        subject: slot.subject,
        repeat: slot.repeat,
        verdict: if slot.subject == 2 { Verdict::Swarm } else { Verdict::Subject },
        span_us: 500_000,
        traffic: Traffic {
            events,
            envelopes: events / 2,
            reads: events / 4,
            wire_bytes: events * 150,
            heartbeats: 0,
        },
        ledger: Counts { delivered: events, ..Counts::default() },
        subject_cpu_ns: events * cpu_ns_per_event,
        subject_busy: 0.987,
        swarm_busy: 0.654,
        disturbed: 0.001,
        dropped_packets: 0,
        open_us: 12_345,
        memory: Memory {
            rss_ready_bytes: 3_000_000,
            rss_open_bytes: 3_500_000,
            rss_end_bytes: 4_024_000,
            swarm_rss_before_bytes: Some(10_000_000),
            swarm_rss_open_bytes: Some(10_400_000 + 1000 * u64::from(slot.repeat)),
            ..Memory::default()
        },
        latency: latency.percentiles(),
        ..Sample::default()
    }
}

pub(super) fn summary(text: &str, change: impl Fn(&mut Sample)) -> Summary {
    let plan: Plan = read(text, &Changes::default(), &[]).unwrap();
    let samples = samples(&plan, change);
    Summary::new(&plan, &samples, manifest())
}

pub(super) fn plan(cells: &str) -> Plan {
    read(&SCENARIO.replace("connections = [100, 1000]", cells), &Changes::default(), &[]).unwrap()
}

/// Returns the example's plan, and its summary.
pub(super) fn summary_of_everything() -> (Plan, Summary) {
    let plan: Plan = read(SCENARIO, &Changes::default(), &[]).unwrap();
    (plan, summary(SCENARIO, |_| {}))
}

pub(super) fn samples(plan: &Plan, change: impl Fn(&mut Sample)) -> Vec<Sample> {
    let changed = |slot| {
        let mut sample = sample(slot);
        change(&mut sample);
        sample
    };
    plan.slots().map(changed).collect()
}

pub(super) fn manifest() -> Manifest {
    let machine = MachineNote {
        cpu: "Example CPU".to_owned(),
        cores: 2,
        kernel: "6.18".to_owned(),
        subject_cores: vec![0],
        swarm_core: 1,
        remarks: vec!["loopback, one machine".to_owned()],
        ..MachineNote::default()
    };
    Manifest::new("0.1.0", "thalweg-lab bench example.toml", machine)
}

#[test]
fn posted() {
    let summary = summary(SCENARIO, |_| {});
    insta::assert_snapshot!(table(&summary));
    insta::assert_snapshot!(csv(&summary));
}

#[test]
fn the_loop_delay_of_subjects_that_report_it_has_a_column() {
    let without = summary(SCENARIO, |_| {});
    assert!(!table(&without).contains("loop delay"));
    let some = summary(SCENARIO, |sample| {
        sample.loop_delay_us = (sample.subject == 2).then(|| 1230.4 + f64::from(sample.repeat));
    });
    let delays: Vec<_> = some.parts[0].rows.iter().map(|row| row.load.loop_delay_us).collect();
    // The median of five starts.
    assert_eq!(delays[..3], [None, None, Some(1232.4)]);
    let text = table(&some);
    assert!(text.contains("loop delay µs") && text.contains(" 1232\n"), "{text}");
    let text = csv(&some);
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column = head.iter().position(|name| *name == "loop_delay_us").unwrap();
    assert_eq!(lines.map(|line| line[column]).nth(2), Some("1232.4"));
}

#[test]
fn samples_that_do_not_count_are_left_out_and_listed() {
    let summary = summary(SCENARIO, |sample| {
        if sample.subject == 2 && (sample.cell == 1 || sample.repeat == 3) {
            sample.verdict = Verdict::Invalid("3 missing".to_owned());
            sample.subject_cpu_ns *= 100;
        }
    });
    insta::assert_snapshot!(table(&summary));
    assert!(summary.has_valid_sample());
}

#[test]
fn stopped_topics_idle_and_publish_have_columns_of_their_own() {
    let one = SCENARIO.replace("connections = [100, 1000]", "connections = 1000");
    let posted =
        one.replace("connections = 1000", "connections = 1000\ntopics = 10\nstopped = 200");
    let stopped = summary(&posted, |sample| {
        sample.kernel = Some(KernelMemory {
            connections: 200,
            send_queue_bytes_max: 60_000,
            send_queue_bytes_mean: 50_000,
        });
    });
    let idle = summary(&one.replace("published-load", "idle"), |sample| {
        sample.traffic = Traffic::default();
        sample.verdict = Verdict::Schedule;
    });
    let limits = one.replace("program = \"limit\"", "program = \"thalweg\"");
    let publish = summary(&limits.replace("published-load", "publish"), |_| {});
    let driven = summary(&one.replace("published-load", "generated-load"), |_| {});
    insta::assert_snapshot!([stopped, idle, publish, driven].map(|found| table(&found)).join("\n"));
}

#[test]
fn conversations_have_columns_of_their_own() {
    let talks = |drive: &str, settings: &str| {
        let text = SCENARIO
            .replace("published-load", drive)
            .replace("connections = [100, 1000]", &format!("connections = 1\n{settings}"));
        summary(&text, |sample| {
            let slower = 1 + sample.subject as u64 / 2;
            let each_us = (1..=100).map(|us| us * slower + u64::from(sample.repeat)).collect();
            sample.round_trips = RoundTrips::new(each_us, 20_000 * slower);
        })
    };
    let tables = [talks("echo", "dummy_bytes = 1000000"), talks("round-trip", "requests = 100")];
    insta::assert_snapshot!(tables.map(|found| table(&found)).join("\n"));
}

#[test]
fn facts_about_connections_are_stated() {
    let plain = summary(SCENARIO, |_| {});
    assert!(!plain.manifest.connections.iter().any(|note| note.contains("TLS 1.3")));
    let text = SCENARIO.replace("connections = [100, 1000]", "connections = 100\ntls = true");
    let tls = summary(&text, |_| {});
    assert!(tls.manifest.connections.iter().any(|note| note.contains("HTTP/1.1 in TLS 1.3")));
    assert!(!tls.manifest.connections.iter().any(|note| note.contains("no TLS")));
    // A browser negotiates: the samples say what each subject has.
    let text = text.replace("published-load", "generated-load");
    let in_browser = Changes { load: LoadIn::Chromium, ..Changes::default() };
    let tabs = Summary::new(&read(&text, &in_browser, &[]).unwrap(), &[], manifest());
    let has = |words: &str| tabs.manifest.connections.iter().any(|note| note.contains(words));
    assert!(has("connections over HTTP/2") && !has("HTTP/1.1") && !has("both sides"));
    assert!(has("always offers compression") && !has("no WebSocket extensions"));
}

#[test]
fn a_p99_that_the_swarm_itself_made_is_withheld_everywhere() {
    let rated =
        SCENARIO.replace("connections = [100, 1000]", "connections = [100, 1000]\nrate = 10");
    // The p99 of limit is 990 µs, that of thalweg 1980.
    let late = |late_p99_us| {
        summary(&rated, |sample| {
            sample.pacing = Some(Pacing { late_p99_us, late_max_us: 7000, ..Pacing::default() });
        })
    };
    let rows =
        |summary: &Summary| summary.parts[0].rows.iter().take(3).cloned().collect::<Vec<_>>();
    assert!(rows(&late(99)).iter().all(|row| row.latency.p99_us.is_some()));
    let text = table(&late(99));
    assert!(text.contains("published late") && !text.contains("withheld"), "{text}");

    let summary = late(150);
    let [limit, _, thalweg] = rows(&summary).try_into().unwrap();
    assert_eq!((limit.latency.p99_us, limit.latency.max_us), (None, None));
    assert_eq!((limit.latency.p50_us, thalweg.latency.p99_us), (Some(500.0), Some(1980.0)));
    let of_p99 = |comparison: &Comparison| comparison.metric == Metric::P99;
    assert!(!summary.parts[0].comparisons.iter().any(of_p99), "beside what is withheld");
    assert!(limit.curves.spreads.p99_us.is_none());
    let text = table(&summary);
    assert!(text.contains("  –  ") && text.contains("“–”: withheld"), "{text}");
}

/// Results of tabs; the samples of a subject have so many µs of the browser's CPU per event.
fn in_tabs(cells: &str, subjects: &str, us_per_event: &[u64]) -> Summary {
    let text = format!(
        "name = \"decode\"\ntitle = \"in tabs\"\ndrive = \"generated-load\"\n[browser]\n\
         figure = \"browser-cpu\"\nrepeats = 3\ncontrol = \"none\"\nmeasured_ms = 400\n{cells}\n{subjects}"
    );
    let changes = Changes { load: LoadIn::Chromium, ..Changes::default() };
    let plan: Plan = read(&text, &changes, &[]).unwrap();
    let found = |slot: Slot| {
        let cpu_ns = |tenths: u64| us_per_event[slot.subject] * 1000 * 400_000 * tenths / 10;
        let used = |kind, tenths| KindUse {
            kind,
            cpu_ns: cpu_ns(tenths),
            thread_cpu_ns_max: cpu_ns(tenths) / 2,
            thread: "main".to_owned(),
            rss_begun_bytes: 90_000_000,
            rss_bytes: 100_000_000,
        };
        let browser = BrowserUse {
            span_us: 500_000,
            cores: 1,
            processes: vec![
                used(ProcessKind::Tab, 7),
                used(ProcessKind::Network, 2),
                used(ProcessKind::Browser, 1),
            ],
            long_tasks: 3,
            long_task_us: 200_000,
            heap_bytes: 12_000_000,
            ..BrowserUse::default()
        };
        let slot_of_sample = Slot { subject: 0, ..slot };
        Sample {
            subject: slot.subject,
            verdict: Verdict::Browser,
            browser: Some(browser),
            ..sample(slot_of_sample)
        }
    };
    let samples: Vec<Sample> = plan.slots().map(found).collect();
    Summary::new(&plan, &samples, manifest())
}

#[test]
fn tabs_have_columns_of_their_own_and_blanks_have_reasons() {
    let subject = |transport: &str| {
        format!(
            "[[browser.subjects]]\nname = \"{transport}\"\nprogram = \"thalweg\"\n\
             with = {{ transport = \"{transport}\" }}\n"
        )
    };
    let subjects = subject("websocket") + &subject("sse");
    let cells = "[[browser.cells]]\nconnections = [2, 10]\nbatch = 400\n";
    let summary = in_tabs(cells, &subjects, &[3, 2]);
    insta::assert_snapshot!(table(&summary));
}

#[test]
fn the_highest_rate_of_a_ladder_is_reported() {
    let subjects = "[[browser.subjects]]\nname = \"rows\"\nprogram = \"thalweg\"\n\
        [[browser.subjects]]\nname = \"every value\"\nprogram = \"thalweg\"\n\
        with = { consumer = \"rows-every-value\" }\n";
    let cells = "[[browser.cells]]\nconnections = 6\nbatch = 1000\ninterval_us = [2000, 1000]\n\
        [[browser.cells]]\nconnections = 6\nbatch = 1000\ndevtools = true\n";
    let sentences = findings::browser::sentences(&in_tabs(cells, subjects, &[3, 2]));
    insta::assert_snapshot!(sentences.join("\n"));
}

/// At 400 events in half a second tabs take no more: the offer grows, and arrivals do not.
#[test]
fn the_growth_of_received_data_is_reported() {
    let subject = "[[browser.subjects]]\nname = \"websocket\"\nprogram = \"thalweg\"\n";
    let cells = "[[browser.cells]]\nconnections = 2\nbatch = [100, 200, 400, 800]\n\
        [[browser.cells]]\nconnections = 10\ntabs = 1\nbatch = 50\n\
        [[browser.cells]]\nconnections = 20\ntabs = 2\nbatch = 50\n\
        [[browser.cells]]\nconnections = 30\ntabs = 3\nbatch = 50\n";
    let sentences = findings::browser::sentences(&in_tabs(cells, subject, &[3]));
    insta::assert_snapshot!(sentences.join("\n"));
}

#[test]
fn gains_of_encoding_transport_and_worker_are_reported() {
    let subject = |transport: &str, consumer: &str, worker: bool| {
        format!(
            "[[browser.subjects]]\nname = \"{transport} {consumer} {worker}\"\n\
             program = \"thalweg\"\nwith = {{ transport = \"{transport}\", \
             consumer = \"{consumer}\", worker = {worker} }}\n"
        )
    };
    let subjects = [
        subject("websocket", "rows", false),
        subject("websocket", "columns", false),
        subject("http-streaming", "rows", false),
        subject("http-streaming", "arrow", false),
        subject("http-streaming", "arrow", true),
    ];
    let cells = "[[browser.cells]]\nconnections = 1\nbatch = [10, 1000]\n";
    let summary = in_tabs(cells, &subjects.concat(), &[8, 6, 4, 1, 2]);
    let sentences = findings::browser::sentences(&summary);
    insta::assert_snapshot!(sentences.join("\n"));
}

/// Runs of earlier versions have cells with equal labels. Each row has the comparison of its own cell.
#[test]
fn cells_with_equal_labels_have_their_own_verdicts() {
    let mut plan = plan("connections = [100, 1000]");
    let label = plan.parts[0].cells[0].label.clone();
    plan.parts[0].cells[1].label = label;
    let samples = samples(&plan, |sample| {
        if sample.cell == 1 && sample.subject == 2 {
            sample.subject_cpu_ns /= 2;
        }
    });
    let part = &Summary::new(&plan, &samples, manifest()).parts[0];
    assert_eq!(part.cells().len(), 2);
    let ratio = |row: usize| part.comparison(Metric::Cpu, &part.rows[row]).unwrap().ratio;
    assert!(ratio(2) > 1.0 && ratio(5) < 1.0, "{} {}", ratio(2), ratio(5));
}

#[test]
fn a_table_says_that_spans_were_shorter_than_planned() {
    let head = |span_us: u64| {
        let table = table(&summary(SCENARIO, |sample| sample.span_us = span_us));
        table.lines().find(|line| line.starts_with("example: ")).unwrap().to_owned()
    };
    assert!(head(400_000).ends_with("(5 × 0.4 s per subject)"), "{}", head(400_000));
    let short = head(100_000);
    assert!(short.ends_with("(5 × 0.4 s per subject, of which 0.1 s were measured)"), "{short}");
}

/// Starts whose noise is large cannot find 5 %: the table says so beside each undecided comparison.
#[test]
fn an_undecided_comparison_has_the_power_of_its_run() {
    let table = table(&summary(SCENARIO, |sample| {
        let noise = [80, 120, 90, 125, 85][sample.repeat as usize % 5];
        if sample.subject != 0 {
            sample.subject_cpu_ns = sample.subject_cpu_ns * noise / 100;
        }
        if sample.subject == 2 {
            sample.subject_cpu_ns = sample.subject_cpu_ns * 4 / 5;
        }
    }));
    assert!(table.contains("not excluded, power "), "{table}");
    assert!(table.contains("“power”: the chance that so many starts"), "{table}");
    assert!(table.contains("; a difference of 5\u{a0}% is found in "), "{table}");
}
