//! Faults and bugs that a test asks for.

use std::collections::VecDeque;

use thalweg_broker::{Append, Delivery, Stored};

/// A fault of one append or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The append is not stored.
    Unavailable,
    /// The append is stored, and answered [`AppendError::Unknown`](thalweg_broker::AppendError::Unknown).
    Unknown,
    /// The task of the append or read panics.
    Panic,
}

/// A bug of the broker. The suite finds each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Records are delivered in the wrong order.
    Reorder,
    /// A key is not remembered.
    ForgetKeys,
    /// Events in keyed topics are read without their keys.
    ForgetEventKeys,
    /// The newest event of a key is trimmed.
    TrimKeys,
    /// A gap or another epoch is not announced.
    SilentGap,
    /// Records are delivered twice.
    DeliverTwice,
    /// A range leaves records out.
    ReadHoles,
    /// Lost records are left out of a range without a hole.
    SilentLoss,
    /// Records before lost ones count as trimmed.
    TrimBeforeLoss,
    /// A ticket is valid twice.
    KeepTickets,
    /// The condition of an append is not checked.
    IgnoreCondition,
    /// The newest record does not survive a crash.
    LoseOnCrash,
    /// Records of a topic are read after its end.
    KeepEnded,
    /// One record is stored for several appends in flight.
    MergeInFlight,
    /// The last event of a record is lost.
    LoseEvent,
    /// A stream that is made again keeps its epoch.
    KeepEpoch,
    /// Appends that were answered with `Unavailable` are stored later.
    StoreRefused,
    /// Events do not say when they were stored.
    ForgetTime,
    /// A server that is behind says that it has caught up.
    AlwaysReady,
    /// A page that is not whole has no pauses.
    LosePauses,
    /// A page that is not whole has pauses behind records that it leaves out.
    EarlyPauses,
}

#[derive(Debug)]
pub(super) struct Control {
    pub(super) bug: Option<Bug>,
    /// The faults of the next appends and reads; `None` is an append without a fault.
    pub(super) faults: VecDeque<Option<Fault>>,
    pub(super) is_ready: bool,
    /// Whether all servers are disconnected: no record is stored, read or delivered.
    pub(super) is_cut: bool,
    /// Whether the broker of each server ends.
    pub(super) has_ended: bool,
    pub(super) is_held: bool,
    pub(super) are_reads_held: bool,
    pub(super) held: usize,
    pub(super) reads: usize,
    pub(super) are_tickets_lost: bool,
    /// Stored records, for some bugs.
    pub(super) remembered: Vec<Delivery>,
    /// Appends to be stored later, for [`Bug::StoreRefused`].
    pub(super) refused: Vec<Append>,
    /// Appends in flight, and where the first of them is stored, for [`Bug::MergeInFlight`].
    pub(super) in_flight: usize,
    pub(super) merged: Option<Stored>,
}

impl Control {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        Self {
            bug,
            faults: VecDeque::new(),
            is_ready: true,
            is_cut: false,
            has_ended: false,
            is_held: false,
            are_reads_held: false,
            held: 0,
            reads: 0,
            are_tickets_lost: false,
            remembered: Vec::new(),
            refused: Vec::new(),
            in_flight: 0,
            merged: None,
        }
    }

    pub(super) fn remember(&mut self, record: Delivery) {
        if matches!(self.bug, Some(Bug::KeepEnded | Bug::EarlyPauses | Bug::LoseOnCrash)) {
            self.remembered.push(record);
        }
    }
}
