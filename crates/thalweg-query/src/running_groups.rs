//! The groups of a query without windows. They never end: from time to time the rows of those that have changed are emitted.

use std::{collections::HashMap, hash::BuildHasher, vec};

use thalweg_columns::Cell;

use crate::{
    Plan,
    aggregate::Aggregate,
    closing::{Exit, drop_remains},
    event::Event,
    expr::Row,
    group::{Group, RunningGroup, fixed_bytes},
    groups::{Full, Held, with_keys},
    ledger::Ledger,
    limits::{DIGEST_RESULT_STEPS, GROUP_STEPS, GROUPS_PART, KEPT_BYTES, STATE_ROW_BYTES},
    meter::Failure,
    pace::Pace,
    plan::Shape,
    remains::Remains,
    sink::Sink,
    state_key::write_state_key,
    value::{borrowed, owned},
    widen::Widening,
};

/// The groups of a run, each with the row that the topic has of it.
#[derive(Debug, Default)]
pub(crate) struct RunningGroups {
    /// The place of each group, by its keys.
    by_key: HashMap<Box<[u8]>, u32>,
    groups: Vec<RunningGroup>,
    /// Groups that have changed since they were emitted, in the order of their changes.
    changed: Vec<u32>,
    emission: Emission,
    /// Whether a new group had no room. Later groups would lack events, so none is added any more.
    is_full: bool,
    /// Whether the groups began again since the caller last asked.
    has_restarted: bool,
    /// Whether a row had no room since the caller last asked.
    has_refused: bool,
    /// Whether a row cost too much, so that the topic's row of this group is not the newest one.
    has_failed: bool,
    /// The number of groups, and their memory without the rows.
    held: Held,
    /// The memory of the topic's rows.
    row_bytes: usize,
    /// Groups from before they began again, to be dropped.
    remains: Remains,
    key: Vec<u8>,
}

/// The groups that are being emitted.
#[derive(Debug, Default)]
struct Emission {
    rest: vec::IntoIter<u32>,
    now_ms: i64,
    /// Whether rows of groups that have none may be added.
    has_room: bool,
    /// The key of the current row.
    key: String,
}

impl RunningGroups {
    /// Returns the groups, and their memory with that of their rows.
    pub(crate) fn held(&self) -> Held {
        Held { bytes: self.held.bytes + self.row_bytes, ..self.held }
    }

    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        // Each change is in one of two lists.
        let lists = 2 * self.groups.len() * size_of::<u32>();
        size_of::<Self>() + self.held().bytes + lists + self.key.capacity()
    }

    /// Returns whether groups have changed that are not being emitted.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns whether the groups have begun again since the last call.
    pub(crate) fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.has_restarted)
    }

    /// Returns whether a new row had no room since the last call.
    pub(crate) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.has_refused)
    }

    /// Returns whether a row could not be emitted since the last call.
    pub(crate) fn take_failed(&mut self) -> bool {
        std::mem::take(&mut self.has_failed)
    }

    /// Adds an event to its group.
    #[inline]
    pub(crate) fn take(
        &mut self,
        plan: &Plan,
        event: &Event<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), Failure> {
        let Shape::Groups { keys, aggregates, .. } = &plan.shape else { return Ok(()) };
        ledger.add_steps(GROUP_STEPS * (1 + keys.len() as u64));
        let bytes = ledger.bounds.state_bytes / GROUPS_PART;
        let most = Held { groups: ledger.bounds.groups, bytes };
        let row = event.row((0, 0), ledger.begin_row());
        let mut key = std::mem::take(&mut self.key);
        let taken = with_keys(keys, &row, &mut key, |key, values| {
            self.add(key, values, &row, aggregates, most)
        });
        if key.capacity() <= KEPT_BYTES {
            self.key = key;
        }
        match taken {
            Some(Err(Full::Groups)) => ledger.counts.full_groups += 1,
            Some(Err(Full::State)) => ledger.counts.full_state += 1,
            Some(Ok(())) | None => {}
        }
        ledger.charge()
    }

    /// Adds a row to the group of `keys`; `key` has the keys' bytes. Fails if the group has no room.
    #[inline]
    fn add(
        &mut self,
        key: &[u8],
        keys: &[Cell<'_>],
        row: &Row<'_>,
        aggregates: &[Aggregate],
        most: Held,
    ) -> Result<(), Full> {
        let place = match self.by_key.get(key) {
            Some(place) => *place,
            None => self.begin(key, keys, aggregates, most)?,
        };
        let Some(running) = self.groups.get_mut(place as usize) else { return Ok(()) };
        if running.is_lost {
            return Err(Full::State);
        }
        let room = most.bytes.saturating_sub(self.held.bytes);
        let (grown, is_whole) = running.group.take(row, aggregates, room);
        self.held.grow(grown);
        if !is_whole {
            self.held.grow(-running.group.text_bytes());
            running.group.values = Box::default();
            running.is_lost = true;
        }
        if !std::mem::replace(&mut running.is_changed, true) {
            self.changed.push(place);
        }
        if is_whole { Ok(()) } else { Err(Full::State) }
    }

    /// Begins a group, if there is room.
    fn begin(
        &mut self,
        key: &[u8],
        keys: &[Cell<'_>],
        aggregates: &[Aggregate],
        most: Held,
    ) -> Result<u32, Full> {
        let fixed = fixed_bytes(key, keys.len(), aggregates.len()) + size_of::<RunningGroup>();
        let full = match () {
            () if self.held.groups >= most.groups => Some(Full::Groups),
            () if self.is_full || self.held.bytes + fixed >= most.bytes => Some(Full::State),
            () => None,
        };
        if let Some(full) = full {
            self.is_full = true;
            return Err(full);
        }
        self.held.groups += 1;
        self.held.bytes += fixed;
        let place = self.groups.len() as u32;
        let keys = keys.iter().map(|cell| owned(borrowed(cell))).collect();
        let group = Group { keys, values: aggregates.iter().map(Aggregate::begin).collect() };
        let (is_changed, is_lost, row_bytes, row_hash) = (false, false, 0, 0);
        self.groups.push(RunningGroup { group, is_changed, is_lost, row_bytes, row_hash });
        self.by_key.insert(key.into(), place);
        Ok(place)
    }

    /// Begins to emit the groups that have changed. [`Self::finish`] continues. `has_room`: whether rows of groups that have none
    /// may be added. Returns the number of groups.
    pub(crate) fn emit_changed(&mut self, now_ms: i64, has_room: bool) -> usize {
        (self.emission.now_ms, self.emission.has_room) = (now_ms, has_room);
        let changed = std::mem::take(&mut self.changed);
        // Usually no group is left from the last emission.
        let rest: Vec<u32> = std::mem::take(&mut self.emission.rest).chain(changed).collect();
        self.emission.rest = rest.into_iter();
        self.emission.rest.len()
    }

    /// Continues to emit groups, and to drop those from before they began again. Returns whether none is left.
    #[inline]
    pub(crate) fn finish<S: Sink>(
        &mut self,
        exit: &mut Exit<'_, S>,
        pace: &mut impl Pace,
    ) -> Result<bool, Failure> {
        if !self.remains.is_empty() {
            let held_bytes = self.memory_bytes();
            if !drop_remains(&mut self.remains, held_bytes, pace) {
                return Ok(false);
            }
        }
        while let Some(place) = self.emission.rest.next() {
            if let Err(failure) = self.emit(place, exit) {
                self.has_failed = true;
                return Err(failure);
            }
            if !exit.ledger.goes_on(pace, self.memory_bytes()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Emits the new row of a group, or removes its row.
    fn emit<S: Sink>(&mut self, place: u32, exit: &mut Exit<'_, S>) -> Result<(), Failure> {
        let plan = exit.plan;
        let Shape::Groups { items, having, aggregates, .. } = &plan.shape else { return Ok(()) };
        let Some(running) = self.groups.get_mut(place as usize) else { return Ok(()) };
        let Emission { now_ms, has_room, key, .. } = &mut self.emission;
        running.is_changed = false;
        let has_key = write_state_key(&running.group.keys, key);
        // The memory of its new row, and the row's hash.
        let mut new = None;
        if !running.is_lost {
            let (cells, without_result) = running.group.cells();
            let quantiles = aggregates.iter().filter(|one| one.function.is_quantile()).count();
            exit.ledger.counts.without_result += without_result;
            exit.ledger.add_steps(DIGEST_RESULT_STEPS * quantiles as u64);
            let meter = exit.ledger.begin_row();
            let row = Row { cells: &cells, window: (0, 0), now_ms: *now_ms, meter };
            if having.as_ref().is_some_and(|having| having.is_true(&row) != Some(true)) {
                exit.ledger.charge()?;
            } else {
                exit.rows.make(items, &row);
                exit.rows.charge(exit.ledger)?;
                let counts = &mut exit.ledger.counts;
                match exit.rows.finished().filter(|_| has_key) {
                    None => counts.large_rows += 1,
                    Some(row) => {
                        let bytes = STATE_ROW_BYTES + key.len() + row.len();
                        let others = self.held.bytes + self.row_bytes - running.row_bytes;
                        let fits = others + bytes <= exit.ledger.bounds.state_bytes;
                        let is_refused = running.row_bytes == 0 && !*has_room;
                        self.has_refused |= is_refused;
                        match fits && !is_refused {
                            true => new = Some((bytes, self.by_key.hasher().hash_one(row))),
                            false => counts.full_state += 1,
                        }
                    }
                }
            }
        }
        let (bytes, hash) = new.unwrap_or_default();
        if (bytes, hash) == (running.row_bytes, running.row_hash) {
            // The topic has this row, or none.
            return Ok(());
        }
        self.row_bytes = self.row_bytes - running.row_bytes + bytes;
        (running.row_bytes, running.row_hash) = (bytes, hash);
        exit.rows.change(key, new.is_some(), exit.ledger, exit.sink)
    }

    /// Continues with a wider plan. If the groups cannot be converted, they begin again. Returns whether they were kept.
    pub(crate) fn widen(&mut self, widening: Option<&Widening>) -> bool {
        let mut is_kept = widening.is_some();
        if let Some(widening) = widening {
            let mut by_key = HashMap::with_capacity(self.by_key.len());
            for (key, place) in std::mem::take(&mut self.by_key) {
                let running = self.groups.get_mut(place as usize).filter(|_| is_kept);
                let new_key = running.and_then(|RunningGroup { group, .. }| {
                    widening.group(&mut group.keys, &mut group.values)
                });
                is_kept &= new_key.is_some();
                by_key.insert(new_key.unwrap_or(key), place);
            }
            self.by_key = by_key;
        }
        if is_kept {
            // Ints may be doubles now.
            self.mark_changed();
            return true;
        }
        !self.restart()
    }

    /// Forgets which rows the topic has, because another topic has its name. All are emitted again.
    pub(crate) fn emit_again(&mut self) {
        for running in &mut self.groups {
            (running.row_bytes, running.row_hash) = (0, 0);
        }
        self.row_bytes = 0;
        self.mark_changed();
    }

    fn mark_changed(&mut self) {
        for (place, running) in (0..).zip(&mut self.groups) {
            if !std::mem::replace(&mut running.is_changed, true) {
                self.changed.push(place);
            }
        }
    }

    /// Begins again without groups, if there are some, because an event of theirs is missing. Returns whether there were some.
    pub(crate) fn restart(&mut self) -> bool {
        if self.groups.is_empty() {
            return false;
        }
        let Self { groups, by_key, remains, .. } = std::mem::take(self);
        (self.remains, self.has_restarted) = (remains, true);
        self.remains.add_running(groups, by_key);
        true
    }

    pub(crate) fn into_remains(self) -> Remains {
        let mut remains = self.remains;
        remains.add_running(self.groups, self.by_key);
        remains
    }
}
