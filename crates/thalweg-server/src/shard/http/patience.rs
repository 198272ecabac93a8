//! How long a peer may take: to say hello over HTTP/2, to ask for something there, and
//! to take what it asked for.
//! Without these a connection that neither speaks nor reads would hold its place, and
//! an answer's memory, for as long as it likes.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    io::{self, IoSlice},
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use thalweg_wire::close;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    task::spawn_local,
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};

use super::{Handle, PREFACE, respond::Content};
use crate::transport::Cut;

/// A socket that HTTP serves, given up when its peer takes too long.
pub(super) struct Patient<S> {
    stream: S,
    stall: Duration,
    /// Rings when the peer has taken nothing for so long.
    full: Option<Pin<Box<Sleep>>>,
    /// Rings when the hello is late, until it is there.
    hello: Option<Pin<Box<Sleep>>>,
    heard: usize,
}

/// Why a peer was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Impatience {
    #[error("the peer said no hello in time")]
    Hello,
    #[error("the peer took nothing of its answer in time")]
    Stall,
}

impl Impatience {
    fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, self)
    }

    /// Whether this error is it.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// Whether it is behind this error.
    pub(super) fn behind(error: &hyper::Error) -> Option<Self> {
        Self::of(std::error::Error::source(error)?.downcast_ref()?)
    }
}

impl<S> Patient<S> {
    /// A socket whose peer must take something at least every `stall`.
    pub(super) fn new(stream: S, stall: Duration) -> Self {
        Self { stream, stall, full: None, hello: None, heard: 0 }
    }

    /// The same, and it must have sent HTTP/2's preface by then.
    pub(super) fn with_hello(self, wait: Duration) -> Self {
        Self { hello: Some(Box::pin(sleep(wait))), ..self }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// What writing came to, or that it took too long.
    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.full = None;
            return written;
        }
        let stall = self.stall;
        let full = self.full.get_or_insert_with(|| Box::pin(sleep(stall)));
        full.as_mut().poll(context).map(|()| Err(Impatience::Stall.into_io()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(hello) = &mut self.hello else { return read };
        let late = hello.as_mut().poll(context);
        self.heard += buffer.filled().len() - before;
        if self.heard >= PREFACE.len() {
            self.hello = None;
        } else if late.is_ready() {
            return Poll::Ready(Err(Impatience::Hello.into_io()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(shut, context)
    }
}

/// Bytes of an answer that are given to HTTP/2 at a time: what is left tells whether
/// its peer takes any.
const PIECE_BYTES: usize = 32 << 10;

tokio::task_local! {
    static TAKING: Rc<Taking>;
}

/// When a stream was given something that its peer has not taken yet.
#[derive(Default)]
struct Taking {
    since: Cell<Option<Instant>>,
}

/// The requests of one connection that are being answered.
#[derive(Default)]
pub(super) struct Running {
    count: Cell<usize>,
    changed: Notify,
}

impl Running {
    fn change(&self, by: isize) {
        self.count.set(self.count.get().saturating_add_signed(by));
        self.changed.notify_one();
    }

    /// Waits until there has been none for so long: a connection that asks for nothing
    /// is not to keep another's place.
    pub(super) async fn idle(&self, wait: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.count.get() > 0 {
                changed.await;
            } else if timeout(wait, changed).await.is_err() {
                return;
            }
        }
    }
}

/// One request among them, until it is dropped.
pub(super) struct Run(Rc<Running>);

impl Run {
    pub(super) fn enter(running: &Rc<Running>) -> Self {
        running.change(1);
        Self(Rc::clone(running))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

/// Runs HTTP/2's streams on the shard's own thread, and ends those whose peer takes
/// nothing: its window is shut, and HTTP/2 would wait for ever.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) handle: Rc<Handle>,
    pub(super) running: Rc<Running>,
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let handle = Rc::clone(&self.handle);
        let run = Run::enter(&self.running);
        let taking = Rc::new(Taking::default());
        spawn_local(TAKING.scope(Rc::clone(&taking), async move {
            let _run = run;
            let mut stream = pin!(stream);
            let stall = handle.common.config.limits.stall;
            let mut alarm: Option<Pin<Box<Sleep>>> = None;
            poll_fn(|context| {
                if stream.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                let Some(since) = taking.since.get() else {
                    alarm = None;
                    return Poll::Pending;
                };
                let due = since + stall;
                let alarm = alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
                if alarm.deadline() != due {
                    alarm.as_mut().reset(due);
                }
                let rang = alarm.as_mut().poll(context);
                if rang.is_ready() {
                    handle.count(|counts| counts.count_closed(close::STALLED.code));
                }
                rang
            })
            .await;
        }));
    }
}

/// An answer over HTTP/2 that shows whether it is taken.
pub(super) struct Taken {
    content: Content,
    rest: Bytes,
    taking: Option<Rc<Taking>>,
}

impl Taken {
    /// Call it in the task of the stream.
    pub(super) fn new(content: Content) -> Self {
        Self { content, rest: Bytes::new(), taking: TAKING.try_with(Rc::clone).ok() }
    }
}

impl Body for Taken {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = &mut *self;
        let mut polled = Poll::Ready(None);
        if this.rest.is_empty() {
            polled = Pin::new(&mut this.content).poll_frame(context);
            if let Poll::Ready(Some(Ok(frame))) = polled {
                match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                }
                polled = Poll::Ready(None);
            }
        }
        if !this.rest.is_empty() {
            let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
            polled = Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let Some(taking) = &this.taking {
            let is_given = matches!(polled, Poll::Ready(Some(Ok(_))));
            taking.since.set(is_given.then(Instant::now));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.len() {
            0 => self.content.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
