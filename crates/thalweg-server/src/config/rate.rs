/// How often something may happen: on average per second, and at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The average per second, at least 1.
    pub per_s: u64,
    /// The maximum at once, at least 1.
    pub burst: u64,
}

/// How often a connection, a subject or an address may do something (`too_many_requests`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Requests other than publishes and commands. Not limited per connection.
    pub handshakes: Rate,
    /// Commands.
    pub commands: Rate,
    /// Events published.
    pub publishes: Rate,
    /// Bytes of commands and bodies.
    pub bytes: Rate,
}

/// How many seconds a client may be ahead of its rate.
const BURST_S: u64 = 10;

impl Rate {
    /// Returns a rate per second, with bursts of ten times as many.
    pub const fn new(per_s: u64) -> Self {
        Self { per_s, burst: per_s.saturating_mul(BURST_S) }
    }

    /// Returns the time after which `count` more are allowed, in ns.
    pub(crate) fn time_ns(self, count: u64) -> u64 {
        let time_ns = u128::from(count) * 1_000_000_000 / u128::from(self.per_s.max(1));
        u64::try_from(time_ns).unwrap_or(u64::MAX)
    }
}
