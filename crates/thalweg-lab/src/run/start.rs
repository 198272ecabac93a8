//! One start of a cell: all of its subjects, started anew, each measured in its turn.
//!
//! Where the load can pause, the subjects live side by side on the subject's cores and
//! take turns, a short span each, in an order drawn anew for every round: whatever
//! drifts with the machine hits all of them alike. Elsewhere each lives alone for one
//! span. Which processes are started, and when, is drawn, too: a process's luck with its
//! memory is one of the things that the next start averages out.

use super::progress::Progress;
use super::sample::{Bench, Company, Launched};
use super::start_barrier::StartBarrier;
use super::watch::Observations;
use crate::measure::Sample;
use crate::scenario::Slot;
use crate::swarm::{Interrupted, Outcome, Session, open_files_max};
use std::cell::RefCell;
use std::thread;

/// Files the lab has open besides connections.
const OTHER_FILES: u64 = 256;

impl Bench<'_> {
    /// Takes the samples of one start, valid or not; `None` if interrupted. `turn` has a
    /// slot for each subject of the cell.
    pub(super) fn start(&self, turn: &[Slot], progress: &RefCell<Progress>) -> Option<Vec<Sample>> {
        let part = self.plan.part(*turn.first()?);
        let mut turn = turn.to_vec();
        if part.concurrent {
            return self.concurrently(&turn, progress);
        }
        fastrand::shuffle(&mut turn);
        if self.can_live_side_by_side(&turn) {
            return self.side_by_side(&turn, part.rounds, progress);
        }
        let alone = |slot: &Slot| {
            let barrier = StartBarrier::alone();
            self.take_one(*slot, Company { progress, barrier })
        };
        turn.iter().map(alone).collect()
    }

    /// All at the same time, each on a thread of its own.
    fn concurrently(&self, turn: &[Slot], progress: &RefCell<Progress>) -> Option<Vec<Sample>> {
        let (first, others) = turn.split_first()?;
        let mut barriers = StartBarrier::of(turn.len()).into_iter();
        let barrier = barriers.next()?;
        let samples = thread::scope(|scope| {
            let others: Vec<_> = others
                .iter()
                .zip(barriers)
                .map(|(slot, barrier)| {
                    scope.spawn(move || {
                        let progress = RefCell::new(Progress::silent());
                        self.take_one(*slot, Company { progress: &progress, barrier })
                    })
                })
                .collect();
            let first = self.take_one(*first, Company { progress, barrier });
            let others = others.into_iter().map(|other| other.join().ok().flatten());
            std::iter::once(first).chain(others).collect::<Vec<_>>()
        });
        samples.into_iter().collect()
    }

    /// Whether all loads can pause, and there are files enough for all connections.
    fn can_live_side_by_side(&self, turn: &[Slot]) -> bool {
        let drive = self.plan.part(turn[0]).drive;
        let settings = || turn.iter().map(|slot| &self.plan.subject(*slot).settings);
        let connections: u64 = settings().map(|it| u64::from(it.connections)).sum();
        settings().all(|it| it.can_pause(drive))
            && open_files_max().is_none_or(|most| connections + OTHER_FILES <= most)
    }

    fn side_by_side(
        &self,
        turn: &[Slot],
        rounds: u32,
        progress: &RefCell<Progress>,
    ) -> Option<Vec<Sample>> {
        let (mut launched, mut samples) = (Vec::new(), Vec::new());
        for slot in turn {
            let barrier = StartBarrier::alone();
            match self.launch(*slot, Company { progress, barrier }) {
                Ok(subject) => launched.push(subject),
                Err(error) => samples.push(failed(*slot, rounds, 0, &error)?),
            }
        }
        samples.extend(self.rounds(&launched, rounds)?);
        launched.into_iter().for_each(|it| it.running.stop());
        Some(samples)
    }

    /// Loads subjects in turns; `None` if interrupted.
    fn rounds(&self, launched: &[Launched<'_>], rounds: u32) -> Option<Vec<Sample>> {
        let mut watches: Vec<_> = launched.iter().map(|it| it.watch.clone()).collect();
        let mut subjects: Vec<Subject<'_, '_>> = Vec::new();
        for (launched, watch) in launched.iter().zip(&mut watches) {
            watch.connects();
            let session = Session::open(&launched.load, watch).and_then(|mut session| {
                session.pause()?;
                Ok(session)
            });
            subjects.push(Subject { launched, session, taken: Vec::new() });
        }
        for _ in 0..rounds {
            fastrand::shuffle(&mut subjects);
            for subject in &mut subjects {
                subject.measure()?;
            }
        }
        let samples = subjects.into_iter().map(|subject| self.samples_of(subject, rounds));
        Some(samples.collect::<Option<Vec<_>>>()?.concat())
    }

    /// Ends a subject's load; `None` if interrupted.
    fn samples_of(&self, subject: Subject<'_, '_>, rounds: u32) -> Option<Vec<Sample>> {
        let Subject { launched: &Launched { slot, .. }, mut taken, session } = subject;
        let closed = session.and_then(Session::close);
        if let (Ok(counts), Some((last, _))) = (&closed, taken.last_mut()) {
            last.ledger = last.ledger.and(counts);
        }
        let mut samples: Vec<Sample> = taken
            .into_iter()
            .enumerate()
            .map(|(round, (outcome, observations))| Sample {
                start: Some(slot.repeat),
                ..self.judge(in_round(slot, rounds, round), outcome, observations)
            })
            .collect();
        if let Err(error) = closed {
            samples.push(failed(slot, rounds, samples.len(), &error)?);
        }
        Some(samples)
    }
}

/// The sample of a round in which a subject failed; `None` if it was interrupted.
fn failed(slot: Slot, rounds: u32, round: usize, error: &anyhow::Error) -> Option<Sample> {
    let sample = Bench::failed(in_round(slot, rounds, round), error)?;
    Some(Sample { start: Some(slot.repeat), ..sample })
}

/// A round of the slot's start: rounds are numbered through all starts of a cell, each of
/// which has so many.
fn in_round(slot: Slot, rounds: u32, round: usize) -> Slot {
    Slot { repeat: slot.repeat * rounds + round as u32, ..slot }
}

/// One of those that live side by side.
struct Subject<'a, 'b> {
    launched: &'a Launched<'b>,
    /// Or why it cannot be measured any more.
    session: anyhow::Result<Session<'a>>,
    taken: Vec<(Outcome, Observations)>,
}

impl Subject<'_, '_> {
    /// Measures a span, if it still can be; `None` if interrupted.
    fn measure(&mut self) -> Option<()> {
        let load = &self.launched.load;
        let span = load.measured.max(load.settings.slow_span());
        let Ok(session) = &mut self.session else { return Some(()) };
        let measured = session.span(span).and_then(|outcome| {
            session.pause()?;
            Ok(outcome)
        });
        match measured {
            Ok(outcome) => self.taken.push((outcome, self.launched.watch.take_observations())),
            Err(error) if error.is::<Interrupted>() => return None,
            Err(error) => self.session = Err(error),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_numbered_through_all_starts_also_those_that_failed() {
        let slot = |start| Slot { part: 0, cell: 0, subject: 1, repeat: start };
        let rounds =
            (0..3).flat_map(|start| (0..4).map(move |round| in_round(slot(start), 4, round)));
        assert_eq!(rounds.map(|it| it.repeat).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
        let sample = failed(slot(2), 4, 0, &anyhow::anyhow!("gone")).unwrap();
        assert_eq!((sample.start(), sample.repeat, &*sample.why), (2, 8, "gone"));
        assert!(failed(slot(2), 4, 0, &Interrupted.into()).is_none());
    }
}
