//! The keeper: makes room. It turns full files of the write-ahead log into runs, applies retention, and merges runs.
//!
//! Each step ends with a saved state that names the new files. Files that the state no longer names are removed
//! afterwards; those of a step that was cut short are removed at the next start.

use std::{collections::HashSet, io, sync::Arc};

use thalweg_broker::KEY_LIFE;
use thalweg_wire::Offset;

use crate::{
    counts::Counts,
    disk::{self, Disk},
    keyed_merge::Forgotten,
    log::{Bounds, Log},
    merge::Merge,
    retention::starts,
    seal::{Sealed, Sealing},
    state::{Keys, Run, State, StoreState},
    wal_files::WalFiles,
};

/// Makes room. There is one per log.
#[derive(Debug)]
pub(crate) struct Keeper<D> {
    log: Arc<Log<D>>,
    files: WalFiles,
    serial: u64,
    /// The merge that is not complete.
    merge: Option<Merge>,
    /// Runs that cannot be merged, because they are damaged.
    unmergeable: HashSet<u64>,
    /// Whether the state has to be saved before anything is appended.
    must_save: bool,
    /// Runs and keys of steps whose state may not have been saved. The next saved state does not name them.
    unnamed: Vec<String>,
    /// Whether the last step has failed.
    pub(crate) has_failed: bool,
}

impl<D: Disk> Keeper<D> {
    /// Creates the keeper of a log. `generation` and `serial` are the largest numbers that files have.
    pub(crate) fn new(
        log: Arc<Log<D>>,
        free: Vec<String>,
        (generation, serial): (u64, u64),
        must_save: bool,
    ) -> Self {
        Self {
            log,
            files: WalFiles::new(free, generation),
            serial,
            merge: None,
            unmergeable: HashSet::new(),
            must_save,
            unnamed: Vec::new(),
            has_failed: false,
        }
    }

    /// Does what is due at `now_ms`, the time in ms since 1970. Returns whether there may be more to do.
    pub(crate) fn step(&mut self, now_ms: u64) -> bool {
        let done = self.try_step(now_ms);
        self.has_failed = done.is_err();
        let is_full = match &done {
            Ok(_) => false,
            Err(error) => {
                Counts::add(&self.log.counts.failures, 1);
                self.log.warn("it cannot make room now, and tries again", Some(error));
                if disk::is_full(error) {
                    self.give_up_merge();
                }
                disk::is_full(error)
            }
        };
        self.log.with(|shared| shared.is_full = is_full && shared.ready.is_empty());
        done.unwrap_or(false)
    }

    fn try_step(&mut self, now_ms: u64) -> io::Result<bool> {
        let log = Arc::clone(&self.log);
        // Retention comes first, because it makes room on a full disk.
        let mut has_more = self.retain(now_ms)?;
        if std::mem::take(&mut self.must_save) {
            let saved = self.save(Vec::new(), |_| {});
            self.must_save = saved.is_err();
            saved?;
        }
        self.files.recycle(&log)?;
        // Publishers wait for files, so those come before runs. After an error, sealing may make room for one.
        let _ = self.files.prepare(&log);
        has_more |= self.seal(now_ms)?;
        self.files.recycle(&log)?;
        self.files.prepare(&log)?;
        log.reserve()?;
        has_more |= self.merge(now_ms)?;
        Ok(has_more)
    }

    /// Turns the oldest full file into runs.
    fn seal(&mut self, now_ms: u64) -> io::Result<bool> {
        let Some(sealing) = self.log.with(|shared| {
            let file = shared.unsealed().next().filter(|file| !file.is_open)?;
            Some(Sealing::new(file, shared.state.sealed, |id| shared.store(id).cloned()))
        }) else {
            return Ok(false);
        };
        let log = Arc::clone(&self.log);
        let before = self.serial;
        let written = sealing.write(&log.disk, &mut self.serial, now_ms);
        let names = (before + 1..=self.serial).flat_map(|serial| {
            // Not each of them was created.
            [Run::name(serial), Keys::name_of(serial)]
        });
        let names: Vec<String> = names.collect();
        let Sealed { runs, holes, keys } = self.or_remove(&names, written)?;
        let written: u64 = runs.iter().map(|(_, run)| run.bytes()).sum();
        Counts::add(&log.counts.written, written + keys.map_or(0, |keys| keys.bytes));
        Counts::add(&log.counts.damaged, holes.len() as u64);
        let (generation, serial) = (self.files.generation(), self.serial);
        self.save(names, |state| {
            (state.generation, state.serial) = (generation, serial);
            (state.sealed, state.sealed_generation) = (sealing.end, sealing.generation);
            state.keys.extend(keys);
            for store in &mut state.stores {
                let of_store = |(id, _): &&(u16, Run)| *id == store.id;
                store.runs.extend(runs.iter().filter(of_store).map(|(_, run)| *run));
                let id = store.id;
                let of_store = holes.iter().filter(|(other, _)| *other == id);
                of_store.for_each(|(_, hole)| store.add_hole(*hole));
            }
        })?;
        log.with(|shared| {
            let file = shared.wal.iter_mut().find(|file| file.generation == sealing.generation);
            if let Some(file) = file {
                file.is_sealed = true;
                (file.topics, file.keyed) = Default::default();
            }
        });
        Ok(true)
    }

    /// Removes the files that a step has begun if it has failed: they may be what fills the disk.
    fn or_remove<T>(&self, names: &[String], written: io::Result<T>) -> io::Result<T> {
        if written.is_err() {
            names.iter().for_each(|name| _ = self.log.disk.remove(name));
        }
        written
    }

    /// Saves the state. `names`: the files that it names, and that states before did not.
    fn save(&mut self, names: Vec<String>, change: impl FnOnce(&mut State)) -> io::Result<()> {
        if let Err(error) = self.log.save(change) {
            self.unnamed.extend(names);
            return Err(error);
        }
        for name in self.unnamed.drain(..) {
            // Not each of them was created.
            let _ = self.log.disk.remove(&name);
        }
        Ok(())
    }

    /// Deletes runs that are too old, or too many, and keys that nobody asks for any more.
    fn retain(&mut self, now_ms: u64) -> io::Result<bool> {
        let log = Arc::clone(&self.log);
        let (starts, keys) = log.with(|shared| {
            let groups = shared.unsealed().flat_map(|file| &file.groups);
            let groups: Vec<_> = groups.map(|group| (group.end, group.time_ms)).collect();
            let Bounds { total_bytes, log_bytes, .. } = log.bounds;
            let fixed = shared.fixed_bytes(&log.bounds);
            let left = total_bytes.map(|total_bytes| total_bytes.saturating_sub(fixed));
            let bytes_max = left.into_iter().chain(log_bytes).min();
            let starts = starts(&shared.state.stores, &groups, now_ms, bytes_max);
            // A record in the write-ahead log alone is deleted with its file.
            for store in &mut shared.state.stores {
                let start = starts.iter().find(|(id, _)| *id == store.id);
                store.start = start.map_or(store.start, |(_, start)| *start);
            }
            let forgotten_ms = now_ms.saturating_sub(2 * KEY_LIFE.as_millis() as u64);
            let keys = shared.state.keys.iter().filter(|keys| keys.newest_ms < forgotten_ms);
            (starts, keys.copied().collect::<Vec<_>>())
        });
        self.delete(&starts, &keys)
    }

    /// Deletes the runs before the starts of stores, and files of keys.
    fn delete(&mut self, starts: &[(u16, Offset)], keys: &[Keys]) -> io::Result<bool> {
        let log = Arc::clone(&self.log);
        let is_gone =
            |store: &StoreState, run: &Run| !store.kind.is_state() && run.end <= store.start;
        let gone: Vec<u64> = log.with(|shared| {
            let stores = shared.state.stores.iter();
            let runs = stores.flat_map(|store| store.runs.iter().map(move |run| (store, run)));
            runs.filter(|(store, run)| is_gone(store, run)).map(|(_, run)| run.serial).collect()
        });
        if gone.is_empty() && keys.is_empty() {
            return Ok(false);
        }
        tracing::debug!(?starts, runs = gone.len(), keys = keys.len(), "retention deletes files");
        self.save(Vec::new(), |state| {
            state.keys.retain(|kept| !keys.contains(kept));
            for store in &mut state.stores {
                store.runs.retain(|run| !gone.contains(&run.serial));
                if !store.kind.is_state() {
                    let start = store.start;
                    store.holes.retain(|hole| hole.until > start);
                }
            }
        })?;
        self.remove_runs(&gone)?;
        keys.iter().try_for_each(|keys| log.disk.remove(&keys.name()))?;
        Ok(true)
    }

    fn remove_runs(&self, serials: &[u64]) -> io::Result<()> {
        self.log.forget_fences(|serial| serials.contains(&serial));
        serials.iter().try_for_each(|serial| self.log.disk.remove(&Run::name(*serial)))
    }

    /// Begins to merge the newest runs of a store, if they are small or have old values. Returns whether it has.
    fn begin_merge(&mut self, now_ms: u64) -> io::Result<bool> {
        let log = Arc::clone(&self.log);
        let due = |store: &StoreState| {
            let runs = store.runs.iter().rev();
            let mut runs = runs.take_while(|run| !self.unmergeable.contains(&run.serial));
            let mut bytes = runs.next()?.bytes();
            let mut count = 1;
            for run in runs {
                let is_small = run.bytes() <= bytes.saturating_mul(2);
                let sum = bytes + run.bytes();
                if !is_small || !(store.kind.is_state() || sum <= log.bounds.merge_bytes) {
                    break;
                }
                (bytes, count) = (sum, count + 1);
            }
            (count > 1).then(|| (store.clone(), store.runs.len() - count))
        };
        let Some((store, from)) = log.with(|shared| shared.state.stores.iter().find_map(due))
        else {
            return Ok(false);
        };
        self.serial += 1;
        let ended_ms = now_ms.saturating_sub(log.bounds.ended_ms);
        // The end of a topic is forgotten with the last of its older records.
        let is_whole = store.kind.is_state() && from == 0;
        let ended_ms = is_whole.then_some(ended_ms);
        let removed_ms = now_ms.saturating_sub(log.bounds.removed_ms);
        let removed_ms = (is_whole && store.kind.has_keys()).then_some(removed_ms);
        let inputs = &store.runs[from..];
        let merge =
            Merge::begin(&log, &store, inputs, self.serial, Forgotten { ended_ms, removed_ms });
        self.merge = self.merged_or_marked(inputs, self.serial, merge)?;
        Ok(true)
    }

    /// Merges a slice of runs. Returns whether there may be more to do.
    fn merge(&mut self, now_ms: u64) -> io::Result<bool> {
        if self.merge.is_none() && !self.begin_merge(now_ms)? {
            return Ok(false);
        }
        let Some(mut merge) = self.merge.take() else { return Ok(true) };
        let log = Arc::clone(&self.log);
        let is_input = |run: &Run| merge.inputs.iter().any(|input| input.serial == run.serial);
        let left = log.with(|shared| {
            let store = shared.store(merge.store);
            store.map_or(0, |store| store.runs.iter().filter(|run| is_input(run)).count())
        });
        if left < merge.inputs.len() {
            // Retention has deleted the others.
            log.disk.remove(&Run::name(merge.serial))?;
            return Ok(true);
        }
        let (inputs, serial) = (merge.inputs.clone(), merge.serial);
        let advanced = merge.advance(&log.disk, log.bounds.slice_bytes);
        match self.merged_or_marked(&inputs, serial, advanced)? {
            None => return Ok(true),
            Some(true) => {
                self.merge = Some(merge);
                return Ok(true);
            }
            Some(false) => {}
        }
        let store = merge.store;
        let merged = merge.finish(&log.disk);
        let Some(merged) = self.merged_or_marked(&inputs, serial, merged)? else {
            return Ok(true);
        };
        Counts::add(&log.counts.written, merged.run.map_or(0, |run| run.bytes()));
        let (generation, newest) = (self.files.generation(), self.serial);
        let gone: Vec<u64> = inputs.iter().map(|run| run.serial).collect();
        self.save(vec![Run::name(serial)], |state| {
            (state.generation, state.serial) = (generation, newest);
            if let Some(changed) = state.stores.iter_mut().find(|other| other.id == store) {
                let at = changed.runs.iter().position(|run| gone.contains(&run.serial));
                changed.runs.retain(|run| !gone.contains(&run.serial));
                let at = at.unwrap_or(changed.runs.len());
                changed.runs.splice(at..at, merged.run);
                changed.start = changed.start.max(merged.start);
                changed.compacted = changed.compacted.max(merged.compacted);
            }
        })?;
        self.remove_runs(&gone)?;
        Ok(true)
    }

    /// Removes the new run if a part of its merge has failed. Returns `None` if its inputs are damaged: they stay as they
    /// are, because a merge would lose the mark of the damage.
    fn merged_or_marked<T>(
        &mut self,
        inputs: &[Run],
        serial: u64,
        done: io::Result<T>,
    ) -> io::Result<Option<T>> {
        match self.or_remove(&[Run::name(serial)], done) {
            Err(error) if disk::is_damage(&error) || error.kind() == io::ErrorKind::NotFound => {
                self.unmergeable.extend(inputs.iter().map(|run| run.serial));
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    /// Gives up a merge, whose records are in its inputs.
    fn give_up_merge(&mut self) {
        if let Some(merge) = self.merge.take() {
            // The next start removes what is left.
            let _ = self.log.disk.remove(&Run::name(merge.serial));
        }
    }

    /// Notes that all records are durable. The committer has ended.
    pub(crate) fn close(&mut self) {
        self.give_up_merge();
        let is_whole = self.log.with(|shared| shared.durable == shared.head);
        if self.log.with(|shared| shared.failed.is_some()) {
            return;
        }
        if let Err(error) = self.save(Vec::new(), |state| state.is_clean = is_whole) {
            tracing::warn!(%error, "the log on disk was not closed cleanly");
        }
    }

    /// Returns the bytes of the runs that are being merged.
    #[cfg(test)]
    pub(crate) fn merge_bytes(&self) -> Option<u64> {
        self.merge.as_ref().map(|merge| merge.inputs.iter().map(Run::bytes).sum())
    }

    /// Deletes the records of all stores but those of value topics.
    #[cfg(test)]
    pub(crate) fn trim(&mut self) {
        let starts = self.log.with(|shared| {
            let head = shared.head;
            let stores = shared.state.stores.iter_mut().filter(|store| !store.kind.is_state());
            stores.map(|store| (store.start = head, (store.id, head)).1).collect::<Vec<_>>()
        });
        self.delete(&starts, &[]).expect("deleted");
    }
}
