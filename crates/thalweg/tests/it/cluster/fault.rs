//! Faults of a cluster under load, and bounds for their cost.

#[derive(Debug)]
pub(super) struct Fault {
    /// The name is also that of its ledger.
    pub(super) name: &'static str,
    pub(super) target: Target,
    pub(super) how: How,
    /// The default number of faults: enough to test it.
    pub(super) times: usize,
    /// The bound for the cost. It is compared in a long run, and no run fails for it.
    pub(super) bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    NextNode,
    Leader,
    Follower,
    /// Any two NATS servers: a majority.
    TwoServers,
    AllServers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// SIGKILL.
    Kill,
    /// SIGTERM: an orderly shutdown, after which no publish may have an unknown result.
    Terminate,
    /// SIGUSR2 to a NATS server, lame duck mode: it hands over its leaderships, disconnects its clients, and exits.
    HandOver,
    FillDisk,
    /// SIGSTOP, and SIGCONT after some seconds.
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// The longest time in seconds without a new event for a subscriber, or without a confirmed publish.
    Silence(f64),
    /// p99 of the seconds until a subscriber of a killed node receives events from another one.
    Back(f64),
}

use Bound::{Back, Silence};
use How::{FillDisk, HandOver, Kill, Stop, Terminate};
use Target::{AllServers, Follower, Leader, NextNode, TwoServers};

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
    target: Target,
    how: How,
    times: usize,
    bound: Option<Bound>,
) -> Fault {
    Fault { name, target, how, times, bound }
}
