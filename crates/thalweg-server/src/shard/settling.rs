//! Lets everything that is ready run before the turn of a woken loop, so that events that have
//! arrived share a batch and its sends, however many requests they came in.

use crate::{
    clock::now_us,
    config::{SETTLING_ROUNDS_MAX, SETTLING_TIME},
};

/// How long the loop has put off its turn.
#[derive(Debug, Default)]
pub(super) struct Settling {
    rounds: u32,
    end_us: u64,
}

impl Settling {
    /// The loop was woken since it was last polled. Returns whether it puts off its turn for another
    /// round; otherwise it has done so for too long.
    pub(super) fn goes_on(&mut self) -> bool {
        match self.rounds {
            // Most of the time one round shows that nothing more is coming, and needs no clock.
            0 => {}
            1 => self.end_us = now_us() + SETTLING_TIME.as_micros() as u64,
            SETTLING_ROUNDS_MAX.. => return false,
            _ if now_us() >= self.end_us => return false,
            _ => {}
        }
        self.rounds += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_put_off_for_some_rounds_and_some_time() {
        let mut settling = Settling::default();
        let begun_us = now_us();
        let rounds = (0..=SETTLING_ROUNDS_MAX).take_while(|_| settling.goes_on()).count() as u32;
        let took_us = now_us() - begun_us;
        assert!(rounds <= SETTLING_ROUNDS_MAX);
        assert!(rounds == SETTLING_ROUNDS_MAX || took_us >= SETTLING_TIME.as_micros() as u64);
        assert!(rounds >= 2, "the first rounds need no clock");
        assert!(!settling.goes_on());
    }
}
