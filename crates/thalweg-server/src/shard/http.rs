//! Requests over HTTP/1.1. hyper reads them; a request to subscribe makes it let
//! go of the socket, which becomes a slab entry of the shard. hyper's own
//! streaming bodies would cost a wake-up, a task and chunked encoding for each
//! subscriber.

use std::{
    cell::Cell,
    convert::Infallible,
    future::{Future, pending, poll_fn},
    net::TcpStream,
    os::fd::OwnedFd,
    pin::{Pin, pin},
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    task::Poll,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use thalweg_wire::{
    ErrorCode, Topic,
    answer::{Published, refusal},
    event::EventError,
};

use super::{Handle, mail::Placed};
use crate::{
    fanout::FeedKey,
    metrics,
    refusal::Refusal,
    source::posted::{self, BodyKind, Lines},
    stream::Payloads,
    transport::{Ask, negotiate},
};

/// What a request to subscribe leaves for when hyper has let go.
struct Takeover {
    ask: Ask,
    feeds: Vec<FeedKey>,
}

/// What a `GET /` says.
const HELLO: &str = "Thalweg pushes live data.\n\n\
    POST /v1/topics/{topic}   publish a JSON event\n\
    GET  /v1/topics/{topic}   subscribe: Upgrade: websocket,\n\
    \x20                         Accept: text/event-stream or Accept: application/x-ndjson\n\
    GET  /healthz  /metrics\n";

type Answer = Response<Full<Bytes>>;

/// Serves one socket until it ends or becomes a subscriber's.
pub(crate) async fn serve_connection(handle: Rc<Handle>, socket: TcpStream) {
    let mut requests = Requests::enter(&handle);
    let Ok(stream) = tokio::net::TcpStream::from_std(socket) else { return };
    let takeover: Cell<Option<Takeover>> = Cell::new(None);
    let limits = &handle.common.config.limits;
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_wait)
        .max_buf_size(limits.head_bytes)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(async |request| {
                Ok::<_, Infallible>(answer(&handle, &takeover, request).await)
            }),
        );
    let mut drain = pin!(handle.drain.notified());
    let mut draining = false;
    let taken = poll_fn(|context| {
        if !draining && (handle.draining.get() || drain.as_mut().poll(context).is_ready()) {
            draining = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        let ended = Pin::new(&mut connection).poll(context).is_ready();
        match takeover.take() {
            Some(taken) if !ended => Poll::Ready(Some(taken)),
            _ if ended => Poll::Ready(None),
            _ => Poll::Pending,
        }
    });
    let Some(Takeover { ask, feeds }) = taken.await else { return };
    let parts = connection.into_parts();
    let socket = parts.io.into_inner().into_std();
    let fd = match socket {
        Ok(socket) => OwnedFd::from(socket),
        Err(error) => {
            tracing::warn!(%error, "a socket could not be taken over");
            return;
        }
    };
    match handle.take_over(fd, &ask, &feeds, &parts.read_buf) {
        Ok(()) => requests.taken_over = true,
        Err(error) => tracing::warn!(%error, "a socket could not be watched"),
    }
}

/// Counts a socket among the requests' for as long as it lives.
struct Requests<'a> {
    handle: &'a Handle,
    /// It lives on as a subscriber's.
    taken_over: bool,
}

impl<'a> Requests<'a> {
    fn enter(handle: &'a Handle) -> Self {
        handle.requests.set(handle.requests.get() + 1);
        Self { handle, taken_over: false }
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        self.handle.requests.set(self.handle.requests.get() - 1);
        if !self.taken_over {
            self.handle.common.loads[self.handle.id].fetch_sub(1, Relaxed);
        }
        self.handle.wake.notify_one();
    }
}

async fn answer(
    handle: &Handle,
    takeover: &Cell<Option<Takeover>>,
    request: Request<Incoming>,
) -> Answer {
    let (parts, body) = request.into_parts();
    let topic = match parts.uri.path() {
        "/" => return only_get(&parts, || text("text/plain; charset=utf-8", HELLO)),
        "/healthz" => return only_get(&parts, || text("text/plain; charset=utf-8", "ok\n")),
        "/metrics" => return only_get(&parts, || metrics(handle)),
        "/v1/topics" => None,
        path => match path.strip_prefix("/v1/topics/") {
            Some(topic) => Some(topic),
            None => return refuse(&not_found(path), None),
        },
    };
    match (&parts.method, topic) {
        (&Method::GET, topic) => match begin(handle, &parts, topic) {
            Ok(begun) => {
                takeover.set(Some(begun));
                // The task that polls this takes the socket away instead.
                pending().await
            }
            Err(refusal) => refuse(&refusal, None),
        },
        (&Method::POST, Some(topic)) => publish(handle, topic, &parts, body).await,
        (_, Some(_)) => method_not_allowed("GET, POST"),
        (_, None) => method_not_allowed("GET (publish to /v1/topics/{topic})"),
    }
}

fn begin(handle: &Handle, parts: &Parts, topic: Option<&str>) -> Result<Takeover, Refusal> {
    if handle.draining.get() {
        return Err(Refusal::draining());
    }
    let ask = negotiate(parts, topic)?;
    let feeds = handle.step(|shard| shard.open_feeds(&ask))?;
    Ok(Takeover { ask, feeds })
}

async fn publish(handle: &Handle, topic: &str, parts: &Parts, body: Incoming) -> Answer {
    let topic: Topic = match topic.parse() {
        Ok(topic) => topic,
        Err(error) => return refuse(&Refusal::from(error), None),
    };
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|t| t.to_str().ok());
    let mut placed = None;
    let published = match BodyKind::of(content_type) {
        BodyKind::Lines => publish_lines(handle, &topic, body, &mut placed).await,
        kind => publish_one(handle, &topic, kind, body, &mut placed).await,
    };
    let placed = placed.map(|placed: Placed| placed.published(&topic));
    match (published, placed) {
        (Ok(()), Some(published)) => json(StatusCode::OK, published.to_json()),
        (Ok(()), None) => json(StatusCode::OK, Vec::new()),
        (Err(refusal), published) => refuse(&refusal, published.as_ref()),
    }
}

async fn publish_one(
    handle: &Handle,
    topic: &Topic,
    kind: BodyKind,
    body: Incoming,
    placed: &mut Option<Placed>,
) -> Result<(), Refusal> {
    let bytes_max = handle.common.config.limits.event_bytes;
    // One more byte than an event may have shows that it has too many.
    let body = Limited::new(body, bytes_max + 1).collect().await;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => Refusal::from(EventError::TooLarge(bytes_max)),
        false => broken_off(),
    })?;
    let mut payloads =
        posted::one(kind, &body.to_bytes(), bytes_max).map_err(|error| refused(&error))?;
    *placed = Some(handle.publish(topic, &mut payloads).await?);
    Ok(())
}

/// Lines are appended as they are read: a long request is a publish connection.
async fn publish_lines(
    handle: &Handle,
    topic: &Topic,
    mut body: Incoming,
    placed: &mut Option<Placed>,
) -> Result<(), Refusal> {
    let (mut lines, mut payloads) =
        (Lines::new(handle.common.config.limits.event_bytes), Payloads::default());
    let mut drain = pin!(handle.drain.notified());
    loop {
        let frame = tokio::select! {
            biased;
            () = &mut drain => return Err(Refusal::draining()),
            frame = body.frame() => frame,
        };
        let read = match frame {
            Some(Ok(frame)) => match frame.data_ref() {
                Some(chunk) => lines.read(chunk, &mut payloads),
                None => continue,
            },
            // The publisher is gone, or its chunks are broken: what it sent stands.
            Some(Err(_)) => return Err(broken_off()),
            None => {
                let finished = lines.finish(&mut payloads);
                // An empty body has a position too, but no other's events.
                if !payloads.is_empty() || placed.is_none() {
                    append(handle, topic, &mut payloads, placed).await?;
                }
                return finished.map_err(|error| refused(&error));
            }
        };
        if !payloads.is_empty() {
            append(handle, topic, &mut payloads, placed).await?;
        }
        read.map_err(|error| refused(&error))?;
    }
}

/// Appends, and widens what this request has published.
async fn append(
    handle: &Handle,
    topic: &Topic,
    payloads: &mut Payloads,
    placed: &mut Option<Placed>,
) -> Result<(), Refusal> {
    let now = handle.publish(topic, payloads).await?;
    match placed {
        Some(placed) => placed.extend(&now),
        None => *placed = Some(now),
    }
    Ok(())
}

fn refused(refused: &posted::Refused) -> Refusal {
    Refusal { code: refused.code(), message: refused.to_string() }
}

fn broken_off() -> Refusal {
    let message = "the body broke off before its end, or its chunks are malformed".into();
    Refusal { code: ErrorCode::BadEvent, message }
}

fn not_found(path: &str) -> Refusal {
    Refusal {
        code: ErrorCode::NotFound,
        message: format!("there is nothing at {path}: topics are at /v1/topics/{{topic}}"),
    }
}

fn only_get(parts: &Parts, answer: impl FnOnce() -> Answer) -> Answer {
    match parts.method {
        Method::GET | Method::HEAD => answer(),
        _ => method_not_allowed("GET, HEAD"),
    }
}

fn method_not_allowed(allow: &'static str) -> Answer {
    let message = format!("here there is only {allow}");
    let mut answer = refuse(&Refusal { code: ErrorCode::MethodNotAllowed, message }, None);
    let methods = allow.split(" (").next().unwrap_or(allow);
    answer.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(methods));
    answer
}

fn metrics(handle: &Handle) -> Answer {
    // Writing to a string does not fail.
    text(metrics::CONTENT_TYPE, handle.common.metrics.text().unwrap_or_default())
}

fn refuse(refused: &Refusal, published: Option<&Published>) -> Answer {
    let status = StatusCode::from_u16(refused.code.status());
    let body = refusal(refused.code, &refused.message, None, published);
    let mut answer = json(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body);
    if refused.code == ErrorCode::UpgradeRequired {
        // RFC 9110 §15.5.22, RFC 6455 §4.4.
        let headers = answer.headers_mut();
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, header::HeaderValue::from_static("13"));
    }
    answer
}

fn json(status: StatusCode, mut body: Vec<u8>) -> Answer {
    // curl leaves the prompt where it belongs.
    body.push(b'\n');
    let mut answer = text("application/json", body);
    *answer.status_mut() = status;
    answer
}

fn text(content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    let content_type = header::HeaderValue::from_static(content_type);
    answer.headers_mut().insert(header::CONTENT_TYPE, content_type);
    answer
}
