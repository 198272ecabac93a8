//! Connections that HTTP serves. hyper reads requests. After a request to subscribe over
//! HTTP/1.1 it releases the socket, which becomes a slab entry of the shard. hyper's own
//! streaming bodies would cost a wake-up, a task and chunked encoding for each subscriber. Over
//! HTTP/2, where subscribers share a socket, they are used.
//!
//! ```text
//! http2            connections with many streams
//! routes           a request → its answer
//!   identify       whose it is, and whether it comes too often
//! post             bodies: events, commands, tickets
//! tickets          who keeps tickets: this server, or the backend for all servers
//! columns          the columns of topics
//! administer       what administrators do
//! inspect          the state of the server: health, metrics, the list of topics
//! pages            the pages for browsers
//! runs             the lab's runs: their list, their files
//! body_permits     how many bodies are read at a time
//! respond          heads of answers
//! content          bodies of answers
//! timeouts         how long a peer may take
//! line_body        bodies of lines: what has arrived of them is published together
//! repolls          reading to the end of what has arrived
//! rejection        connections that are not served, and learn why
//! discard          bodies of requests that are refused by their head
//! coalescing       one send for all that HTTP/2 writes at a time
//! refused_streams  counts the streams that HTTP/2 refuses
//! ```

mod administer;
mod body_permits;
mod coalescing;
mod columns;
mod content;
mod discard;
mod http2;
mod identify;
mod inspect;
mod line_body;
mod pages;
mod post;
mod refused_streams;
mod rejection;
mod repolls;
mod respond;
mod routes;
mod runs;
mod tickets;
mod timeouts;

use std::{
    cell::Cell,
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    mem::MaybeUninit,
    pin::{Pin, pin},
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    task::Poll,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use socket2::SockRef;
use thalweg_wire::{ErrorCode, close};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest},
    net::TcpStream,
    sync::{Mutex, Semaphore},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    access::{AccessPolicy, Allowed, ViewRuns},
    answers::AnswerAccount,
    clock::now_us,
    config::{Config, DISCARDED_BODIES, Limits},
    connection_limits::{Address, ConnectionPermit},
    runs::Runs,
    shard::{Arrival, Handle, NewSubscriber},
    transport::{Certificate, Socket, TlsSocket, Writer, head},
};
pub(crate) use body_permits::BodyPermits;
use coalescing::SharedBuffer;
pub(crate) use rejection::reject;
use rejection::{point_to_https, refuse_draining, refuse_slow};
use repolls::Repolls;
use routes::Takeover;
use thalweg_core::fanout::ResponseMode;
pub(crate) use tickets::TicketStore;
use timeouts::{ActiveRequest, ActiveRequests, TimedOut, TimeoutStream};

/// The first bytes of a client that speaks HTTP/2 at once (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Time between two checks whether the rest of the preface has come. The bytes are only peeked
/// at and stay in the socket, so the socket gives no new signal. This is the first wait; each
/// following one is twice as long.
const PREFACE_POLL: Duration = Duration::from_millis(1);
const PREFACE_POLL_MAX: Duration = Duration::from_millis(200);

/// How long a connection of HTTP/1.1 that answers no request may go on in a drain:
/// to send what it has, not to receive the rest of a head.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// HTTP on the thread of one shard.
pub(crate) struct Http {
    pub(crate) shard: Rc<Handle>,
    pub(crate) shared: Shared,
    /// Shared send memory for HTTP/2 connections.
    spare: SharedBuffer,
    /// Bounds how many bodies are read and thrown away at a time.
    discards: Semaphore,
    /// Whoever has it verifies a token.
    verifying: Mutex<()>,
}

/// What all shards share for HTTP.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The access policy of the admin listener, if there is one.
    pub(crate) admin: Option<Arc<AccessPolicy>>,
    /// The certificate, if sockets use TLS. Sockets of the admin listener do not.
    pub(crate) tls: Option<Certificate>,
    /// The lab's runs, if they are shown.
    pub(crate) runs: Option<Arc<Runs>>,
    pub(crate) tickets: Arc<TicketStore>,
    /// Permits for requests whose bodies are being read. Clients that may publish and all others
    /// have separate limits.
    pub(crate) requests_of_publishers: Arc<BodyPermits>,
    pub(crate) requests_of_others: Arc<BodyPermits>,
    pub(crate) shutdown: Arc<ShutdownState>,
}

/// The progress of the server's shutdown, on all shards.
#[derive(Debug, Default)]
pub(crate) struct ShutdownState {
    /// The shutdown is announced: the server is not ready any more, but still serves.
    pub(crate) is_announced: AtomicBool,
    /// New connections are not served.
    pub(crate) is_closed: AtomicBool,
}

impl Http {
    /// On the thread of `shard`.
    pub(crate) fn new(shard: Rc<Handle>, shared: Shared) -> Rc<Self> {
        let (spare, discards) = (SharedBuffer::default(), Semaphore::new(DISCARDED_BODIES));
        Rc::new(Self { shard, shared, spare, discards, verifying: Mutex::default() })
    }

    fn config(&self) -> &Config {
        &self.shard.common.config
    }

    fn limits(&self) -> &Limits {
        &self.config().limits
    }

    /// The lab's runs, for whoever may see them.
    fn runs(&self, _: &Allowed<ViewRuns>) -> Option<&Arc<Runs>> {
        self.shared.runs.as_ref()
    }

    fn access(&self) -> Arc<AccessPolicy> {
        self.shard.access()
    }
}

/// The connection that a request came on.
struct RequestConnection {
    permit: ConnectionPermit,
    account: Arc<AnswerAccount>,
    /// The address of its client. Through a proxy each request may have another one.
    address: Cell<Address>,
    repolls: Repolls,
    /// When it was opened, in µs.
    opened_us: u64,
    /// Whether it is to end after its answers: its client is to open another one, which may lead to another server.
    retired: Rc<Cell<bool>>,
}

impl RequestConnection {
    fn new(permit: ConnectionPermit, account: &Arc<AnswerAccount>) -> Self {
        let address = Cell::new(permit.address());
        Self {
            permit,
            account: Arc::clone(account),
            address,
            repolls: Repolls::default(),
            opened_us: now_us(),
            retired: Rc::default(),
        }
    }
}

/// Serves one socket until it ends or is taken over for a subscriber.
pub(crate) async fn serve_connection(http: Rc<Http>, arrival: Arrival) {
    let Arrival { socket, permit } = arrival;
    let _serving = http.shard.serve();
    let Ok(stream) = TcpStream::from_std(socket) else { return };
    let Some(tls) = http.shared.tls.as_ref().filter(|_| !permit.is_admin()) else {
        match first_bytes(&http, begins_with_preface(&stream)).await {
            FirstBytes::InTime(Ok(true)) => http2::serve(&http, stream, permit).await,
            FirstBytes::InTime(Ok(false)) => serve_http1(&http, stream, permit).await,
            FirstBytes::Late if stream.try_read(&mut [0]).is_ok() => {
                refuse_slow(&http, stream).await;
            }
            FirstBytes::Draining if has_begun(&stream) => refuse_draining(&http, stream).await,
            // Nothing was sent: browsers connect in advance.
            FirstBytes::InTime(Err(_)) | FirstBytes::Late | FirstBytes::Draining => {}
        }
        return;
    };
    match first_bytes(&http, begin_tls(stream, tls.current())).await {
        FirstBytes::InTime(Ok(Spoken::Tls(stream))) => {
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                http2::serve(&http, *stream, permit).await;
            } else {
                serve_http1(&http, *stream, permit).await;
            }
        }
        FirstBytes::InTime(Ok(Spoken::Clear(stream))) => {
            http.shard.counts.tls_failures.add(1);
            point_to_https(&http, stream).await;
        }
        FirstBytes::InTime(Err(_)) | FirstBytes::Late => http.shard.counts.tls_failures.add(1),
        FirstBytes::Draining => {}
    }
}

/// What a client speaks where TLS is expected.
enum Spoken {
    Tls(Box<TlsStream<TcpStream>>),
    /// An HTTP method instead of a TLS record.
    Clear(TcpStream),
}

async fn begin_tls(stream: TcpStream, tls: Arc<ServerConfig>) -> io::Result<Spoken> {
    let mut first = [0];
    // No record begins with a letter (RFC 8446 §5.1).
    if stream.peek(&mut first).await? > 0 && first[0].is_ascii_uppercase() {
        return Ok(Spoken::Clear(stream));
    }
    let stream = TlsAcceptor::from(tls).accept(stream).await?;
    Ok(Spoken::Tls(Box::new(stream)))
}

/// Whether a connection began in time.
enum FirstBytes<T> {
    InTime(T),
    Late,
    /// The server is draining and does not wait for it.
    Draining,
}

async fn first_bytes<T>(http: &Http, begin: impl Future<Output = T>) -> FirstBytes<T> {
    let drain = http.shard.drain();
    if http.shard.is_draining() {
        return FirstBytes::Draining;
    }
    tokio::select! {
        first = timeout(http.limits().head_wait, begin) => {
            first.map_or(FirstBytes::Late, FirstBytes::InTime)
        }
        () = drain => FirstBytes::Draining,
    }
}

/// Whether bytes have arrived that were not read.
fn has_begun(stream: &TcpStream) -> bool {
    let mut first = [MaybeUninit::uninit()];
    SockRef::from(stream).peek(&mut first).is_ok_and(|bytes| bytes > 0)
}

async fn begins_with_preface(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    let mut look = PREFACE_POLL;
    loop {
        let bytes = stream.peek(&mut first).await?;
        if bytes == 0 || !PREFACE.starts_with(&first[..bytes]) {
            return Ok(false);
        }
        if bytes == PREFACE.len() {
            return Ok(true);
        }
        if stream.ready(Interest::READABLE).await?.is_read_closed() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sleep(look).await;
        look = PREFACE_POLL_MAX.min(look * 2);
    }
}

/// A socket that HTTP/1.1 uses. It is taken back for a subscriber.
trait Stream: AsyncRead + AsyncWrite + Unpin {
    fn into_writer(self) -> io::Result<Writer>;
}

impl Stream for TcpStream {
    fn into_writer(self) -> io::Result<Writer> {
        Ok(Writer::Tcp(Socket::new(self.into_std()?)))
    }
}

impl Stream for TlsStream<TcpStream> {
    fn into_writer(self) -> io::Result<Writer> {
        let (stream, tls) = self.into_inner();
        let socket = Socket::new(stream.into_std()?);
        Ok(Writer::Tls(Box::new(TlsSocket::new(socket, tls))))
    }
}

async fn serve_http1(http: &Rc<Http>, stream: impl Stream, permit: ConnectionPermit) {
    let takeover: Cell<Option<Takeover>> = Cell::new(None);
    let limits = http.limits();
    let active_requests = Rc::<ActiveRequests>::default();
    let account = http.shard.account();
    let via = RequestConnection::new(permit, &account);
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A head that has begun has less time (`with_heads_by`).
        .header_read_timeout(limits.keep_alive)
        .max_buf_size(limits.head_bytes)
        .serve_connection(
            TokioIo::new(
                TimeoutStream::new(stream, http).with_heads_by(limits.head_wait, &active_requests),
            ),
            service_fn(async |request| {
                let _active = ActiveRequest::enter(&active_requests);
                let mut answer = routes::answer(http, Some(&takeover), &via, request).await;
                content::count(http, &mut answer, &via);
                Ok::<_, Infallible>(answer)
            }),
        );
    let mut notified = pin!(notified(http, &account));
    let mut idle = pin!(active_requests.idle(DRAIN_GRACE));
    let (mut listening, mut draining) = (false, false);
    let served = poll_fn(|context| {
        if !std::mem::replace(&mut listening, true) {
            let _ = notified.as_mut().poll(context);
        }
        if !draining && http.shard.is_draining() {
            draining = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        // The server does not wait for the rest of a head.
        if draining && idle.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(None));
        }
        via.repolls.begin();
        let ended = loop {
            let ended = Pin::new(&mut connection).poll(context);
            if !via.repolls.take() || ended.is_ready() {
                break ended;
            }
        };
        if account.is_evicted() {
            return Poll::Ready(Ok(None));
        }
        match (takeover.take(), ended) {
            (Some(taken), Poll::Pending) => Poll::Ready(Ok(Some(taken))),
            (_, Poll::Ready(ended)) => Poll::Ready(ended.map(|()| None)),
            (None, Poll::Pending) => Poll::Pending,
        }
    });
    let taken = served.await;
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let stream = io.into_inner();
    let taken = match taken {
        Ok(Some(taken)) => taken,
        Ok(None) => return,
        // A client may be silent between requests: browsers keep connections.
        Err(error) if is_late_head(&error) && read_buf.is_empty() => return,
        Err(error) => return count_http1_error(http, &error, stream).await,
    };
    let Takeover { mut request, feeds, client, holder, requester } = taken;
    let mut first = head::to_bytes(&request.head, request.format);
    if let ResponseMode::Columns { head, .. } = &mut request.mode {
        *head = Some(std::mem::take(&mut first).into());
    }
    let permit = Some(via.permit.transferred_to(requester));
    let subscribed = stream.into_inner().into_writer().and_then(|writer| {
        let (head, request, feeds) = (&*first, &request, &*feeds);
        let new = NewSubscriber { writer, head, request, feeds, client, holder, permit };
        http.shard.subscribe(new, &read_buf)
    });
    if let Err(error) = subscribed {
        tracing::warn!(%error, "a socket could not be taken over");
    }
}

/// Whether a head did not come, or not to its end, in time.
fn is_late_head(error: &hyper::Error) -> bool {
    error.is_timeout() || TimedOut::behind(error) == Some(TimedOut::Head)
}

/// hyper itself answers most errors, but not a head that never comes.
async fn count_http1_error(http: &Http, error: &hyper::Error, stream: impl AsyncWrite + Unpin) {
    if count_timed_out(http, TimedOut::behind(error)) {
        return;
    }
    if is_late_head(error) {
        refuse_slow(http, stream).await;
    } else if error.is_parse_too_large() {
        http.shard.counts.count_refused(ErrorCode::HeadTooLarge);
    } else if error.is_parse() {
        http.shard.counts.count_refused(ErrorCode::BadParameter);
    }
}

/// Counts a connection that was ended because its peer took too long. Returns whether this was
/// the reason.
fn count_timed_out(http: &Http, timed_out: Option<TimedOut>) -> bool {
    match timed_out {
        Some(TimedOut::Preface) => http.shard.counts.count_refused(ErrorCode::SlowRequest),
        Some(TimedOut::Stall) => http.shard.counts.count_closed(close::STALLED.code),
        // It is answered, and counted with that.
        Some(TimedOut::Head) | None => return false,
    }
    true
}

/// Wakes a connection's task at a drain and when the connection must end. Poll it once, in the
/// connection's own task, to register the waker. After that check the two flags, which are set
/// before the wake-up. Polling it every time would slow every request.
async fn notified(http: &Http, account: &AnswerAccount) {
    tokio::join!(http.shard.drain(), account.evicted());
}
