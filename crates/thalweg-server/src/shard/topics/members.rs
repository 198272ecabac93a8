//! The members of topics with presence.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use serde_json::value::RawValue;
use thalweg_wire::Topic;
use tokio::sync::mpsc::error::TrySendError;

use crate::shard::{
    common::Common,
    message::{MemberChange, ShardMessage},
};

/// The members of the topics whose presence this shard owns.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// By the topic of the members.
    pub(super) rosters: HashMap<Topic, Roster>,
    /// Members without a connection, by the end of their grace time and a serial number.
    pub(super) absences: BTreeMap<(u64, u64), (Topic, Arc<str>)>,
    pub(super) serial: u64,
    /// The memory of all members, in bytes.
    pub(super) bytes: usize,
    /// Changes for other shards whose queue was full.
    pub(super) unposted: VecDeque<(usize, Topic, MemberChange)>,
}

#[derive(Debug, Default)]
pub(super) struct Roster {
    pub(super) members: HashMap<Arc<str>, Present>,
    /// Whether the published number, or that of a member, is old.
    pub(super) is_old: bool,
}

#[derive(Debug)]
pub(super) struct Present {
    pub(super) connections: u32,
    /// When it had no connection any more, as the serial number of its absence. `None` if it has one.
    pub(super) absence: Option<(u64, u64)>,
    pub(super) since_ms: i64,
    pub(super) user: Box<str>,
    pub(super) info: Option<Box<RawValue>>,
    /// Whether its event is to be published: there was no place for it, or it has other information.
    pub(super) is_unlisted: bool,
}

/// About the memory that a member takes besides its texts, in bytes: in the roster, and in the table of its topic.
const MEMBER_BYTES: usize = 512;

impl Present {
    pub(super) fn memory_bytes(&self, key: &str) -> usize {
        let info = self.info.as_ref().map_or(0, |info| info.get().len());
        MEMBER_BYTES + 2 * (key.len() + self.user.len() + info)
    }
}

impl Members {
    pub(super) fn next_us(&self) -> Option<u64> {
        self.absences.keys().next().map(|(due_us, _)| *due_us)
    }

    pub(super) fn count(&self) -> usize {
        self.rosters.values().map(|roster| roster.members.len()).sum()
    }

    /// Posts changes to other shards. Returns `false` if a queue is full.
    pub(super) fn post(&mut self, common: &Common) -> bool {
        while let Some((owner, topic, change)) = self.unposted.pop_front() {
            let message = ShardMessage::Members { topic, change };
            // A shard that has drained needs no members.
            let sent = common.peers[owner].messages.try_send(message);
            if let Err(TrySendError::Full(ShardMessage::Members { topic, change })) = sent {
                self.unposted.push_front((owner, topic, change));
                return false;
            }
        }
        true
    }
}
