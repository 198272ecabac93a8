//! Tickets that a broker keeps, so that any server redeems a ticket that another one has issued.

use std::fmt;

use crate::BoxFuture;

/// The digest of a ticket, which does not reveal the ticket. It is written as 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TicketDigest([u8; 32]);

impl TicketDigest {
    /// Returns the digest with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for TicketDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The reason why the state of a ticket is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketError {
    /// The request had no effect, and the same request is unlikely to succeed at once.
    Unavailable,
    /// The outcome is unknown: the ticket may be kept or redeemed, or may still be.
    Unknown,
}

/// Tickets, each valid once and for a limited time that the broker is configured with.
pub trait Tickets: Sync {
    /// Keeps a new ticket and its holder, a word that is not empty. After `Ok` the ticket survives a crash.
    fn keep(&self, ticket: TicketDigest, holder: String) -> BoxFuture<'_, Result<(), TicketError>>;

    /// Redeems a ticket and returns its holder, to exactly one of all callers on all servers. `None` if the ticket is
    /// unknown, redeemed or expired. After a crash before the answer the ticket may be redeemed, but never twice.
    fn redeem(&self, ticket: TicketDigest) -> BoxFuture<'_, Result<Option<String>, TicketError>>;
}
