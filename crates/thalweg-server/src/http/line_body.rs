//! The body of a request that publishes lines. Lines that have arrived together are gathered and appended together,
//! whatever chunks or data frames they came in.

use std::{future::poll_fn, task::Poll};

use bytes::Bytes;
use thalweg_core::stream::Payloads;

use super::{
    body::{BrokenOff, RequestBody},
    repolls::Repolls,
};
use crate::{
    config::GATHERED_BYTES,
    refusal::Refusal,
    source::{EventKeys, posted::Lines},
};

pub(super) struct LineBody<'a> {
    body: &'a mut RequestBody,
    repolls: &'a Repolls,
    pub(super) lines: Lines,
    /// Events of lines that have arrived and are not appended yet.
    pub(super) gathered: Payloads,
}

pub(super) enum Piece {
    Data(Bytes),
    /// No more data has arrived yet. Returned only if lines are gathered.
    NothingYet,
    End,
    Broken(BrokenOff),
}

impl<'a> LineBody<'a> {
    /// Creates a body whose lines have at most `event_bytes_max` bytes each.
    pub(super) fn new(
        body: &'a mut RequestBody,
        repolls: &'a Repolls,
        event_bytes_max: usize,
        keys: EventKeys,
    ) -> Self {
        let (lines, gathered) = (Lines::new(event_bytes_max, keys), Payloads::default());
        Self { body, repolls, lines, gathered }
    }

    /// Returns whether to read more before appending the gathered lines. If there are none, the caller first counts
    /// memory and time of the unfinished line.
    pub(super) fn reads_on(&self) -> bool {
        !self.gathered.is_empty() && self.gathered.joined().len() < GATHERED_BYTES
    }

    /// Returns the next piece. Waits for it only if no lines are gathered.
    pub(super) async fn next(&mut self) -> Piece {
        let mut has_requested = false;
        poll_fn(|context| {
            Poll::Ready(match self.body.poll_chunk(context) {
                Poll::Ready(Some(Ok(chunk))) => Piece::Data(chunk),
                Poll::Ready(Some(Err(broken_off))) => Piece::Broken(broken_off),
                Poll::Ready(None) => Piece::End,
                Poll::Pending if self.gathered.is_empty() => return Poll::Pending,
                // Over HTTP/1.1 a chunk that has arrived is seen only when the connection is polled.
                Poll::Pending if !has_requested && self.repolls.request() => {
                    has_requested = true;
                    return Poll::Pending;
                }
                Poll::Pending => Piece::NothingYet,
            })
        })
        .await
    }

    /// Gathers the events that `read` makes from the lines, if `take` permits that many. If `take` fails, these events are dropped.
    /// If `read` fails, the events before the error stay.
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

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn lines_that_have_arrived_are_gathered_whatever_chunks_they_came_in() {
        let chunk = |text: &'static str| Poll::Ready(Ok(Bytes::from_static(text.as_bytes())));
        let polls =
            [chunk("1\n2"), chunk("3\n"), Poll::Pending, chunk("4"), Poll::Pending, chunk("\n")];
        let (mut body, repolls) = (RequestBody::Written(polls.into()), Repolls::default());
        let mut body = LineBody::new(&mut body, &repolls, 100, EventKeys::None);
        let mut appended = Vec::new();
        Builder::new_current_thread().build().expect("a runtime").block_on(async {
            loop {
                match body.next().await {
                    Piece::Data(chunk) => {
                        let read = body.gather(|lines, out| lines.read(&chunk, out), |_| Ok(()));
                        read.expect("lines");
                    }
                    Piece::NothingYet => {
                        appended.push(body.gathered.joined().to_vec());
                        body.gathered = Payloads::default();
                    }
                    Piece::End => break,
                    Piece::Broken(_) => panic!("it is whole"),
                }
            }
        });
        appended.push(body.gathered.joined().to_vec());
        assert_eq!(appended, [b"1,23", &b"4"[..]].map(<[u8]>::to_vec));
    }
}
