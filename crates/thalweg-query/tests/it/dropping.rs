//! Checks that groups are dropped in steps, whatever their number.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Query, Running, limits::DROPPED_GROUPS_PER_LOOK};

use crate::running::{Made, PUBLISHED_MS};

const QUERY: &str = "SELECT k, count(*) FROM tumble(t, 1s) GROUP BY window_start, k";

/// Almost the maximum of groups: one more has room.
const GROUPS: usize = 9_999;

/// More than the memory of one group.
const GROUP_BYTES_MAX: usize = 1_000;

fn event(second: u32, key: &str) -> String {
    format!(r#"{{"time":"2022-07-13T21:00:{second:02}Z","k":{key}}}"#)
}

/// Takes an event with as many pauses as possible.
fn take(running: &mut Running, offset: usize, event: &str, made: &mut Made) {
    let (offset, times_ms) = (offset as u64, (PUBLISHED_MS, 0));
    let mut never = |_: u64, _: usize| false;
    while !running
        .take_in_part(offset, event.as_bytes(), times_ms, made, &mut never)
        .expect("within bounds")
    {}
}

fn begun(query: &str, beginning: Beginning) -> Running {
    let columns = Columns::infer(event(0, "1").as_bytes());
    let plan = Query::parse(query).and_then(|query| query.plan_inferred(&columns));
    Running::new(Arc::new(plan.expect("a plan")), Bounds::default(), beginning)
}

/// A query with one window, which is full.
fn full(beginning: Beginning) -> Running {
    let mut running = begun(QUERY, beginning);
    for key in 1..=GROUPS {
        take(&mut running, key, &event(1, &key.to_string()), &mut Made::default());
    }
    assert_eq!(running.held().0, GROUPS);
    running
}

/// Returns the number of pauses until all work is done, and the steps of that work.
fn pauses(running: &mut Running, made: &mut Made) -> (usize, u64) {
    let mut steps = 0;
    let mut never = |more: u64, _: usize| {
        steps += more;
        false
    };
    let pauses = (0..).take_while(|_| !running.finish(made, &mut never).expect("within bounds"));
    (pauses.count(), steps)
}

#[test]
fn windows_that_are_not_emitted_are_dropped_with_pauses() {
    type Step = fn(&mut Running, &mut Made);
    let cases: [(&str, Beginning, usize, Step); 5] = [
        ("it has too many groups", Beginning::First, 0, |running, made| {
            take(running, GROUPS + 1, &event(1, "0"), made);
            take(running, GROUPS + 2, &event(1, "-1"), made);
        }),
        ("it began before the query", Beginning::Anywhere, 1, |running, made| {
            take(running, GROUPS + 1, &event(3, "0"), made);
        }),
        ("events in it are lost", Beginning::First, 1, |running, made| {
            running.lose();
            take(running, GROUPS + 1, &event(3, "0"), made);
        }),
        ("an event that closes it costs too much", Beginning::First, 1, |running, made| {
            take(running, GROUPS + 1, &event(3, "0"), made);
            for _ in 0..9 {
                let mut never = |_: u64, _: usize| false;
                assert!(!running.finish(made, &mut never).unwrap());
            }
            running.skip(made);
        }),
        ("its groups do not fit wider columns", Beginning::First, 1, |running, made| {
            // As a double this key might equal another one.
            take(running, GROUPS + 1, &event(1, "1152921504606846977"), made);
            take(running, GROUPS + 2, &event(1, "0.5"), made);
        }),
    ];
    for (why, beginning, left, step) in cases {
        let (mut running, mut made) = (full(beginning), Made::default());
        step(&mut running, &mut made);
        let (pauses, steps) = pauses(&mut running, &mut made);
        // Some of them may be dropped, or emitted, within the step.
        let least = (GROUPS - 10) / DROPPED_GROUPS_PER_LOOK - 1;
        assert!((least..least + 20).contains(&pauses), "{why}: {pauses} pauses");
        assert!(steps >= GROUPS as u64, "{why}: {steps} steps, which say when to read the clock");
        let (groups, bytes) = running.held();
        assert_eq!(groups, left, "{why}: the window of the last event");
        assert!(bytes <= left * GROUP_BYTES_MAX, "{why}: {bytes} bytes are held");
        assert!(made.rows().len() < 10, "{why}");
    }
}

#[test]
fn the_groups_of_a_query_that_is_over_are_dropped_with_pauses() {
    for emitted in [None, Some(3_000)] {
        let (mut running, mut made) = (full(Beginning::First), Made::default());
        if let Some(emitted) = emitted {
            take(&mut running, GROUPS + 1, &event(3, "0"), &mut made);
            let mut never = |_: u64, _: usize| false;
            while made.0.len() < emitted {
                assert!(!running.finish(&mut made, &mut never).unwrap());
            }
        }
        let mut left = running.held().0;
        let mut remains = running.into_remains();
        assert_eq!(remains.groups(), left);
        assert!(left > GROUPS / 2);
        let mut looks = 0;
        while !remains.drop_while(|_| false) {
            assert!(remains.groups() + DROPPED_GROUPS_PER_LOOK >= left, "{left} before");
            (left, looks) = (remains.groups(), looks + 1);
        }
        assert!(remains.is_empty() && looks >= GROUPS / 2 / DROPPED_GROUPS_PER_LOOK);
    }
}

#[test]
fn a_group_without_keys_is_left_like_others() {
    let query = "SELECT count(*) FROM tumble(t, 1s) GROUP BY window_start";
    let mut running = begun(query, Beginning::First);
    assert!(begun(query, Beginning::First).into_remains().is_empty(), "it holds nothing");
    take(&mut running, 1, &event(1, "1"), &mut Made::default());
    assert_eq!(running.held().0, 1);
    let mut remains = running.into_remains();
    assert_eq!(remains.groups(), 1);
    remains.drop_while(|_| true);
    assert!(remains.is_empty() && remains.groups() == 0);
}

#[test]
fn finished_queries_are_dropped_one_by_one() {
    let mut remains = full(Beginning::First).into_remains();
    remains.append(full(Beginning::First).into_remains());
    assert_eq!(remains.groups(), 2 * GROUPS);
    let (mut dropped, mut looks) = (0, 0);
    let is_done = remains.drop_while(|groups| {
        (dropped, looks) = (dropped + groups, looks + 1);
        looks < 100
    });
    assert!(!is_done);
    assert_eq!(dropped, 100 * DROPPED_GROUPS_PER_LOOK);
    assert_eq!(remains.groups(), 2 * GROUPS - dropped);
    assert!(remains.drop_while(|_| true) && remains.groups() == 0);
}
