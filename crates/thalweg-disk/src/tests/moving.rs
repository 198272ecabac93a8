//! Checks, exports and imports of directories that no process uses.

use thalweg_broker::Content;
use thalweg_wire::{EndCode, Pattern};

use super::{
    rules::{Bench, bounds, event},
    simulated::SimulatedDisk,
};
use crate::{
    check::{CheckReport, check_log},
    disk::Disk as _,
    export::{Exported, export_log},
    import::{ImportFailure, Imported, import_behind, import_new},
    recovery::find,
    run::each_record,
    settings::SyncMode,
};

/// Checks that a log is exported and imported without a change. `has_losses`: whether it may be damaged.
pub(super) fn check(disk: &SimulatedDisk, has_losses: bool) {
    let report = report(disk);
    assert!(has_losses || report.damage.is_empty(), "{:?}", report.damage);
    let (exported, text) = export(disk, "**");
    assert_eq!(exported.damage > 0, report.damage.iter().any(|part| part.file != "state"));
    let (copy, imported) = import(&text).expect("imported");
    assert_eq!(imported.events, exported.events);
    let events: u64 = report.stores.iter().map(|store| store.events).sum();
    assert_eq!(events, exported.events);
    let (_, again) = export(&copy, "**");
    // Losses that were found come before the events when they are known.
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("\"lost\""));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&again), lines(&text));
}

fn report(disk: &SimulatedDisk) -> CheckReport {
    check_log(disk, &mut |_, _| ()).expect("readable")
}

pub(super) fn export(disk: &SimulatedDisk, pattern: &str) -> (Exported, String) {
    let pattern: Pattern = pattern.parse().expect("a pattern");
    let mut out = Vec::new();
    let exported = export_log(disk, &pattern, &mut out, &mut |_, _| ()).expect("exported");
    (exported, String::from_utf8(out).expect("text"))
}

pub(super) fn import(text: &str) -> Result<(SimulatedDisk, Imported), ImportFailure> {
    let disk = SimulatedDisk::new(8, usize::MAX);
    let imported = import_new(&disk, &mut text.as_bytes(), false)?;
    Ok((disk, imported))
}

/// Lets a test fail that changes the disk.
fn forbid_changes(disk: &SimulatedDisk) {
    disk.set_hook(Some(Box::new(|operation| {
        let reads = ["read ", "length ", "list"];
        assert!(reads.iter().any(|read| operation.starts_with(read)), "{operation}");
    })));
}

/// Returns a closed log with records of all kinds, in runs and in the write-ahead log.
fn filled() -> Bench {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    for round in 0..3 {
        for nth in 0..20 {
            bench.put(&format!("log/{nth}"), &format!("{{\"round\":{round},\"price\":1.50}}"));
            bench.put(&format!("values/{nth}"), &format!("[{round},\"é\\u00e9\"]"));
            bench.now_ms += 7;
        }
        bench.put("log/several", "1\n2\n3");
        let end = |code| Content::End(code);
        bench.append("log/3", end(EndCode::Deleted), None).expect("stored");
        bench.append("values/3", end(EndCode::Gone), None).expect("stored");
        bench.append("values/4", Content::Paused(round), None).expect("stored");
        if round < 2 {
            bench.seal();
        }
    }
    bench.put("log/3", "\"again\"");
    bench.keeper.lock().expect("no panic").close();
    bench
}

#[test]
fn a_check_counts_what_is_readable_and_changes_nothing() {
    let bench = filled();
    forbid_changes(&bench.disk);
    let CheckReport { stores, damage } = report(&bench.disk);
    assert!(damage.is_empty(), "{damage:?}");
    let [log, values] = stores.as_slice() else { panic!("{stores:?}") };
    let page = bench.read("log/filler", 0);
    let filler: u64 = page.records.iter().map(|(_, events)| events.count() as u64).sum();
    // Nineteen topics with three events each, three times three events, and one behind an end.
    assert_eq!((log.topics, log.events), (22, 19 * 3 + 9 + 1 + filler));
    assert_eq!((values.topics, values.events), (19, 19));
    let (oldest, newest) = log.times_ms.expect("events");
    assert!(newest > oldest);
    export(&bench.disk, "**");
}

#[test]
fn each_changed_byte_of_a_run_is_found() {
    let bench = filled();
    let mut names = bench.files("run-");
    names.sort();
    for name in names {
        let bytes = bench.disk.bytes(&name);
        for at in (0..bytes.len()).step_by(13) {
            bench.disk.damage(&name, at, &[bytes[at] ^ 1]);
            let damage = report(&bench.disk).damage;
            assert_eq!(damage.len(), 1, "{name} {at}: {damage:?}");
            let [part] = damage.as_slice() else { continue };
            assert_eq!(part.file, name);
            bench.disk.damage(&name, at, &[bytes[at]]);
        }
    }
    assert!(report(&bench.disk).damage.is_empty());
}

#[test]
fn a_check_names_the_topic_and_the_offsets_that_are_lost() {
    let bench = filled();
    let name = bench.log.with(|shared| {
        let store = shared.store_at(0).expect("a store");
        let run = store.runs.first().expect("a run");
        crate::state::Run::name(run.serial)
    });
    let bytes = bench.disk.bytes(&name);
    let at = bytes.windows(5).position(|bytes| bytes == b"log/7").expect("a record");
    bench.disk.damage(&name, at + 8, b"?");
    let damage = report(&bench.disk).damage;
    let [part] = damage.as_slice() else { panic!("{damage:?}") };
    assert_eq!(part.topics, ["log/7"]);
    let first = bench.read("log/7", 0);
    let lost = part.offsets.clone().expect("offsets");
    assert!(first.records.is_empty() || !lost.contains(&first.records[0].0), "{lost:?}");
    // An index that is lost has the same topics.
    let at = each_end(&bytes);
    bench.disk.damage(&name, at + 3, b"?");
    let damage = report(&bench.disk).damage;
    assert!(damage.iter().any(|part| part.topics.contains(&"log/12".to_owned())), "{damage:?}");
}

/// Returns where the records of a run end.
fn each_end(bytes: &[u8]) -> usize {
    let mut end = 0;
    let _ = each_record(bytes, |_, record| {
        end += record.len();
        Ok::<_, std::io::Error>(())
    });
    end
}

#[test]
fn a_check_reports_a_hole_in_the_log_and_a_damaged_state() {
    let bench = filled();
    let names = bench.files("wal-");
    let texts: Vec<_> = names.iter().map(|name| (name, bench.disk.bytes(name))).collect();
    let found = texts.iter().find_map(|(name, bytes)| {
        let at = bytes.windows(11).position(|bytes| bytes == b"\"round\":2,\"")?;
        Some(((*name).clone(), at))
    });
    let (name, at) = found.expect("a record of the write-ahead log");
    bench.disk.damage(&name, at, b"?");
    let damage = report(&bench.disk).damage;
    let [part] = damage.as_slice() else { panic!("{damage:?}") };
    assert_eq!((part.file.as_str(), part.offsets.is_some()), ("wal", true));
    assert!(export(&bench.disk, "**").0.damage > 0);
    bench.disk.damage("state", 20, b"?");
    let damage = report(&bench.disk).damage;
    assert_eq!(damage.iter().map(|part| &part.file).collect::<Vec<_>>(), ["state"]);
}

#[test]
fn an_imported_directory_exports_the_same_and_keeps_all_positions() {
    let bench = filled();
    let (exported, text) = export(&bench.disk, "**");
    assert_eq!(exported.damage, 0);
    let (disk, imported) = import(&text).expect("imported");
    assert_eq!(imported, Imported { events: exported.events, keeps_positions: true });
    assert!(report(&disk).damage.is_empty());
    assert_eq!(export(&disk, "**").1, text);

    let mut other = filled();
    other.disk = disk;
    other.reopen(true);
    for nth in 0..20 {
        let topic = format!("log/{nth}");
        let (before, after) = (bench.read(&topic, 0), other.read(&topic, 0));
        assert_eq!(format!("{:?}", after.records), format!("{:?}", before.records), "{topic}");
        let topic = format!("values/{nth}");
        let (before, after) = (bench.newest(&topic, 0), other.newest(&topic, 0));
        assert_eq!(format!("{:?}", after.records), format!("{:?}", before.records), "{topic}");
    }
    let epochs = |bench: &Bench| [bench.epoch(0), bench.epoch(1)];
    assert_eq!(epochs(&other), epochs(&bench));
    // No position is used twice.
    let next = other.put("log/1", "1");
    assert!(next >= bench.log.with(|shared| shared.head));
    // The runs can be merged with later ones.
    other.seal();
    assert!(other.files("run-").len() > 1);
}

#[test]
fn an_export_has_the_topics_of_a_pattern_alone() {
    let bench = filled();
    let (exported, text) = export(&bench.disk, "log/several");
    assert_eq!(exported, Exported { events: 9, damage: 0 });
    assert!(!text.contains("values"), "{text}");
    assert!(text.contains(r#""batch":3,"event":1}"#), "{text}");
    let (disk, imported) = import(&text).expect("imported");
    assert_eq!(imported.events, 9);
    assert!(!imported.keeps_positions, "a reader of another topic would miss its events");
    assert_eq!(without_epochs(&export(&disk, "log/several").1), without_epochs(&text));
    assert_ne!(export(&disk, "log/several").1, text);
}

/// Returns an export with `E` for the epoch of its store.
fn without_epochs(text: &str) -> String {
    let epoch = text.split("\"epoch\":\"").nth(1).and_then(|rest| rest.split('"').next());
    text.replace(epoch.expect("an epoch"), "E")
}

#[test]
fn an_export_that_ends_early_is_not_imported_with_its_epochs() {
    let (_, text) = export(&filled().disk, "**");
    let lines: Vec<&str> = text.lines().collect();
    for kept in [1, lines.len() / 2, lines.len() - 1] {
        let part = lines[..kept].join("\n");
        let disk = SimulatedDisk::new(8, usize::MAX);
        assert!(import_new(&disk, &mut part.as_bytes(), false).is_err(), "{kept} lines");
        assert!(disk.length("state").is_err());
        let disk = SimulatedDisk::new(8, usize::MAX);
        import_new(&disk, &mut part.as_bytes(), true).expect("with new epochs");
    }
}

#[test]
fn lost_events_are_a_gap_in_the_imported_directory() {
    let bench = filled();
    let name = bench
        .files("run-")
        .into_iter()
        .find(|name| bench.disk.bytes(name).windows(5).any(|bytes| bytes == b"log/7"));
    let name = name.expect("a run");
    let bytes = bench.disk.bytes(&name);
    let at = bytes.windows(5).position(|bytes| bytes == b"log/7").expect("a record");
    bench.disk.damage(&name, at + 8, b"?");
    let (exported, text) = export(&bench.disk, "**");
    assert_eq!(exported.damage, 1);
    let (disk, _) = import(&text).expect("imported");
    let holes = |disk: &SimulatedDisk| {
        let found = find(disk).expect("a log");
        found.state.stores.iter().flat_map(|store| store.holes.clone()).collect::<Vec<_>>()
    };
    assert_eq!(holes(&disk).len(), 1);
    let mut other = filled();
    other.disk = disk;
    other.reopen(true);
    let before = bench.read("log/7", 0);
    let after = other.read("log/7", 0);
    assert_eq!(format!("{after:?}"), format!("{before:?}"));
}

#[test]
fn an_import_behind_other_events_gives_new_positions() {
    let bench = filled();
    let (_, text) = export(&bench.disk, "**");
    let mut target = Bench::new(SyncMode::Always, bounds());
    target.put("log/7", "\"before\"");
    target.append("log/3", event("\"stays\""), None).expect("stored");
    let epoch = target.epoch(0);
    target.keeper.lock().expect("no panic").close();
    let found = find(&target.disk).expect("a log");
    let imported = import_behind(target.disk.clone(), &found, &mut text.as_bytes());
    let imported = imported.expect("imported");
    assert!(!imported.keeps_positions);
    target.reopen(true);
    assert_eq!(target.epoch(0), epoch);
    let count = |topic: &str| {
        let records = target.read(topic, 0).records;
        records.iter().map(|(_, content)| content.count() as u64).sum::<u64>()
    };
    assert_eq!([count("log/7"), count("log/3"), count("log/several")], [4, 2, 9]);
    assert!(report(&target.disk).damage.is_empty());
}

#[test]
fn an_import_says_which_line_is_wrong() {
    let bench = filled();
    let (_, text) = export(&bench.disk, "**");
    let lines: Vec<&str> = text.lines().collect();
    let check = |lines: &[&str], number: u64, part: &str| match import(&lines.join("\n")) {
        Err(ImportFailure::Line(at, reason)) => {
            assert_eq!(at, number, "{reason}");
            assert!(reason.contains(part), "{reason}");
        }
        other => panic!("{part}: {:?}", other.map(|(_, imported)| imported)),
    };
    check(&lines[1..], 1, "first line");
    check(&[], 1, "missing");
    check(&[lines[0], lines[2]], 2, "no line of its store");
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    check(&swapped, 4, "keep the order");
    check(&[lines[0], lines[1], "{\"topic\":\"log/1\""], 3, "not a line");
    check(&[lines[0], lines[1], &lines[2].replace("\"event\":", "\"later\":")], 3, "no event");
    check(&[lines[0], "{}"], 2, "neither");
    check(&[r#"{"thalweg_data":1,"head":18446744073709551615}"#], 1, "too large");
    check(&[lines[0], &lines[1].replace("\"log\"", "\"set\"")], 2, "wrong store");
}

#[test]
fn a_directory_whose_import_was_cut_short_has_no_state() {
    let bench = filled();
    let (_, text) = export(&bench.disk, "**");
    let disk = SimulatedDisk::new(8, usize::MAX);
    let half = text.lines().take(30).chain(["?"]).collect::<Vec<_>>().join("\n");
    assert!(import_new(&disk, &mut half.as_bytes(), false).is_err());
    assert!(disk.length("state").is_err());
}

#[test]
fn a_topic_whose_end_is_damaged_is_not_exported() {
    let mut bench = Bench::new(SyncMode::Always, bounds());
    bench.put("log/a", "\"deleted\"");
    bench.append("log/a", Content::End(EndCode::Deleted), None).expect("stored");
    let (name, position) = bench.log.with(|shared| {
        let topic: thalweg_wire::Topic = "log/a".parse().expect("a topic");
        let file = shared.wal.back().expect("a file");
        (file.name(), file.topics[&topic].records[1].position as usize)
    });
    bench.disk.damage(&name, position + 45, b"?");
    bench.seal();
    bench.put("log/a", "\"later\"");
    bench.keeper.lock().expect("no panic").close();
    let (_, text) = export(&bench.disk, "log/a");
    assert!(text.contains("\"later\"") && !text.contains("\"deleted\""), "{text}");
    let (disk, _) = import(&text).expect("imported");
    assert_eq!(without_epochs(&export(&disk, "log/a").1), without_epochs(&text));
}
