//! Topics kept in a directory, for one server: they survive a crash of the process and of the machine.
//!
//! ```text
//! append ─► committer ─► group ─► wal-… ─► sync ─► answer, follower
//!                                   │
//!                       keeper ─► seal ─► run-…, keys-…, state      read ◄─ runs, write-ahead log
//!
//! settings   the settings
//! broker     the contract of a broker
//! threads    the threads of committer and keeper
//! disk       the directory: only this and backup touch files
//! record     records as bytes                                         (pure)
//! group      groups of records in the write-ahead log                 (pure)
//! state      the runs and stores, as a file that is replaced          (pure)
//! wal        the index of the write-ahead log, in memory              (pure)
//! known_keys idempotency keys, and digests of their events            (pure)
//! log        the part that all share
//! batch      gives offsets to appends                                 (pure)
//! commit     writes groups
//! keeper     makes room: seals files, applies retention, merges
//! wal_files  files of the write-ahead log that are empty
//! seal       turns a file of the write-ahead log into runs
//! merge      merges runs, in slices
//! keyed_merge the newest event of each key, in two passes             (pure)
//! retention  the oldest records that stores keep                      (pure)
//! run        files of records that are sorted by topic
//! read       pages of a topic's records
//! topic_list lists of topics
//! follow     delivers records to the server
//! recovery   opens a log, and finds what is missing
//! scan       all records of a directory that no process uses
//! check      finds damage in such a directory
//! portable   records as lines of JSON                                 (pure)
//! export     writes such lines
//! import     reads such lines
//! backup     copies a directory, also while a server uses it
//! new_log    writes a new directory with given records
//! counts     metrics
//! ```
//!
//! All stores share one write-ahead log, and one sequence of offsets. Only the keeper saves the state.
//! A file is used again or removed only after a state without it is durable.

mod backup;
mod batch;
mod broker;
mod check;
mod commit;
mod counts;
mod disk;
mod export;
mod follow;
mod group;
mod import;
mod keeper;
mod keyed_merge;
mod known_keys;
mod log;
mod merge;
mod new_log;
mod portable;
mod read;
mod record;
mod recovery;
mod retention;
mod run;
mod scan;
mod seal;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod threads;
mod topic_list;
mod wal;
mod wal_files;

pub use backup::{BackedUp, backup};
pub use broker::{DiskBroker, open};
pub use check::{CheckReport, Damage, Progress, StoreReport, check};
pub use export::{Exported, export};
pub use import::{Imported, import};
pub use settings::{Settings, StoreSettings, SyncMode};
