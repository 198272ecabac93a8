//! The cost of a subject by connections, messages and bytes: CPU = a × connections + b × messages + c × bytes, and memory
//! likewise, over the cells of a run with a keyed load on a schedule.
//!
//! Each cell is one point, the median of its samples: these are not independent, because they deviate from the model alike.

use super::number::{digits, short};
use super::row::Row;
use super::summary::Summary;
use crate::measure::regression::{Coefficient, Fit, TERMS};
use crate::measure::statistics::median;
use crate::scenario::{Drive, Transport};
use serde::{Deserialize, Serialize};

/// The published shape at which the terms are compared: 4,000 clients, 5 KB each, every second; with the envelope.
const D1: [f64; TERMS] = [4000.0, 4000.0, 4000.0 * 5120.0];
/// The terms, in the published order of their cost.
const NAMES: [&str; TERMS] = ["connections", "messages", "bytes"];
/// More models than this are shown only by [`grid`].
const TOLD_MAX: usize = 8;
const HEADS: [&str; 10] = [
    "",
    "CPU, µs a second per connection",
    "CPU, µs per message",
    "CPU, ns per byte",
    "fits within",
    "of D1's CPU: connections",
    "messages",
    "bytes",
    "resident, B per connection",
    "kernel at most, both ends, B per connection",
];

/// The cost of a subject over a transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// The subject.
    pub subject: String,
    /// The transport of the subject.
    pub transport: Transport,
    /// Whether encrypted.
    pub tls: bool,
    /// Cells that the model was fitted to.
    pub cells: usize,
    /// Lowest and highest value of each term in them: connections, messages per second, bytes per second.
    pub ranges: [(f64, f64); TERMS],
    /// Seconds of a core per second.
    pub cpu: Fit,
    /// Bytes that resident memory grows by; `None` if the cells do not determine it.
    pub resident: Option<Fit>,
    /// Bytes of the kernel's memory for TCP at most, both ends of the connections together.
    pub kernel: Option<Fit>,
    /// Resident bytes without a connection.
    pub base_bytes: f64,
}

/// Whether the published order holds: connections cost most, then messages, then bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The intervals lie in this order.
    Holds,
    /// At least two of them lie the other way round.
    DoesNotHold,
    /// Neither is certain.
    Undecided,
}

impl CostModel {
    /// Returns each term's share of the CPU time at the published shape.
    pub fn shares(&self) -> [Coefficient; TERMS] {
        let all = self.cpu.at(D1);
        self.cpu.terms(D1).map(|Coefficient { value, low, high }| {
            let share = |value: f64| (value / all).min(1.0);
            Coefficient { value: share(value), low: share(low), high: share(high) }
        })
    }

    /// Returns whether the published order holds there.
    pub fn order(&self) -> Order {
        let shares = self.shares();
        let pairs = || (0..TERMS).flat_map(|one| (one + 1..TERMS).map(move |other| (one, other)));
        if pairs().any(|(more, less)| shares[more].high < shares[less].low) {
            return Order::DoesNotHold;
        }
        match pairs().all(|(more, less)| shares[more].low > shares[less].high) {
            true => Order::Holds,
            false => Order::Undecided,
        }
    }

    fn new(rows: &[&Row]) -> Option<CostModel> {
        let first = rows.first()?;
        let fit = |of: &dyn Fn(&Row) -> Option<f64>| {
            let point = |row: &&Row| Some((terms(row)?, of(row).filter(|found| *found > 0.0)?));
            Fit::new(&rows.iter().filter_map(point).collect::<Vec<_>>())
        };
        let connections = |row: &Row| f64::from(row.settings.connections);
        let grown = |row: &Row| Some(row.memory.rss_bytes_per_connection? * connections(row));
        let cores = |row: &Row| Some(row.load.subject_busy? * f64::from(row.settings.shards));
        let bases: Vec<f64> =
            rows.iter().filter_map(|row| Some(row.memory.rss_bytes? - grown(row)?)).collect();
        let all: Vec<[f64; TERMS]> = rows.iter().filter_map(|row| terms(row)).collect();
        let range = |term: usize| {
            let values = || all.iter().map(|found| found[term]);
            (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
        };
        Some(CostModel {
            subject: first.subject.clone(),
            transport: first.settings.transport,
            tls: first.settings.tls,
            cells: all.len(),
            ranges: std::array::from_fn(range),
            cpu: fit(&cores)?,
            resident: fit(&grown),
            kernel: fit(&|row| {
                row.curves.kernel_bytes.iter().map(|bytes| bytes.1).reduce(f64::max)
            }),
            base_bytes: median(&bases)?,
        })
    }

    fn name(&self) -> String {
        let tls = if self.tls { " with TLS" } else { "" };
        format!("{} over {}{tls}", self.subject, self.transport)
    }

    fn line(&self) -> Vec<String> {
        let [connections, messages, bytes] = self.cpu.coefficients;
        let memory = |fit: &Option<Fit>| {
            fit.as_ref().map_or("–".to_owned(), |fit| figure(fit.coefficients[0], 1.0))
        };
        let share = |term: usize| format!("{} %", digits(100.0 * self.shares()[term].value));
        vec![
            self.name(),
            figure(connections, 1e6),
            figure(messages, 1e6),
            figure(bytes, 1e9),
            format!("{} %", digits(100.0 * self.cpu.error)),
            share(0),
            share(1),
            share(2),
            memory(&self.resident),
            memory(&self.kernel),
        ]
    }

    fn sentences(&self) -> [String; 2] {
        let CostModel { ranges, cells, .. } = self;
        let name = self.name();
        let range = |term: usize| format!("{} to {}", short(ranges[term].0), short(ranges[term].1));
        let memory = |name: &str, fit: &Option<Fit>| match fit {
            Some(fit) => format!(
                " {name}: {} B per connection, {} B per message/s, {} B per kB/s, within {} %.",
                figure(fit.coefficients[0], 1.0),
                figure(fit.coefficients[1], 1.0),
                figure(fit.coefficients[2], 1000.0),
                digits(100.0 * fit.error)
            ),
            None => format!(" {name}: not told apart."),
        };
        let [connections, messages, bytes] = self.cpu.coefficients;
        let model = format!(
            "{name}, {cells} cells of {} connections, {} messages/s, {} \
             bytes/s: CPU is {} µs a second per connection, {} µs per message, {} ns per byte, \
             within {} %.{}{}",
            range(0),
            range(1),
            range(2),
            figure(connections, 1e6),
            figure(messages, 1e6),
            figure(bytes, 1e9),
            digits(100.0 * self.cpu.error),
            memory("Resident memory", &self.resident),
            memory("Kernel memory, both ends, at most", &self.kernel),
        );
        let shares = self.shares().map(|share| format!("{} %", figure(share, 100.0)));
        let order = match self.order() {
            Order::Holds => "holds",
            Order::DoesNotHold => "does not hold",
            Order::Undecided => "is neither confirmed nor refuted",
        };
        let terms: Vec<String> =
            NAMES.iter().zip(shares).map(|(name, share)| format!("{name} {share}")).collect();
        let conclusion = format!(
            "{name}: of the CPU at the published shape D1 (4,000 clients, \
             5 KB, every second) {}. The published order (connections cost most, then messages, \
             then bytes) {order} there.",
            terms.join(", ")
        );
        [model, conclusion]
    }
}

/// Returns the models of a run, of each subject over each transport whose cells tell the terms apart.
pub fn models(summary: &Summary) -> Vec<CostModel> {
    groups(summary).iter().filter_map(|rows| CostModel::new(rows)).collect()
}

/// Returns a line of fields for each model; the first line has the heads.
pub(super) fn grid(models: &[CostModel]) -> Vec<Vec<String>> {
    if models.len() < 2 {
        return Vec::new();
    }
    let heads = HEADS.map(str::to_owned).to_vec();
    std::iter::once(heads).chain(models.iter().map(CostModel::line)).collect()
}

/// Returns for which of many models the published order holds.
fn orders(models: &[CostModel]) -> String {
    let of = |order: Order| {
        let names: Vec<String> =
            models.iter().filter(|model| model.order() == order).map(CostModel::name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    format!(
        "The published order (connections cost most, then messages, then bytes), at the published \
         shape D1 (4,000 clients, 5 KB, every second): it holds for {}; it does not for {}; neither \
         can be said of {}.",
        of(Order::Holds),
        of(Order::DoesNotHold),
        of(Order::Undecided)
    )
}

/// Returns sentences about the models; none without a keyed load.
pub(super) fn sentences(summary: &Summary, models: &[CostModel]) -> Vec<String> {
    let groups = groups(summary);
    let mut reported: Vec<String> = match models {
        few if few.len() <= TOLD_MAX => few.iter().flat_map(CostModel::sentences).collect(),
        many => vec![orders(many)],
    };
    let without = groups.len() - models.len();
    if without > 0 {
        reported.push(format!(
            "For {without} of {} pairs of subject and transport the cells do not separate the costs of \
             connections, messages and bytes: this needs five cells that vary all three, as \
             `thalweg-lab bench d-cost` has.",
            groups.len()
        ));
    }
    reported
}

/// Returns the rows that can be points of a model, by subject and transport.
fn groups(summary: &Summary) -> Vec<Vec<&Row>> {
    let keyed = summary.parts.iter().filter(|part| part.drive == Drive::PublishedLoad);
    let rows = keyed.flat_map(|part| &part.rows).filter(|row| {
        let settings = &row.settings;
        let is_keyed = settings.keys > 1 && settings.events_per_s().is_some();
        is_keyed && settings.stopped + settings.slow == 0 && !row.is_noise && terms(row).is_some()
    });
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let of = |row: &Row| (row.subject.clone(), row.settings.transport, row.settings.tls);
        match groups.iter_mut().find(|group| of(group[0]) == of(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Returns connections, messages per second, and bytes per second.
fn terms(row: &Row) -> Option<[f64; TERMS]> {
    let Row { throughput, settings, .. } = row;
    let messages = throughput.events_per_s?.median;
    Some([f64::from(settings.connections), messages, throughput.mb_per_s? * 1e6])
}

/// Returns `3.41 (3.2–3.6)`.
fn figure(Coefficient { value, low, high }: Coefficient, scale: f64) -> String {
    format!("{} ({}–{})", digits(value * scale), digits(low * scale), digits(high * scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(per: [(f64, f64); TERMS]) -> CostModel {
        let coefficients =
            per.map(|(low, high)| Coefficient { value: (low + high) / 2.0, low, high });
        CostModel {
            subject: "thalweg".to_owned(),
            transport: Transport::Websocket,
            tls: false,
            cells: 9,
            ranges: [(500.0, 4000.0), (250.0, 40_000.0), (1e5, 1e8)],
            cpu: Fit { coefficients, error: 0.03 },
            resident: None,
            kernel: None,
            base_bytes: 9e6,
        }
    }

    #[test]
    fn the_published_order_is_held_against_intervals() {
        let order = |per: [(f64, f64); TERMS]| model(per).order();
        // As at D1: as many messages as connections, and 5,120 times as many bytes.
        assert_eq!(order([(9e-6, 1e-5), (3e-6, 4e-6), (1e-10, 2e-10)]), Order::Holds);
        assert_eq!(order([(1e-7, 2e-7), (3e-6, 4e-6), (1e-10, 2e-10)]), Order::DoesNotHold);
        assert_eq!(order([(1e-6, 9e-6), (3e-6, 4e-6), (1e-10, 2e-10)]), Order::Undecided);
    }

    #[test]
    fn several_models_stand_side_by_side() {
        let one = model([(1e-7, 2e-7), (3e-6, 4e-6), (1e-10, 2e-10)]);
        assert!(grid(std::slice::from_ref(&one)).is_empty());
        let mut other = one.clone();
        "ws".clone_into(&mut other.subject);
        let both = [one, other];
        let grid = grid(&both);
        assert_eq!(grid[2][0], "ws over websocket");
        assert_eq!(
            grid[1][1..5],
            ["0.150 (0.100–0.200)", "3.50 (3.00–4.00)", "0.150 (0.100–0.200)", "3.00 %"]
        );
        assert_eq!(grid[1][5..], ["3.40 %", "79.2 %", "17.4 %", "–", "–"]);
        let sentence = orders(&both);
        assert!(
            sentence.contains("it does not for thalweg over websocket, ws over websocket;"),
            "{sentence}"
        );
    }

    #[test]
    fn a_cost_model_is_described_in_words() {
        insta::assert_snapshot!(
            model([(1e-7, 2e-7), (3e-6, 4e-6), (1e-10, 2e-10)]).sentences().join("\n")
        );
    }
}
