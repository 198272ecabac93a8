//! Schedules the parsing and planning of ad hoc queries: one at a time, with addresses in turn, in a limited
//! part of the shard's time, and with turns of the shard in between. A query does not wait while this time is not used up.

use std::{cell::Cell, sync::Arc, time::Duration};

use tokio::{task::yield_now, time::sleep};

use super::fair_turns::FairTurns;
use crate::{
    clock::now_us,
    config::{
        PLANNING_BURST_US, PLANNING_PART, PLANNING_UNBROKEN_US, PLANNINGS_WAITING_MAX,
        PLANNINGS_WAITING_PER_ADDRESS,
    },
    connection_limits::{Address, Requester},
    metrics::Counts,
    refusal::Refusal,
};

#[derive(Debug)]
pub(super) struct Planning {
    turns: FairTurns<Address>,
    time: Cell<PlanningTime>,
    /// Time of planning since the shard's last turn, in µs.
    unbroken_us: Cell<u64>,
    waiting: Cell<usize>,
    counts: Arc<Counts>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanningClient {
    address: Address,
    is_counted: bool,
}

impl From<&Requester> for PlanningClient {
    fn from(requester: &Requester) -> Self {
        Self { address: requester.address, is_counted: requester.is_counted }
    }
}

impl Planning {
    pub(super) fn new(counts: &Arc<Counts>) -> Self {
        let (turns, counts) = (FairTurns::default(), Arc::clone(counts));
        let (time, unbroken_us, waiting) = (Cell::default(), Cell::new(0), Cell::new(0));
        Self { turns, time, unbroken_us, waiting, counts }
    }

    pub(super) fn begin_turn(&self) {
        self.unbroken_us.set(0);
    }

    /// Runs the work for a client's query when it is its turn. Fails with `Busy` if too many queries of all clients or of this
    /// address wait.
    pub(super) async fn run<T>(
        &self,
        PlanningClient { address, is_counted }: PlanningClient,
        work: impl FnOnce() -> T,
    ) -> Result<T, Refusal> {
        let has_share = !is_counted || self.turns.queued(address) < PLANNINGS_WAITING_PER_ADDRESS;
        if self.waiting.get() >= PLANNINGS_WAITING_MAX || !has_share {
            let message =
                "too many new queries wait, in total or from this address: try again in a second";
            return Err(Refusal::busy(message));
        }
        let _waits = Waits::new(&self.waiting);
        let _first = self.turns.first_of(address).await;
        let _turn = self.turns.next().await;
        while let Some(wait) = self.time.get().wait(now_us()) {
            sleep(wait).await;
        }
        if self.unbroken_us.get() >= PLANNING_UNBROKEN_US {
            yield_now().await;
            // The loop takes no turn if it has nothing to do, so this counts as one.
            self.begin_turn();
        }
        let begun_us = now_us();
        let done = work();
        let took_us = now_us().saturating_sub(begun_us);
        self.unbroken_us.set(self.unbroken_us.get() + took_us);
        self.time.set(self.time.get().spend(begun_us, took_us));
        self.counts.queries_planned.add(1);
        self.counts.query_planning_seconds.add(took_us);
        Ok(done)
    }
}

/// Counts a query that waits.
struct Waits<'a>(&'a Cell<usize>);

impl<'a> Waits<'a> {
    fn new(waiting: &'a Cell<usize>) -> Self {
        waiting.set(waiting.get() + 1);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The time for planning, as a token bucket of [`PLANNING_BURST_US`], which regains one [`PLANNING_PART`]th of the time
/// that passes.
#[derive(Debug, Clone, Copy, Default)]
struct PlanningTime {
    /// When the bucket is full again, in µs.
    full_us: u64,
}

impl PlanningTime {
    /// Returns how long the next piece of work must wait, if it must.
    fn wait(self, now_us: u64) -> Option<Duration> {
        let owed_us = self.full_us.saturating_sub(now_us);
        let wait_us = owed_us.saturating_sub(PLANNING_BURST_US * PLANNING_PART);
        (wait_us > 0).then(|| Duration::from_micros(wait_us))
    }

    /// Takes the time of a piece of work out of the bucket.
    fn spend(self, begun_us: u64, took_us: u64) -> Self {
        Self { full_us: self.full_us.max(begun_us) + took_us * PLANNING_PART }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::IpAddr,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn planning() -> Planning {
        Planning::new(&Arc::new(Counts::default()))
    }

    fn client(last: u8) -> PlanningClient {
        let address = Address::from_ip(IpAddr::from([192, 0, 2, last]));
        PlanningClient { address, is_counted: true }
    }

    /// Returns the number of polls in which a query that takes no time is planned. `None` if it still waits after eight.
    fn polls(planning: &Planning, client: PlanningClient) -> Option<usize> {
        let mut planned = pin!(planning.run(client, || ()));
        let context = &mut Context::from_waker(Waker::noop());
        let polls = (1..9).find(|_| planned.as_mut().poll(context).is_ready());
        // Everything takes time on a busy machine.
        planning.time.set(PlanningTime::default());
        polls
    }

    #[test]
    fn a_query_is_planned_at_once_while_there_is_time() {
        let planning = planning();
        for _ in 0..20 {
            planning.begin_turn();
            // The query is parsed first.
            assert_eq!(polls(&planning, client(1)), Some(1));
            planning.unbroken_us.set(PLANNING_UNBROKEN_US - 1);
            assert_eq!(polls(&planning, client(1)), Some(1));
        }
        assert_eq!(planning.counts.queries_planned.get(), 40);
    }

    #[test]
    fn planning_leaves_time_for_others() {
        let planning = planning();
        planning.unbroken_us.set(PLANNING_UNBROKEN_US);
        assert_eq!(polls(&planning, client(1)), Some(2));
        planning.unbroken_us.set(PLANNING_UNBROKEN_US);
        planning.begin_turn();
        assert_eq!(polls(&planning, client(1)), Some(1), "they had it");
    }

    #[test]
    fn queries_are_planned_one_after_the_other() {
        let planning = planning();
        let context = &mut Context::from_waker(Waker::noop());
        planning.unbroken_us.set(PLANNING_UNBROKEN_US);
        let mut first = pin!(planning.run(client(1), || 1));
        assert!(first.as_mut().poll(context).is_pending(), "others have a turn");
        assert_eq!(polls(&planning, client(2)), None, "it is the first one's turn");
        assert!(matches!(first.as_mut().poll(context), Poll::Ready(Ok(1))));
        planning.begin_turn();
        planning.time.set(PlanningTime::default());
        assert_eq!(polls(&planning, client(2)), Some(1));
    }

    #[test]
    fn a_query_waits_while_planning_has_taken_more_than_its_part() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let planning = planning();
        planning.time.set(PlanningTime { full_us: u64::MAX });
        assert_eq!(polls(&planning, client(1)), None);
        assert_eq!(planning.counts.queries_planned.get(), 0);
        // It is no longer among the queries that wait.
        assert_eq!((planning.waiting.get(), planning.turns.queued(client(1).address)), (0, 0));
    }

    /// A quarter, as documented, whatever the constants are.
    #[test]
    fn planning_takes_a_quarter_of_the_time_and_no_more() {
        let (mut time, mut now_us, mut spent_us) = (PlanningTime::default(), 1_000_000, 0);
        let begun_us = now_us;
        assert_eq!(time.wait(now_us), None);
        for took_us in [1_000, 50, 7_000, 300, 2_000].into_iter().cycle().take(500) {
            if let Some(wait) = time.wait(now_us) {
                now_us += wait.as_micros() as u64;
                assert_eq!(time.wait(now_us), None, "a query that has waited is planned");
            }
            time = time.spend(now_us, took_us);
            (now_us, spent_us) = (now_us + took_us, spent_us + took_us);
            let most_us = PLANNING_BURST_US + (now_us - begun_us) / 4 + took_us;
            assert!(spent_us <= most_us, "{spent_us} of {}", now_us - begun_us);
        }
        assert!(spent_us > (now_us - begun_us) / 4);
        // A long pause saves up no more than the burst.
        now_us += 1_000_000_000;
        time = time.spend(now_us, PLANNING_BURST_US + 1_000);
        assert!(time.wait(now_us).is_some());
    }
}
