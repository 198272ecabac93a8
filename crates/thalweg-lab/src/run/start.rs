//! One start of a cell: all of its subjects, started again, each measured in its turn.
//!
//! If the load can pause, the subjects run side by side on the subject's cores and take turns, a short span each, in a random order
//! for every round, so that drift of the machine affects all of them alike. Otherwise each runs alone for one span. The order in
//! which processes start is random, too, so that the effect of their memory's layout averages out over starts.
//!
//! Subjects with load at the same time are started in order, another one first in each start. The kernel wakes the first one first
//! in every millisecond. It then finds the caches cold, and uses a fifth more CPU, but has less latency, than later ones.

use super::progress::Progress;
use super::sample::{Bench, Launched, Span};
use super::start_barrier::StartBarrier;
use super::watch::Observations;
use crate::load_generator::{Interrupted, Outcome, Session};
use crate::measure::Sample;
use crate::scenario::Slot;
use crate::swarm::open_files_max;
use std::cell::RefCell;
use std::thread;

/// Files the lab has open besides connections.
const OTHER_FILES: u64 = 256;

impl Bench<'_> {
    /// Takes the samples of one start, valid or not; `None` if interrupted. `turn` has a slot for each subject of the cell.
    pub(super) fn start(&self, turn: &[Slot], progress: &RefCell<Progress>) -> Option<Vec<Sample>> {
        let part = self.plan.part(*turn.first()?);
        let mut turn = turn.to_vec();
        if part.concurrent {
            let first = turn[0].repeat as usize % turn.len();
            turn.rotate_left(first);
            return self.concurrently(&turn, progress);
        }
        fastrand::shuffle(&mut turn);
        if self.can_live_side_by_side(&turn) {
            return self.side_by_side(&turn, part.rounds, progress);
        }
        let options = || self.watch_options(Some(progress), StartBarrier::alone());
        let alone = |slot: &Slot| self.take_one(*slot, options());
        turn.iter().map(alone).collect()
    }

    /// Measures all subjects at the same time, each in its own thread; the progress is the first one's.
    fn concurrently(&self, turn: &[Slot], progress: &RefCell<Progress>) -> Option<Vec<Sample>> {
        let mut turn = turn.iter().zip(StartBarrier::new(turn.len()));
        let (first, barrier) = turn.next()?;
        thread::scope(|scope| {
            let silently = |(slot, barrier): (&Slot, StartBarrier)| {
                let slot = *slot;
                scope.spawn(move || self.take_one(slot, self.watch_options(None, barrier)))
            };
            let others: Vec<_> = turn.map(silently).collect();
            let first = self.take_one(*first, self.watch_options(Some(progress), barrier));
            let others = others.into_iter().map(|other| other.join().ok().flatten());
            std::iter::once(first).chain(others).collect()
        })
    }

    /// Returns whether all loads can pause, and the limit of open files allows all connections.
    fn can_live_side_by_side(&self, turn: &[Slot]) -> bool {
        // Two browsers would take the core from each other.
        if self.plan.load.is_browser() {
            return false;
        }
        let part = self.plan.part(turn[0]);
        let settings = || turn.iter().map(|slot| &self.plan.subject(*slot).settings);
        let connections: u64 = settings().map(|setting| u64::from(setting.connections)).sum();
        settings().all(|setting| part.can_take_turns(setting))
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
            let options = self.watch_options(Some(progress), StartBarrier::alone());
            match self.launch(*slot, options) {
                Ok(subject) => launched.push(subject),
                Err(error) => samples.push(Span { slot: *slot, rounds, round: 0 }.failed(&error)?),
            }
        }
        samples.extend(self.rounds(&launched, rounds)?);
        launched.into_iter().for_each(Launched::stop);
        Some(samples)
    }

    /// Loads subjects in turns; `None` if interrupted.
    fn rounds(&self, launched: &[Launched<'_>], rounds: u32) -> Option<Vec<Sample>> {
        let mut watches: Vec<_> = launched.iter().map(|launched| launched.watch.clone()).collect();
        let mut subjects: Vec<SubjectRun<'_, '_>> = Vec::new();
        for (launched, watch) in launched.iter().zip(&mut watches) {
            subjects.iter_mut().for_each(SubjectRun::attend);
            watch.connects();
            let session = self.generator.open(&launched.load, watch).and_then(|mut session| {
                session.pause()?;
                Ok(session)
            });
            subjects.push(SubjectRun { launched, session, taken: Vec::new() });
        }
        for _ in 0..rounds {
            fastrand::shuffle(&mut subjects);
            for turn in 0..subjects.len() {
                subjects[turn].measure()?;
                subjects.iter_mut().for_each(SubjectRun::attend);
            }
        }
        let samples = subjects.into_iter().map(|subject| self.samples_of(subject, rounds));
        Some(samples.collect::<Option<Vec<_>>>()?.concat())
    }

    /// Ends a subject's load; `None` if interrupted.
    fn samples_of(&self, subject: SubjectRun<'_, '_>, rounds: u32) -> Option<Vec<Sample>> {
        let SubjectRun { launched: &Launched { slot, .. }, mut taken, session } = subject;
        let closed = session.and_then(|session| session.close());
        if let (Ok(counts), Some((last, _))) = (&closed, taken.last_mut()) {
            last.ledger = last.ledger.and(counts);
        }
        let span = |round| Span { slot, rounds, round };
        let mut samples: Vec<Sample> = taken
            .into_iter()
            .enumerate()
            .map(|(round, (outcome, observations))| self.judge(span(round), outcome, observations))
            .collect();
        if let Err(error) = closed {
            samples.push(span(samples.len()).failed(&error)?);
        }
        Some(samples)
    }
}

/// A subject that runs side by side with others.
struct SubjectRun<'a, 'b> {
    launched: &'a Launched<'b>,
    /// The session, or why the subject cannot be measured any more.
    session: anyhow::Result<Box<dyn Session + 'a>>,
    taken: Vec<(Outcome, Observations)>,
}

impl SubjectRun<'_, '_> {
    /// Answers the subject while others are measured.
    fn attend(&mut self) {
        if let Ok(session) = &mut self.session
            && let Err(error) = session.attend()
        {
            self.session = Err(error);
        }
    }

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
            Ok(outcome) => self.taken.push((outcome, self.launched.watch.observations())),
            Err(error) if error.is::<Interrupted>() => return None,
            Err(error) => self.session = Err(error),
        }
        Some(())
    }
}
