//! Tickets: what a browser presents where it cannot set headers. A URL ends up in
//! logs and histories; what is good once, for half a minute, may.

use std::collections::{BTreeSet, HashMap};

use thalweg_wire::ErrorCode;

use super::{Identity, TICKET_LIFE_S};
use crate::refusal::Refusal;

/// Tickets given and not yet used: a megabyte, and more clients than connect within
/// a ticket's life.
const TICKETS_MAX: usize = 10_000;

/// Tickets outstanding. They are found by a hash with random keys, so that the time a
/// look takes tells nothing about those there are.
#[derive(Default)]
pub(super) struct Tickets {
    outstanding: HashMap<u128, Ticket>,
    /// The same, the first to expire first.
    by_end: BTreeSet<(u64, u128)>,
}

#[derive(Debug, Clone, Copy)]
struct Ticket {
    identity: Identity,
    /// Of the clock of the server.
    end_us: u64,
}

impl Tickets {
    /// Gives the ticket `id`, a random number.
    ///
    /// # Errors
    /// `Busy` if there are too many.
    pub(super) fn issue(
        &mut self,
        id: u128,
        identity: Identity,
        now_us: u64,
    ) -> Result<String, Refusal> {
        while let Some((end_us, first)) = self.by_end.first().copied()
            && end_us <= now_us
        {
            self.by_end.pop_first();
            self.outstanding.remove(&first);
        }
        if self.outstanding.len() >= TICKETS_MAX {
            let message = format!("{TICKETS_MAX} tickets wait to be used: try again");
            return Err(Refusal::new(ErrorCode::Busy, message));
        }
        let end_us = now_us + TICKET_LIFE_S * 1_000_000;
        self.outstanding.insert(id, Ticket { identity, end_us });
        self.by_end.insert((end_us, id));
        Ok(text(id))
    }

    /// Takes a ticket back: whose it was, if it is good.
    pub(super) fn redeem(&mut self, text: &str, now_us: u64) -> Option<Identity> {
        let id = parse(text)?;
        let Ticket { identity, end_us } = self.outstanding.remove(&id)?;
        self.by_end.remove(&(end_us, id));
        (now_us < end_us).then_some(identity)
    }
}

/// A ticket as it is written.
pub(super) fn text(id: u128) -> String {
    format!("{id:032x}")
}

/// The one way to write it.
fn parse(ticket: &str) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if ticket.len() != 32 || !ticket.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(ticket, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE_US: u64 = TICKET_LIFE_S * 1_000_000;

    #[test]
    fn a_ticket_is_good_once_and_not_for_long() {
        let mut tickets = Tickets::default();
        let ticket = tickets.issue(7, Identity::Publisher, 0).unwrap();
        assert_eq!(ticket, "00000000000000000000000000000007");
        assert_eq!(tickets.redeem(&ticket, LIFE_US - 1), Some(Identity::Publisher));
        assert_eq!(tickets.redeem(&ticket, LIFE_US - 1), None);
        let ticket = tickets.issue(8, Identity::Subscriber, 0).unwrap();
        assert_eq!(tickets.redeem(&ticket, LIFE_US), None);
        assert_eq!(tickets.outstanding.len() + tickets.by_end.len(), 0);
    }

    #[test]
    fn a_ticket_is_written_in_one_way() {
        let mut tickets = Tickets::default();
        let id = 0xabcd_ef00_u128 << 64;
        let ticket = tickets.issue(id, Identity::Subscriber, 0).unwrap();
        let upper = ticket.to_uppercase();
        let plus = format!("+{}", &ticket[1..]);
        for wrong in ["", "x", &upper, &plus, &ticket[1..], &format!("{ticket}0")] {
            assert_eq!(tickets.redeem(wrong, 0), None, "{wrong}");
        }
        assert_eq!(tickets.redeem(&ticket, 0), Some(Identity::Subscriber));
    }

    #[test]
    fn tickets_are_bounded_and_those_expired_make_room() {
        let mut tickets = Tickets::default();
        for id in 0..TICKETS_MAX as u128 {
            tickets.issue(id, Identity::Subscriber, id as u64).unwrap();
        }
        let refused = tickets.issue(u128::MAX, Identity::Publisher, LIFE_US - 1).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Busy);
        tickets.redeem(&text(5), LIFE_US - 1).unwrap();
        tickets.issue(u128::MAX, Identity::Publisher, LIFE_US - 1).unwrap();
        assert!(tickets.issue(u128::MAX - 1, Identity::Publisher, LIFE_US - 1).is_err());
        tickets.issue(u128::MAX - 1, Identity::Publisher, LIFE_US).unwrap();
        assert_eq!(tickets.outstanding.len(), tickets.by_end.len());
    }
}
