//! Turns a full file of the write-ahead log into runs.

use std::io;

use thalweg_broker::KEY_LIFE;
use thalweg_wire::{Offset, Topic};

use crate::{
    disk::{self, Disk},
    record::{Record, RecordKind, topic_hash},
    run::RunWriter,
    state::{Hole, Keys, Run, StoreState},
    wal::{RecordPlace, WalFile, WalTopic, kept_values},
};

/// The files of a sealed file.
#[derive(Debug, Default)]
pub(crate) struct Sealed {
    /// Runs, with the numbers of their stores.
    pub(crate) runs: Vec<(u16, Run)>,
    pub(crate) holes: Vec<(u16, Hole)>,
    pub(crate) keys: Option<Keys>,
}

/// The records of a file that go into a run.
pub(crate) struct Sealing {
    name: String,
    pub(crate) generation: u64,
    /// Records from here on and before `end`.
    first: Offset,
    pub(crate) end: Offset,
    stores: Vec<(u16, Vec<(u64, RecordPlace)>)>,
    keyed: Vec<RecordPlace>,
}

impl Sealing {
    pub(crate) fn new(
        file: &WalFile,
        sealed: Offset,
        find: impl Fn(u16) -> Option<StoreState>,
    ) -> Self {
        let end = file.end().unwrap_or(sealed);
        let mut stores: Vec<(u16, Vec<(u64, RecordPlace)>)> = Vec::new();
        let mut known: Vec<StoreState> = Vec::new();
        for (topic, WalTopic { store: id, records, .. }) in &file.topics {
            if !known.iter().any(|store| store.id == *id) {
                let Some(store) = find(*id) else { continue };
                known.push(store);
                stores.push((*id, Vec::new()));
            }
            let Some(at) = known.iter().position(|store| store.id == *id) else { continue };
            stores[at].1.extend(kept_records(&known[at], topic, records));
        }
        stores.sort_unstable_by_key(|(id, _)| *id);
        for (_, places) in &mut stores {
            places.sort_unstable_by_key(|(hash, place)| (*hash, place.first));
        }
        Self {
            name: file.name(),
            generation: file.generation,
            first: sealed.min(end),
            end,
            stores,
            keyed: file.keyed.clone(),
        }
    }

    /// Writes the files, with numbers after `serial`.
    pub(crate) fn write(
        &self,
        disk: &impl Disk,
        serial: &mut u64,
        now_ms: u64,
    ) -> io::Result<Sealed> {
        let (mut runs, mut holes) = (Vec::new(), Vec::new());
        for (id, places) in &self.stores {
            *serial += 1;
            let mut run = RunWriter::create(disk, *serial, self.first, self.end)?;
            for (nth, (hash, place)) in places.iter().enumerate() {
                let bytes = read_place(disk, &self.name, place)?;
                match bytes.as_deref().and_then(Record::parse) {
                    Some((record, _)) if record.first == place.first => {
                        run.push(disk, &record, bytes.as_deref().unwrap_or_default())?;
                    }
                    _ => {
                        let next = places.get(nth + 1).filter(|(other, _)| other == hash);
                        let until = next.map_or(self.end, |(_, next)| next.first);
                        // A topic that has ended must not come back.
                        let is_end = place.kind == RecordKind::End;
                        let from = if is_end { 0 } else { place.first };
                        let hole = Hole { from, until, low: *hash, high: *hash };
                        holes.push((*id, hole));
                    }
                }
            }
            runs.extend(run.finish(disk)?.map(|run| (*id, run)));
        }
        let keys = self.write_keys(disk, serial, now_ms)?;
        disk.sync_directory()?;
        Ok(Sealed { runs, holes, keys })
    }

    /// Keeps the records whose keys have to be known for longer than the file.
    fn write_keys(
        &self,
        disk: &impl Disk,
        serial: &mut u64,
        now_ms: u64,
    ) -> io::Result<Option<Keys>> {
        let forgotten_ms = now_ms.saturating_sub(KEY_LIFE.as_millis() as u64);
        let (mut bytes, mut newest_ms) = (Vec::new(), 0);
        for place in &self.keyed {
            let Some(read) = read_place(disk, &self.name, place)? else { continue };
            let Some((record, _)) = Record::parse(&read) else { continue };
            if record.first != place.first || record.time_ms < forgotten_ms {
                continue;
            }
            // A clock that was ahead must not keep the file.
            newest_ms = record.time_ms.min(now_ms);
            match record.digest() {
                Some(digest) => {
                    let (kind, payload) = (RecordKind::Key, &digest.to_le_bytes());
                    Record { kind, payload, extension: &[], ..record }.write(&mut bytes);
                }
                None => bytes.extend_from_slice(&read),
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        *serial += 1;
        let keys = Keys { serial: *serial, bytes: bytes.len() as u64, newest_ms };
        disk.create(&keys.name())?;
        disk.write_at(&keys.name(), 0, &bytes)?;
        disk.sync(&keys.name())?;
        Ok(Some(keys))
    }
}

fn kept_records(
    store: &StoreState,
    topic: &Topic,
    records: &[RecordPlace],
) -> Vec<(u64, RecordPlace)> {
    let hash = topic_hash(topic.as_str());
    let kept = match store.kind.has_versions() {
        true => kept_values(records, |place| place.kind),
        false => records.iter().filter(|place| place.first >= store.start).copied().collect(),
    };
    kept.into_iter().map(|place| (hash, place)).collect()
}

/// Reads a record of the write-ahead log; `None` if its bytes are lost.
fn read_place(disk: &impl Disk, name: &str, place: &RecordPlace) -> io::Result<Option<Vec<u8>>> {
    match disk.read_at(name, place.position.into(), place.length as usize) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if disk::is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
