//! Lists of topics in runs and in the write-ahead log.

use std::sync::Arc;

use thalweg_broker::{Content, TopicRange};
use thalweg_wire::EndCode;

use super::rules::{Bench, bounds, kind, store};
use crate::{log::Bounds, settings::SyncMode};

fn bench(bounds: Bounds) -> Bench {
    let stores = ["log/own/**", "log/**", "values/**"];
    let stores = stores.map(|pattern| store(pattern, kind(pattern), SyncMode::Always));
    Bench::with_stores(stores.to_vec(), bounds)
}

fn list(bench: &Bench, prefix: &str, after: &str, limit: usize) -> Vec<String> {
    let patterns = vec!["**".parse().expect("a pattern")];
    let range = TopicRange { patterns, prefix: prefix.into(), after: after.into(), limit };
    let topics = bench.log.topics(&range).expect("a list");
    let names = topics.iter().map(|topic| topic.as_str().to_owned());
    names.filter(|name| name != "log/filler").collect()
}

fn end(bench: &mut Bench, topic: &str) {
    bench.append(topic, Content::End(EndCode::Gone), None).expect("stored");
}

#[test]
fn topics_in_runs_are_listed_in_the_order_of_their_names() {
    for merge_bytes in [0, 1 << 20] {
        let mut bench = bench(Bounds { merge_bytes, ..bounds() });
        // More than a block of the index has.
        let names: Vec<String> = (0..150).map(|nth| format!("log/{nth:03}")).collect();
        for round in 0..2 {
            names.iter().for_each(|name| _ = bench.put(name, &round.to_string()));
            bench.seal();
        }
        for topic in ["log/own/a", "values/a", "log/ended", "values/ended", "log/again", "log/late"]
        {
            bench.put(topic, "1");
        }
        for topic in ["log/ended", "values/ended", "log/again"] {
            end(&mut bench, topic);
        }
        bench.seal();
        // These are in the write-ahead log.
        bench.put("log/again", "2");
        bench.put("values/b", "2");
        end(&mut bench, "log/late");
        let mut expected = names.clone();
        expected.extend(["log/again", "log/own/a", "values/a", "values/b"].map(str::to_owned));
        for is_power_cut in [false, true] {
            assert_eq!(list(&bench, "", "", 1000), expected);
            assert_eq!(list(&bench, "", "log/009", 3), ["log/010", "log/011", "log/012"]);
            assert_eq!(list(&bench, "values/", "", 1), ["values/a"]);
            bench.reopen(is_power_cut);
        }
    }
}

#[test]
fn topics_whose_events_are_deleted_are_not_listed() {
    let mut bench = bench(bounds());
    bench.put("log/old", "1");
    bench.put("values/old", "1");
    bench.seal();
    bench.keeper.lock().expect("no panic").trim();
    bench.put("log/new", "1");
    assert_eq!(list(&bench, "log/", "", 10), ["log/new"]);
}

#[test]
fn a_topic_is_listed_in_the_store_that_it_belongs_to() {
    let mut bench = bench(bounds());
    bench.put("log/own/a", "1");
    bench.put("log/b", "1");
    bench.seal();
    bench.stores.remove(0);
    bench.reopen(false);
    assert_eq!(list(&bench, "", "", 10), ["log/b"], "nobody can read the other");
}

#[test]
fn a_list_begins_again_if_a_merge_has_removed_a_run() {
    let mut bench = bench(bounds());
    bench.put("log/a", "1");
    bench.seal();
    bench.put("log/b", "1");
    bench.seal();
    let mut keeper = Some(Arc::clone(&bench.keeper));
    let log = Arc::clone(&bench.log);
    bench.disk.set_hook(Some(Box::new(move |what| {
        if what.starts_with("read run")
            && let Some(keeper) = keeper.take()
        {
            keeper.lock().expect("no panic").trim();
            assert!(
                log.with(|shared| shared.state.stores.iter().all(|store| store.runs.is_empty()))
            );
        }
    })));
    let listed = list(&bench, "log/", "", 10);
    assert!(listed.is_empty(), "{listed:?}");
}

#[test]
fn a_damaged_index_is_counted_and_hides_its_topics_alone() {
    let mut bench = bench(bounds());
    bench.put("log/a", "1");
    bench.put("values/a", "1");
    bench.seal();
    let run = bench.log.with(|shared| {
        let values =
            shared.state.stores.iter().find(|store| store.kind.is_state()).expect("a store");
        values.runs[0]
    });
    bench.disk.damage(&crate::state::Run::name(run.serial), run.data as usize, &[0; 8]);
    bench.reopen(false);
    assert_eq!(list(&bench, "log/", "", 10), ["log/a"]);
    assert!(list(&bench, "values/", "", 10).is_empty());
    assert_eq!(bench.log.counts.damaged.load(std::sync::atomic::Ordering::Relaxed), 1);
}
