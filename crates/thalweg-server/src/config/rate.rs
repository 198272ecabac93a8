/// How often something may happen: so many in a second, and more at once for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In a second, at least 1.
    pub per_s: u64,
    /// At once, at least 1.
    pub burst: u64,
}

/// How often a connection, a subject or an address may do something (`too_many_requests`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Requests other than publishes and commands. A connection makes none.
    pub handshakes: Rate,
    /// Commands.
    pub commands: Rate,
    /// Events published.
    pub publishes: Rate,
    /// Bytes of commands and bodies.
    pub bytes: Rate,
}

/// The seconds of its rate that a client may be ahead of it.
const BURST_S: u64 = 10;

impl Rate {
    /// Returns a rate per second, with bursts of ten times as many.
    pub const fn new(per_s: u64) -> Self {
        Self { per_s, burst: per_s.saturating_mul(BURST_S) }
    }

    /// The time in which so many come back, in ns.
    pub(crate) fn time_ns(self, count: u64) -> u64 {
        let time_ns = u128::from(count) * 1_000_000_000 / u128::from(self.per_s.max(1));
        u64::try_from(time_ns).unwrap_or(u64::MAX)
    }
}
