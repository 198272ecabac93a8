//! The body of a request that publishes lines. Lines that have arrived together are gathered, so
//! that they are appended together, whatever chunks or data frames they came in.

use std::{future::poll_fn, pin::Pin, task::Poll};

use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;

use super::repolls::Repolls;
use crate::{config::GATHERED_BYTES, refusal::Refusal, source::posted::Lines};
use thalweg_core::stream::Payloads;

/// A body of lines while it is read.
pub(super) struct LineBody<'a> {
    body: &'a mut Incoming,
    repolls: &'a Repolls,
    pub(super) lines: Lines,
    /// Events of lines that have arrived and are not appended yet.
    pub(super) gathered: Payloads,
}

/// The next piece of a body.
pub(super) enum Piece {
    Data(Bytes),
    /// No more data has arrived. It comes only after lines that were gathered.
    NothingYet,
    End,
    /// The publisher is gone, or its chunks are malformed.
    Broken,
}

impl<'a> LineBody<'a> {
    /// Each line has at most `event_bytes_max` bytes.
    pub(super) fn new(
        body: &'a mut Incoming,
        repolls: &'a Repolls,
        event_bytes_max: usize,
    ) -> Self {
        let (lines, gathered) = (Lines::new(event_bytes_max), Payloads::default());
        Self { body, repolls, lines, gathered }
    }

    /// Whether more is read before the lines gathered are appended. Without such lines the caller
    /// first counts the memory and the time of the unfinished one.
    pub(super) fn reads_on(&self) -> bool {
        !self.gathered.is_empty() && self.gathered.joined().len() < GATHERED_BYTES
    }

    /// The next piece. Waits for it only if no lines are gathered.
    pub(super) async fn next(&mut self) -> Piece {
        let mut has_requested = false;
        poll_fn(|context| {
            Poll::Ready(match Pin::new(&mut *self.body).poll_frame(context) {
                // Trailers are no lines.
                Poll::Ready(Some(Ok(frame))) => Piece::Data(frame.into_data().unwrap_or_default()),
                Poll::Ready(Some(Err(_))) => Piece::Broken,
                Poll::Ready(None) => Piece::End,
                Poll::Pending if self.gathered.is_empty() => return Poll::Pending,
                // Over HTTP/1.1 a chunk that has arrived shows only when the connection is polled.
                Poll::Pending if !has_requested && self.repolls.request() => {
                    has_requested = true;
                    return Poll::Pending;
                }
                Poll::Pending => Piece::NothingYet,
            })
        })
        .await
    }

    /// Takes in what `read` makes of the lines, if `take` gives leave for that many events.
    ///
    /// # Errors
    /// Those of `take`: then these events are left out. Those of `read`: the events before the error
    /// stay.
    pub(super) fn gather(
        &mut self,
        read: impl FnOnce(&mut Lines, &mut Payloads) -> Result<(), Refusal>,
        take: impl FnOnce(usize) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let before = self.gathered.count();
        let read = read(&mut self.lines, &mut self.gathered);
        if let Err(refusal) = take(self.gathered.count() - before) {
            self.gathered.truncate(before);
            return Err(refusal);
        }
        read
    }
}
