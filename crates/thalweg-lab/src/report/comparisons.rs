//! The comparisons of a scenario: metrics of every subject beside its baseline's, by cell and pooled, corrected for their number.

use crate::measure::Sample;
use crate::measure::comparison::{self, CellSubjects, Comparison, Difference, Metric, Next};
use crate::scenario::{Cell, Figure, Part, Transport};

impl From<Figure> for Metric {
    fn from(figure: Figure) -> Metric {
        match figure {
            Figure::Cpu => Metric::Cpu,
            Figure::Latency => Metric::P99,
            Figure::RoundTrip => Metric::RoundTrip,
            Figure::Ceiling => Metric::Throughput,
            Figure::Memory => Metric::Memory,
            Figure::Held => Metric::Held,
            Figure::BrowserCpu => Metric::BrowserCpu,
        }
    }
}

/// Returns whether a cell of a part needs another start. Called after each start with all of the cell's samples so far:
/// `measure::comparison::next` for the part's figure, or for CPU if that cannot be compared.
pub fn next(part: &Part, cell: usize, samples: &[&Sample]) -> Next {
    let Some(cell) = part.cells.get(cell) else { return Next::Decided };
    let subjects = subjects(part, cell);
    comparison::next(known(part, &subjects, samples), &subjects, samples)
}

/// Returns the subjects of a cell that need no further start: `measure::comparison::far_off`.
pub fn far_off(part: &Part, cell: usize, samples: &[&Sample]) -> Vec<usize> {
    let Some(cell) = part.cells.get(cell) else { return Vec::new() };
    let subjects = subjects(part, cell);
    comparison::far_off(known(part, &subjects, samples), &subjects, samples)
}

/// Returns a part's figure, or CPU if that cannot be compared (for example because the p99 is withheld).
fn known(part: &Part, subjects: &CellSubjects, samples: &[&Sample]) -> Metric {
    let own = Metric::from(part.figure());
    let is_known = (0..subjects.connections.len())
        .any(|subject| Difference::from_samples(own, subjects, subject, samples).is_some());
    if is_known { own } else { Metric::Cpu }
}

/// Returns the comparison of each subject of a cell in the part's figure, from all of its samples so far; not corrected.
pub fn current_comparisons(part: &Part, cell: usize, samples: &[&Sample]) -> Vec<Comparison> {
    let Some(cell) = part.cells.get(cell) else { return Vec::new() };
    let subjects = subjects(part, cell);
    let metric = known(part, &subjects, samples);
    let names =
        |subject: usize| [&*cell.subjects[subject].name, &cell.subjects[cell.baseline].name];
    (0..cell.subjects.len())
        .filter(|subject| !subjects.is_control(*subject))
        .filter_map(|subject| {
            let difference = Difference::from_samples(metric, &subjects, subject, samples)?;
            Some(Comparison::new(metric, names(subject), false, &difference))
        })
        .collect()
}

/// Returns the comparisons of one part, by cell and pooled, metric by metric. A figure that one subject lacks is compared for the others.
pub(super) fn comparisons(part: &Part, samples: &[&Sample]) -> (Vec<Comparison>, Vec<Comparison>) {
    let (mut cells, mut pooled) = (Vec::new(), Vec::new());
    for metric in Metric::ALL {
        let (of_cells, over_all) = comparisons_of_metric(part, samples, metric);
        cells.extend(of_cells);
        pooled.extend(over_all);
    }
    (cells, pooled)
}

/// One subject's difference in one cell, and which subject it is.
struct SubjectDifference<'a> {
    number: usize,
    cell: &'a Cell,
    subject: usize,
    is_control: bool,
    difference: Difference,
}

/// Pooled over the cells of one transport.
pub(super) struct OverTransport {
    pub(super) transport: Transport,
    pub(super) cells: usize,
    /// Not corrected.
    pub(super) comparison: Comparison,
}

/// Returns the comparison of each subject over the cells of each transport, without controls.
pub(super) fn by_transport(part: &Part, samples: &[&Sample], metric: Metric) -> Vec<OverTransport> {
    let mut groups: Vec<(Transport, Vec<SubjectDifference<'_>>)> = Vec::new();
    for one in differences(part, samples, metric).into_iter().filter(|one| !one.is_control) {
        let transport = one.cell.subjects[one.subject].settings.transport;
        let is_own = |(of, group): &&mut (Transport, Vec<SubjectDifference<'_>>)| {
            *of == transport && group[0].is_like(&one)
        };
        match groups.iter_mut().find(is_own) {
            Some((_, group)) => group.push(one),
            None => groups.push((transport, vec![one])),
        }
    }
    let pool = |(transport, group): (Transport, Vec<SubjectDifference<'_>>)| {
        let comparison = pooled(&group, metric, &Noises(Vec::new())).pop()?;
        Some(OverTransport { transport, cells: group.len(), comparison })
    };
    groups.into_iter().filter_map(pool).collect()
}

fn comparisons_of_metric(
    part: &Part,
    samples: &[&Sample],
    metric: Metric,
) -> (Vec<Comparison>, Vec<Comparison>) {
    let found = differences(part, samples, metric);
    let noises = Noises::new(&found);
    let cells = found.iter().map(|one| {
        let names = [one.name(), one.baseline()];
        Comparison::new(metric, names, one.is_control, &one.difference)
            .in_cell(one.number, one.subject, &one.cell.label)
            .with_noise(noises.for_subject(one).as_ref(), &one.difference)
    });
    let mut cells: Vec<Comparison> = cells.collect();
    comparison::correct(&mut cells);
    let mut pooled = pooled(&found, metric, &noises);
    comparison::correct(&mut pooled);
    (cells, pooled)
}

/// Returns the differences of every subject in every cell.
fn differences<'a>(
    part: &'a Part,
    samples: &[&Sample],
    metric: Metric,
) -> Vec<SubjectDifference<'a>> {
    let mut found: Vec<SubjectDifference<'_>> = Vec::new();
    for (index, cell) in part.cells.iter().enumerate() {
        let own: Vec<&Sample> =
            samples.iter().copied().filter(|sample| sample.cell == index).collect();
        let subjects = subjects(part, cell);
        for subject in 0..cell.subjects.len() {
            let is_control = subjects.is_control(subject);
            let difference = Difference::from_samples(metric, &subjects, subject, &own);
            let one = |difference| SubjectDifference {
                number: index,
                cell,
                subject,
                is_control,
                difference,
            };
            found.extend(difference.map(one));
        }
    }
    found
}

/// Returns the comparison of each subject over all cells, in order of first appearance.
fn pooled(found: &[SubjectDifference<'_>], metric: Metric, noises: &Noises<'_>) -> Vec<Comparison> {
    let mut firsts: Vec<&SubjectDifference<'_>> = Vec::new();
    for one in found {
        if !firsts.iter().any(|first| first.is_like(one)) {
            firsts.push(one);
        }
    }
    let pool = |first: &&SubjectDifference<'_>| {
        let like: Vec<&SubjectDifference<'_>> =
            found.iter().filter(|one| first.is_like(one)).collect();
        let differences: Vec<Difference> = like.iter().map(|one| one.difference.clone()).collect();
        let is_one = like.iter().all(|one| one.baseline() == first.baseline());
        let baseline = if is_one { first.baseline() } else { "its baseline" };
        let difference = Difference::pooled(&differences)?;
        let names = [first.name(), baseline];
        let noises: Option<Vec<Difference>> =
            like.iter().map(|one| noises.for_subject(one)).collect();
        let noise = noises.and_then(|noises| Difference::pooled(&noises));
        let comparison = Comparison::new(metric, names, first.is_control, &difference);
        Some(comparison.with_noise(noise.as_ref(), &difference))
    };
    firsts.iter().filter_map(pool).collect()
}

/// The A/A controls of a scenario in one metric.
struct Noises<'a>(Vec<&'a SubjectDifference<'a>>);

impl<'a> Noises<'a> {
    fn new(found: &'a [SubjectDifference<'a>]) -> Noises<'a> {
        Noises(found.iter().filter(|one| one.is_control).collect())
    }

    /// Returns the difference that the noise of the cell's control would make; without one, that of the noisiest control.
    fn for_subject(&self, one: &SubjectDifference<'_>) -> Option<Difference> {
        if one.is_control {
            return None;
        }
        let starts = one.difference.starts();
        let by_noise =
            |control: &&SubjectDifference<'_>| Difference::by_noise_of(&control.difference, starts);
        let own = self.0.iter().filter(|control| control.number == one.number).find_map(by_noise);
        let error = |noise: &Difference| noise.error();
        own.or_else(|| {
            let all = self.0.iter().filter_map(by_noise);
            all.max_by(|a, b| error(a).total_cmp(&error(b)))
        })
    }
}

impl SubjectDifference<'_> {
    fn name(&self) -> &str {
        &self.cell.subjects[self.subject].name
    }

    fn baseline(&self) -> &str {
        &self.cell.subjects[self.cell.baseline].name
    }

    fn is_like(&self, other: &SubjectDifference<'_>) -> bool {
        (self.name(), self.is_control) == (other.name(), other.is_control)
    }
}

/// Returns the subjects of a cell. One with the program, settings and arguments of the baseline is a control.
fn subjects(part: &Part, cell: &Cell) -> CellSubjects {
    CellSubjects {
        baseline: cell.baseline,
        controls: (0..cell.subjects.len()).filter(|index| cell.is_control(*index)).collect(),
        connections: cell.subjects.iter().map(|subject| subject.settings.connections).collect(),
        concurrent: part.concurrent,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{plan, samples};
    use super::*;

    #[test]
    fn a_subject_with_more_connections_than_the_baseline_is_no_control() {
        let mut plan = plan("connections = 100");
        let part = plan.parts[0].clone();
        let cell = &mut plan.parts[0].cells[0];
        let again = cell.subjects[cell.baseline].clone();
        cell.subjects = vec![again.clone(), again];
        cell.baseline = 0;
        assert!(subjects(&part, cell).is_control(1));
        cell.subjects[1].arguments = vec!["--query".into(), "a=SELECT * FROM b".into()];
        assert!(!subjects(&part, cell).is_control(1));
    }

    #[test]
    fn cells_and_what_is_pooled_are_compared() {
        let plan = plan("connections = [100, 1000]");
        let samples = samples(&plan, |_| {});
        let (cells, pooled) = comparisons(&plan.parts[0], &samples.iter().collect::<Vec<_>>());
        let all = cells.iter().chain(&pooled);
        let cpu: Vec<&Comparison> =
            all.filter(|comparison| comparison.metric == Metric::Cpu).collect();
        let lines: Vec<String> = cpu
            .iter()
            .map(|cpu| {
                let place = cpu.cell.as_deref().unwrap_or("all cells");
                let (low, high) = (cpu.low.unwrap_or(0.0), cpu.high.unwrap_or(0.0));
                let Comparison { subject, baseline, ratio, word, starts, .. } = cpu;
                format!(
                    "{place}: {subject} to {baseline} {ratio:.3} ({low:.3}-{high:.3}) {word:?}, \
                     {starts} starts"
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
        assert!(cpu.iter().all(|cpu| cpu.is_control == (cpu.subject == "limit again")));
    }
}
