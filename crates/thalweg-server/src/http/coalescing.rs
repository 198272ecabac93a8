//! Coalesces the writes of an HTTP/2 connection into one send. hyper writes and flushes each DATA frame
//! separately: a hundred streams on a connection, with one small frame each, would need a hundred system
//! calls, which cost more than everything else.

use std::{
    cell::{Cell, RefCell},
    io, mem,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::refused_streams::RefusedStreamCounter;

/// When this many bytes are waiting, they are sent at once: about the size of one send.
const COALESCED_BYTES: usize = 64 << 10;

/// All connections of a shard take turns with one buffer. A connection keeps its own buffer only while its
/// socket is full.
pub(super) type SharedBuffer = Rc<Cell<Vec<u8>>>;

/// The sending end of a [`CoalescingStream`], for the task that polls the HTTP/2 connection.
pub(super) struct Flusher<S>(Rc<RefCell<CoalescingState<S>>>);

/// A stream that coalesces writes until [`Flusher::poll_send`]. Flushing it sends nothing.
pub(super) struct CoalescingStream<S>(Rc<RefCell<CoalescingState<S>>>);

struct CoalescingState<S> {
    stream: S,
    waiting: Vec<u8>,
    /// Sent bytes of `waiting`.
    sent: usize,
    spare: SharedBuffer,
    refused_streams: RefusedStreamCounter,
}

/// Coalesces the writes to a stream.
pub(super) fn coalesce<S>(stream: S, spare: &SharedBuffer) -> (CoalescingStream<S>, Flusher<S>) {
    let spare = Rc::clone(spare);
    let (waiting, refused_streams) = (Vec::new(), RefusedStreamCounter::default());
    let state =
        Rc::new(RefCell::new(CoalescingState { stream, waiting, sent: 0, spare, refused_streams }));
    (CoalescingStream(Rc::clone(&state)), Flusher(state))
}

impl<S: AsyncWrite + Unpin> Flusher<S> {
    /// Sends the coalesced bytes. Call it after each poll of the HTTP/2 connection, in the same task.
    pub(super) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send(context)
    }

    pub(super) fn take_refused(&self) -> u64 {
        self.0.borrow_mut().refused_streams.take()
    }
}

impl<S: AsyncWrite + Unpin> CoalescingState<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            let rest = &self.waiting[self.sent..];
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        if self.sent > 0 {
            self.sent = 0;
            self.waiting.clear();
            self.spare.set(mem::take(&mut self.waiting));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Takes as many bytes as fit.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if self.waiting.is_empty() {
            self.waiting = self.spare.take();
            self.waiting.reserve(COALESCED_BYTES);
        }
        let taken = bytes.len().min(COALESCED_BYTES - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        self.refused_streams.observe(&bytes[..taken]);
        taken
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescingStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescingStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        if state.waiting.len() >= COALESCED_BYTES {
            ready!(state.poll_send(context))?;
        }
        Poll::Ready(Ok(state.take(bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        ready!(state.poll_send(context))?;
        Pin::new(&mut state.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A stream that takes `at_a_time` bytes at a time, and records how many.
    struct Slow {
        at_a_time: usize,
        taken: Vec<usize>,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.at_a_time == 0 {
                return Poll::Pending;
            }
            let taken = bytes.len().min(self.at_a_time);
            self.taken.push(taken);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn slow(at_a_time: usize) -> (CoalescingStream<Slow>, Flusher<Slow>) {
        coalesce(Slow { at_a_time, taken: Vec::new() }, &SharedBuffer::default())
    }

    fn write(to: &mut CoalescingStream<Slow>, bytes: usize) -> Poll<usize> {
        let context = &mut Context::from_waker(Waker::noop());
        let written = Pin::new(&mut *to).poll_write(context, &vec![0; bytes]);
        assert!(Pin::new(to).poll_flush(context).is_ready());
        written.map(|written| written.expect("taken"))
    }

    #[test]
    fn frames_that_were_each_flushed_are_one_send() {
        let context = &mut Context::from_waker(Waker::noop());
        let (mut coalescing, flusher) = slow(usize::MAX);
        for _ in 0..100 {
            assert_eq!(write(&mut coalescing, 200), Poll::Ready(200));
        }
        assert!(flusher.0.borrow().stream.taken.is_empty());
        assert!(flusher.poll_send(context).is_ready());
        assert!(flusher.poll_send(context).is_ready());
        assert_eq!(flusher.0.borrow().stream.taken, [20_000]);
    }

    #[test]
    fn the_buffer_is_bounded() {
        let context = &mut Context::from_waker(Waker::noop());
        let (mut coalescing, flusher) = slow(0);
        assert_eq!(write(&mut coalescing, COALESCED_BYTES - 10), Poll::Ready(COALESCED_BYTES - 10));
        assert_eq!(write(&mut coalescing, 100), Poll::Ready(10));
        assert_eq!(write(&mut coalescing, 90), Poll::Pending);
        assert!(flusher.poll_send(context).is_pending());
        flusher.0.borrow_mut().stream.at_a_time = 40_000;
        assert_eq!(write(&mut coalescing, 90), Poll::Ready(90));
        assert!(Pin::new(&mut coalescing).poll_shutdown(context).is_ready());
        assert_eq!(flusher.0.borrow().stream.taken, [40_000, COALESCED_BYTES - 40_000, 90]);
    }

    #[test]
    fn connections_share_the_memory_unless_their_socket_is_full() {
        let context = &mut Context::from_waker(Waker::noop());
        let spare = SharedBuffer::default();
        let (mut one, its_sending) =
            coalesce(Slow { at_a_time: usize::MAX, taken: Vec::new() }, &spare);
        let (mut other, _) = coalesce(Slow { at_a_time: 0, taken: Vec::new() }, &spare);
        assert_eq!(write(&mut one, 1), Poll::Ready(1));
        let memory = its_sending.0.borrow().waiting.as_ptr();
        assert!(its_sending.poll_send(context).is_ready());
        assert_eq!(its_sending.0.borrow().waiting.capacity(), 0);
        assert_eq!(write(&mut other, 1), Poll::Ready(1));
        assert_eq!(other.0.borrow().waiting.as_ptr(), memory);
    }
}
