use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io::IoSlice,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use thalweg_core::fanout::{Sent, Sink};

/// Returns a bounded pipe from a subscriber to the body of a response. It is full when HTTP's flow control allows no more: the
/// cursor waits, and no queue grows. `retired` is set when the connection of the response must not be used for further requests.
pub(crate) fn pipe(capacity: usize, retired: &Rc<Cell<bool>>) -> (PipeEnd, PipeBody) {
    let retired = Rc::clone(retired);
    let state = Rc::new(RefCell::new(PipeState { capacity, retired, ..PipeState::default() }));
    (PipeEnd(Rc::clone(&state)), PipeBody { state, listener: None })
}

/// The subscriber's end.
pub(crate) struct PipeEnd(Rc<RefCell<PipeState>>);

/// HTTP's end.
pub(crate) struct PipeBody {
    state: Rc<RefCell<PipeState>>,
    /// Called with each event of the pipe.
    pub(crate) listener: Option<Box<dyn Fn(PipeEvent)>>,
}

/// An event at the body's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeEvent {
    /// The pipe was full and has room again.
    Room,
    /// Nobody reads the pipe any more.
    Gone,
}

/// The subscriber was removed before its end.
#[derive(Debug, thiserror::Error)]
#[error("the subscriber was cut off")]
pub(crate) struct Cut;

#[derive(Default)]
struct PipeState {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    capacity: usize,
    is_full: bool,
    end: End,
    is_gone: bool,
    waker: Option<Waker>,
    retired: Rc<Cell<bool>>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Finished,
    Cut,
}

impl PipeState {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl PipeEnd {
    pub(super) fn held_bytes(&self) -> usize {
        self.0.borrow().bytes
    }

    pub(super) fn retire(&self) {
        self.0.borrow().retired.set(true);
    }

    /// Marks that no more will be sent.
    pub(super) fn finish(&self) {
        let mut state = self.0.borrow_mut();
        state.end = End::Finished;
        state.wake();
    }
}

impl Sink for PipeEnd {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let mut state = self.0.borrow_mut();
        if state.is_gone {
            return Sent::Gone;
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let taken = offered.min(state.capacity.saturating_sub(state.bytes));
        state.is_full |= taken < offered;
        if taken > 0 {
            let mut chunk = BytesMut::with_capacity(taken);
            for slice in slices {
                let room = taken - chunk.len();
                chunk.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            state.bytes += taken;
            state.chunks.push_back(chunk.freeze());
        }
        state.wake();
        Sent::Bytes(taken)
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        let mut state = self.0.borrow_mut();
        if state.end == End::Open {
            state.end = End::Cut;
            // An incomplete answer must not be sent.
            state.chunks = VecDeque::new();
            state.bytes = 0;
        }
        state.wake();
    }
}

impl PipeBody {
    /// Completes when no more bytes will come, or the pipe is full.
    pub(crate) fn poll_full_or_finished(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_full_or_finished() {
            return Poll::Ready(());
        }
        self.state.borrow_mut().waker = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn is_full_or_finished(&self) -> bool {
        let state = self.state.borrow();
        state.is_full || state.end != End::Open
    }

    /// Ends the body with the bytes so far: the wait is over.
    pub(crate) fn finish_now(&self) {
        self.state.borrow_mut().end = End::Finished;
    }

    /// Returns all bytes, if no more will come.
    pub(crate) fn take_whole(&mut self) -> Option<VecDeque<Bytes>> {
        let mut state = self.state.borrow_mut();
        if state.end != End::Finished {
            return None;
        }
        state.bytes = 0;
        Some(std::mem::take(&mut state.chunks))
    }

    /// Returns the number of waiting bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.state.borrow().bytes
    }

    fn notify(&self, news: PipeEvent) {
        if let Some(listener) = &self.listener {
            listener(news);
        }
    }
}

impl Body for PipeBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let mut state = self.state.borrow_mut();
        let Some(chunk) = state.chunks.pop_front() else {
            return match state.end {
                End::Finished => Poll::Ready(None),
                End::Cut => Poll::Ready(Some(Err(Cut))),
                End::Open => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            };
        };
        state.bytes -= chunk.len();
        let has_room = state.is_full && state.chunks.is_empty();
        if has_room {
            state.is_full = false;
        }
        drop(state);
        if has_room {
            self.notify(PipeEvent::Room);
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.state.borrow();
        state.end == End::Finished && state.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.state.borrow();
        match state.end {
            End::Finished => SizeHint::with_exact(state.bytes as u64),
            _ => SizeHint::default(),
        }
    }
}

impl Drop for PipeBody {
    fn drop(&mut self) {
        self.state.borrow_mut().is_gone = true;
        self.notify(PipeEvent::Gone);
    }
}
