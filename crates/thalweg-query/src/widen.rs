//! Handles an event that does not fit the inferred columns of a running query: widens the columns, plans the query
//! again, and keeps its groups. This happens event by event and does not depend on batches.

use thalweg_columns::{Cell, CellReader, Change, Kind, Wanted};

use crate::{
    Plan,
    aggregate::{Accumulator, Aggregate},
    groups::write_key,
    plan::Shape,
    value::EXACT_MAX,
};

#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// For each column, the types with which the query cannot run.
    kinds: Vec<Vec<Kind>>,
    /// Whether the query fails with additional columns.
    others: bool,
}

impl Refused {
    pub(crate) fn count(&self) -> usize {
        self.kinds.iter().map(Vec::len).sum::<usize>() + usize::from(self.others)
    }

    fn has(&self, column: usize, kind: Kind) -> bool {
        self.kinds.get(column).is_some_and(|kinds| kinds.contains(&kind))
    }

    fn add(&mut self, change: &Change) {
        let Some(column) = change.column else {
            self.others = true;
            return;
        };
        if self.kinds.len() <= column {
            self.kinds.resize(column + 1, Vec::new());
        }
        self.kinds[column].push(change.kind);
    }
}

pub(crate) fn reader(plan: &Plan, refused: &Refused) -> CellReader {
    if !plan.schema.are_inferred() {
        return CellReader::new(&plan.schema, &plan.wanted);
    }
    let wanted = Wanted {
        has_others: plan.takes_others() && !refused.others,
        absent: plan.absent.clone(),
        refused: refused.kinds.clone(),
    };
    CellReader::inferred(&plan.schema, &plan.wanted, wanted)
}

/// Returns a plan of the same query over columns that fit an event. If the query cannot run with a change,
/// adds the change to `refused`; the query then reads such values as NULL. Returns `None` if no change is
/// left.
pub(crate) fn wider(plan: &Plan, event: &[u8], refused: &mut Refused) -> Option<Plan> {
    let changes = plan.schema.changes_for(event);
    let changes: Vec<Change> =
        changes.into_iter().filter_map(|change| wanted_change(plan, change, refused)).collect();
    if changes.is_empty() {
        return None;
    }
    if let Some(all) = planned(plan, &changes) {
        return Some(all);
    }
    // The query cannot run with all changes together. Try them one by one.
    let mut best = None;
    for change in changes {
        match planned(best.as_ref().unwrap_or(plan), std::slice::from_ref(&change)) {
            Some(wider) => best = Some(wider),
            None => refused.add(&change),
        }
    }
    best
}

/// Returns the part of a change that the query needs, or `None` if it needs nothing of it.
fn wanted_change(plan: &Plan, change: Change, refused: &Refused) -> Option<Change> {
    match (change.column, &change.member) {
        (Some(column), _) => {
            let is_wanted = plan.wanted.contains(&column) && !refused.has(column, change.kind);
            is_wanted.then_some(change)
        }
        (None, Some(member)) => {
            let is_it = |index: &&usize| {
                let column = plan.schema.iter().nth(**index);
                column.is_some_and(|column| column.name.eq_ignore_ascii_case(member))
            };
            match plan.absent.iter().find(is_it) {
                Some(absent) if refused.has(*absent, change.kind) => None,
                Some(absent) => Some(Change { column: Some(*absent), ..change }),
                None => (plan.takes_others() && !refused.others).then_some(change),
            }
        }
        (None, None) => None,
    }
}

fn planned(plan: &Plan, changes: &[Change]) -> Option<Plan> {
    let columns = plan.schema.changed(changes)?;
    Plan::inferred(&plan.statement, columns, plan.absent.clone()).ok()
}

#[derive(Debug)]
pub(crate) struct Widening {
    /// Keys and aggregated values that change from int to double.
    keys: Vec<bool>,
    aggregates: Vec<AggregateWidening>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AggregateWidening {
    Same,
    /// The column had only NULLs so far. The value is its new type.
    Begins(Kind),
    ToDouble,
}

impl Widening {
    /// Returns how to widen groups of one plan for the other; `None` if that is not possible.
    pub(crate) fn new(before: &Plan, after: &Plan) -> Option<Self> {
        let (
            Shape::Groups { keys, key_kinds, aggregates, .. },
            Shape::Groups { keys: new_keys, key_kinds: new_kinds, aggregates: new, .. },
        ) = (&before.shape, &after.shape)
        else {
            return None;
        };
        if keys.len() != new_keys.len() || aggregates.len() != new.len() {
            return None;
        }
        let keys = key_kinds.iter().zip(new_kinds).map(|(before, after)| match (before, after) {
            (before, after) if before == after => Some(false),
            (Kind::Null, _) => Some(false),
            (Kind::Int, Kind::Double) => Some(true),
            _ => None,
        });
        let aggregates = aggregates.iter().zip(new).map(|(before, after)| {
            let name = |aggregate: &Aggregate| (aggregate.function, aggregate.is_distinct);
            if name(before) != name(after) || before.share != after.share {
                return None;
            }
            match (before.kind, after.kind) {
                (before, after) if before == after => Some(AggregateWidening::Same),
                _ if !before.function.has_type() => Some(AggregateWidening::Same),
                (Kind::Null, kind) => Some(AggregateWidening::Begins(kind)),
                (Kind::Int, Kind::Double) => Some(AggregateWidening::ToDouble),
                _ => None,
            }
        });
        Some(Self {
            keys: keys.collect::<Option<_>>()?,
            aggregates: aggregates.collect::<Option<_>>()?,
        })
    }

    /// Widens a group. Returns the bytes of its keys, or `None` if the change could merge two groups.
    pub(crate) fn group(
        &self,
        keys: &mut [Cell<'static>],
        values: &mut [Accumulator],
    ) -> Option<Box<[u8]>> {
        self.values(values);
        self.key(keys)
    }

    fn key(&self, keys: &mut [Cell<'static>]) -> Option<Box<[u8]>> {
        let mut bytes = Vec::new();
        for (key, is_double) in keys.iter_mut().zip(&self.keys) {
            if let (Cell::Int(number), true) = (&*key, is_double) {
                if number.unsigned_abs() > EXACT_MAX {
                    return None;
                }
                *key = Cell::Double(*number as f64);
            }
            write_key(key, &mut bytes);
        }
        Some(bytes.into())
    }

    fn values(&self, values: &mut [Accumulator]) {
        for (value, widening) in values.iter_mut().zip(&self.aggregates) {
            match widening {
                AggregateWidening::Same => {}
                AggregateWidening::Begins(kind) => value.begin_with(*kind),
                AggregateWidening::ToDouble => value.make_double(),
            }
        }
    }
}
