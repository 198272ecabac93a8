//! Tickets: a browser presents one in a URL where it cannot set headers. URLs are stored in
//! logs and histories. This does no harm, because a ticket is valid only once, for half a
//! minute.

use std::collections::{BTreeSet, HashMap};

use super::{Identity, TICKET_LIFE_S};
use crate::config::TICKETS_MAX;

/// Outstanding tickets. They are found by a hash with random keys, so that the time of a lookup
/// shows nothing about the existing ones.
#[derive(Default)]
pub(super) struct Tickets {
    outstanding: HashMap<u128, (Identity, EndUs)>,
    /// The same by identity, sorted by expiry: the first is the oldest.
    by_end: HashMap<Identity, BTreeSet<(EndUs, u128)>>,
}

/// When a ticket expires, in µs of the server's clock.
type EndUs = u64;

/// A new ticket.
#[derive(Debug)]
pub(crate) struct Issued {
    /// The ticket's text.
    pub(crate) ticket: String,
    /// Whether the oldest ticket of the same identity became void because of it.
    pub(crate) has_replaced: bool,
}

impl Tickets {
    /// Issues the ticket `id`, a random number. If its identity has too many, the oldest
    /// becomes void.
    pub(super) fn issue(&mut self, id: u128, identity: Identity, now_us: u64) -> Issued {
        let by_end = self.by_end.entry(identity).or_default();
        while let Some((end_us, first)) = by_end.first().copied()
            && end_us <= now_us
        {
            by_end.pop_first();
            self.outstanding.remove(&first);
        }
        let oldest = if by_end.len() < TICKETS_MAX { None } else { by_end.pop_first() };
        if let Some((_, oldest)) = oldest {
            self.outstanding.remove(&oldest);
        }
        let end_us = now_us + TICKET_LIFE_S * 1_000_000;
        self.outstanding.insert(id, (identity, end_us));
        by_end.insert((end_us, id));
        Issued { ticket: text(id), has_replaced: oldest.is_some() }
    }

    /// Uses a ticket up. Returns its identity, if the ticket is valid.
    pub(super) fn redeem(&mut self, text: &str, now_us: u64) -> Option<Identity> {
        let id = parse(text)?;
        let (identity, end_us) = self.outstanding.remove(&id)?;
        if let Some(by_end) = self.by_end.get_mut(&identity) {
            by_end.remove(&(end_us, id));
        }
        (now_us < end_us).then_some(identity)
    }
}

/// The text of a ticket.
pub(super) fn text(id: u128) -> String {
    format!("{id:032x}")
}

/// Accepts only the text that [`text`] gives.
fn parse(ticket: &str) -> Option<u128> {
    u128::from_str_radix(ticket, 16).ok().filter(|id| text(*id) == ticket)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE_US: u64 = TICKET_LIFE_S * 1_000_000;

    impl Tickets {
        fn len(&self) -> usize {
            let by_end: usize = self.by_end.values().map(BTreeSet::len).sum();
            assert_eq!(self.outstanding.len(), by_end);
            by_end
        }
    }

    #[test]
    fn a_ticket_is_good_once_and_not_for_long() {
        let mut tickets = Tickets::default();
        let ticket = tickets.issue(7, Identity::Publisher, 0).ticket;
        assert_eq!(ticket, "00000000000000000000000000000007");
        assert_eq!(tickets.redeem(&ticket, LIFE_US - 1), Some(Identity::Publisher));
        assert_eq!(tickets.redeem(&ticket, LIFE_US - 1), None);
        let ticket = tickets.issue(8, Identity::Subscriber, 0).ticket;
        assert_eq!(tickets.redeem(&ticket, LIFE_US), None);
        assert_eq!(tickets.len(), 0);
    }

    #[test]
    fn a_ticket_is_written_in_one_way() {
        let mut tickets = Tickets::default();
        let id = 0xabcd_ef00_u128 << 64;
        let ticket = tickets.issue(id, Identity::Subscriber, 0).ticket;
        let upper = ticket.to_uppercase();
        let plus = format!("+{}", &ticket[1..]);
        for wrong in ["", "x", &upper, &plus, &ticket[1..], &format!("{ticket}0")] {
            assert_eq!(tickets.redeem(wrong, 0), None, "{wrong}");
        }
        assert_eq!(tickets.redeem(&ticket, 0), Some(Identity::Subscriber));
    }

    #[test]
    fn a_ticket_too_many_is_given_for_the_oldest_of_its_identity() {
        let mut tickets = Tickets::default();
        let publishers = tickets.issue(u128::MAX, Identity::Publisher, 0).ticket;
        let mut give = |id: u128, now_us| tickets.issue(id, Identity::Subscriber, now_us);
        for id in 0..TICKETS_MAX as u128 {
            assert!(!give(id, 1 + id as u64).has_replaced);
        }
        assert!(give(20_000, LIFE_US - 2).has_replaced);
        assert!(give(20_001, LIFE_US - 2).has_replaced);
        // Used or expired ones make room.
        assert_eq!(tickets.redeem(&text(0), LIFE_US - 2), None);
        assert_eq!(tickets.redeem(&text(5), LIFE_US - 2), Some(Identity::Subscriber));
        let mut give = |id: u128, now_us| tickets.issue(id, Identity::Subscriber, now_us);
        assert!(!give(20_002, LIFE_US - 2).has_replaced);
        assert!(give(20_003, LIFE_US - 2).has_replaced);
        assert!(!give(20_004, LIFE_US + 4).has_replaced);
        assert_eq!(tickets.len(), TICKETS_MAX + 1);
        assert_eq!(tickets.redeem(&publishers, LIFE_US - 1), Some(Identity::Publisher));
    }
}
