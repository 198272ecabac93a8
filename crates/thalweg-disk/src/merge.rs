//! Merges runs of a store into one.

use std::{collections::HashMap, io};

use thalweg_wire::Offset;

use crate::{
    disk::Disk,
    log::Log,
    record::{Record, RecordKind},
    run::{Entry, RunReader, RunWriter, each_record},
    state::{Run, StoreState},
    wal::kept_values,
};

/// The result of a merge.
pub(crate) struct Merged {
    /// `None` if no record is left.
    pub(crate) run: Option<Run>,
    /// The store forgets ends of topics before this offset.
    pub(crate) start: Offset,
}

/// The entries of a run, one block at a time.
struct Entries<'a, D> {
    reader: RunReader<'a, D>,
    block: std::vec::IntoIter<Entry>,
    next_block: usize,
    next: Option<Entry>,
}

impl<D: Disk> Entries<'_, D> {
    fn advance(&mut self) -> io::Result<Option<Entry>> {
        let next = self.next.take();
        self.next = self.block.next();
        if self.next.is_none() && self.next_block < self.reader.fences.len() {
            self.block = self.reader.block(self.next_block)?.into_iter();
            self.next_block += 1;
            self.next = self.block.next();
        }
        Ok(next)
    }
}

/// Writes the records of consecutive runs into a new run. Value topics keep their newest records only. With
/// `ended_ms` it leaves out ends of topics that are older and have no newer records.
///
/// # Errors
/// Also if an input is damaged: then the inputs stay as they are.
pub(crate) fn merge<D: Disk>(
    log: &Log<D>,
    store: &StoreState,
    inputs: &[Run],
    serial: u64,
    ended_ms: Option<u64>,
) -> io::Result<Merged> {
    let [Some(first), Some(last)] = [inputs.first(), inputs.last()] else {
        return Ok(Merged { run: None, start: 0 });
    };
    let mut entries = Vec::new();
    for run in inputs {
        let reader = log.reader(run)?;
        let mut input =
            Entries { reader, block: Vec::new().into_iter(), next_block: 0, next: None };
        input.advance()?;
        entries.push(input);
    }
    let mut start = 0;
    let mut writer = RunWriter::create(&log.disk, serial, first.first, last.end)?;
    while let Some(hash) = entries.iter().filter_map(|input| input.next).map(|next| next.hash).min()
    {
        let mut values = Vec::new();
        for input in &mut entries {
            while input.next.is_some_and(|next| next.hash == hash) {
                let Some(entry) = input.advance()? else { break };
                let chunk = input.reader.chunk(&entry)?;
                if store.has_values {
                    values.push(chunk);
                    continue;
                }
                each_record(&chunk, |record, bytes| match record.first >= store.start {
                    true => writer.push(&record, bytes),
                    false => Ok(()),
                })?;
            }
        }
        start = start.max(push_values(&values, &mut writer, ended_ms)?);
    }
    Ok(Merged { run: writer.finish()?, start })
}

/// Appends the newest records of value topics with the same hash. Returns the offset after the last end that is forgotten; 0
/// if there is none.
fn push_values<D: Disk>(
    chunks: &[Vec<u8>],
    writer: &mut RunWriter<'_, D>,
    ended_ms: Option<u64>,
) -> io::Result<Offset> {
    let mut topics: HashMap<&str, Vec<(Record<'_>, &[u8])>> = HashMap::new();
    for chunk in chunks {
        each_record(chunk, |record, bytes| {
            topics.entry(record.topic).or_default().push((record, bytes));
            Ok::<_, io::Error>(())
        })?;
    }
    let mut start = 0;
    let mut kept: Vec<(Record<'_>, &[u8])> = Vec::new();
    for records in topics.values() {
        let newest = kept_values(records, |(record, _)| record.kind);
        match newest.as_slice() {
            [(end, _)]
                if end.kind == RecordKind::End
                    && ended_ms.is_some_and(|ended_ms| end.time_ms < ended_ms) =>
            {
                start = start.max(end.end());
            }
            _ => kept.extend(newest),
        }
    }
    kept.sort_unstable_by_key(|(record, _)| record.first);
    kept.iter().try_for_each(|(record, bytes)| writer.push(record, bytes))?;
    Ok(start)
}
