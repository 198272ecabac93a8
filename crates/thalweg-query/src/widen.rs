//! A running query over columns that were inferred, when an event comes that does not fit them: the columns are
//! widened, the query is planned over them, and its groups are kept. It is done event by event, so that it does not
//! depend on how events are cut into batches.

use thalweg_columns::{Cell, CellReader, Change, Kind, Wanted};

use crate::{Plan, aggregate::Accumulator, groups::write_key, plan::Shape, value::EXACT_MAX};

/// The changes of its columns that a query refuses.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// For each column, the types with which it cannot run.
    kinds: Vec<Vec<Kind>>,
    /// It cannot run with more columns.
    others: bool,
}

impl Refused {
    /// How many changes.
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

/// A reader of the columns that a plan needs.
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

/// The plan over columns that fit an event, with which the same query can run. Changes with which it cannot are refused
/// from now on: such a value is NULL. `None`: none are left.
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
    // One of them is to blame.
    let mut best = None;
    for change in changes {
        match planned(best.as_ref().unwrap_or(plan), std::slice::from_ref(&change)) {
            Some(wider) => best = Some(wider),
            None => refused.add(&change),
        }
    }
    best
}

/// A change as the query needs it, if it needs it.
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

/// How the groups of one plan become those of a wider one.
#[derive(Debug)]
pub(crate) struct Widening {
    /// Which keys, and which values of aggregates, were ints and are doubles now.
    keys: Vec<bool>,
    aggregates: Vec<AggregateWidening>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AggregateWidening {
    Same,
    /// It had nothing but NULL so far: this is how it begins.
    Begins(Kind),
    ToDouble,
}

impl Widening {
    /// `None`: groups of the one have no place in those of the other.
    pub(crate) fn of(before: &Plan, after: &Plan) -> Option<Self> {
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
            if before.function != after.function {
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

    /// Widens a group. Returns the bytes of its keys; `None`: two groups might become one.
    pub(crate) fn group(
        &self,
        keys: &mut [Cell<'static>],
        values: &mut [Accumulator],
    ) -> Option<Box<[u8]>> {
        self.values(values);
        self.key(keys)
    }

    /// Widens the keys of a group; `None`: two of them might become one.
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

    /// Widens what a group has aggregated.
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
