//! Injects faults into a cluster under load, and measures their cost.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use thalweg_testing::let_pass;

use super::{
    STREAM,
    fault::{Fault, How, Target},
    load::Load,
    nodes::Nodes,
    number,
    report::{Report, Strike},
    servers::Servers,
    wait_for,
};

/// The minimum time between two faults. The maximum is twice as long.
const BETWEEN: Duration = Duration::from_millis(700);

/// The minimum time for which a killed process stays down.
const AWAY: Duration = Duration::from_secs(1);

/// The time for which a stopped process stays stopped: in a long run, and in CI. In both a new leader is elected in most cases.
const STOPPED: Duration = Duration::from_secs(8);
const STOPPED_IN_CI: Duration = Duration::from_secs(6);

/// A load of fewer events proves nothing.
const STORED_MIN: u64 = 100;

/// With this configuration servers of NATS write to disk before they confirm, and give their clients little time in a handover.
const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cluster/nats.conf");

/// Starts a cluster, injects the fault several times, and checks what publishers were told against what subscribers received.
pub(super) fn endure(fault: &Fault) {
    let times = number("THALWEG_FAULTS");
    let seed = number("THALWEG_FAULT_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("{}: THALWEG_FAULT_SEED={seed} makes the same choices", fault.name);
    let mut rng = fastrand::Rng::with_seed(seed);
    let Some(mut cluster) = Cluster::start(fault) else { return };
    let load = Load::start(&cluster.nodes, rng.u64(..));
    let begun = Instant::now();
    let (mut strikes, mut failure) = (Vec::new(), None);
    for nth in 0..times.map_or(fault.times, |times: u64| times as usize) {
        let_pass(BETWEEN.mul_f64(1.0 + rng.f64()));
        if fault.target == Target::Follower {
            cluster.move_leader();
            failure =
                load.await_flow().err().map(|what| format!("{what} after a change of leader"));
        }
        let victims = cluster.choose(fault.target, nth, &mut rng);
        let at_s = begun.elapsed().as_secs_f64();
        match cluster.strike(fault.how, &victims, times.is_some(), &load) {
            Ok(()) => {}
            Err(what) => failure = Some(format!("{what} after fault {nth}, {victims:?}")),
        }
        let victims = victims.iter().map(|victim| format!("{victim:?}").to_lowercase()).collect();
        strikes.push(Strike { at_s, victims, seen: load.seen() });
        if failure.is_some() || !load.is_clean() {
            // The last fault is the cause.
            break;
        }
    }
    cluster.nodes.await_ready();
    if failure.is_none() {
        wait_for("a load", || (load.stored() > STORED_MIN).then_some(()));
    }
    let outcome = load.end();
    let violations = failure.into_iter().chain(outcome.violations).collect();
    let took_s = begun.elapsed().as_secs_f64();
    let report =
        Report::new(fault, seed, took_s, strikes, outcome.answers, outcome.totals, violations);
    report.print(times.is_some());
    if let Some(folder) = std::env::var_os("THALWEG_LEDGERS") {
        report.write(&PathBuf::from(folder));
    }
    report.check(fault);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Node(usize),
    Server(usize),
}

struct Cluster {
    nodes: Nodes,
    servers: Servers,
}

impl Cluster {
    fn start(fault: &Fault) -> Option<Self> {
        // If all servers stop at once, confirmed events must be on disk.
        let is_configured = fault.target == Target::AllServers || fault.how == How::HandOver;
        let arguments: &[&str] = if is_configured { &["-c", CONFIGURATION] } else { &[] };
        let servers = match fault.how {
            How::FillDisk => Servers::start_on_disks(3, arguments)?,
            _ => Servers::start_with(3, arguments)?,
        };
        let nodes = Nodes::start(&servers, 3);
        Some(Self { nodes, servers })
    }

    fn choose(&self, target: Target, nth: usize, rng: &mut fastrand::Rng) -> Vec<Victim> {
        let leader = || self.servers.leader(STREAM);
        let count = self.servers.count();
        let servers: Vec<usize> = match target {
            Target::NextNode => return vec![Victim::Node(nth % self.nodes.count())],
            Target::Leader => vec![leader()],
            Target::Follower => vec![(leader() + rng.usize(1..count)) % count],
            Target::TwoServers => rng.choose_multiple(0..count, 2),
            Target::AllServers => (0..count).collect(),
        };
        servers.into_iter().map(Victim::Server).collect()
    }

    /// Makes another server the leader. Other roles of a server, such as consumers, stay: followers are not always idle.
    fn move_leader(&self) {
        let leader = self.servers.leader(STREAM);
        wait_for("another leader", || {
            self.servers.ask(&format!("$JS.API.STREAM.LEADER.STEPDOWN.{STREAM}"))?;
            (self.servers.leader(STREAM) != leader).then_some(())
        });
    }

    /// Injects the fault, reverts it after the others have continued, and waits until everything runs again.
    /// Otherwise returns what is missing.
    fn strike(
        &mut self,
        how: How,
        victims: &[Victim],
        is_long: bool,
        load: &Load,
    ) -> Result<(), &'static str> {
        load.watch();
        for victim in victims {
            match (*victim, how) {
                (Victim::Node(nth), How::Kill) => {
                    load.cut(nth);
                    self.nodes.kill(nth);
                }
                (Victim::Node(nth), How::Terminate) => {
                    load.cut(nth);
                    self.nodes.drain(nth);
                }
                (Victim::Server(index), How::Kill) => self.servers.kill(index),
                (Victim::Server(index), How::Terminate) => self.servers.end(index, Signal::TERM),
                (Victim::Server(index), How::HandOver) => self.servers.end(index, Signal::USR2),
                (Victim::Server(index), How::Stop) => self.servers.freeze(index, true),
                (Victim::Server(index), How::FillDisk) => self.servers.fill(index),
                (Victim::Node(_), How::Stop | How::HandOver | How::FillDisk) => {
                    return Err("this is not done to nodes");
                }
            }
        }
        let_pass(match how {
            How::Stop if is_long => STOPPED,
            How::Stop => STOPPED_IN_CI,
            How::Kill | How::Terminate | How::HandOver | How::FillDisk => AWAY,
        });
        if how != How::Stop && victims.len() == 1 {
            load.await_flow()?;
        }
        for victim in victims {
            match (*victim, how) {
                (Victim::Node(nth), _) => self.nodes.run(nth),
                (Victim::Server(index), How::Stop) => self.servers.freeze(index, false),
                (Victim::Server(index), How::FillDisk) => self.servers.restart_with_room(index),
                (Victim::Server(index), _) => self.servers.run(index),
            }
        }
        self.await_whole();
        load.await_flow()
    }

    /// Waits until each server has the data of the leader, and each node reads.
    fn await_whole(&self) {
        wait_for("all replicas are current", || {
            let info = self.servers.info(STREAM)?;
            let replicas = info["cluster"]["replicas"].as_array()?;
            let is_current =
                |peer: &serde_json::Value| peer["current"] == true && peer["offline"] != true;
            (replicas.len() + 1 == self.servers.count() && replicas.iter().all(is_current))
                .then_some(())
        });
        self.nodes.await_ready();
    }
}
