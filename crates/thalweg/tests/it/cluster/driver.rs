//! Strikes a cluster under load, again and again, and watches what it costs.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use thalweg_testing::let_pass;

use super::{
    STREAM,
    fault::{Fault, How, Whom},
    load::Load,
    nodes::Nodes,
    number,
    report::{Report, Strike},
    servers::Servers,
    wait_for,
};

/// How long the load goes on between two faults, at least; at most twice as long.
const BETWEEN: Duration = Duration::from_millis(700);

/// How long somebody who was ended stays away, at least.
const AWAY: Duration = Duration::from_secs(1);

/// How long somebody stands still who is stopped: in a long run, and in CI. In both times there is
/// another leader more often than not.
const STOPPED: Duration = Duration::from_secs(8);
const STOPPED_IN_CI: Duration = Duration::from_secs(6);

/// A load of fewer events shows nothing.
const STORED_MIN: u64 = 100;

/// What has servers of NATS write to disk before they confirm, and leave their clients little time when they
/// hand over.
const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cluster/nats.conf");

/// Starts a cluster, strikes it as often as is asked for, and checks what publishers were told
/// against what subscribers got.
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
        if fault.whom == Whom::Follower {
            cluster.move_leader();
            failure =
                load.await_flow().err().map(|what| format!("{what} after a change of leader"));
        }
        let victims = cluster.choose(fault.whom, nth, &mut rng);
        let at_s = begun.elapsed().as_secs_f64();
        match cluster.strike(fault.how, &victims, times.is_some(), &load) {
            Ok(()) => {}
            Err(what) => failure = Some(format!("{what} after fault {nth}, {victims:?}")),
        }
        let victims = victims.iter().map(|victim| format!("{victim:?}").to_lowercase()).collect();
        strikes.push(Strike { at_s, victims, seen: load.seen() });
        if failure.is_some() || !load.is_clean() {
            // What has just happened is the cause.
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

/// Three servers of NATS, and three nodes.
struct Cluster {
    nodes: Nodes,
    servers: Servers,
}

impl Cluster {
    fn start(fault: &Fault) -> Option<Self> {
        // If all go at once, what was answered must be on disk.
        let is_configured = fault.whom == Whom::AllServers || fault.how == How::HandOver;
        let arguments: &[&str] = if is_configured { &["-c", CONFIGURATION] } else { &[] };
        let servers = match fault.how {
            How::FillDisk => Servers::start_on_disks(3, arguments)?,
            _ => Servers::start_with(3, arguments)?,
        };
        let nodes = Nodes::start(&servers, 3);
        Some(Self { nodes, servers })
    }

    fn choose(&self, whom: Whom, nth: usize, rng: &mut fastrand::Rng) -> Vec<Victim> {
        let leader = || self.servers.leader(STREAM);
        let count = self.servers.count();
        let servers: Vec<usize> = match whom {
            Whom::NextNode => return vec![Victim::Node(nth % self.nodes.count())],
            Whom::Leader => vec![leader()],
            Whom::Follower => vec![(leader() + rng.usize(1..count)) % count],
            Whom::TwoServers => rng.choose_multiple(0..count, 2),
            Whom::AllServers => (0..count).collect(),
        };
        servers.into_iter().map(Victim::Server).collect()
    }

    /// Makes another server the leader. What a server has besides, consumers among it, stays with it:
    /// so followers are not always those that have nothing to do.
    fn move_leader(&self) {
        let leader = self.servers.leader(STREAM);
        wait_for("another leader", || {
            self.servers.ask(&format!("$JS.API.STREAM.LEADER.STEPDOWN.{STREAM}"))?;
            (self.servers.leader(STREAM) != leader).then_some(())
        });
    }

    /// Does it, and undoes it when the others have gone on; ends when all is as it was. Otherwise says what is
    /// not.
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

    /// Waits until each server has what the leader has, and each node reads.
    fn await_whole(&self) {
        wait_for("all replicas are current", || {
            let info = self.servers.info(STREAM)?;
            let replicas = info["cluster"]["replicas"].as_array()?;
            let is_current =
                |it: &serde_json::Value| it["current"] == true && it["offline"] != true;
            (replicas.len() + 1 == self.servers.count() && replicas.iter().all(is_current))
                .then_some(())
        });
        self.nodes.await_ready();
    }
}
