//! Rate limits of clients: token buckets of connections, subjects and addresses.
//!
//! A bucket is one number, the time at which it would be full again (the generic cell rate algorithm, ITU-T I.371
//! §5.3). A connection therefore has its buckets in a few bytes, and a full bucket needs no memory.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use thalweg_wire::ErrorCode;

use crate::{
    config::{Limits, RATED_MAX, Rate, Rates, WRONG_TOKEN_REQUESTS},
    connection_limits::Address,
    refusal::Refusal,
};

/// An action with a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Commands, in a connection or as a request.
    Command,
    /// Published events.
    Publish,
    /// Bytes of commands and of bodies.
    Byte,
    /// Requests, because each may open a connection. A publish counts as [`Self::Publish`] for each event,
    /// and as a request only if it is refused for a missing right. A command counts only as
    /// [`Self::Command`].
    Handshake,
    /// Verifications of unknown tokens and tickets, at the rate of requests. They have their own bucket, so
    /// that a client with wrong tokens does not lock out others of the same address, whose tokens are known.
    Verification,
}

impl Act {
    /// The number of actions, and of those that are counted per connection, too, which come first.
    const COUNT: usize = 5;
    const IN_CONNECTIONS: usize = 3;

    /// Returns the name in messages, a plural.
    fn name(self) -> &'static str {
        match self {
            Self::Handshake => "requests",
            Self::Command => "commands",
            Self::Publish => "events",
            Self::Byte => "bytes",
            Self::Verification => "tokens to verify",
        }
    }
}

impl Rates {
    fn rate(&self, act: Act) -> Rate {
        match act {
            Act::Handshake | Act::Verification => self.handshakes,
            Act::Command => self.commands,
            Act::Publish => self.publishes,
            Act::Byte => self.bytes,
        }
    }
}

/// One bucket for each of the first `N` [`Act`]s: the time at which each would be full again, in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets<const N: usize>([u64; N]);

pub(crate) type ConnectionBuckets = Buckets<{ Act::IN_CONNECTIONS }>;

/// The buckets of a subject or an address.
type ClientBuckets = Buckets<{ Act::COUNT }>;

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Buckets<N> {
    /// Takes `count` units. A request for more than the whole bucket empties it. The error is the time until
    /// the bucket has enough units.
    fn take(&mut self, act: Act, count: u64, rate: Rate, now_us: u64) -> Result<(), Duration> {
        let now_ns = now_us.saturating_mul(1_000);
        let full_ns = rate.time_ns(count);
        let burst_ns = rate.time_ns(rate.burst);
        // This kind of client has no bucket for the action.
        let Some(bucket) = self.0.get_mut(act as usize) else { return Ok(()) };
        let next_ns = (*bucket).max(now_ns).saturating_add(full_ns.min(burst_ns));
        let over_ns = next_ns.saturating_sub(now_ns.saturating_add(burst_ns));
        if over_ns > 0 {
            return Err(Duration::from_nanos(over_ns));
        }
        *bucket = next_ns;
        Ok(())
    }

    /// Takes `count` units without a check. The bucket may go into debt, up to its size. It refuses
    /// everything until the debt is paid.
    fn charge(&mut self, act: Act, count: u64, rate: Rate, now_us: u64) {
        let now_ns = now_us.saturating_mul(1_000);
        let Some(bucket) = self.0.get_mut(act as usize) else { return };
        let next_ns = (*bucket).max(now_ns).saturating_add(rate.time_ns(count));
        *bucket = next_ns.min(now_ns.saturating_add(2 * rate.time_ns(rate.burst)));
    }

    fn are_full(&self, now_us: u64) -> bool {
        self.0.iter().all(|bucket| *bucket <= now_us.saturating_mul(1_000))
    }
}

/// The buckets of many clients, by key.
#[derive(Debug)]
struct Keyed<K> {
    hasher: RandomState,
    parts: [Mutex<HashMap<K, ClientBuckets>>; PARTS],
}

/// Parts of a table, each with its own lock.
const PARTS: usize = 16;

impl<K: Hash + Eq + Copy> Keyed<K> {
    fn new() -> Self {
        Self { hasher: RandomState::new(), parts: Default::default() }
    }

    /// Calls `step` with the buckets of a key. Returns `None` if the table is full and has no entry for the
    /// key. The caller then does not limit the key.
    fn with<T>(&self, key: K, step: impl FnOnce(&mut ClientBuckets) -> T) -> Option<T> {
        let part = self.hasher.hash_one(key) as usize % PARTS;
        let mut part = lock(&self.parts[part]);
        // The sweep makes room.
        if part.len() >= RATED_MAX / PARTS && !part.contains_key(&key) {
            return None;
        }
        Some(step(part.entry(key).or_default()))
    }

    fn sweep(&self, now_us: u64) {
        for part in &self.parts {
            let mut part = lock(part);
            part.retain(|_, buckets| !buckets.are_full(now_us));
            if part.is_empty() {
                // Frees memory after many clients have left.
                *part = HashMap::new();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct AllRates {
    rates: RwLock<ClientRates>,
    by_subject: Keyed<u128>,
    by_address: Keyed<Address>,
}

#[derive(Debug, Clone, Copy)]
struct ClientRates {
    of_connection: Rates,
    of_subject: Rates,
    of_address: Rates,
}

impl From<&Limits> for ClientRates {
    fn from(limits: &Limits) -> Self {
        Self {
            of_connection: limits.rates_of_connection,
            of_subject: limits.rates_of_subject,
            of_address: limits.rates_of_address,
        }
    }
}

/// The client whose buckets an action uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rated {
    /// The subject of a signed token. Holders of configured tokens have no limit, because the operator knows them.
    pub(crate) subject: Option<u128>,
    /// The address. `None` on loopback, which is not counted.
    pub(crate) address: Option<Address>,
}

impl AllRates {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            rates: RwLock::new(limits.into()),
            by_subject: Keyed::new(),
            by_address: Keyed::new(),
        }
    }

    pub(crate) fn change(&self, limits: &Limits) {
        *self.rates.write().unwrap_or_else(PoisonError::into_inner) = limits.into();
    }

    fn rates(&self) -> ClientRates {
        *self.rates.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `count` units from the buckets of a client, and of its connection, if any. Returns how many of
    /// the client's subject and address were not counted, because a table is full. Fails with
    /// `TooManyRequests` and the time to wait.
    pub(crate) fn take(
        &self,
        rated: Rated,
        connection: Option<&mut ConnectionBuckets>,
        (act, count): (Act, u64),
        now_us: u64,
    ) -> Result<u64, Refusal> {
        let ClientRates { of_connection, of_subject, of_address } = self.rates();
        let mut uncounted = 0;
        let refused = |whose: &str, wait| too_many(whose, act, wait);
        if let Some(buckets) = connection {
            let taken = buckets.take(act, count, of_connection.rate(act), now_us);
            taken.map_err(|wait| refused("this connection", wait))?;
        }
        let take = |rates: Rates| {
            move |buckets: &mut ClientBuckets| buckets.take(act, count, rates.rate(act), now_us)
        };
        let mut check = |taken: Option<Result<(), Duration>>, whose: &str| match taken {
            Some(taken) => taken.map_err(|wait| refused(whose, wait)),
            None => {
                uncounted += 1;
                Ok(())
            }
        };
        // Requests that are refused for the subject must not count for the address: one subject would lock out all others behind its
        // address.
        if let Some(key) = rated.subject {
            check(self.by_subject.with(key, take(of_subject)), "this subject")?;
        }
        if let Some(key) = rated.address {
            check(self.by_address.with(key, take(of_address)), "this address")?;
        }
        Ok(uncounted)
    }

    /// Charges an address for an invalid token.
    pub(crate) fn charge(&self, address: Address, now_us: u64) {
        let rate = self.rates().of_address.rate(Act::Verification);
        // If the table is full, the address is not charged.
        let _ = self.by_address.with(address, |buckets| {
            buckets.charge(Act::Verification, WRONG_TOKEN_REQUESTS, rate, now_us);
        });
    }

    /// Removes full buckets.
    pub(crate) fn sweep(&self, now_us: u64) {
        self.by_subject.sweep(now_us);
        self.by_address.sweep(now_us);
    }
}

fn too_many(whose: &str, act: Act, wait: Duration) -> Refusal {
    let wait_ms = wait.as_millis().max(1);
    let message = format!("too many {} from {whose}: try again in {wait_ms} ms", act.name());
    Refusal::new(ErrorCode::TooManyRequests, message).after(wait)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate { per_s: 10, burst: 5 };

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut buckets = ClientBuckets::default();
        let mut take = |now_us| buckets.take(Act::Command, 1, RATE, now_us).is_ok();
        let start_us = 7_000_000;
        assert_eq!((0..8).filter(|_| take(start_us)).count(), 5);
        // Each tenth of a second adds one unit.
        assert_eq!((1..=20).filter(|tenth| take(start_us + tenth * 100_000)).count(), 20);
        assert!(!take(start_us + 2_000_001));
    }

    #[test]
    fn clients_that_wait_as_told_are_served() {
        let mut buckets = ClientBuckets::default();
        while buckets.take(Act::Byte, 2, RATE, 0).is_ok() {}
        let wait = buckets.take(Act::Byte, 2, RATE, 0).unwrap_err();
        let wait_us = wait.as_micros() as u64;
        assert!(buckets.take(Act::Byte, 2, RATE, wait_us - 1).is_err());
        assert!(buckets.take(Act::Byte, 2, RATE, wait_us).is_ok());
        // A request larger than the bucket waits for a full one.
        assert!(buckets.take(Act::Byte, 1000, RATE, wait_us).is_err());
        assert!(buckets.take(Act::Byte, 1000, RATE, 60_000_000).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares with a bucket that is filled continuously.
        #[test]
        fn it_is_a_token_bucket(steps in prop::collection::vec((0..400_u64, 1..5_u64), 1..60)) {
            let (mut buckets, mut now_ms, mut level) = (ClientBuckets::default(), 1000, 5000_u64);
            for (passed_ms, count) in steps {
                now_ms += passed_ms;
                // Thousandths: ten per second are ten of them per millisecond.
                level = (level + 10 * passed_ms).min(5000);
                let fits = level >= 1000 * count;
                level -= if fits { 1000 * count } else { 0 };
                let taken = buckets.take(Act::Command, count, RATE, now_ms * 1000).is_ok();
                prop_assert_eq!(taken, fits);
            }
        }
    }

    #[test]
    fn requests_refused_for_a_subject_do_not_count_for_its_address() {
        let rates = Rates { handshakes: RATE, commands: RATE, publishes: RATE, bytes: RATE };
        let commands = Rate { burst: 50, ..RATE };
        let limits = Limits {
            rates_of_subject: rates,
            rates_of_address: Rates { commands, ..rates },
            ..Limits::default()
        };
        let all = AllRates::new(&limits);
        let address = Some(Address::from_ip(std::net::Ipv4Addr::LOCALHOST.into()));
        let allowed = |subject| {
            let take = || all.take(Rated { subject, address }, None, (Act::Command, 1), 0);
            (0..100).filter(|_| take().is_ok()).count()
        };
        assert_eq!(allowed(Some(7)), 5);
        assert_eq!(allowed(None), 45);
    }

    #[test]
    fn each_has_buckets_of_its_own_and_a_crowd_is_forgotten() {
        let rates = Rates { handshakes: RATE, commands: RATE, publishes: RATE, bytes: RATE };
        let limits = Limits {
            rates_of_connection: rates,
            rates_of_subject: rates,
            rates_of_address: rates,
            ..Limits::default()
        };
        let all = AllRates::new(&limits);
        let address = |nth: u32| Address::from_ip(std::net::Ipv4Addr::from_bits(nth).into());
        let take = |nth: u32, now_us| {
            let rated = Rated { subject: None, address: Some(address(nth)) };
            all.take(rated, None, (Act::Handshake, 1), now_us)
        };
        for nth in 1..100 {
            assert!((0..5).all(|_| take(nth, 0).is_ok()), "{nth}");
            assert_eq!(take(nth, 0).unwrap_err().code, ErrorCode::TooManyRequests);
        }
        // Clients beyond the table's limit are not counted, and not refused.
        let uncounted = (100..2 * RATED_MAX as u32).map(|nth| take(nth, 0).unwrap()).sum::<u64>();
        assert!(uncounted > 0);
        let held = || all.by_address.parts.iter().map(|part| lock(part).len()).sum::<usize>();
        assert!(held() <= RATED_MAX);
        // The same bucket allows more at once, as soon as the limit does.
        let rates_of_address = Rates { handshakes: Rate { burst: 8, ..RATE }, ..rates };
        all.change(&Limits { rates_of_address, ..limits });
        assert_eq!((0..9).filter(|_| take(1, 0).is_ok()).count(), 3);
        all.sweep(1_000_000);
        assert_eq!(held(), 0);
    }
}
