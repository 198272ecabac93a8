//! How long a run still takes: what the plan reckons, corrected by what its
//! samples took. Pure.

use crate::scenario::{Plan, Slot};
use std::collections::HashMap;
use std::time::Duration;

/// What is left to do, and what is known of how long it takes.
#[derive(Debug, Default)]
pub(super) struct Reckoning {
    /// Still to come, the current one first, with what the plan reckons.
    left: Vec<(Place, Duration)>,
    /// What a subject's last sample in a cell took.
    known: HashMap<Place, Duration>,
    /// Of all samples so far: reckoned, taken.
    reckoned: Duration,
    taken: Duration,
}

/// A subject in a cell: its samples take as long as each other.
type Place = (usize, usize, usize);

impl Reckoning {
    pub(super) fn new(plan: &Plan, slots: &[Slot]) -> Reckoning {
        let left = slots.iter().map(|slot| (place(*slot), plan.expected_time(*slot)));
        Reckoning { left: left.collect(), ..Reckoning::default() }
    }

    /// The current sample took this long.
    pub(super) fn took(&mut self, time: Duration) {
        if self.left.is_empty() {
            return;
        }
        let (place, reckoned) = self.left.remove(0);
        self.known.insert(place, time);
        self.reckoned += reckoned;
        self.taken += time;
    }

    /// What is left, when the current sample has taken this long so far.
    pub(super) fn left(&self, current: Duration) -> Duration {
        let Some((first, rest)) = self.left.split_first() else {
            return Duration::ZERO;
        };
        let rest: Duration = rest.iter().map(|it| self.expected(it)).sum();
        self.expected(first).saturating_sub(current) + rest
    }

    /// By the last of its kind; by how the plan's reckoning held so far, else.
    fn expected(&self, (place, reckoned): &(Place, Duration)) -> Duration {
        if let Some(known) = self.known.get(place) {
            return *known;
        }
        if self.reckoned.is_zero() {
            return *reckoned;
        }
        reckoned.mul_f64(self.taken.as_secs_f64() / self.reckoned.as_secs_f64())
    }
}

fn place(slot: Slot) -> Place {
    (slot.part, slot.cell, slot.subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Changes, read};

    const SCENARIO: &str = r#"
name = "mine"
drive = "posted"
again = "none"
repeats = 3
warm_up_ms = 0
measured_ms = 925

[defaults]
connections = [100, 100]
"#;

    #[test]
    fn what_samples_took_is_what_the_next_will_take() {
        let plan = read(SCENARIO, &Changes::default(), &[]).unwrap();
        let slots: Vec<Slot> = plan.slots().collect();
        // 60 ms to start, 15 ms to open, and the span: a second each.
        let mut reckoning = Reckoning::new(&plan, &slots);
        let seconds = |reckoning: &Reckoning, current| {
            reckoning.left(Duration::from_secs(current)).as_secs_f64().round()
        };
        assert_eq!(seconds(&reckoning, 0), 6.0);
        // The limit takes four: so do its other two, and the rest until it is known.
        reckoning.took(Duration::from_secs(4));
        assert_eq!(seconds(&reckoning, 0), 20.0);
        assert_eq!(seconds(&reckoning, 3), 17.0);
        assert_eq!(seconds(&reckoning, 30), 16.0);
        // Thalweg takes one.
        reckoning.took(Duration::from_secs(1));
        assert_eq!(seconds(&reckoning, 0), 2.0 * 4.0 + 2.0);
        for _ in 0..5 {
            reckoning.took(Duration::from_secs(1));
        }
        assert_eq!(seconds(&reckoning, 0), 0.0);
    }
}
