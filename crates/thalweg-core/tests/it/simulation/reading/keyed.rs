//! The subscription of a keyed topic.

use std::rc::Rc;

use thalweg_wire::{Offset, Position, StartAt};

use super::{Reading, Sent};
use crate::simulation::{
    keyed_reading::{KeyedMessage, KeyedState},
    published::Published,
    tally::Tally,
};

/// From this interval on, in µs, readers of a keyed topic get each key once in an interval.
const CONFLATED_INTERVAL_US: u64 = 10_000;

impl Reading {
    /// Whether a confirmation of a keyed topic says how far the state goes.
    pub(super) fn may_confirm(&self, next: Offset, until: Option<Offset>, sealed: Offset) -> bool {
        self.visits.iter().any(|visit| {
            let is_owner = visit.keyed.is_some_and(|keyed| keyed.is_owner);
            let is_its = until == (visit.head > next).then_some(visit.head - 1);
            // A follower knows of a newer state than its own.
            let is_newer = until.is_some_and(|until| until >= next && until <= sealed);
            is_its || (!is_owner && is_newer)
        })
    }

    /// A message with events of a keyed topic, perhaps none of them.
    pub(in crate::simulation) fn keyed(
        &mut self,
        position: Position,
        message: &KeyedMessage<'_>,
        published: &Published,
        sent: Sent,
        tally: &mut Tally,
    ) {
        let topic = &published.topic;
        let events = published.keyed().expect("of a keyed topic");
        let reading = self.keyed.as_mut().expect("events after a confirmation or a gap");
        for (offset, payload) in message.events {
            assert!(*payload == published.payload(*offset), "{topic}: event {offset} is damaged");
        }
        let published_until = (events, published.sealed());
        reading.message(message, published_until, &self.visits, tally);
        self.moved(position, position.offset + 1, published, sent);
    }

    /// Returns the client's state of a keyed topic at a place where it may resume.
    pub(in crate::simulation) fn state_at(&self, at: StartAt) -> Option<Rc<KeyedState>> {
        match &self.keyed {
            Some(keyed) => Some(Rc::new(keyed.state().clone())),
            None => self.had.clone().filter(|_| at == self.subscribe.start),
        }
    }

    /// Whether it has the newest state of a keyed topic, if it has begun to read one.
    pub(in crate::simulation) fn is_whole(&self, published: &Published) -> bool {
        let Some((keyed, events)) = self.keyed.as_ref().zip(published.keyed()) else { return true };
        let state = keyed.state();
        // A client may have claimed a later position than any.
        let is_newest = state.position >= published.sealed();
        is_newest && state.is_whole() && state.is_state_of(events)
    }

    /// Whether a page may be due to a reader of a keyed topic.
    pub(in crate::simulation) fn may_owe_page(&self) -> bool {
        let newest = self.visits.last().filter(|visit| visit.keyed.is_some());
        newest.is_some_and(|visit| self.next().is_none_or(|next| next < visit.head))
    }

    /// Whether each key of a keyed topic comes at most once in an interval.
    pub(in crate::simulation) fn is_conflated(&self) -> bool {
        self.subscribe.terms.interval_us >= CONFLATED_INTERVAL_US
    }

    /// Returns when the next frame may be sent to a reader who had everything at `caught_up_us`.
    pub(super) fn due_us(&self, caught_up_us: u64) -> u64 {
        let interval_us = self.subscribe.terms.interval_us;
        if self.keyed.is_none() || !self.is_conflated() {
            return caught_up_us + interval_us;
        }
        // Readers share a grid of 10 ms.
        let grid_us = interval_us.next_multiple_of(CONFLATED_INTERVAL_US);
        (caught_up_us / grid_us + 1) * grid_us
    }
}
