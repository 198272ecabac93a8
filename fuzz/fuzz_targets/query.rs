//! A text is a query or is refused, at a place in it; a query has one form, and makes JSON rows of any events, twice the same.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;
use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Query, QueryError, Running, Sink, Unbroken, Waiting};
use thalweg_wire::event::push_json;

/// A query's rows and lost windows, with their offsets.
#[derive(Debug, Default, PartialEq)]
struct Made(Vec<(u64, Option<Vec<u8>>)>);

impl Sink for Made {
    fn begins(&mut self, _offset: u64) {}

    fn row(&mut self, offset: u64, row: &[u8]) {
        assert!(self.0.last().is_none_or(|(last, _)| *last < offset), "offsets increase");
        serde_json::from_slice::<Value>(row).expect("a row is JSON");
        self.0.push((offset, Some(row.to_vec())));
    }

    fn lost(&mut self, offset: u64) {
        self.0.push((offset, None));
    }

    fn change(&mut self, offset: u64, key: &str, row: Option<&[u8]>) {
        assert!((1..=256).contains(&key.len()) && !key.chars().any(char::is_control), "{key:?}");
        self.row(offset, row.unwrap_or(b"null"));
    }
}

fuzz_target!(|input: (&str, Vec<&[u8]>)| -> Corpus {
    let (text, events) = input;
    let query = match Query::parse(text) {
        Ok(query) => query,
        Err(error) => {
            check_error(text, &error);
            return Corpus::Keep;
        }
    };
    let form = query.canonical();
    // Quotes within texts are written so that they cannot be told apart.
    if !text.contains(['\'', '\\', '"', '`']) {
        let again = Query::parse(&form).unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(again.canonical(), form);
    }
    let columns = ["a:int", "b:double", "c:bool", "time:time", "e:string", "f:json"];
    let columns = Arc::new(Columns::declared(columns).expect("a declaration"));
    match (query.plan(&columns), query.explain(&columns)) {
        (Ok(_), Ok(said)) => assert!(said.starts_with("reads") || !said.is_empty()),
        (Err(error), Err(same)) => {
            assert_eq!(error, same);
            check_error(text, &error);
            return Corpus::Keep;
        }
        (plan, said) => panic!("{plan:?} {said:?}"),
    }
    let made = [run(&query, &columns, &events), run(&query, &columns, &events)];
    assert_eq!(made[0], made[1]);
    let inferred = [run_inferred(&query, &events), run_inferred(&query, &events)];
    assert_eq!(inferred[0], inferred[1]);
    Corpus::Keep
});

fn run(query: &Query, columns: &Arc<Columns>, events: &[&[u8]]) -> Made {
    let plan = Arc::new(query.plan(columns).expect("it was planned"));
    let mut running = Running::new(plan, Bounds::default(), Beginning::First);
    let mut made = Made::default();
    for (offset, event) in (1..).zip(events) {
        let mut json = Vec::new();
        if push_json(event, 4 << 10, &mut json).is_ok() {
            take(&mut running, offset, &json, &mut made);
        } else {
            running.lose();
        }
    }
    running.close_all(&mut made);
    running.emit_changes(1_657_746_248_000, true);
    if running.finish(&mut made, &mut Unbroken).is_err() {
        running.skip(&mut made);
        return made;
    }
    assert!(running.open_windows() == 0 && (query.has_state() || running.held().0 == 0));
    made
}

/// Takes an event, which was published at the beginning of a day. One that costs too much is lost.
fn take(running: &mut Running, offset: u64, json: &[u8], made: &mut Made) {
    const PUBLISHED_MS: i64 = 1_657_670_400_000;
    if running.take(offset, json, PUBLISHED_MS, 1_657_746_248_000, made).is_err() {
        running.skip(made);
    }
}

/// The same over columns that follow from the events.
fn run_inferred(query: &Query, events: &[&[u8]]) -> Made {
    let (mut waiting, mut running) = (Waiting::new(query.clone()), None);
    let mut made = Made::default();
    for (offset, event) in (1..).zip(events) {
        let mut json = Vec::new();
        if push_json(event, 4 << 10, &mut json).is_err() {
            continue;
        }
        if running.is_none()
            && let Some(Ok(plan)) = waiting.take(&json)
        {
            running = Some(Running::new(Arc::new(plan), Bounds::default(), Beginning::First));
        }
        if let Some(running) = &mut running {
            take(running, offset, &json, &mut made);
        }
    }
    made
}

/// A mistake is at a place in the text, or right behind it, and has a sentence.
fn check_error(text: &str, error: &QueryError) {
    let lines = text.split('\n').count() as u32;
    assert!((1..=lines + 1).contains(&error.line), "{error} in {text:?}");
    assert!(error.column >= 1 && error.length >= 1, "{error}");
    assert!(!error.message.trim().is_empty() && error.message.len() < 4096, "{error}");
}
