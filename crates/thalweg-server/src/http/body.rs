//! The body of a request, independent of the HTTP implementation. Only this file uses hyper's body.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use thalweg_wire::ErrorCode;
use tokio::time::timeout;

use super::body_permits::BodyMemory;
use crate::{config::Limits, metrics::Metric, refusal::Refusal};

pub(super) enum RequestBody {
    Incoming(Incoming),
    /// A test's body: the results of the next polls, then the end.
    #[cfg(test)]
    Written(std::collections::VecDeque<Poll<Result<Bytes, BrokenOff>>>),
    /// Neither more data nor the end arrives.
    #[cfg(test)]
    Stopped,
}

/// The client disconnected before the end of the body, or its chunks are malformed.
#[derive(Debug)]
pub(super) struct BrokenOff;

impl From<Incoming> for RequestBody {
    fn from(incoming: Incoming) -> Self {
        Self::Incoming(incoming)
    }
}

impl From<BrokenOff> for Refusal {
    fn from(_: BrokenOff) -> Self {
        let message = "the body ended early, or its chunks are malformed: send it again";
        Self::new(ErrorCode::BadEvent, message)
    }
}

impl RequestBody {
    /// Returns a body that has arrived in these chunks.
    #[cfg(test)]
    pub(super) fn written(chunks: &[&'static str]) -> Self {
        Self::Written(
            chunks
                .iter()
                .map(|chunk| Poll::Ready(Ok(Bytes::from_static(chunk.as_bytes()))))
                .collect(),
        )
    }

    /// Polls the next chunk; `None` at the end. A chunk may be empty.
    pub(super) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        match self {
            Self::Incoming(incoming) => Pin::new(incoming).poll_frame(context).map(|frame| {
                // Trailers are ignored.
                let data = frame?.map(|frame| frame.into_data().unwrap_or_default());
                Some(data.map_err(|_| BrokenOff))
            }),
            #[cfg(test)]
            Self::Written(polls) => match polls.pop_front() {
                Some(Poll::Ready(chunk)) => Poll::Ready(Some(chunk)),
                Some(Poll::Pending) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                None => Poll::Ready(None),
            },
            #[cfg(test)]
            Self::Stopped => Poll::Pending,
        }
    }

    /// Waits for the next chunk; `None` at the end.
    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Returns whether the end is known.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Incoming(incoming) => incoming.is_end_stream(),
            #[cfg(test)]
            Self::Written(polls) => polls.is_empty(),
            #[cfg(test)]
            Self::Stopped => false,
        }
    }

    /// Returns how many bytes are left, if the request's head says so.
    pub(super) fn bytes_left(&self) -> Option<u64> {
        match self {
            Self::Incoming(incoming) => incoming.size_hint().exact(),
            #[cfg(test)]
            Self::Written(_) | Self::Stopped => None,
        }
    }

    /// Reads the whole body, and counts its memory in `held` meanwhile. Fails with `too_large` above `bytes_max` bytes, and if the
    /// body breaks off, arrives too slowly, or all bodies together hold too much memory.
    pub(super) async fn whole(
        &mut self,
        bytes_max: usize,
        too_large: impl Fn() -> Refusal,
        limits: &Limits,
        held: &Metric,
    ) -> Result<Vec<u8>, Refusal> {
        let mut memory = BodyMemory::new(held);
        let read = async {
            // Copied into one buffer: a piece of one byte would cost dozens of bytes of memory.
            let mut whole = Vec::new();
            while let Some(chunk) = self.chunk().await.transpose()? {
                if chunk.len() > bytes_max - whole.len() {
                    return Err(too_large());
                }
                whole.extend_from_slice(&chunk);
                memory.set(whole.capacity(), limits.unfinished_bytes)?;
            }
            Ok(whole)
        };
        timeout(limits.body_timeout, read).await.map_err(|_| slow())?
    }
}

pub(super) fn slow() -> Refusal {
    let message = "the body, or a line of it, did not arrive in time: send it without pauses";
    Refusal::new(ErrorCode::SlowRequest, message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(body: RequestBody, bytes_max: usize) -> Result<Vec<u8>, ErrorCode> {
        let mut body = body;
        let limits = Limits { body_timeout: Duration::from_millis(20), ..Limits::default() };
        let held = Metric::default();
        let too_large = || Refusal::new(ErrorCode::EventTooLarge, "");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let whole = body.whole(bytes_max, too_large, &limits, &held);
        let whole = runtime.expect("a runtime").block_on(whole);
        assert_eq!(held.get(), 0, "its memory is freed");
        whole.map_err(|refused| refused.code)
    }

    #[test]
    fn a_body_is_read_whole_or_refused() {
        assert_eq!(read(RequestBody::written(&[]), 0), Ok(vec![]));
        assert_eq!(read(RequestBody::written(&["a", "", "bc"]), 3), Ok(b"abc".to_vec()));
        assert_eq!(read(RequestBody::written(&["a", "bc"]), 2), Err(ErrorCode::EventTooLarge));
        let broken = RequestBody::Written([Poll::Ready(Err(BrokenOff))].into());
        assert_eq!(read(broken, 1), Err(ErrorCode::BadEvent));
        assert_eq!(read(RequestBody::Stopped, 1), Err(ErrorCode::SlowRequest));
    }
}
