//! Checks queries with groups and without windows: a row for each group, which changes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Query, Running, Sink, Unbroken, limits};

use crate::running::{PUBLISHED_MS, begin, columns};

const COLUMNS: &[&str] = &["k:string", "v:int", "d:double", "j:json"];

/// The rows of a topic of keys, and each change.
#[derive(Debug, Default, PartialEq, Clone)]
pub(crate) struct State {
    pub(crate) rows: BTreeMap<String, String>,
    pub(crate) changes: Vec<(u64, String, Option<String>)>,
}

impl Sink for State {
    fn begins(&mut self, offset: u64) {
        panic!("the topic begins with its first row, not at {offset}");
    }

    fn row(&mut self, offset: u64, _row: &[u8]) {
        panic!("the row at {offset} has no key");
    }

    fn lost(&mut self, offset: u64) {
        panic!("a loss at {offset} would be one of all keys");
    }

    fn change(&mut self, offset: u64, key: &str, row: Option<&[u8]>) {
        let row = row.map(|row| String::from_utf8(row.to_vec()).expect("UTF-8"));
        let last = self.changes.last().map_or(offset - 1, |(last, ..)| *last);
        assert_eq!(offset, last + 1, "offsets are consecutive");
        let before = match row.clone() {
            Some(row) => self.rows.insert(key.to_owned(), row),
            None => self.rows.remove(key),
        };
        assert!(row.is_some() || before.is_some(), "{key} had no row to remove");
        assert!(before != row, "{key} has not changed");
        self.changes.push((offset, key.to_owned(), row));
    }
}

impl State {
    pub(crate) fn take(&mut self, running: &mut Running, offset: u64, event: &str) {
        running.take(offset, event.as_bytes(), PUBLISHED_MS, 0, self).expect("within bounds");
    }

    /// Emits the groups that have changed. Returns these changes.
    pub(crate) fn emit(&mut self, running: &mut Running) -> Vec<(String, Option<String>)> {
        let before = self.changes.len();
        running.emit_changes(1_657_746_248_000, true);
        assert_eq!(running.finish(self, &mut Unbroken), Ok(true));
        self.changes[before..].iter().map(|(_, key, row)| (key.clone(), row.clone())).collect()
    }
}

fn row(key: &str, row: &str) -> (String, Option<String>) {
    (key.to_owned(), Some(row.to_owned()))
}

fn removal(key: &str) -> (String, Option<String>) {
    (key.to_owned(), None)
}

/// Takes events of some keys and values, with offsets from `first` on.
fn take(state: &mut State, running: &mut Running, first: u64, events: &[(&str, i64)]) {
    for (offset, (key, value)) in (first..).zip(events) {
        state.take(running, offset, &format!(r#"["{key}",{value},null,null]"#));
    }
}

#[test]
fn a_row_of_each_group_that_has_changed_is_emitted() {
    let query = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("b", 1), ("a", 2), ("b", 3)]);
    assert!(state.changes.is_empty() && running.waits(), "nothing comes by itself");
    assert_eq!(state.emit(&mut running), [row("b", r#"["b",2,4]"#), row("a", r#"["a",1,2]"#)]);
    assert!(!running.waits() && state.emit(&mut running).is_empty());
    take(&mut state, &mut running, 4, &[("c", 0), ("a", 0)]);
    assert_eq!(state.emit(&mut running), [row("c", r#"["c",1,0]"#), row("a", r#"["a",2,2]"#)]);
    assert_eq!((running.held().0, running.counts().rows), (3, 4));
}

#[test]
fn a_row_that_stays_the_same_is_not_emitted_again() {
    let mut running = begin("SELECT max(v) AS m FROM t GROUP BY k", COLUMNS, Bounds::default());
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 5), ("b", 1)]);
    assert_eq!(state.emit(&mut running).len(), 2);
    take(&mut state, &mut running, 3, &[("a", 4), ("b", 2)]);
    assert_eq!(state.emit(&mut running), [row("b", "[2]")]);
    // Another topic has none of the rows.
    running.emit_again();
    assert_eq!(State::default().emit(&mut running), [row("a", "[5]"), row("b", "[2]")]);
}

#[test]
fn a_group_that_no_longer_meets_having_is_removed() {
    let query = "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > 2";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 1), ("b", 3)]);
    assert_eq!(state.emit(&mut running), [row("b", r#"["b",3]"#)]);
    take(&mut state, &mut running, 3, &[("a", 5), ("b", -2)]);
    assert_eq!(state.emit(&mut running), [row("a", r#"["a",6]"#), removal("b")]);
    // It counts on while it has no row, and a group that comes and goes between two emissions has none.
    take(&mut state, &mut running, 5, &[("b", 1), ("c", 9), ("c", -9)]);
    assert!(state.emit(&mut running).is_empty());
    take(&mut state, &mut running, 8, &[("b", 1)]);
    assert_eq!(state.emit(&mut running), [row("b", r#"["b",3]"#)]);
}

#[test]
fn the_key_of_a_row_is_that_of_its_group() {
    for (group_by, events, expected) in [
        ("k", &[r#"["a b",1]"#, r#"["",1]"#, "[null,1]"][..], &["[\"\"]", "a b", "null"][..]),
        ("v", &[r#"["a",-1]"#, r#"["a",null]"#], &["-1", "null"]),
        ("v, k", &[r#"["a",1]"#, r#"["b",1]"#], &[r#"[1,"a"]"#, r#"[1,"b"]"#]),
        ("v > 0", &[r#"["a",1]"#, r#"["b",0]"#], &["false", "true"]),
        ("d", &[r#"["a",1,0.0]"#, r#"["b",0,-0.0]"#, r#"["b",0,0.5]"#], &["0", "0.5"]),
        ("j.x", &[r#"["a",1,0,{"x":[1]}]"#, r#"["b",0,0,{"x":"é"}]"#], &["\"é\"", "[1]"]),
    ] {
        let query = format!("SELECT count(*) FROM t GROUP BY {group_by}");
        let mut running = begin(&query, COLUMNS, Bounds::default());
        let mut state = State::default();
        for (offset, event) in (1..).zip(events) {
            state.take(&mut running, offset, event);
        }
        state.emit(&mut running);
        assert_eq!(state.rows.keys().collect::<Vec<_>>(), expected, "{group_by}");
    }
    let mut running = begin("SELECT count(*) FROM t WHERE v > 1", COLUMNS, Bounds::default());
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 1), ("b", 2), ("c", 3)]);
    assert_eq!(state.emit(&mut running), [row("[]", "[2]")]);
}

#[test]
fn spellings_and_periods() {
    let plain = "SELECT k, count(*) FROM t GROUP BY k";
    let canonical = |text: &str| Query::parse(text).expect(text).canonical();
    let period = |text: &str| {
        let plan = Query::parse(text).and_then(|query| query.plan(&columns(COLUMNS))).expect(text);
        plan.period_ms()
    };
    for emit in ["", " EMIT CHANGES", " EMIT PERIODIC", " EMIT PERIODIC 200ms"] {
        let query = format!("{plain}{emit}");
        assert_eq!((canonical(&query), period(&query)), (plain.to_owned(), Some(200)), "{emit}");
    }
    for emit in [" EMIT PERIODIC 5s", " emit periodic interval '5' second"] {
        let query = format!("{plain}{emit}");
        assert_eq!(canonical(&query), format!("{plain} EMIT PERIODIC 5s"));
        assert_eq!(period(&query), Some(5000));
    }
    for (query, has_state) in [
        (plain, true),
        ("SELECT count(*) FROM t", true),
        ("SELECT k FROM t GROUP BY 1", true),
        ("SELECT k FROM t", false),
        ("SELECT k FROM t WHERE k = 'count(*)'", false),
        ("SELECT count(*) FROM tumble(t, 1s) GROUP BY window_start", false),
    ] {
        assert_eq!(Query::parse(query).expect(query).has_state(), has_state, "{query}");
    }
    assert_eq!(period("SELECT k FROM t"), None);
}

#[test]
fn endless_keys_are_bounded_and_counted() {
    let query = "SELECT k, count(*) AS n FROM t GROUP BY k";
    let bounds = Bounds { groups: 50, ..Bounds::default() };
    let mut running = begin(query, COLUMNS, bounds);
    let mut state = State::default();
    let keys: Vec<String> = (0..10_000).map(|key| format!("key-{key}")).collect();
    let events: Vec<(&str, i64)> = keys.iter().map(|key| (&**key, 1)).collect();
    take(&mut state, &mut running, 1, &events);
    state.emit(&mut running);
    assert_eq!((running.held().0, state.rows.len()), (50, 50));
    assert_eq!(running.counts().full_groups, 9_950);
    let bytes = running.memory_bytes();
    take(&mut state, &mut running, 10_001, &events);
    state.emit(&mut running);
    assert_eq!(running.memory_bytes(), bytes);
    assert!(state.rows.iter().all(|(key, row)| *row == format!("[\"{key}\",2]")));
}

/// Groups come and go at the bound of memory, but a group that has a row has all its events.
#[test]
fn a_group_without_room_has_no_row() {
    let query = "SELECT k, count(*) AS n, max(CAST(v AS TEXT) || k) AS m FROM t GROUP BY k";
    let bounds = Bounds { state_bytes: 20_000, ..Bounds::default() };
    let mut running = begin(query, COLUMNS, bounds);
    let mut state = State::default();
    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    for offset in 1..3_000 {
        let key = format!("{}{}", "x".repeat(offset as usize % 40), offset * 7919 % 80);
        take(&mut state, &mut running, offset, &[(&key, offset as i64)]);
        *sent.entry(key).or_default() += 1;
        if offset % 100 == 0 {
            state.emit(&mut running);
            assert!(running.held().1 <= 20_000);
            for (key, row) in &state.rows {
                assert!(row.starts_with(&format!("[\"{key}\",{},", sent[key])), "{row}");
            }
        }
    }
    assert!(state.rows.len() > 10 && state.rows.len() < sent.len());
    assert!(running.counts().full_state > 1_000);
}

#[test]
fn a_group_that_exceeds_a_bound_is_removed_for_good() {
    let query = "SELECT k, count(DISTINCT v) AS n FROM t GROUP BY k";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 1), ("b", 1)]);
    state.emit(&mut running);
    for value in 0..=limits::DISTINCT_MAX {
        take(&mut state, &mut running, 3 + value as u64, &[("a", value as i64)]);
    }
    let bytes = running.held().1;
    assert_eq!(state.emit(&mut running), [removal("a")]);
    assert!(running.held().1 < bytes);
    take(&mut state, &mut running, 20_000, &[("a", 1), ("b", 2)]);
    assert_eq!(state.emit(&mut running), [row("b", r#"["b",2]"#)]);
    assert_eq!(running.counts().full_state, 2);
}

#[test]
fn a_row_that_is_too_large_is_removed_until_it_fits() {
    let bounds = Bounds { state_bytes: 1_300, ..Bounds::default() };
    let query = "SELECT last(j) AS one, last(j) AS two, last(j) AS three FROM t GROUP BY k";
    let mut running = begin(query, COLUMNS, bounds);
    let mut state = State::default();
    let event = |text: &str| format!(r#"["a",1,0,"{text}"]"#);
    state.take(&mut running, 1, &event("short"));
    assert_eq!(state.emit(&mut running).len(), 1);
    // The value has room, but not the row besides.
    state.take(&mut running, 2, &event(&"long".repeat(50)));
    assert_eq!(state.emit(&mut running), [removal("a")]);
    state.take(&mut running, 3, &event("short"));
    assert_eq!(state.emit(&mut running), [row("a", r#"["short","short","short"]"#)]);
    assert_eq!(running.counts().full_state, 1);
    let long = "k".repeat(limits::KEY_BYTES_MAX + 1);
    let mut running = begin("SELECT count(*) FROM t GROUP BY k", COLUMNS, Bounds::default());
    take(&mut State::default(), &mut running, 1, &[(&long, 1)]);
    assert!(State::default().emit(&mut running).is_empty());
    assert_eq!(running.counts().large_rows, 1);
}

#[test]
fn lost_events_begin_the_groups_again() {
    let query = "SELECT k, count(*) AS n FROM t GROUP BY k";
    let mut running = begin(query, COLUMNS, Bounds::default());
    running.lose();
    assert!(!running.take_restart(), "no group lacks an event");
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 1), ("b", 1)]);
    state.emit(&mut running);
    running.lose();
    assert!(running.take_restart() && !running.take_restart());
    assert_eq!(
        (running.held(), running.counts().windows_lost, running.waits()),
        ((0, 0), 1, false)
    );
    take(&mut state, &mut running, 9, &[("a", 1), ("a", 2)]);
    assert_eq!(state.emit(&mut running), [row("a", r#"["a",2]"#)]);
}

#[test]
fn an_event_that_costs_too_much_is_left_out_alone() {
    let query = "SELECT k, count(*) AS n FROM t GROUP BY k";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 1)]);
    running.skip(&mut state);
    assert!(!running.take_restart(), "one publisher must not close all subscribers");
    take(&mut state, &mut running, 3, &[("a", 1)]);
    assert_eq!(state.emit(&mut running), [row("a", r#"["a",2]"#)]);
}

#[test]
fn rows_that_cost_too_much_begin_the_groups_again() {
    let bounds = Bounds { row_text_bytes: 100, ..Bounds::default() };
    let query = "SELECT upper(k) AS u, count(*) AS n FROM t GROUP BY k";
    let mut running = begin(query, COLUMNS, bounds);
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 1)]);
    assert_eq!(state.emit(&mut running), [row("a", r#"["A",1]"#)]);
    take(&mut state, &mut running, 2, &[("a", 1), (&"k".repeat(200), 1)]);
    running.emit_changes(0, true);
    assert!(running.finish(&mut state, &mut Unbroken).is_err());
    running.skip(&mut state);
    assert!(running.take_restart(), "the row of before is wrong");
}

#[test]
fn without_room_only_new_rows_are_refused() {
    let query = "SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) < 3";
    let mut running = begin(query, COLUMNS, Bounds::default());
    let mut state = State::default();
    take(&mut state, &mut running, 1, &[("a", 1)]);
    state.emit(&mut running);
    let emit_without_room = |state: &mut State, running: &mut Running| {
        let before = state.changes.len();
        running.emit_changes(0, false);
        assert_eq!(running.finish(state, &mut Unbroken), Ok(true));
        state.changes[before..].to_vec()
    };
    take(&mut state, &mut running, 2, &[("a", 1), ("b", 1)]);
    let changes = emit_without_room(&mut state, &mut running);
    assert_eq!(changes, [(2, "a".to_owned(), Some(r#"["a",2]"#.to_owned()))]);
    assert!(running.take_refused() && !running.take_refused());
    assert_eq!(running.counts().full_state, 1);
    take(&mut state, &mut running, 4, &[("a", 1)]);
    assert_eq!(emit_without_room(&mut state, &mut running), [(3, "a".to_owned(), None)]);
    assert!(!running.take_refused());
    take(&mut state, &mut running, 5, &[("b", 1)]);
    assert_eq!(state.emit(&mut running), [row("b", r#"["b",2]"#)]);
}

fn inferred(query: &str, first: &str) -> Running {
    let columns = Columns::infer(first.as_bytes());
    let plan = Query::parse(query).and_then(|query| query.plan_inferred(&columns)).expect(query);
    Running::new(plan.into(), Bounds::default(), Beginning::First)
}

#[test]
fn groups_are_kept_while_columns_become_wider() {
    let first = r#"{"k":1,"v":2}"#;
    let mut running = inferred("SELECT k, sum(v) AS s FROM t GROUP BY k", first);
    let mut state = State::default();
    state.take(&mut running, 1, first);
    state.take(&mut running, 2, r#"{"k":2,"v":3}"#);
    assert_eq!(state.emit(&mut running), [row("1", "[1,2]"), row("2", "[2,3]")]);
    state.take(&mut running, 3, r#"{"k":1,"v":0.5}"#);
    assert_eq!(state.emit(&mut running), [row("1", "[1,2.5]"), row("2", "[2,3.0]")]);
    // Keys stay the same when ints become doubles.
    state.take(&mut running, 4, r#"{"k":1.5,"v":1}"#);
    let rows = [row("1", "[1.0,2.5]"), row("2", "[2.0,3.0]"), row("1.5", "[1.5,1.0]")];
    assert_eq!(state.emit(&mut running), rows);
    assert!(!running.take_restart());
    // A number that becomes a text is lost, and with it all groups.
    let mut running = inferred("SELECT k, last(v) AS v FROM t GROUP BY k", first);
    let mut state = State::default();
    state.take(&mut running, 1, first);
    assert_eq!(state.emit(&mut running), [row("1", "[1,2]")]);
    state.take(&mut running, 2, r#"{"k":2,"v":"x"}"#);
    assert!(running.take_restart());
    assert_eq!(running.counts().windows_lost, 1);
    assert_eq!(State::default().emit(&mut running), [row("2", r#"[2,"x"]"#)]);
}

#[test]
fn groups_are_dropped_in_steps() {
    let query = "SELECT k, count(*) AS n FROM t GROUP BY k";
    let full = || {
        let mut running = begin(query, COLUMNS, Bounds::default());
        for key in 0..5_000_u64 {
            take(&mut State::default(), &mut running, key + 1, &[(&key.to_string(), 1)]);
        }
        running
    };
    let mut running = full();
    running.lose();
    let mut never = |_: u64, _: usize| false;
    let pauses = (0..).take_while(|_| !running.finish(&mut State::default(), &mut never).unwrap());
    assert_eq!(pauses.count(), 5_000_usize.div_ceil(limits::DROPPED_GROUPS_PER_LOOK));
    let mut remains = full().into_remains();
    assert_eq!(remains.groups(), 5_000);
    assert!(!remains.drop_while(|_| false));
    assert_eq!(remains.groups(), 5_000 - limits::DROPPED_GROUPS_PER_LOOK);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// After each emission, the topic has a row of exactly the groups that meet HAVING, with all their events; and pauses
    /// change nothing.
    #[test]
    fn rows_are_those_of_the_groups_that_meet_having(
        events in proptest::collection::vec((0..7_u8, -4..5_i64), 1..150),
        emissions in proptest::collection::btree_set(0..150_usize, 0..40),
        goes_on in proptest::collection::vec(any::<bool>(), 1..40),
    ) {
        let query = "SELECT k, count(*) AS n, sum(v) AS s, max(v) AS m FROM t WHERE v <> 0 GROUP BY k \
                     HAVING sum(v) BETWEEN 0 AND 5 OR count(*) > 12";
        let plan = Query::parse(query).unwrap().plan(&columns(COLUMNS)).unwrap();
        let plan = std::sync::Arc::new(plan);
        let run = |pauses: &[bool]| -> Result<State, TestCaseError> {
            let mut running = Running::new(plan.clone(), Bounds::default(), Beginning::First);
            let (mut state, mut asked) = (State::default(), 0);
            let mut pace = |_: u64, _: usize| {
                asked += 1;
                pauses[asked % pauses.len()]
            };
            let mut model: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
            for (index, (key, value)) in events.iter().enumerate() {
                let event = format!(r#"["k{key}",{value}]"#);
                let (offset, times_ms) = (3 * index as u64 + 1, (PUBLISHED_MS, 0));
                while !running.take_in_part(offset, event.as_bytes(), times_ms, &mut state, &mut pace).unwrap() {}
                if *value != 0 {
                    let (count, sum, max) = model.entry(format!("k{key}")).or_insert((0, 0, *value));
                    (*count, *sum, *max) = (*count + 1, *sum + value, (*max).max(*value));
                }
                if !emissions.contains(&index) {
                    continue;
                }
                running.emit_changes(0, true);
                while !running.finish(&mut state, &mut pace).unwrap() {}
                let expected = model.iter().filter(|(_, (count, sum, _))| (0..=5).contains(sum) || *count > 12);
                let expected = expected.map(|(key, (count, sum, max))| {
                    (key.clone(), format!("[\"{key}\",{count},{sum},{max}]"))
                });
                prop_assert_eq!(&state.rows, &expected.collect::<BTreeMap<_, _>>());
            }
            Ok(state)
        };
        let whole = run(&[true])?;
        prop_assert_eq!(&run(&goes_on)?, &whole);
        prop_assert_eq!(&run(&[false])?, &whole);
    }
}
