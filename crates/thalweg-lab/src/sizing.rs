//! The nodes, memory and bandwidth that a load needs, and its first bottleneck, from the cost models of a run ([`CostModel`]). Pure.
//!
//! Costs are assumed to be linear in connections, messages and bytes, and to add up over cores. Nodes are loaded only to a share
//! (`LOADED`). The text names everything beyond what was measured.

use crate::measure::regression::{Fit, TERMS};
use crate::report::{CostModel, short};
use crate::scenario::Transport;
use serde::{Deserialize, Serialize};

/// Planned share of a node's CPU, memory and network: the rest is for mass reconnects, for the system, and for uneven load.
const LOADED: f64 = 0.7;
/// An envelope around a document, and its framing.
const ENVELOPE_BYTES: f64 = 120.0;
/// Headers of TCP and IPv4 to a segment's 1,448 bytes of payload, acknowledgements, Ethernet.
const HEADERS: f64 = 1.08;
/// Bytes that the server keeps of a subscriber over TCP, at most (ARCHITECTURE.md, Invariants), if a run has no figure for it.
const SUBSCRIBER_BYTES: f64 = 1024.0;
/// A TCP socket of Linux without anything in its buffers, both structures and the file.
const SOCKET_BYTES: f64 = 4096.0;

/// The run that a plan is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// The name of the run.
    pub run: String,
    /// CPU and cores.
    pub machine: String,
    /// UTC.
    pub begun: String,
    /// The version that was measured.
    pub version: String,
    /// Models of its subjects.
    pub models: Vec<CostModel>,
}

/// The load that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Clients, each with one subscription.
    pub subscribers: f64,
    /// Bytes of a document.
    pub bytes: f64,
    /// From version to version, s.
    pub every_s: f64,
    /// Size of a patch as a share of the document; 1 if documents are sent whole.
    pub delta: f64,
    /// The transport.
    pub transport: Transport,
}

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// For the server alone, each as fast as those measured.
    pub cores: f64,
    /// Resident and kernel memory.
    pub memory_bytes: f64,
    /// Outgoing bandwidth.
    pub network_bits_per_s: f64,
}

/// The required nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// Number of nodes by the model.
    pub nodes: u64,
    /// The same at the lower ends of the intervals of its coefficients.
    pub nodes_low: u64,
    /// The same at the upper ends.
    pub nodes_high: u64,
    /// The scarce resource of a node: `CPU`, `memory` or `network`.
    pub binds: &'static str,
    /// Subscribers that a node has room for, by CPU, by memory, by network.
    pub rooms: [f64; 3],
    /// Load of each node, with the subscribers shared out.
    pub per_node: PerNode,
    /// Everything that lies beyond what was measured.
    pub beyond: Vec<String>,
    /// Relative error of the CPU model where it was measured.
    pub error: f64,
}

/// Work and memory of each node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerNode {
    /// Connections.
    pub subscribers: f64,
    /// Cores that are busy.
    pub cores: f64,
    /// Resident and kernel memory.
    pub memory_bytes: f64,
    /// Outgoing, with the headers of the network.
    pub bits_per_s: f64,
}

/// Names of [`Sizing::rooms`].
pub const BOUNDS: [&str; 3] = ["CPU", "memory", "network"];

/// Sizes the nodes of a load. Fails if the run has no model of it.
pub fn size(basis: &Basis, demand: &Demand, node: &Node) -> Result<Sizing, String> {
    let is_meant = |cost_model: &&CostModel| {
        cost_model.subject == "thalweg"
            && cost_model.transport == demand.transport
            && !cost_model.tls
    };
    let Some(model) = basis.models.iter().find(is_meant) else {
        return Err(format!(
            "run {} has no cost model of thalweg over {}: take one of `thalweg-lab bench d-cost`",
            basis.run, demand.transport
        ));
    };
    let messages_per_s = 1.0 / demand.every_s;
    let message_bytes = demand.bytes * demand.delta + ENVELOPE_BYTES;
    let client = [1.0, messages_per_s, messages_per_s * message_bytes];
    let memory = memory_each(model, client);
    let bits_per_s = client[2] * 8.0 * HEADERS;
    let usable = [
        node.cores * LOADED,
        (node.memory_bytes * LOADED - model.base_bytes).max(0.0),
        node.network_bits_per_s * LOADED,
    ];
    let rooms = |cpu: f64| [usable[0] / cpu, usable[1] / memory, usable[2] / bits_per_s];
    let least = |cpu: f64| rooms(cpu).into_iter().fold(f64::INFINITY, f64::min);
    let nodes = |cpu: f64| (demand.subscribers / least(cpu)).ceil().max(1.0) as u64;
    let terms = model.cpu.terms(client);
    let cpu = model.cpu.at(client);
    let rooms = rooms(cpu);
    let binds = (0..3).min_by(|one, other| rooms[*one].total_cmp(&rooms[*other])).unwrap_or(0);
    let subscribers = demand.subscribers / nodes(cpu) as f64;
    let per_core = client.map(|term| term * subscribers / node.cores);
    Ok(Sizing {
        nodes: nodes(cpu),
        nodes_low: nodes(terms.iter().map(|term| term.low).sum()),
        nodes_high: nodes(terms.iter().map(|term| term.high).sum()),
        binds: BOUNDS[binds],
        rooms,
        per_node: PerNode {
            subscribers,
            cores: cpu * subscribers,
            memory_bytes: memory * subscribers + model.base_bytes,
            bits_per_s: bits_per_s * subscribers,
        },
        beyond: beyond(model, per_core, demand, node),
        error: model.cpu.error,
    })
}

/// Returns the memory of a client, resident and in the kernel, while a document is on its way to it.
fn memory_each(model: &CostModel, client: [f64; TERMS]) -> f64 {
    let of = |fit: &Option<Fit>, least: f64| fit.map_or(least, |fit| fit.at(client).max(least));
    of(&model.resident, SUBSCRIBER_BYTES) + of(&model.kernel, client[2] / client[1]) + SOCKET_BYTES
}

fn beyond(model: &CostModel, per_core: [f64; TERMS], demand: &Demand, node: &Node) -> Vec<String> {
    let names = ["connections", "messages/s", "bytes/s"];
    let outside = (0..TERMS).filter_map(|term| {
        let (low, high) = model.ranges[term];
        let value = per_core[term];
        let side = match () {
            () if value > high => "more than any",
            () if value < low => "less than any",
            () => return None,
        };
        Some(format!(
            "{} {} a core is {side} that was measured ({} to {})",
            short(value),
            names[term],
            short(low),
            short(high)
        ))
    });
    let mut described: Vec<String> = outside.collect();
    if node.cores > 1.0 {
        described.push(
            "the run was measured on one core: that cores add up (one shard each) is assumed"
                .to_owned(),
        );
    }
    if demand.delta < 1.0 {
        described.push(
            "a patch counts as a message of its size: what it takes to make it, once for each \
             version, is not in it"
                .to_owned(),
        );
    }
    described.push("measured over loopback: a network card's interrupts are not in it".to_owned());
    described
}

impl Sizing {
    /// Returns a text for people.
    pub fn text(&self, basis: &Basis, demand: &Demand, node: &Node) -> String {
        let Sizing { nodes, nodes_low, nodes_high, binds, rooms, per_node, beyond, .. } = self;
        let delta = match demand.delta {
            1.0.. => "whole".to_owned(),
            delta => format!("as patches of {} %", round(delta * 100.0)),
        };
        let rooms: Vec<String> = BOUNDS
            .iter()
            .zip(rooms)
            .map(|(name, room)| format!("{} by {name}", short(*room)))
            .collect();
        let percent = |part: f64, whole: f64| format!("{:.0} %", 100.0 * part / whole);
        let all = nodes.max(&1);
        let gigabits = |bits: f64| format!("{} Gbit/s", round(bits / 1e9));
        let gigabytes = |bytes: f64| format!("{} GB", round(bytes / 1e9));
        let mut lines = vec![
            format!(
                "{} subscribers over {}, {} bytes every {} s each, {delta}",
                short(demand.subscribers),
                demand.transport,
                short(demand.bytes),
                round(demand.every_s)
            ),
            String::new(),
            format!(
                "nodes     {nodes} ({nodes_low} to {nodes_high}), each {} cores, {}, {}, loaded to \
                 {} % at most",
                round(node.cores),
                gigabytes(node.memory_bytes),
                gigabits(node.network_bits_per_s),
                round(LOADED * 100.0)
            ),
            format!("binds     {binds} first: a node has room for {}", rooms.join(", ")),
            format!(
                "each      {} subscribers: {} cores ({}), {} of memory ({}), {} out ({})",
                short(per_node.subscribers),
                round(per_node.cores),
                percent(per_node.cores, node.cores),
                gigabytes(per_node.memory_bytes),
                percent(per_node.memory_bytes, node.memory_bytes),
                gigabits(per_node.bits_per_s),
                percent(per_node.bits_per_s, node.network_bits_per_s)
            ),
            format!("in all    {} out", gigabits(per_node.bits_per_s * *all as f64)),
            format!(
                "sure      to {:.0} % where it was measured; the nodes in brackets are at the ends of \
                 the coefficients' 95 % intervals",
                (self.error * 100.0).ceil()
            ),
        ];
        lines.extend(beyond.iter().map(|line| format!("beyond    {line}")));
        lines.push(format!(
            "from      run {} of {} on {}, {}",
            basis.run,
            basis.begun.get(..10).unwrap_or("no date"),
            basis.machine,
            basis.version
        ));
        lines.join("\n") + "\n"
    }
}

fn round(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::regression::Coefficient;

    fn basis() -> Basis {
        let per = [(1e-7, 2e-7), (3e-6, 4e-6), (1e-10, 2e-10)];
        let coefficients =
            per.map(|(low, high)| Coefficient { value: (low + high) / 2.0, low, high });
        let model = CostModel {
            subject: "thalweg".to_owned(),
            transport: Transport::Websocket,
            tls: false,
            cells: 9,
            ranges: [(200.0, 8000.0), (250.0, 40_000.0), (2.5e5, 2e8)],
            cpu: Fit { coefficients, error: 0.034 },
            resident: None,
            kernel: None,
            base_bytes: 9e6,
        };
        Basis {
            run: "d-cost".to_owned(),
            machine: "AMD EPYC, 2 cores".to_owned(),
            begun: "2026-11-23T10:00:00Z".to_owned(),
            version: "0.1.0 (4cc90dc)".to_owned(),
            models: vec![model],
        }
    }

    const DEMAND: Demand = Demand {
        subscribers: 1e6,
        bytes: 5000.0,
        every_s: 1.0,
        delta: 1.0,
        transport: Transport::Websocket,
    };
    const NODE: Node = Node { cores: 8.0, memory_bytes: 16e9, network_bits_per_s: 10e9 };

    fn described(demand: &Demand, node: &Node) -> String {
        size(&basis(), demand, node).map(|size| size.text(&basis(), demand, node)).unwrap()
    }

    #[test]
    fn plans_are_described() {
        insta::assert_snapshot!(described(&DEMAND, &NODE));
        let patches = Demand { delta: 0.1, ..DEMAND };
        insta::assert_snapshot!("patches", described(&patches, &NODE));
    }

    #[test]
    fn the_scarcest_resource_binds() {
        let binds = |node: &Node| size(&basis(), &DEMAND, node).unwrap().binds;
        assert_eq!(binds(&NODE), "network");
        assert_eq!(binds(&Node { network_bits_per_s: 1e12, memory_bytes: 64e9, ..NODE }), "CPU");
        assert_eq!(binds(&Node { network_bits_per_s: 1e12, ..NODE }), "memory");
    }

    #[test]
    fn a_transport_that_was_not_measured_is_refused() {
        let demand = Demand { transport: Transport::Sse, ..DEMAND };
        let error = size(&basis(), &demand, &NODE).unwrap_err();
        assert!(error.contains("no cost model of thalweg over sse"), "{error}");
    }
}
