//! Goodbyes: many connections are told to reconnect, each at a time of its own, because otherwise all of them
//! would come back in the same instant.

use thalweg_wire::{Close, close};

use super::{Shard, subscribers::Subscribers, timers::Timers};
use crate::{
    config::{CUT_OFF_AFTER_US, CUT_OFF_SPREAD_US, GOODBYE_US},
    derived::is_in_stream,
};

/// Why connections are told to reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Goodbye {
    /// The server ends.
    Draining,
    /// The server hears nothing of streams, and another one may.
    CutOff,
}

/// Connections, by when they are told: their place and their serial.
pub(super) type Goodbyes = Timers<(Goodbye, u32, u64)>;

/// Whether the server hears of its streams, as one shard has seen it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It has not caught up since it started.
    #[default]
    Starting,
    Ready,
    /// It has not been ready since then, in µs.
    Deaf(u64),
    /// Its subscribers were told. Those who come back find no better one.
    Told,
}

impl Goodbye {
    fn close(self) -> Close {
        match self {
            Self::Draining => close::DRAINING,
            Self::CutOff => close::CUT_OFF,
        }
    }
}

impl Hearing {
    /// Returns what it is after a look, and whether subscribers are to be told now: once per outage.
    fn after(self, is_ready: bool, now_us: u64) -> (Self, bool) {
        match (self, is_ready) {
            (_, true) => (Self::Ready, false),
            (Self::Ready, false) => (Self::Deaf(now_us), false),
            (Self::Deaf(since_us), false) if now_us - since_us >= CUT_OFF_AFTER_US => {
                (Self::Told, true)
            }
            (same, false) => (same, false),
        }
    }
}

impl Subscribers {
    /// Tells connections to reconnect, one after the other, over `most_us` at most.
    pub(super) fn say_goodbye(
        &mut self,
        goodbye: Goodbye,
        keys: &[u32],
        now_us: u64,
        most_us: u64,
    ) {
        let span_us = most_us.min(keys.len() as u64 * GOODBYE_US);
        for (nth, key) in keys.iter().enumerate() {
            let Some(connection) = self.connections.get(*key as usize) else { continue };
            let at_us = now_us + span_us * nth as u64 / keys.len() as u64;
            self.goodbyes.set(at_us, (goodbye, *key, connection.serial));
        }
    }

    /// Tells those whose time has come.
    pub(super) fn end_goodbyes(&mut self, now_us: u64) {
        while let Some((goodbye, key, serial)) = self.goodbyes.take_due(now_us) {
            let connection = self.connections.get(key as usize);
            if connection.is_some_and(|it| it.serial == serial && !it.subscriber.is_ending()) {
                self.close(key, goodbye.close());
            }
        }
    }
}

impl Shard {
    /// Tells all subscribers to reconnect before the server ends.
    pub(super) fn leave(&mut self, now_us: u64) {
        // The rest is for those who are slow to go.
        let most_us = self.common.config.drain.as_micros() as u64 / 2;
        let keys: Vec<u32> =
            self.subscribers.connections.iter().map(|(key, _)| key as u32).collect();
        self.subscribers.say_goodbye(Goodbye::Draining, &keys, now_us, most_us);
    }

    /// If the server has heard nothing of its streams for a while, tells those to reconnect who read what comes
    /// from there.
    pub(super) fn leave_if_deaf(&mut self, now_us: u64) {
        let Some(readiness) = &self.common.readiness else { return };
        let (hearing, is_time) = self.hearing.after(readiness.is_ready(), now_us);
        self.hearing = hearing;
        if !is_time {
            return;
        }
        let (config, asked) = (&self.common.config, &self.common.asked);
        let feeds = &self.topics.feeds;
        let is_shared = |feed| {
            let local = feeds.get(feed);
            local.is_some_and(|it| is_in_stream(config, &it.topic) || asked.is_shared(&it.topic))
        };
        let connections = self.subscribers.connections.iter();
        let meant = connections.filter(|(_, it)| it.subscriber.feeds().any(is_shared));
        let keys: Vec<u32> = meant.map(|(key, _)| key as u32).collect();
        self.subscribers.say_goodbye(Goodbye::CutOff, &keys, now_us, CUT_OFF_SPREAD_US);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_told_once_per_outage() {
        let (mut hearing, mut told) = (Hearing::default(), Vec::new());
        let second = 1_000_000;
        let ready = |second: u64| (3..10).contains(&second) || (30..32).contains(&second);
        for nth in 0..60 {
            let (next, is_time) = hearing.after(ready(nth), nth * second);
            hearing = next;
            told.extend(is_time.then_some(nth));
        }
        let after = CUT_OFF_AFTER_US / second;
        assert_eq!(told, [10 + after, 32 + after], "not before it was ready for the first time");
    }

    #[test]
    fn a_short_outage_is_not_told() {
        let hearing = Hearing::Deaf(7);
        assert_eq!(hearing.after(false, 6 + CUT_OFF_AFTER_US), (hearing, false));
        assert_eq!(hearing.after(true, 7 + CUT_OFF_AFTER_US), (Hearing::Ready, false));
    }
}
