//! Turns a request into a subscriber. Over HTTP/1.1 the subscriber takes its connection's socket from hyper.
//! Over HTTP/2 a WebSocket uses its stream as a tunnel. All other HTTP/2 responses, and long polls, read from
//! a pipe. Messages of a polled session wait until its client polls.

use std::{
    cell::Cell,
    future::{pending, poll_fn},
    io,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{HeaderName, HeaderValue, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use thalweg_core::fanout::{ConnectionFraming, FeedKey, ResponseMode};
use thalweg_wire::StreamStart;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::spawn_local,
    time::{Instant, sleep, timeout_at},
};
use tokio_rustls::server::TlsStream;

use super::{
    content::Content,
    context::{Http, RequestConnection},
    respond::{Answer, ErrorResponse, empty},
    timeouts::begin_tunnel,
};
use crate::{
    access::{Admitted, Allowed, Holder},
    connection_limits::{ConnectionPermit, Requester},
    protocol::Protocol,
    refusal::Refusal,
    shard::{NewSubscriber, SubscriberId, Subscription},
    transport::{
        Client, PipeEvent, Polls, Socket, SubscribeRequest, TlsSocket, Tunnel, Writer, head, pipe,
    },
};

/// The message for a subscriber that cannot begin.
const NOT_BEGUN: &str = "the server cannot open another connection now: try again";

/// Time until the first check whether a poll has its start position, or a stream of columns has begun. It doubles with each
/// check: a topic may wait for its broker, with thousands of requests.
const FIRST_REPLY_POLL: Duration = Duration::from_millis(1);

/// The longest time between two of these checks.
const STREAM_START_POLL_MAX: Duration = Duration::from_millis(20);

/// How long a poll may take to begin: another shard may own its topic.
const BEGUN_WAIT: Duration = Duration::from_secs(2);

pub(super) struct Granted {
    pub(super) subscription: Allowed<Box<Subscription>>,
    pub(super) holder: Arc<Holder>,
}

/// The slot for a subscriber that takes the socket of its request's connection.
pub(super) type TakeoverSlot = Cell<Option<Takeover>>;

/// Where the bytes for a subscriber go.
pub(super) enum Outlet<'a> {
    /// The socket of an HTTP/1.1 connection.
    Socket(&'a TakeoverSlot),
    /// An HTTP/2 stream, used in both directions after the header of the response.
    Tunnel(OnUpgrade),
    /// The response to the request.
    Response,
}

/// A subscriber that waits for its socket.
pub(super) struct Takeover {
    opened: Opened,
    requester: Requester,
}

/// A socket that hyper uses for HTTP/1.1, and that a subscriber may take over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// Returns the socket as the writer of a subscriber.
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

impl Takeover {
    /// Gives the socket to the subscriber. `read_before` are the bytes that hyper has read beyond the request.
    pub(super) fn take(
        self,
        http: &Http,
        stream: impl Stream,
        read_before: &[u8],
        permit: ConnectionPermit,
    ) {
        let permit = permit.transferred_to(self.requester);
        let taken = stream
            .into_writer()
            .and_then(|writer| self.opened.begin(http, writer, Some(permit), read_before));
        if let Err(error) = taken {
            tracing::warn!(%error, "a new subscription failed, and its connection was closed");
        }
    }
}

/// A subscriber whose topics are open.
struct Opened {
    request: SubscribeRequest,
    protocol: Box<dyn Protocol>,
    feeds: Vec<FeedKey>,
    client: Client,
    holder: Arc<Holder>,
}

impl Opened {
    /// Opens the topics of a subscription, and completes the header of its response. Fails when one of the
    /// topics cannot be opened.
    async fn new(
        http: &Http,
        Granted { subscription, holder }: Granted,
        client: Client,
        admitted: &Admitted,
    ) -> Result<Self, Refusal> {
        let feeds = http.shard.open_feeds(&subscription, client.counted()).await?;
        let Subscription { mut request, protocol, .. } = *subscription.into_inner();
        request.head.headers_mut().extend(admitted.headers());
        Ok(Self { request, protocol, feeds, client, holder })
    }

    /// Creates the subscriber. It holds `permit`. If there is none, the permit of its HTTP connection counts
    /// for it.
    fn begin(
        self,
        http: &Http,
        writer: Writer,
        permit: Option<ConnectionPermit>,
        read_before: &[u8],
    ) -> io::Result<(SubscriberId, SubscribeRequest)> {
        let Self { request, protocol, feeds, client, holder } = self;
        let head = match writer {
            // hyper sends the header of the response.
            Writer::Pipe(_) | Writer::Polls(_) | Writer::Tunnel(_) => {
                head::first(&request.head, request.format)
            }
            Writer::Tcp(_) | Writer::Tls(_) => head::to_bytes(&request.head, request.format),
        };
        let (head, of_request, feeds) = (&*head, &request, &*feeds);
        let new = NewSubscriber {
            writer,
            head,
            request: of_request,
            feeds,
            protocol,
            client,
            holder,
            permit,
        };
        let id = http.shard.subscribe(new, read_before)?;
        Ok((id, request))
    }
}

/// Turns a request into a subscriber. If the subscriber takes over the socket (over HTTP/1.1, except for a
/// long poll), the future never completes. Otherwise it returns the response: a header that opens the tunnel, or a
/// body that reads from the subscriber's pipe. Fails when a limit is reached, when a topic cannot be opened,
/// and when the subscriber ends before it has begun.
pub(super) async fn subscribe(
    http: &Rc<Http>,
    outlet: Outlet<'_>,
    connection: &RequestConnection,
    granted: Granted,
    admitted: &Admitted,
    requester: Requester,
) -> Result<Answer, ErrorResponse> {
    let is_poll = granted.subscription.request.mode == ResponseMode::Once;
    let client = Client::new(&granted.holder, &requester);
    let is_polled = granted.subscription.request.is_polled();
    // A subscriber over HTTP/1.1 has its connection for itself, so it uses the connection's permit.
    let (requester, permit) = match outlet {
        Outlet::Socket(_) if !is_polled => (Some(requester), None),
        _ => (None, Some(connection.permit.for_stream(requester)?)),
    };
    let wanted = &granted.subscription.request;
    let starts = http.shard.find_starts(client, wanted).await?;
    if !is_polled && wanted.is_return && http.shard.has_lost_all(client, wanted).await {
        // The client has already received the reason in an `end`. Only this status stops an EventSource
        // (WHATWG HTML §9.2.3).
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    // Open topics only after the permit was taken, so that a refused subscriber creates no topic.
    let mut opened = Opened::new(http, granted, client, admitted).await?;
    for ((_, start), found) in opened.request.topics.iter_mut().zip(starts) {
        *start = found;
    }
    if is_polled {
        return open_polled(http, opened, permit);
    }
    // Keep the permit of the poll's address until the response is made.
    let _requester = match (outlet, requester) {
        (Outlet::Tunnel(upgrade), _) => {
            return answer_tunnel(http, connection, opened, permit, upgrade);
        }
        (Outlet::Socket(slot), Some(requester)) if !is_poll => {
            slot.set(Some(Takeover { opened, requester }));
            // The task that polls this future takes the socket instead.
            return pending().await;
        }
        (_, requester) => requester,
    };
    respond(http, connection, opened, permit, is_poll).await
}

/// Answers the request for a tunnel. Its subscriber begins once the answer is on its way.
fn answer_tunnel(
    http: &Rc<Http>,
    connection: &RequestConnection,
    mut opened: Opened,
    permit: Option<ConnectionPermit>,
    upgrade: OnUpgrade,
) -> Result<Answer, ErrorResponse> {
    // This is always `Some`, because each HTTP/2 stream has a task.
    let Some(end) = begin_tunnel(permit) else { return Err(Refusal::busy(NOT_BEGUN).into()) };
    // The protocol's first messages follow in the tunnel.
    let (head, first_messages) = std::mem::take(&mut opened.request.head).into_parts();
    *opened.request.head.body_mut() = first_messages;
    let (http, retired) = (Rc::clone(http), Rc::clone(&connection.retired));
    spawn_local(async move {
        // Fails if the client has gone.
        let Ok(upgraded) = upgrade.await else { return };
        let tunnel = Tunnel::new(upgraded, end, http.limits().stream_buffer_bytes, &retired);
        // This cannot fail for a tunnel: it needs nothing from the system.
        let _ = opened.begin(&http, Writer::Tunnel(Box::new(tunnel)), None, &[]);
    });
    Ok(Answer::from_parts(head, Content::Nothing))
}

/// Begins a subscriber that sends in the responses to polls. The response to the first poll has no messages.
fn open_polled(
    http: &Http,
    opened: Opened,
    permit: Option<ConnectionPermit>,
) -> Result<Answer, ErrorResponse> {
    // This cannot fail for polls: they need nothing from the system.
    let Ok((_, request)) = opened.begin(http, Writer::Polls(Polls::default()), permit, &[]) else {
        return Err(Refusal::busy(NOT_BEGUN).into());
    };
    Ok(request.head.map(|_| "".into()))
}

/// Begins a subscriber whose writer is a pipe into the response.
async fn respond(
    http: &Rc<Http>,
    connection: &RequestConnection,
    opened: Opened,
    permit: Option<ConnectionPermit>,
    is_poll: bool,
) -> Result<Answer, ErrorResponse> {
    let is_http1 = permit.is_none();
    let (end, mut body) = pipe(http.limits().stream_buffer_bytes, &connection.retired);
    // This cannot fail for a pipe: it needs nothing from the system.
    let Ok((id, request)) = opened.begin(http, Writer::Pipe(end), permit, &[]) else {
        return Err(Refusal::busy(NOT_BEGUN).into());
    };
    let shard = Rc::clone(&http.shard);
    body.listener = Some(Box::new(move |news| match news {
        PipeEvent::Room => shard.unblock(id),
        PipeEvent::Gone => shard.remove(id),
    }));
    if is_poll {
        http.shard.reconnect_if_missed(id, connection.opened_us);
        let deadline = Instant::now() + Duration::from_micros(request.wait_us);
        let settled =
            timeout_at(deadline, poll_fn(|context| body.poll_full_or_finished(context))).await;
        if settled.is_err() {
            if !wait_until_begun(http, id).await {
                http.shard.remove(id);
                return Err(Refusal::catching_up().into());
            }
            http.shard.tell_positions(id);
            // Messages may have arrived in the meantime. If the last one does not fit into the pipe, the
            // response continues with its rest.
            if !body.is_full_or_finished() {
                body.finish_now();
                http.shard.remove(id);
            }
        }
    }
    let mut head = request.head;
    if connection.retired.get() && is_http1 {
        // HTTP/2 sends a GOAWAY for all streams instead.
        head.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if request.framing.start().is_some() {
        // The response's header contains the start of the stream, so it waits for that.
        let begun = stream_start(http, id, &request.framing).await?;
        let fields = begun.fields();
        let fields = fields.filter_map(|(name, value)| {
            Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        });
        head.headers_mut().extend(fields);
    }
    let content = match is_poll {
        true => Content::poll(body, &connection.account, http.limits().stream_buffer_bytes),
        false => Content::Pipe(body, None),
    };
    Ok(head.map(|_| content))
}

/// Waits until a poll has its start position, because every response contains it. Returns `false` if that
/// takes too long.
async fn wait_until_begun(http: &Http, id: SubscriberId) -> bool {
    let deadline = Instant::now() + BEGUN_WAIT;
    let mut pause = FIRST_REPLY_POLL;
    loop {
        if http.shard.has_begun(id) {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        sleep(pause).await;
        pause = (pause * 2).min(STREAM_START_POLL_MAX);
    }
}

/// Returns the start of a stream, for the header of its response. This has no time limit of its own: it ends
/// when the stream begins, or when the client disconnects. Fails if the stream ends before it has begun.
async fn stream_start(
    http: &Http,
    id: SubscriberId,
    framing: &ConnectionFraming,
) -> Result<StreamStart, Refusal> {
    let mut pause = FIRST_REPLY_POLL;
    loop {
        if let Some(begun) = framing.start().flatten() {
            return Ok(begun);
        }
        if http.shard.has_begun(id) {
            // The subscriber is gone.
            return Err(match http.shard.is_draining() {
                true => Refusal::draining(),
                false => Refusal::busy(
                    "the response ended before its first message: send the request again",
                ),
            });
        }
        sleep(pause).await;
        pause = (pause * 2).min(STREAM_START_POLL_MAX);
    }
}
