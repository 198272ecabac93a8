//! Time limits for peers: for sending the HTTP/2 preface, a request header and the next request, and for reading a response.
//! Without these limits a connection that neither sends nor reads could keep its permit, and a response's memory, forever.

use std::{
    cell::Cell,
    error::Error,
    future::{Future, poll_fn},
    io::{self, IoSlice},
    iter,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use thalweg_wire::{ErrorCode, close};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{Notify, oneshot},
    task::spawn_local,
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};

use super::{content::Content, context::Http, preface::PREFACE};
use crate::{
    config::has_read_enough,
    connection_limits::ConnectionPermit,
    transport::{Cut, TunnelEnd, has_vanished},
};

/// A socket that HTTP serves. It fails when its peer takes too long.
pub(super) struct TimeoutStream<S> {
    stream: S,
    write_timeout: Duration,
    /// Fires when the peer has read nothing for `write_timeout`.
    full: Option<Pin<Box<Sleep>>>,
    /// Fires when the preface is late. `None` once the preface has arrived.
    preface: Option<Pin<Box<Sleep>>>,
    /// The timer for a late request header, over HTTP/1.1.
    head: Option<HeadTimer>,
    read: usize,
    /// For the metric of vanished peers: hyper reports no error for a connection that waits.
    http: Rc<Http>,
    has_vanished: bool,
}

/// The time limit for an HTTP/1.1 request header, from its first byte. hyper's own timer begins at the end of the
/// previous response, and would limit idle connections.
struct HeadTimer {
    wait: Duration,
    requests: Rc<ActiveRequests>,
    begun: Option<BegunHead>,
}

/// A request header that is not complete: the first one, which may not have begun, or a later one that has.
struct BegunHead {
    /// Number of requests before it.
    after: u64,
    /// Fires when it is late. Created if the header is incomplete after its first bytes: most headers need no timer.
    late: Option<Pin<Box<Sleep>>>,
}

impl HeadTimer {
    /// Returns whether the header is late. Call it after each read: `bytes` is the number of bytes read, and
    /// `is_pending` says that no more are available.
    fn is_late(&mut self, bytes: usize, is_pending: bool, context: &mut Context<'_>) -> bool {
        let after = self.requests.begun.get();
        // Another request has begun, so the header is complete.
        self.begun.take_if(|begun| begun.after != after);
        if bytes > 0 && self.requests.count.get() == 0 && self.begun.is_none() {
            self.begun = Some(BegunHead { after, late: None });
        }
        let Some(BegunHead { late, .. }) = self.begun.as_mut().filter(|_| is_pending) else {
            return false;
        };
        let late = late.get_or_insert_with(|| Box::pin(sleep(self.wait)));
        late.as_mut().poll(context).is_ready()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TimedOut {
    #[error("the peer sent no HTTP/2 preface in time")]
    Preface,
    #[error("the peer did not send a complete request header in time")]
    Head,
    #[error("the peer read nothing of its response in time")]
    Stall,
}

impl TimedOut {
    fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, self)
    }

    /// Returns the timeout that caused an error, if one did.
    pub(super) fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut errors = iter::successors(Some(error), |&error| error.source());
        errors.find_map(|error| {
            let error: &io::Error = error.downcast_ref()?;
            error.get_ref()?.downcast_ref().copied()
        })
    }

    /// Counts the timeout in the metrics. Returns `false` for a late header, which is counted with its
    /// 408 response.
    pub(super) fn count(self, http: &Http) -> bool {
        match self {
            Self::Preface => http.shard.counts.count_refused(ErrorCode::SlowRequest),
            Self::Stall => http.shard.counts.count_closed(close::STALLED.code),
            Self::Head => return false,
        }
        true
    }
}

impl<S> TimeoutStream<S> {
    /// Wraps a socket. It fails when its peer has read nothing for `write_timeout`, a limit of `http`.
    pub(super) fn new(stream: S, http: &Rc<Http>) -> Self {
        let (write_timeout, http) = (http.limits().write_timeout, Rc::clone(http));
        let (full, preface, head) = (None, None, None);
        Self { stream, write_timeout, full, preface, head, read: 0, http, has_vanished: false }
    }

    /// Counts a vanished peer, once.
    fn note<T>(&mut self, result: &Poll<io::Result<T>>) {
        if let Poll::Ready(Err(error)) = result
            && has_vanished(error)
            && !std::mem::replace(&mut self.has_vanished, true)
        {
            self.http.shard.counts.peers_vanished.add(1);
        }
    }

    /// Also requires the HTTP/2 preface within `wait`.
    pub(super) fn with_preface_by(self, wait: Duration) -> Self {
        Self { preface: Some(Box::pin(sleep(wait))), ..self }
    }

    /// Also requires a first request header within `wait`, and each later one within `wait` of its first byte.
    pub(super) fn with_heads_by(self, wait: Duration, requests: &Rc<ActiveRequests>) -> Self {
        let first = BegunHead { after: 0, late: None };
        let head = HeadTimer { wait, requests: Rc::clone(requests), begun: Some(first) };
        Self { head: Some(head), ..self }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Returns the result of writing, or [`TimedOut::Stall`] if the socket was full for too long.
    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.note(&written);
            self.full = None;
            return written;
        }
        let write_timeout = self.write_timeout;
        let full = self.full.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        full.as_mut().poll(context).map(|()| Err(TimedOut::Stall.into_io()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(&read);
        if let Some(head) = &mut self.head {
            let bytes = buffer.filled().len() - before;
            return match head.is_late(bytes, read.is_pending(), context) {
                true => Poll::Ready(Err(TimedOut::Head.into_io())),
                false => read,
            };
        }
        let Some(preface) = &mut self.preface else { return read };
        let late = preface.as_mut().poll(context);
        self.read += buffer.filled().len() - before;
        if self.read >= PREFACE.len() {
            self.preface = None;
        } else if late.is_ready() {
            return Poll::Ready(Err(TimedOut::Preface.into_io()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
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

tokio::task_local! {
    static PROGRESS: Rc<StreamProgress>;
}

/// The state of an HTTP/2 stream, shared with the task that sends its data: the pending bytes that the peer has not
/// read, and, for a tunnel, its end.
#[derive(Default)]
struct StreamProgress {
    progress: Cell<Option<ReadProgress>>,
    /// Set when the answer to the stream's request makes it a tunnel.
    tunnel: Cell<Option<TunnelSending>>,
}

/// The signal that a tunnel ends, and its permit, for the task that sends for it.
struct TunnelSending {
    end: oneshot::Receiver<()>,
    permit: Option<Rc<ConnectionPermit>>,
}

/// Makes the stream of this task a tunnel. If the response is a success, hyper starts a second task that
/// sends for the stream. That task runs until the returned value is dropped and the rest is sent, and holds
/// `permit`. Returns `None` outside of a stream's task.
pub(super) fn begin_tunnel(permit: Option<ConnectionPermit>) -> Option<TunnelEnd> {
    let (complete, end) = oneshot::channel();
    let permit = permit.map(Rc::new);
    let sending = TunnelSending { end, permit: permit.clone() };
    let begun = PROGRESS.try_with(|progress| progress.tunnel.set(Some(sending)));
    begun.ok().map(|()| TunnelEnd::new(complete, permit))
}

#[derive(Clone, Copy)]
struct ReadProgress {
    since: Instant,
    pending_bytes: usize,
    read_bytes: usize,
    /// Bytes of the last piece that hyper took. The peer may not have read them.
    given_bytes: usize,
    /// Bytes that wait behind that piece.
    left_bytes: usize,
}

impl StreamProgress {
    /// Records that hyper takes the next piece, which means that it has sent the previous one.
    fn give(&self, given_bytes: usize, left_bytes: usize) {
        let now = Instant::now;
        let progress = self
            .progress
            .get()
            .unwrap_or_else(|| ReadProgress::begin(now(), given_bytes, left_bytes));
        let read_bytes = progress.read_bytes + progress.given_bytes;
        self.progress.set(Some(ReadProgress { read_bytes, given_bytes, left_bytes, ..progress }));
    }

    /// Returns whether the peer has read at least a quarter of the pending bytes in this period. The next
    /// period begins now.
    fn has_read_enough(&self) -> bool {
        let Some(progress) = self.progress.get() else { return true };
        let given_bytes = progress.given_bytes;
        let next = ReadProgress::begin(Instant::now(), given_bytes, progress.left_bytes);
        self.progress.set(Some(ReadProgress { given_bytes, ..next }));
        has_read_enough(progress.read_bytes, progress.pending_bytes)
    }
}

impl ReadProgress {
    fn begin(since: Instant, given_bytes: usize, left_bytes: usize) -> Self {
        let pending_bytes = given_bytes + left_bytes;
        Self { since, pending_bytes, read_bytes: 0, given_bytes: 0, left_bytes }
    }
}

#[derive(Default)]
pub(super) struct ActiveRequests {
    count: Cell<usize>,
    /// Number of requests so far.
    begun: Cell<u64>,
    changed: Notify,
}

impl ActiveRequests {
    fn change(&self, by: isize) {
        self.count.set(self.count.get().saturating_add_signed(by));
        self.changed.notify_one();
    }

    /// Waits until there has been no request for `wait`: an idle connection must not keep a permit that
    /// another connection needs.
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

/// An active request. It counts until it is dropped.
pub(super) struct ActiveRequest(Rc<ActiveRequests>);

impl ActiveRequest {
    pub(super) fn enter(active_requests: &Rc<ActiveRequests>) -> Self {
        active_requests.change(1);
        active_requests.begun.set(active_requests.begun.get() + 1);
        Self(Rc::clone(active_requests))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

/// Runs the streams of HTTP/2 on the shard's own thread, and ends those whose peer reads too little: their
/// flow-control window is full, and hyper would wait forever.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) http: Rc<Http>,
    pub(super) active_requests: Rc<ActiveRequests>,
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let http = Rc::clone(&self.http);
        let active = ActiveRequest::enter(&self.active_requests);
        // hyper spawns the sending task of a tunnel while it polls the task of the request, so `PROGRESS` is
        // set here.
        let tunnel = PROGRESS.try_with(|progress| progress.tunnel.take()).ok().flatten();
        if let Some(TunnelSending { end, permit }) = tunnel {
            spawn_local(async move {
                let _counted = (active, permit);
                send_until(end, http.limits().write_timeout, stream).await;
            });
            return;
        }
        let stream_progress = Rc::new(StreamProgress::default());
        spawn_local(PROGRESS.scope(Rc::clone(&stream_progress), async move {
            let _active = active;
            let mut stream = pin!(stream);
            let write_timeout = http.limits().write_timeout;
            let mut alarm: Option<Pin<Box<Sleep>>> = None;
            poll_fn(|context| {
                if stream.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                loop {
                    let Some(progress) = stream_progress.progress.get() else {
                        alarm = None;
                        return Poll::Pending;
                    };
                    let due = progress.since + write_timeout;
                    let alarm = alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
                    if alarm.deadline() != due {
                        alarm.as_mut().reset(due);
                    }
                    ready!(alarm.as_mut().poll(context));
                    if !stream_progress.has_read_enough() {
                        http.shard.counts.count_closed(close::STALLED.code);
                        return Poll::Ready(());
                    }
                }
            })
            .await;
        }));
    }
}

/// Sends for a tunnel until its end, and then the remaining bytes, for at most `wait`.
async fn send_until(end: oneshot::Receiver<()>, wait: Duration, sending: impl Future<Output = ()>) {
    let mut sending = pin!(sending);
    tokio::select! {
        // If the tunnel was dropped, stop at once: hyper resets the stream, and unsent bytes are lost.
        biased;
        is_complete = end => {
            if is_complete.is_ok() {
                // A peer that does not read the rest gets a reset.
                let _ = timeout(wait, sending).await;
            }
        }
        () = &mut sending => {}
    }
}

/// A response over HTTP/2 that records whether the peer reads it.
pub(super) struct ProgressBody {
    content: Content,
    stream_progress: Option<Rc<StreamProgress>>,
}

impl ProgressBody {
    /// Creates the body. Call this function in the task of the stream.
    pub(super) fn new(content: Content) -> Self {
        Self { content, stream_progress: PROGRESS.try_with(Rc::clone).ok() }
    }
}

impl Body for ProgressBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let polled = Pin::new(&mut self.content).poll_frame(context);
        if let Some(stream_progress) = &self.stream_progress {
            match &polled {
                Poll::Ready(Some(Ok(frame))) => {
                    let given = frame.data_ref().map_or(0, Bytes::len);
                    stream_progress.give(given, self.content.left());
                }
                // The peer has read everything so far.
                _ => stream_progress.progress.set(None),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}
