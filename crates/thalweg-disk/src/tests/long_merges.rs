//! Merges that take long.

use super::rules::{Bench, bounds, event};
use crate::{commit::Committed, log::Bounds, settings::SyncMode};

const TOPICS: usize = 100;

/// A log that does one step of the keeper for each publish.
struct Stepped(Bench);

impl Stepped {
    /// Returns a log with a run of values. Its merges take one topic at a time.
    fn new() -> Self {
        let mut bench = Bench::new(SyncMode::Always, Bounds { slice_bytes: 0, ..bounds() });
        (0..TOPICS).for_each(|nth| _ = bench.put(&format!("values/{nth}"), &value(0)));
        bench.seal();
        Self(bench)
    }

    /// Publishes without a wait for room, and lets the keeper do one step.
    fn publish(&mut self, topic: &str, text: &str) {
        let answer = self.0.request(topic, event(text), None);
        let committed = self.0.committer.commit(&mut self.0.queue, self.0.now_ms);
        assert_eq!(committed, Committed::Some, "publishers wait for room");
        drop(answer);
        self.0.keeper.lock().expect("no panic").step(self.0.now_ms);
    }

    /// Returns whether a merge of all values is not complete.
    fn is_merging_all(&self) -> bool {
        let inputs = self.0.keeper.lock().expect("no panic").merge_bytes();
        inputs.is_some_and(|bytes| bytes > (TOPICS * value(0).len()) as u64)
    }

    fn begin_to_merge_all(&mut self) {
        for nth in (0..TOPICS).cycle().take(TOPICS * 10) {
            self.publish(&format!("values/{nth}"), &value(1));
            if self.is_merging_all() {
                return;
            }
        }
        panic!("runs are not merged");
    }

    fn values(&self) -> Vec<String> {
        let newest = |nth: usize| {
            let page = self.0.newest(&format!("values/{nth}"), 0);
            page.records.iter().map(|(_, events)| format!("{events:?}")).collect()
        };
        (0..TOPICS).map(newest).collect()
    }
}

fn value(round: usize) -> String {
    format!("[{round},\"{}\"]", "v".repeat(90))
}

#[test]
fn files_are_sealed_while_a_merge_takes_long() {
    let mut log = Stepped::new();
    log.begin_to_merge_all();
    let before = log.values();
    let filler = format!("\"{}\"", "x".repeat(900));
    let mut sealed = 0;
    while log.is_merging_all() {
        let end = |log: &Stepped| log.0.log.with(|shared| shared.state.sealed);
        let first = end(&log);
        log.publish("log/filler", &filler);
        sealed += usize::from(end(&log) > first);
        assert!(sealed < TOPICS, "the merge does not end");
    }
    assert!(sealed > 5, "{sealed} files were sealed meanwhile");
    assert_eq!(log.values(), before);
    log.0.step();
    assert_eq!(log.values(), before);
    log.0.reopen(true);
    assert_eq!(log.values(), before);
}

#[test]
fn a_merge_that_is_cut_short_leaves_no_file() {
    let mut log = Stepped::new();
    log.begin_to_merge_all();
    let before = log.values();
    let named = |bench: &Bench| {
        bench.log.with(|shared| shared.state.stores.iter().map(|store| store.runs.len()).sum())
    };
    let count: usize = named(&log.0);
    assert_eq!(log.0.files("run-").len(), count + 1);
    log.0.reopen(false);
    assert_eq!(log.0.files("run-").len(), named(&log.0));
    assert_eq!(log.values(), before);
    log.0.step();
    log.begin_to_merge_all();
    log.0.keeper.lock().expect("no panic").close();
    assert_eq!(log.0.files("run-").len(), named(&log.0));
}
