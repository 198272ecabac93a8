use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Beginning, Bounds, Query, Running, Sink, Unbroken};

/// When events were published of which that does not matter: no time is ahead of it.
pub(crate) const PUBLISHED_MS: i64 = 253_402_300_799_999;

/// What a query made: rows and lost windows, with their offsets; and from where on it has all.
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

/// A query that has seen nothing, from the first event on.
pub(crate) fn begin(query: &str, declared: &[&str], bounds: Bounds) -> Running {
    let parsed = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let plan = parsed.plan(&columns(declared)).unwrap_or_else(|error| panic!("{query}: {error}"));
    Running::new(Arc::new(plan), bounds, Beginning::First)
}

/// Closes all windows.
pub(crate) fn close_all(running: &mut Running, made: &mut Made) {
    running.close_all(made);
    assert_eq!(running.finish(made, &mut Unbroken), Ok(true));
}

/// What a query makes of these events, of offsets from 1 on, when all windows are closed at the end.
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

/// That a query makes these rows.
pub(crate) fn check(query: &str, declared: &[&str], events: &[&str], expected: &[&str]) {
    assert_eq!(made(query, declared, events).rows(), expected, "{query}");
}
