//! The generated load: experiment A's rows on a schedule set in advance.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::fanout::Fanout;
use crate::frame::push_decimal;
use crate::options::ConstantPlan;

/// The part of a row after its sequence number and its due time.
const ROW_TAIL: &str = concat!(
    r#",1,116.9232297,40.676318,4745,"c00070",78,"32.07","#,
    r#""1970-01-01T00:00:00Z","column 1","another field"]"#
);

/// Maximum number of late ticks that one turn catches up, so that memory stays bounded and sockets are served.
const TICKS_PER_TURN_MAX: u32 = 16;

/// A source of `batch` rows every `interval_us`, next at `due_us`.
#[derive(Debug)]
pub(crate) struct Source {
    batch: u64,
    interval_us: u64,
    due_us: u64,
    row: Row,
    /// Wakes the server at every tick.
    pub(crate) timer: OwnedFd,
}

impl Source {
    pub(crate) fn start(plan: &ConstantPlan) -> Result<Self, Errno> {
        let due_us = first_tick_us(plan, now_us());
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let schedule =
            Itimerspec { it_interval: timespec(plan.interval_us), it_value: timespec(due_us) };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &schedule)?;
        let &ConstantPlan { batch, interval_us, .. } = plan;
        Ok(Self { batch, interval_us, due_us, row: Row::new(), timer })
    }

    /// Appends a batch of rows to a topic for each due tick. Returns whether more ticks are due than fit into one turn.
    pub(crate) fn append_due(&mut self, fanout: &mut Fanout, topic: usize) -> bool {
        let now_us = now_us();
        for _ in 0..TICKS_PER_TURN_MAX {
            if self.due_us > now_us {
                return false;
            }
            self.row.set_due(self.due_us);
            for _ in 0..self.batch {
                fanout.append(topic, self.row.next());
            }
            fanout.end_batch(topic);
            self.due_us += self.interval_us;
        }
        self.due_us <= now_us
    }
}

/// Returns a timer that fires every `interval_us`, from now on.
pub(crate) fn ticker(interval_us: u64) -> Result<OwnedFd, Errno> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let interval = timespec(interval_us);
    let schedule = Itimerspec { it_interval: interval, it_value: interval };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &schedule)?;
    Ok(timer)
}

fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

fn timespec(us: u64) -> Timespec {
    Timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1_000) as i64 }
}

/// Returns the time of the first tick. Earlier ticks are not sent, because they had no subscribers.
fn first_tick_us(plan: &ConstantPlan, now_us: u64) -> u64 {
    let start_us = plan.start_us.unwrap_or(now_us);
    let passed = now_us.saturating_sub(start_us).div_ceil(plan.interval_us);
    start_us.saturating_add(passed.saturating_mul(plan.interval_us))
}

/// The next row as text. Its numbers are incremented in decimal, and writing the row is one copy.
#[derive(Debug)]
struct Row {
    text: Vec<u8>,
    sequence: u64,
    /// End of the sequence number in `text`.
    sequence_end: usize,
    due_us: u64,
}

impl Row {
    fn new() -> Self {
        let mut row = Self { text: Vec::new(), sequence: 0, sequence_end: 0, due_us: 0 };
        row.write();
        row
    }

    fn set_due(&mut self, due_us: u64) {
        self.due_us = due_us;
        self.write();
    }

    fn next(&mut self) -> &[u8] {
        self.sequence += 1;
        if !count_up(&mut self.text[1..self.sequence_end]) {
            self.write();
        }
        &self.text
    }

    fn write(&mut self) {
        self.text.clear();
        self.text.push(b'[');
        push_decimal(self.sequence, &mut self.text);
        self.sequence_end = self.text.len();
        self.text.push(b',');
        push_decimal(self.due_us, &mut self.text);
        self.text.extend_from_slice(ROW_TAIL.as_bytes());
    }
}

/// Increments a decimal number. Returns false if it needs another digit.
fn count_up(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return true;
        }
        *digit = b'0';
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_experiment_a() {
        let mut row = Row::new();
        row.set_due(1_234_567);
        for sequence in 1..=1_001 {
            let expected = format!(
                r#"[{sequence},1234567,1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]"#
            );
            assert_eq!(row.next(), expected.as_bytes());
        }
        row.set_due(7);
        assert!(row.next().starts_with(b"[1002,7,1,"));
    }

    #[test]
    fn the_schedule_starts_on_time_and_never_in_the_past() {
        let topic = String::new;
        let plan = |start_us| ConstantPlan { topic: topic(), batch: 1, interval_us: 100, start_us };
        assert_eq!(first_tick_us(&plan(Some(5_000)), 1_000), 5_000);
        assert_eq!(first_tick_us(&plan(Some(950)), 1_000), 1_050);
        assert_eq!(first_tick_us(&plan(Some(900)), 1_000), 1_000);
        assert_eq!(first_tick_us(&plan(None), 1_000), 1_000);
    }
}
