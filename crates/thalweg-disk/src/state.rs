//! The state: the runs and stores of a log, in a small file that is replaced as a whole. Pure.
//!
//! It is text, one item per line, with a checksum in the last line.

use std::{fmt::Write as _, str::FromStr, time::Duration};

use thalweg_core::stream::FeedKind;
use thalweg_wire::{Epoch, Offset, Pattern};

use crate::settings::{StoreSettings, SyncMode};

/// The version of the directory's format. A later version reads this one.
const VERSION: &str = "thalweg-disk 1";

/// The reason why a damaged file is not read, as the end of a sentence.
pub(crate) const DAMAGED: &str = "is damaged";

/// The persistent state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The largest generation that a file of the write-ahead log has had.
    pub(crate) generation: u64,
    /// Files of this generation and older ones are in runs.
    pub(crate) sealed_generation: u64,
    /// The largest number of a run.
    pub(crate) serial: u64,
    /// All records before this offset are in runs.
    pub(crate) sealed: Offset,
    /// All records before this offset are durable.
    pub(crate) durable: Offset,
    /// No offset before this one will be given.
    pub(crate) head: Offset,
    /// Whether the log was closed, and has lost none of the records that were answered before they were durable.
    pub(crate) is_clean: bool,
    /// All stores that the directory has, also those that the settings no longer have.
    pub(crate) stores: Vec<StoreState>,
    /// Files of records with idempotency keys, and of tickets, beside the runs.
    pub(crate) keys: Vec<Keys>,
    /// Holes of the write-ahead log for which stores of values have begun a new epoch.
    pub(crate) settled: Vec<(Offset, Offset)>,
}

/// The topics of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreState {
    pub(crate) id: u16,
    pub(crate) epoch: Epoch,
    pub(crate) pattern: Pattern,
    pub(crate) kind: FeedKind,
    /// Its place among the stores of the settings; `None` if they do not have it.
    pub(crate) place: Option<usize>,
    /// Records before this offset are deleted.
    pub(crate) start: Offset,
    /// Merges have left out removals of keys before this offset.
    pub(crate) compacted: Offset,
    /// Age in ms and bytes from which on records are deleted.
    pub(crate) age_ms: Option<u64>,
    pub(crate) bytes: Option<u64>,
    /// Whether it answers before records are durable.
    pub(crate) is_weak: bool,
    /// In the order of their offsets.
    pub(crate) runs: Vec<Run>,
    pub(crate) holes: Vec<Hole>,
}

/// A file of records of one store, sorted by topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) serial: u64,
    /// Its records have offsets from here on, and before `end`.
    pub(crate) first: Offset,
    pub(crate) end: Offset,
    pub(crate) newest_ms: u64,
    /// The bytes of its records, and the number of its index entries.
    pub(crate) data: u64,
    pub(crate) entries: u64,
    pub(crate) has_ends: bool,
}

/// Records that are lost: offsets of the topics whose hash is in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) from: Offset,
    pub(crate) until: Offset,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// A file of records with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) serial: u64,
    pub(crate) bytes: u64,
    pub(crate) newest_ms: u64,
}

/// The most holes that a store remembers one by one.
const HOLES_MAX: usize = 1000;

impl StoreState {
    /// Remembers a hole. If there are too many, the oldest two become one that covers both.
    pub(crate) fn add_hole(&mut self, hole: Hole) {
        let is_deleted = !self.kind.is_state() && hole.until <= self.start;
        if self.holes.contains(&hole) || is_deleted {
            return;
        }
        self.holes.push(hole);
        self.holes.sort_by_key(|hole| hole.from);
        if self.holes.len() > HOLES_MAX {
            let (first, second) = (self.holes.remove(0), self.holes[0]);
            self.holes[0] = Hole {
                from: first.from,
                until: first.until.max(second.until),
                low: first.low.min(second.low),
                high: first.high.max(second.high),
            };
        }
    }

    /// Returns the bytes of its runs.
    pub(crate) fn run_bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }
}

impl Keys {
    pub(crate) fn name(&self) -> String {
        Self::name_of(self.serial)
    }

    pub(crate) fn name_of(serial: u64) -> String {
        format!("keys-{serial}")
    }
}

impl Hole {
    /// Returns a hole of all topics.
    pub(crate) fn of_all(from: Offset, until: Offset) -> Self {
        Self { from, until, low: 0, high: u64::MAX }
    }

    /// Returns whether it has the end of a topic, whose earlier records are unreadable.
    pub(crate) fn hides_all_before(&self) -> bool {
        self.from == 0
    }

    /// Returns whether a topic has lost records in it.
    pub(crate) fn has(&self, hash: u64) -> bool {
        (self.low..=self.high).contains(&hash)
    }
}

fn option(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

impl State {
    /// Returns the settings of the stores that the last server had, in their order.
    pub(crate) fn configured(&self) -> Vec<StoreSettings> {
        let stores = self.stores.iter().filter_map(|store| Some((store.place?, store)));
        let mut stores: Vec<_> = stores.collect();
        stores.sort_unstable_by_key(|(place, _)| *place);
        let settings = |(_, store): (usize, &StoreState)| StoreSettings {
            pattern: store.pattern.clone(),
            kind: store.kind,
            age: store.age_ms.map(Duration::from_millis),
            bytes: store.bytes,
            sync: if store.is_weak { SyncMode::Never } else { SyncMode::Always },
        };
        stores.into_iter().map(settings).collect()
    }

    /// Returns the text of the file.
    pub(crate) fn to_text(&self) -> Vec<u8> {
        let mut text = format!("{VERSION}\n");
        let Self { generation, sealed_generation, serial, sealed, durable, head, .. } = self;
        let is_clean = u8::from(self.is_clean);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "log {generation} {sealed_generation} {serial} {sealed} {durable} {head} {is_clean}"
        );
        for store in &self.stores {
            let StoreState { id, start, kind, compacted, is_weak, pattern, .. } = store;
            let (epoch, place) = (store.epoch.get(), option(store.place));
            let is_weak = u8::from(*is_weak);
            let [age, bytes] = [store.age_ms, store.bytes].map(option);
            // Versions before keyed stores do not know the line, and do not open the directory: they would merge keys away.
            let line = match kind {
                FeedKind::Keyed => format!("keyed {id} {epoch} {place} {start} {compacted}"),
                kind => {
                    let has_values = u8::from(kind.has_versions());
                    format!("store {id} {epoch} {place} {start} {has_values}")
                }
            };
            let _ = writeln!(text, "{line} {is_weak} {age} {bytes} {pattern}");
            for run in &store.runs {
                let Run { serial, first, end, newest_ms, data, entries, has_ends } = run;
                let has_ends = u8::from(*has_ends);
                let _ = writeln!(
                    text,
                    "run {serial} {first} {end} {newest_ms} {data} {entries} {has_ends}"
                );
            }
            for Hole { from, until, low, high } in &store.holes {
                let _ = writeln!(text, "hole {from} {until} {low} {high}");
            }
        }
        for Keys { serial, bytes, newest_ms } in &self.keys {
            let _ = writeln!(text, "keys {serial} {bytes} {newest_ms}");
        }
        for (from, until) in &self.settled {
            let _ = writeln!(text, "settled {from} {until}");
        }
        let _ = writeln!(text, "end {:08x}", crc32fast::hash(text.as_bytes()));
        text.into_bytes()
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| DAMAGED)?;
        let (version, _) = text.split_once('\n').ok_or(DAMAGED)?;
        if version != VERSION && version.starts_with("thalweg-disk ") {
            return Err("has a format that this version does not know");
        }
        let (body, checksum) = text.rsplit_once("end ").ok_or(DAMAGED)?;
        let checksum = u32::from_str_radix(checksum.trim_end_matches('\n'), 16);
        if checksum != Ok(crc32fast::hash(body.as_bytes())) || version != VERSION {
            return Err(DAMAGED);
        }
        Self::parse_body(body).ok_or(DAMAGED)
    }

    fn parse_body(body: &str) -> Option<Self> {
        let mut state = Self::default();
        for line in body.lines().skip(1) {
            let (name, rest) = line.split_once(' ')?;
            let mut words = Words(rest.split(' '));
            match name {
                "log" => {
                    state = Self {
                        generation: words.next()?,
                        sealed_generation: words.next()?,
                        serial: words.next()?,
                        sealed: words.next()?,
                        durable: words.next()?,
                        head: words.next()?,
                        is_clean: words.flag()?,
                        ..Self::default()
                    };
                }
                "store" | "keyed" => state.stores.push(StoreState {
                    id: words.next()?,
                    epoch: Epoch::new(words.next()?)?,
                    place: words.option()?,
                    start: words.next()?,
                    kind: match name {
                        "keyed" => FeedKind::Keyed,
                        _ if words.flag()? => FeedKind::Value,
                        _ => FeedKind::Log,
                    },
                    compacted: if name == "keyed" { words.next()? } else { 0 },
                    is_weak: words.flag()?,
                    age_ms: words.option()?,
                    bytes: words.option()?,
                    pattern: words.next()?,
                    runs: Vec::new(),
                    holes: Vec::new(),
                }),
                "run" => state.stores.last_mut()?.runs.push(Run {
                    serial: words.next()?,
                    first: words.next()?,
                    end: words.next()?,
                    newest_ms: words.next()?,
                    data: words.next()?,
                    entries: words.next()?,
                    has_ends: words.flag()?,
                }),
                "hole" => state.stores.last_mut()?.holes.push(Hole {
                    from: words.next()?,
                    until: words.next()?,
                    low: words.next()?,
                    high: words.next()?,
                }),
                "keys" => state.keys.push(Keys {
                    serial: words.next()?,
                    bytes: words.next()?,
                    newest_ms: words.next()?,
                }),
                "settled" => state.settled.push((words.next()?, words.next()?)),
                _ => return None,
            }
        }
        Some(state)
    }
}

struct Words<'a>(std::str::Split<'a, char>);

impl Words<'_> {
    fn next<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        self.next::<u8>().map(|flag| flag != 0)
    }

    fn option<T: FromStr>(&mut self) -> Option<Option<T>> {
        match self.0.next()? {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written_and_damage_is_noticed() {
        let run = Run {
            serial: 4,
            first: 256,
            end: 300,
            newest_ms: 9,
            data: 80,
            entries: 1,
            has_ends: true,
        };
        let store = StoreState {
            id: 3,
            epoch: Epoch::new(u64::MAX).expect("not 0"),
            pattern: "a/*/b/**".parse().expect("a pattern"),
            kind: FeedKind::Value,
            compacted: 0,
            place: None,
            start: 256,
            age_ms: Some(5),
            bytes: None,
            is_weak: false,
            runs: vec![run],
            holes: vec![Hole::of_all(270, 280)],
        };
        let other =
            StoreState { id: 4, place: Some(0), runs: vec![], holes: vec![], ..store.clone() };
        let keyed = StoreState { id: 5, kind: FeedKind::Keyed, compacted: 290, ..other.clone() };
        let state = State {
            generation: 7,
            sealed_generation: 6,
            serial: 4,
            sealed: 300,
            durable: 310,
            head: 320,
            is_clean: true,
            stores: vec![store, other, keyed],
            keys: vec![Keys { serial: 5, bytes: 90, newest_ms: 9 }],
            settled: vec![(270, 280)],
        };
        let text = state.to_text();
        assert_eq!(State::parse(&text), Ok(state));
        for at in 0..text.len() - 1 {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(State::parse(&other).is_err(), "byte {at}");
            assert!(State::parse(&text[..at]).is_err(), "{at} bytes");
        }
        let later = String::from_utf8(text).expect("text").replace("disk 1", "disk 2");
        assert!(State::parse(later.as_bytes()).unwrap_err().contains("format"));
    }

    #[test]
    fn many_holes_become_fewer_that_cover_all() {
        let mut state = StoreState {
            id: 0,
            epoch: Epoch::new(1).expect("not 0"),
            pattern: Pattern::all(),
            kind: FeedKind::Log,
            compacted: 0,
            place: None,
            start: 0,
            age_ms: None,
            bytes: None,
            is_weak: false,
            runs: vec![],
            holes: vec![],
        };
        let holes =
            (0..2000).map(|nth| Hole { from: nth * 10, until: nth * 10 + 5, low: nth, high: nth });
        holes.clone().for_each(|hole| state.add_hole(hole));
        assert_eq!(state.holes.len(), HOLES_MAX);
        for lost in holes {
            let is_covered = |hole: &Hole| {
                hole.from <= lost.from && hole.until >= lost.until && hole.has(lost.low)
            };
            assert!(state.holes.iter().any(is_covered), "{lost:?}");
        }
    }
}
