use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Query, Running, Sink, Unbroken};

/// A publication time for tests in which it is irrelevant: no event's time is ahead of it.
pub(crate) const PUBLISHED_MS: i64 = 253_402_300_799_999;

/// The output of a query: rows and lost windows, with their offsets, and from where on it is complete.
#[derive(Debug, Default, PartialEq, Clone)]
pub(crate) struct Made(pub(crate) Vec<(u64, Option<String>)>, pub(crate) Option<u64>);

impl Sink for Made {
    fn begins(&mut self, offset: u64) {
        assert!(self.1.replace(offset).is_none() && self.0.is_empty(), "once, and before all");
    }

    fn row(&mut self, offset: u64, row: &[u8]) {
        assert!(self.0.last().is_none_or(|(last, _)| *last < offset), "offsets increase");
        self.0.push((offset, Some(String::from_utf8(row.to_vec()).expect("UTF-8"))));
    }

    fn lost(&mut self, offset: u64) {
        self.0.push((offset, None));
    }
}

impl Made {
    pub(crate) fn rows(&self) -> Vec<&str> {
        self.0.iter().filter_map(|(_, row)| row.as_deref()).collect()
    }
}

pub(crate) fn columns(declared: &[&str]) -> Arc<Columns> {
    Arc::new(Columns::declared(declared.iter().copied()).expect("columns"))
}

pub(crate) fn begin(query: &str, declared: &[&str], bounds: Bounds) -> Running {
    let parsed = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let plan = parsed.plan(&columns(declared)).unwrap_or_else(|error| panic!("{query}: {error}"));
    Running::new(Arc::new(plan), bounds, Beginning::First)
}

pub(crate) fn close_all(running: &mut Running, made: &mut Made) {
    running.close_all(made);
    assert_eq!(running.finish(made, &mut Unbroken), Ok(true));
}

/// Returns the output of a query for these events, with offsets from 1 on, after all windows are closed.
pub(crate) fn made(query: &str, declared: &[&str], events: &[&str]) -> Made {
    let mut running = begin(query, declared, Bounds::default());
    let mut made = Made::default();
    for (index, event) in events.iter().enumerate() {
        running
            .take(index as u64 + 1, event.as_bytes(), PUBLISHED_MS, 0, &mut made)
            .expect("within bounds");
    }
    close_all(&mut running, &mut made);
    made
}

pub(crate) fn check(query: &str, declared: &[&str], events: &[&str], expected: &[&str]) {
    assert_eq!(made(query, declared, events).rows(), expected, "{query}");
}
