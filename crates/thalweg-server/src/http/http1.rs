//! A connection of HTTP/1.1. hyper reads its requests until it ends, or until a subscriber takes the socket over.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use thalweg_wire::ErrorCode;
use tokio::io::AsyncWrite;

use super::{
    body::RequestBody,
    content,
    context::{Http, RequestConnection, notified},
    rejection::refuse_slow,
    routes,
    takeover::{Stream, TakeoverSlot},
    timeouts::{ActiveRequest, ActiveRequests, TimedOut, TimeoutStream},
};
use crate::connection_limits::ConnectionPermit;

/// How long a connection of HTTP/1.1 without a request may continue during a drain: to send pending bytes, not to
/// receive the rest of a head.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Serves a connection until it ends or its socket is taken over.
pub(super) async fn serve(http: &Rc<Http>, stream: impl Stream, permit: ConnectionPermit) {
    let slot = TakeoverSlot::default();
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
                TimeoutStream::new(stream, http)
                    .with_heads_by(limits.header_timeout, &active_requests),
            ),
            service_fn(async |request| {
                let _active = ActiveRequest::enter(&active_requests);
                let mut answer =
                    routes::answer(http, Some(&slot), &via, request.map(RequestBody::from)).await;
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
        match (slot.take(), ended) {
            (Some(takeover), Poll::Pending) => Poll::Ready(Ok(Some(takeover))),
            (_, Poll::Ready(ended)) => Poll::Ready(ended.map(|()| None)),
            (None, Poll::Pending) => Poll::Pending,
        }
    });
    let served = served.await;
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let stream = io.into_inner();
    match served {
        Ok(Some(takeover)) => takeover.take(http, stream.into_inner(), &read_buf, via.permit),
        Ok(None) => {}
        // A client may be silent between requests: browsers keep connections.
        Err(error) if is_late_head(&error) && read_buf.is_empty() => {}
        Err(error) => count_error(http, &error, stream).await,
    }
}

/// Returns whether a head was late.
fn is_late_head(error: &hyper::Error) -> bool {
    error.is_timeout() || TimedOut::behind(error) == Some(TimedOut::Head)
}

/// Counts the error of a connection. hyper itself answers most errors, but not a head that never arrives.
async fn count_error(http: &Http, error: &hyper::Error, stream: impl AsyncWrite + Unpin) {
    if TimedOut::behind(error).is_some_and(|timed_out| timed_out.count(http)) {
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
