//! Measures how fast a directory stores events: `publish_rate DIR SECONDS TOPICS EVENTS [LIMIT [STOP]]`, with
//! EVENTS per record. The store keeps LIMIT GiB. With STOP it ends after that many GiB of events, as if it
//! were killed: the log is not closed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use thalweg_broker::{Append, Broker as _, Content, FamilyValue};
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_disk::{Settings, StoreSettings, SyncMode, open};

/// Bytes of an event.
const EVENT_BYTES: usize = 128;

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().collect();
    let number = |nth: usize, default: u64| {
        words.get(nth).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let directory = words.get(1).ok_or("name a directory")?.into();
    let (seconds, topics, events) = (number(2, 5), number(3, 4), number(4, 256));
    let (limit, stop) = (number(5, 1) << 30, number(6, 0) << 30);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let store = StoreSettings {
            pattern: "**".parse().map_err(|_| "no pattern")?,
            kind: FeedKind::Log,
            age: None,
            bytes: Some(limit),
            sync: SyncMode::Always,
        };
        let settings = Settings {
            directory,
            stores: vec![store],
            bytes: None,
            log_bytes: None,
            event_bytes: 1 << 20,
            ticket_life: None,
        };
        let start = Instant::now();
        let broker = Arc::new(open(&settings).await?);
        println!("open {:?}", start.elapsed());
        let begin = Instant::now();
        let end = begin + Duration::from_secs(seconds);
        let event = format!("\"{}\"", "x".repeat(EVENT_BYTES - 2));
        let lines = vec![event; events as usize].join("\n").into_bytes();
        let stored_bytes = Arc::new(AtomicU64::new(0));
        let stop_bytes = if stop == 0 { u64::MAX } else { stop };
        let tasks = (0..topics).map(|topic| {
            let (broker, lines) = (Arc::clone(&broker), lines.clone());
            let stored_bytes = Arc::clone(&stored_bytes);
            tokio::spawn(async move {
                let mut times = Vec::new();
                while Instant::now() < end && stored_bytes.load(Relaxed) < stop_bytes {
                    let payloads = Payloads::from_lines(lines.clone()).expect("events");
                    let topic = format!("rate/{topic}").parse().expect("a topic");
                    let content = Content::Events(payloads);
                    let waited = Duration::ZERO;
                    let begun = Instant::now();
                    broker
                        .append(Append { stream: 0, topic, content, key: None, waited })
                        .await
                        .expect("stored");
                    times.push(begun.elapsed());
                    stored_bytes.fetch_add(events * EVENT_BYTES as u64, Relaxed);
                }
                times
            })
        });
        let mut times = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            times.extend(task.await.map_err(|error| error.to_string())?);
        }
        times.sort_unstable();
        let stored = times.len() as u64 * events;
        let at = |share: usize| times[(times.len() * share / 1000).min(times.len() - 1)];
        let lasted = begin.elapsed().as_secs_f64();
        let rate = |count: u64| (count as f64 / lasted) as u64;
        println!("{} events/s, {} records/s", rate(stored), rate(times.len() as u64));
        println!("reply p50 {:?}, p99 {:?}, max {:?}", at(500), at(990), at(1000));
        let payload = (stored * EVENT_BYTES as u64) as f64;
        for family in broker.counts().families() {
            match family.value {
                FamilyValue::Counter(count) => {
                    let share = count as f64 / payload;
                    println!("{} {count} ({share:.3} per byte)", family.name);
                }
                FamilyValue::Gauge(value) => println!("{} {value}", family.name),
                FamilyValue::Histogram { bounds, counts, sum } => {
                    println!("{} {bounds:?} {counts:?} sum {sum:.3} s", family.name);
                    let at = |share| quantile(&bounds, &counts, share) * 1e3;
                    println!("sync p50 {:.3} ms, p99 {:.3} ms, by bucket", at(0.5), at(0.99));
                }
            }
        }
        if stop > 0 {
            std::process::exit(0);
        }
        Ok::<_, String>(())
    })
}

/// Returns a quantile of a histogram, as if the times in a bucket were spread evenly.
fn quantile(bounds: &[f64], counts: &[u64], share: f64) -> f64 {
    let rank = counts.iter().sum::<u64>() as f64 * share;
    let (mut below, mut lower) = (0.0, 0.0);
    for (count, upper) in counts.iter().zip(bounds) {
        let count = *count as f64;
        if below + count >= rank {
            return lower + (upper - lower) * (rank - below) / count.max(1.0);
        }
        (below, lower) = (below + count, *upper);
    }
    lower
}
