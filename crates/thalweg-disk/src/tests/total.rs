//! A limit for the bytes of all stores.

use super::{
    rules::{Bench, bounds, kind, store},
    simulated::SimulatedDisk,
};
use crate::{log::Bounds, settings::SyncMode, state::StoreState};

fn bench(total_bytes: Option<u64>) -> Bench {
    let stores = ["log/a/**", "log/**", "values/**"];
    let stores = stores.map(|pattern| store(pattern, kind(pattern), SyncMode::Always));
    Bench::with_stores(stores.to_vec(), Bounds { total_bytes, ..bounds() })
}

/// Fills the stores in turn, and returns the bytes of the directory's files.
fn fill(bench: &mut Bench) -> usize {
    for nth in 0..3 {
        bench.put(&format!("values/{nth}"), &format!("\"{}\"", "v".repeat(900)));
    }
    for nth in 0..60 {
        let topic = ["log/a/1", "log/b"][nth / 10 % 2];
        bench.put(topic, &format!("\"{}\"", "x".repeat(900)));
    }
    bench.seal();
    SimulatedDisk::used(&bench.disk)
}

#[test]
fn the_oldest_events_of_all_stores_go_first_and_values_stay() {
    let mut unlimited = bench(None);
    let all = fill(&mut unlimited);
    let limit = all as u64 * 2 / 3;
    let mut limited = bench(Some(limit));
    let used = fill(&mut limited) as u64;
    assert!(used <= limit + bounds().wal_bytes as u64, "{used} of {limit} bytes");
    assert!(used > limit / 2, "{used} of {limit} bytes");
    let oldest = |bench: &Bench, stream: usize, topic: &str| {
        let page = bench.log.read(&bench.range(stream, topic, 0), false).expect("a page");
        page.records.first().map(|(first, _)| *first).expect("an event")
    };
    let (a, b) = (oldest(&limited, 0, "log/a/1"), oldest(&limited, 1, "log/b"));
    assert!(a > oldest(&unlimited, 0, "log/a/1") && b > oldest(&unlimited, 1, "log/b"));
    // Both stores begin at about the same time: they were filled ten events at a time.
    assert!(a.abs_diff(b) <= 20, "{a} and {b}");
    for nth in 0..3 {
        let topic = format!("values/{nth}");
        let page = limited.log.read(&limited.range(2, &topic, 0), true).expect("a page");
        assert_eq!(page.records.len(), 1, "{topic}");
    }
}

#[test]
fn a_limit_for_events_counts_those_of_all_logs() {
    let logs = |bench: &Bench| -> u64 {
        let count = |store: &StoreState| if store.kind.is_state() { 0 } else { store.run_bytes() };
        bench.log.with(|shared| shared.state.stores.iter().map(count).sum())
    };
    let mut unlimited = bench(None);
    fill(&mut unlimited);
    let limit = logs(&unlimited) / 2;
    let stores = ["log/a/**", "log/**", "values/**"];
    let stores = stores.map(|pattern| store(pattern, kind(pattern), SyncMode::Always));
    let bounds = Bounds { log_bytes: Some(limit), ..bounds() };
    let mut limited = Bench::with_stores(stores.to_vec(), bounds);
    fill(&mut limited);
    let used = logs(&limited);
    assert!(used <= limit && used > limit / 2, "{used} of {limit} bytes");
}

#[test]
fn values_alone_may_exceed_the_limit() {
    let mut bench = bench(Some(1));
    fill(&mut bench);
    for nth in 0..3 {
        let topic = format!("values/{nth}");
        let page = bench.log.read(&bench.range(2, &topic, 0), true).expect("a page");
        assert_eq!(page.records.len(), 1, "{topic}");
    }
    // Records that are not in runs stay.
    let next = bench.put("log/b", "1");
    assert_eq!(
        bench.log.read(&bench.range(1, "log/b", next), false).expect("a page").records.len(),
        1
    );
}
