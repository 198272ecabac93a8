//! What is done to a cluster under load, and what it may cost.

/// A kind of fault.
#[derive(Debug)]
pub(super) struct Fault {
    /// Also that of its ledger.
    pub(super) name: &'static str,
    pub(super) whom: Whom,
    pub(super) how: How,
    /// How often, unless something else is asked for: enough to see that it works.
    pub(super) times: usize,
    /// Compared with what a long run comes to. No run fails for it.
    pub(super) bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// One node after the other.
    NextNode,
    /// The server of NATS that leads the stream.
    Leader,
    /// One that does not.
    Follower,
    /// Any two servers of NATS: a majority.
    TwoServers,
    AllServers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// SIGKILL.
    Kill,
    /// SIGTERM: an orderly end, after which no publish may have an unknown answer.
    Terminate,
    /// SIGUSR2 to a server of NATS, lame duck mode: it hands over what it leads, lets its clients go, and
    /// ends.
    HandOver,
    /// No room is left on the disk of a server of NATS.
    FillDisk,
    /// SIGSTOP, and SIGCONT after some seconds.
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// Seconds without a new event for a subscriber, or without an answered publish, at worst.
    Silence(f64),
    /// p99 of the seconds until a subscriber whose node was ended gets events from another one.
    Back(f64),
}

use Bound::{Back, Silence};
use How::{FillDisk, HandOver, Kill, Stop, Terminate};
use Whom::{AllServers, Follower, Leader, NextNode, TwoServers};

pub(super) const KILL_NODE: Fault = fault("kill-node", NextNode, Kill, 2, Some(Back(2.0)));
pub(super) const KILL_LEADER: Fault = fault("kill-leader", Leader, Kill, 1, Some(Silence(10.0)));
pub(super) const KILL_FOLLOWER: Fault =
    fault("kill-follower", Follower, Kill, 1, Some(Silence(3.0)));
pub(super) const KILL_TWO: Fault = fault("kill-two", TwoServers, Kill, 1, Some(Silence(15.0)));
pub(super) const KILL_ALL: Fault = fault("kill-all", AllServers, Kill, 1, Some(Silence(15.0)));
pub(super) const TERMINATE_LEADER: Fault =
    fault("terminate-leader", Leader, Terminate, 1, Some(Silence(1.0)));
pub(super) const HAND_OVER_LEADER: Fault =
    fault("hand-over-leader", Leader, HandOver, 1, Some(Silence(1.0)));
pub(super) const FILL_DISK: Fault = fault("fill-disk", Leader, FillDisk, 1, Some(Silence(10.0)));
pub(super) const DRAIN_NODES: Fault =
    fault("drain-nodes", NextNode, Terminate, 3, Some(Silence(1.0)));
pub(super) const STOP_LEADER: Fault = fault("stop-leader", Leader, Stop, 1, None);

const fn fault(
    name: &'static str,
    whom: Whom,
    how: How,
    times: usize,
    bound: Option<Bound>,
) -> Fault {
    Fault { name, whom, how, times, bound }
}
