//! Tickets that the backend keeps, so that any server redeems what another one has issued.

use std::{fmt, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::access::TICKET_LIFE_S;

/// How long a ticket is kept.
pub const TICKET_LIFE: Duration = Duration::from_secs(TICKET_LIFE_S);

/// Names a ticket. The ticket cannot be learned from it. It is written as 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TicketDigest([u8; 32]);

impl TicketDigest {
    /// The digest with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for TicketDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a server asks about a ticket.
#[derive(Debug)]
pub enum TicketRequest {
    /// To keep a new one for [`TICKET_LIFE`].
    Keep {
        /// Which.
        ticket: TicketDigest,
        /// Whose rights it gives: a word, not empty, for whoever redeems it.
        holder: String,
        /// Where the answer goes.
        reply: TicketReply<()>,
    },
    /// To use one up.
    Redeem {
        /// Which.
        ticket: TicketDigest,
        /// Where the answer goes: its holder, to one of all who redeem it on all servers; `None` if
        /// it is not known, used or expired.
        reply: TicketReply<Option<String>>,
    },
}

/// Why nobody can say something about a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketError {
    /// Nothing was done, and nobody else is likely to have more luck now.
    Unavailable,
    /// Nobody knows: it may be kept or used up, or may be yet.
    Unknown,
}

/// Where the answer to a [`TicketRequest`] goes. One that is dropped is taken for
/// [`TicketError::Unknown`].
#[derive(Debug)]
pub struct TicketReply<T> {
    answer: oneshot::Sender<Result<T, TicketError>>,
    /// Its place among all that are not answered. Whoever asked may be gone, and the backend still be
    /// at it.
    _place: Option<OwnedSemaphorePermit>,
}

impl<T> TicketReply<T> {
    /// A reply, and where its answer comes. It keeps `place` until it is given.
    pub fn channel(
        place: Option<OwnedSemaphorePermit>,
    ) -> (Self, oneshot::Receiver<Result<T, TicketError>>) {
        let (answer, answered) = oneshot::channel();
        (Self { answer, _place: place }, answered)
    }

    /// Whether somebody still waits for the answer.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Answers.
    pub fn send(self, result: Result<T, TicketError>) {
        // Whoever asked may be gone by then.
        let _ = self.answer.send(result);
    }
}
