//! The search for a ceiling, where something goes wrong on the way.

use crate::fake::serve;
use crate::swarm::{Blind, load};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use thalweg_lab::load_generator::{Figures, Moment, Observer, Outcome, run};
use thalweg_lab::scenario::{Drive, Program, Settings};
use thalweg_lab::swarm::Swarm;
use thalweg_testing::undisturbed;

/// Time of a subject for an event: it can do 500 a second.
const EACH: Duration = Duration::from_millis(2);
/// A busy machine may keep the swarm from its core, or let the subject do ever less while it is searched.
const ATTEMPTS: usize = 4;
/// Large, so that few of them are more than may be outstanding.
const EVENT_BYTES: u32 = 60_000;

fn find(rate: u32, warm_up_ms: u64, observer: &mut dyn Observer) -> Outcome {
    let address = serve(|_, event| {
        thalweg_testing::let_pass(EACH);
        vec![event.to_owned()]
    })
    .expect("a server");
    let settings = Settings {
        connections: 1,
        rate,
        event_bytes: EVENT_BYTES,
        p99_us_max: 60_000,
        ..Settings::default()
    };
    let load = load(address, &Program::Thalweg, &settings, Drive::Ceiling, [warm_up_ms, 150]);
    run(&Swarm, &load, observer).expect("a search")
}

#[test]
fn the_rate_falls_after_too_high_a_start() {
    undisturbed(|| {
        let mut outcome = find(5000, 1000, &mut Blind);
        for _ in 1..ATTEMPTS {
            if outcome.failure.is_none() && !outcome.swarm_fell_short {
                break;
            }
            outcome = find(5000, 1000, &mut Blind);
        }
        assert_eq!(outcome.failure, None, "{:?}", outcome.steps);
        let (first, last) = (&outcome.steps[0], outcome.steps.last().unwrap());
        let missed = first.missed.as_deref().unwrap_or_default();
        assert!(first.rate == 5000.0 && missed.contains("behind"), "{first:?}");
        assert!(last.is_confirmation && last.missed.is_none() && last.rate < 1000.0, "{last:?}");
        assert!(!outcome.swarm_fell_short, "{:?}", outcome.steps);
    });
}

/// Keeps the swarm from its core once in each of so many spans.
struct Sleepy {
    spans: u32,
    is_tired: bool,
}

impl Observer for Sleepy {
    fn at(&mut self, moment: Moment<'_>) {
        if moment == Moment::Begin && self.spans > 0 {
            self.spans -= 1;
            self.is_tired = true;
        }
    }
    fn progress(&mut self, _: Figures<'_>) -> ControlFlow<()> {
        if std::mem::take(&mut self.is_tired) {
            thalweg_testing::let_pass(Duration::from_millis(250));
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_rate_at_which_the_swarm_was_kept_from_its_core_is_tried_again() {
    undisturbed(|| {
        let outcome = find(50, 50, &mut Sleepy { spans: 1, is_tired: false });
        let steps = &outcome.steps;
        assert!(steps[0].missed.is_some() && steps[1].rate == steps[0].rate, "{steps:?}");
        assert_eq!(outcome.failure, None, "{steps:?}");
        assert!(steps.iter().any(|step| step.rate >= 100.0 && step.missed.is_none()), "{steps:?}");
    });
}

#[test]
fn a_rate_is_not_tried_again_for_ever() {
    undisturbed(|| {
        let outcome = find(64, 50, &mut Sleepy { spans: u32::MAX, is_tired: false });
        let rates: Vec<f64> = outcome.steps.iter().map(|step| step.rate).take(6).collect();
        assert_eq!(rates, [64.0, 64.0, 64.0, 32.0, 32.0, 32.0], "{:?}", outcome.steps);
        // The subject is not the cause.
        assert!(outcome.swarm_fell_short, "{:?}", outcome.steps);
    });
}

/// Takes the swarm's core for itself as the first span begins.
struct Greedy(Option<Duration>);

impl Observer for Greedy {
    fn at(&mut self, moment: Moment<'_>) {
        if moment == Moment::Begin
            && let Some(time) = self.0.take()
        {
            let begun = Instant::now();
            while begun.elapsed() < time {
                std::hint::spin_loop();
            }
        }
    }
}

#[test]
fn a_swarm_without_time_is_no_limit_of_the_subject() {
    undisturbed(|| {
        // Long enough that more is outstanding than may be, and that the time before the span hardly counts.
        let outcome = find(500, 50, &mut Greedy(Some(Duration::from_millis(3500))));
        let steps = &outcome.steps;
        let missed = steps[0].missed.as_deref().unwrap_or_default();
        assert_eq!(steps[0].span_us, 0, "it was broken off: {steps:?}");
        // On a shared core, only the delay is known.
        let is_again = steps[1].rate == steps[0].rate;
        assert!(missed.contains("the swarm is saturated") || is_again, "{steps:?}");
    });
}
