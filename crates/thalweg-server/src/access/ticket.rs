//! Tickets, which a browser presents in URLs of requests whose headers it cannot set. URLs end up in logs and histories.
//! This does no harm, because a ticket is valid only once, for half a minute.

use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};

use ring::digest::{Context, SHA256};

use super::{Holder, Identity};
use crate::{
    config::{ALL_TICKETS_MAX, Access, SignedBy},
    refusal::Refusal,
};

/// The time at which a ticket was issued or expires, in µs of the server's clock.
type TimeUs = u64;

const SWEEP_US: TimeUs = 1_000_000;

/// Lifetime of a ticket, in seconds. It is short, because a page uses its ticket at once.
pub(crate) const TICKET_LIFE_S: u64 = 30;

const TICKET_LIFE_US: u64 = TICKET_LIFE_S * 1_000_000;

/// A ticket: a random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(u128);

impl Ticket {
    pub(super) fn new(random: u128) -> Self {
        Self(random)
    }

    pub(crate) fn text(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Parses exactly the text that [`Self::text`] returns.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self).filter(|ticket| ticket.text() == text)
    }
}

/// The tickets that this server keeps. `HashMap` hashes with random keys, so the time of a lookup reveals
/// nothing about existing tickets.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    unused: HashMap<Ticket, (Arc<Holder>, TimeUs)>,
    /// Tickets by identity, sorted by expiry: the first is the oldest.
    by_end: HashMap<Identity, BTreeSet<(TimeUs, Ticket)>>,
    swept_us: TimeUs,
}

impl Tickets {
    /// Keeps a new ticket. Returns `true` if the holder had too many tickets and the oldest one was removed.
    /// Fails with `Busy` if all holders together have too many.
    pub(crate) fn keep(
        &mut self,
        ticket: Ticket,
        holder: Arc<Holder>,
        now_us: u64,
    ) -> Result<bool, Refusal> {
        if self.unused.len() >= ALL_TICKETS_MAX && self.swept_us + SWEEP_US <= now_us {
            self.swept_us = now_us;
            self.by_end.retain(|_, by_end| {
                while let Some((end_us, first)) = by_end.first().copied()
                    && end_us <= now_us
                {
                    by_end.pop_first();
                    self.unused.remove(&first);
                }
                !by_end.is_empty()
            });
        }
        let by_end = self.by_end.entry(holder.identity).or_default();
        while let Some((end_us, first)) = by_end.first().copied()
            && end_us <= now_us
        {
            by_end.pop_first();
            self.unused.remove(&first);
        }
        let oldest = if by_end.len() < holder.tickets_max() { None } else { by_end.pop_first() };
        if let Some((_, oldest)) = oldest {
            self.unused.remove(&oldest);
        }
        if self.unused.len() >= ALL_TICKETS_MAX {
            let message = "the server has too many unused tickets: try again in at most 30 s";
            return Err(Refusal::busy(message));
        }
        let end_us = now_us + TICKET_LIFE_US;
        self.unused.insert(ticket, (holder, end_us));
        by_end.insert((end_us, ticket));
        Ok(oldest.is_some())
    }

    pub(crate) fn redeem(&mut self, ticket: Ticket, now_us: u64) -> Option<Arc<Holder>> {
        let (holder, end_us) = self.unused.remove(&ticket)?;
        if let Entry::Occupied(mut by_end) = self.by_end.entry(holder.identity) {
            by_end.get_mut().remove(&(end_us, ticket));
            if by_end.get().is_empty() {
                by_end.remove();
            }
        }
        (now_us < end_us).then_some(holder)
    }
}

/// Counts the tickets that this server has issued and a broker keeps.
#[derive(Debug, Default)]
pub(crate) struct IssueRates {
    /// The issue times of possibly unused tickets, the oldest first.
    issued: HashMap<Identity, VecDeque<TimeUs>>,
    /// The same times of all identities together.
    all: VecDeque<TimeUs>,
    swept_us: TimeUs,
}

impl IssueRates {
    /// Counts a ticket. Returns `false` if its holder, or all together, got too many within the lifetime of a ticket, or
    /// too many holders are counted.
    pub(crate) fn take(&mut self, holder: &Holder, now_us: u64) -> bool {
        if self.issued.len() >= ALL_TICKETS_MAX && self.swept_us + SWEEP_US <= now_us {
            self.swept_us = now_us;
            self.issued.retain(|_, issued| {
                issued.back().is_some_and(|last_us| last_us + TICKET_LIFE_US > now_us)
            });
        }
        while self.all.front().is_some_and(|issued_us| issued_us + TICKET_LIFE_US <= now_us) {
            self.all.pop_front();
        }
        if self.issued.len() >= ALL_TICKETS_MAX || self.all.len() >= ALL_TICKETS_MAX {
            return false;
        }
        let issued = self.issued.entry(holder.identity).or_default();
        while issued.front().is_some_and(|issued_us| issued_us + TICKET_LIFE_US <= now_us) {
            issued.pop_front();
        }
        let has_room = issued.len() < holder.tickets_max();
        if has_room {
            issued.push_back(now_us);
            self.all.push_back(now_us);
        }
        has_room
    }
}

/// Digests of tickets. They include the server's tokens and keys, because a ticket stands for a token: a
/// server with other tokens that uses the same store cannot find the ticket.
pub(super) struct Digests(Context);

impl Digests {
    pub(super) fn new(access: &Access) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(b"thalweg ticket\n");
        // Each part follows its length, which makes the list unambiguous.
        let mut add = |part: &[u8]| {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        };
        for token in &access.tokens {
            add(token.secret.as_bytes());
        }
        if let Some(SignedBy { keys, url, expected }) = &access.signed {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            add(format!("{url:?}").as_bytes());
            add(text(&expected.issuer).as_bytes());
            add(text(&expected.audience).as_bytes());
            add(expected.claim.as_bytes());
            keys.bytes().for_each(add);
        }
        Self(context)
    }

    pub(super) fn digest(&self, ticket: Ticket) -> [u8; 32] {
        let mut context = self.0.clone();
        context.update(&ticket.0.to_be_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_token::{Expectations, Key, Keys, Rights};

    use crate::config::{NamedToken, Secret, TICKETS_MAX};

    fn publisher() -> Arc<Holder> {
        Arc::new(Holder::named("publisher", &Secret::new("p"), Rights::default()))
    }

    fn subscriber() -> Arc<Holder> {
        Arc::new(Holder::named("subscriber", &Secret::new("s"), Rights::default()))
    }

    impl Tickets {
        fn len(&self) -> usize {
            let by_end: usize = self.by_end.values().map(BTreeSet::len).sum();
            assert_eq!(self.unused.len(), by_end);
            by_end
        }
    }

    #[test]
    fn a_ticket_is_valid_once_and_briefly() {
        let mut tickets = Tickets::default();
        let ticket = Ticket::new(7);
        tickets.keep(ticket, publisher(), 0).unwrap();
        assert_eq!(tickets.redeem(ticket, TICKET_LIFE_US - 1), Some(publisher()));
        assert_eq!(tickets.redeem(ticket, TICKET_LIFE_US - 1), None);
        tickets.keep(ticket, subscriber(), 0).unwrap();
        assert_eq!(tickets.redeem(ticket, TICKET_LIFE_US), None);
        assert_eq!(tickets.len(), 0);
    }

    #[test]
    fn a_ticket_has_one_spelling() {
        assert_eq!(Ticket::new(7).text(), "00000000000000000000000000000007");
        let ticket = Ticket::new(0xabcd_ef00_u128 << 64);
        let text = ticket.text();
        assert_eq!(Ticket::parse(&text), Some(ticket));
        let upper = text.to_uppercase();
        let plus = format!("+{}", &text[1..]);
        for wrong in ["", "x", &upper, &plus, &text[1..], &format!("{text}0")] {
            assert_eq!(Ticket::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_ticket_above_the_limit_replaces_the_oldest_of_its_identity() {
        let mut tickets = Tickets::default();
        let publishers = Ticket::new(u128::MAX);
        tickets.keep(publishers, publisher(), 0).unwrap();
        let keep = |tickets: &mut Tickets, id: u128, now_us| {
            tickets.keep(Ticket::new(id), subscriber(), now_us).unwrap()
        };
        for id in 0..TICKETS_MAX as u128 {
            assert!(!keep(&mut tickets, id, 1 + id as u64));
        }
        assert!(keep(&mut tickets, 20_000, TICKET_LIFE_US - 2));
        assert!(keep(&mut tickets, 20_001, TICKET_LIFE_US - 2));
        // Used and expired tickets make room.
        let before_end = TICKET_LIFE_US - 2;
        assert_eq!(tickets.redeem(Ticket::new(0), before_end), None);
        assert_eq!(tickets.redeem(Ticket::new(5), before_end), Some(subscriber()));
        assert!(!keep(&mut tickets, 20_002, before_end));
        assert!(keep(&mut tickets, 20_003, before_end));
        assert!(!keep(&mut tickets, 20_004, TICKET_LIFE_US + 4));
        assert_eq!(tickets.len(), TICKETS_MAX + 1);
        assert_eq!(tickets.redeem(publishers, TICKET_LIFE_US - 1), Some(publisher()));
    }

    #[test]
    fn tickets_in_a_broker_have_the_same_limit() {
        let mut rates = IssueRates::default();
        assert!((0..TICKETS_MAX).all(|_| rates.take(&subscriber(), 0)));
        assert!(!rates.take(&subscriber(), TICKET_LIFE_US - 1));
        assert!(rates.take(&publisher(), TICKET_LIFE_US - 1), "each has its own");
        assert!(rates.take(&subscriber(), TICKET_LIFE_US));
    }

    #[test]
    fn tickets_in_a_broker_have_a_limit_for_all_holders_together() {
        let mut rates = IssueRates::default();
        let holder =
            |nth: usize| Holder::named("x", &Secret::new(nth.to_string()), Rights::default());
        for nth in 0..ALL_TICKETS_MAX / TICKETS_MAX {
            let holder = holder(nth);
            assert!((0..TICKETS_MAX).all(|_| rates.take(&holder, 0)));
        }
        let another = holder(ALL_TICKETS_MAX);
        assert!(!rates.take(&another, TICKET_LIFE_US - 1));
        assert!(rates.take(&another, TICKET_LIFE_US));
    }

    #[test]
    fn a_digest_covers_the_ticket_and_all_tokens() {
        let digest = |[one, two, three, key, audience]: [&str; 5], ticket| {
            let named = |secret: &str| NamedToken {
                name: "x".to_owned(),
                secret: Secret::new(secret),
                rights: Rights::default(),
            };
            let secrets = [one, two, three].into_iter().filter(|secret| !secret.is_empty());
            let signed = (!key.is_empty()).then(|| SignedBy {
                keys: Keys::new(vec![Key::secret(&key.repeat(32), None).unwrap()]).unwrap(),
                expected: Expectations {
                    audience: Some(audience.to_owned()),
                    ..Expectations::default()
                },
                url: None,
            });
            let access =
                Access { tokens: secrets.map(named).collect(), signed, ..Access::default() };
            Digests::new(&access).digest(Ticket::new(ticket))
        };
        let ours = ["p", "s", "", "k", "here"];
        assert_eq!(digest(ours, 7), digest(ours, 7));
        assert_ne!(digest(ours, 7), digest(ours, 8));
        for others in [
            ["s", "p", "", "k", "here"],
            ["ps", "", "", "k", "here"],
            ["p", "s", "n", "k", "here"],
            ["p", "s", "", "l", "here"],
            ["p", "s", "", "k", "there"],
            ["p", "s", "", "", ""],
        ] {
            assert_ne!(digest(ours, 7), digest(others, 7), "{others:?}");
        }
    }
}
