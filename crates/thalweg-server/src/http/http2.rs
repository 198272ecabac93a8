use std::{
    convert::Infallible,
    error::Error,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
};

use http::{Method, Request};
use hyper::{ext::Protocol, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    body::RequestBody,
    coalescing::coalesce,
    content,
    context::{Http, RequestConnection, notified},
    routes,
    timeouts::{ActiveRequests, ProgressBody, Streams, TimedOut, TimeoutStream},
};
use crate::{
    config::{H2_CONNECTION_WINDOW_BYTES, H2_HEAD_PART, H2_STREAM_WINDOW_BYTES},
    connection_limits::ConnectionPermit,
    transport::WEBSOCKET,
};

/// Serves a connection of HTTP/2 until it ends.
pub(super) async fn serve(
    http: &Rc<Http>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    permit: ConnectionPermit,
) {
    let config = http.config();
    let limits = &config.limits;
    let account = http.shard.account();
    let via = RequestConnection::new(permit, &account);
    let retired = Rc::clone(&via.retired);
    let served = Rc::new((Rc::clone(http), via));
    let active_requests = Rc::<ActiveRequests>::default();
    let streams = Streams { http: Rc::clone(http), active_requests: Rc::clone(&active_requests) };
    let stream = TimeoutStream::new(stream, http).with_preface_by(limits.header_timeout);
    let (coalescing, flusher) = coalesce(stream, &http.spare);
    let mut builder = http2::Builder::new(streams);
    if !served.1.permit.is_admin() {
        builder.enable_connect_protocol();
    }
    let mut connection = builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.h2_streams)
        .max_pending_accept_reset_streams(limits.h2_resets)
        .max_local_error_reset_streams(limits.h2_resets)
        .max_header_list_size((limits.head_bytes / H2_HEAD_PART) as u32)
        .initial_stream_window_size(H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(H2_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(limits.stream_buffer_bytes)
        // Detects a vanished peer: over HTTP/2 subscribers have no socket of their own that would.
        .keep_alive_interval(config.heartbeat)
        .keep_alive_timeout(limits.write_timeout)
        .serve_connection(
            TokioIo::new(coalescing),
            service_fn(move |request| {
                let served = Rc::clone(&served);
                async move {
                    let (http, via) = &*served;
                    let request = as_handshake(request.map(RequestBody::from));
                    let mut answer = routes::answer(http, None, via, request).await;
                    content::count(http, &mut answer, via);
                    Ok::<_, Infallible>(answer.map(ProgressBody::new))
                }
            }),
        );
    let mut notified = pin!(notified(http, &account));
    let mut idle = pin!(active_requests.idle(limits.keep_alive));
    let (mut listening, mut is_ending) = (false, false);
    let ended = poll_fn(|context| {
        if !std::mem::replace(&mut listening, true) {
            let _ = notified.as_mut().poll(context);
        }
        let polled = loop {
            let ends = http.shard.is_draining() || retired.get();
            if !is_ending && (ends || idle.as_mut().poll(context).is_ready()) {
                is_ending = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            let polled = Pin::new(&mut connection).poll(context);
            // A stream may have retired the connection meanwhile.
            if polled.is_ready() || is_ending || !retired.get() {
                break polled;
            }
        };
        let refused = flusher.take_refused();
        if refused > 0 {
            http.shard.counts.h2_refused_streams.add(refused);
        }
        if account.is_evicted() {
            return Poll::Ready(Ok(()));
        }
        match polled {
            Poll::Ready(ended) => Poll::Ready(ended.map_err(Box::<dyn Error>::from)),
            Poll::Pending => match flusher.poll_send(context) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
            },
        }
    });
    if let Err(error) = ended.await
        && !TimedOut::behind(&*error).is_some_and(|timed_out| timed_out.count(http))
        && is_misuse(&*error)
    {
        http.shard.counts.h2_misuses.add(1);
    }
}

/// Turns a CONNECT for a WebSocket into the GET of HTTP/1.1 (RFC 8441 §5). The request keeps its `:protocol`, which only a
/// CONNECT has.
fn as_handshake<B>(mut request: Request<B>) -> Request<B> {
    let protocol = request.extensions().get::<Protocol>();
    if protocol.is_some_and(|protocol| protocol.as_str() == WEBSOCKET) {
        *request.method_mut() = Method::GET;
    }
    request
}

/// Returns whether the server ended an HTTP/2 connection, and not its peer or the network.
fn is_misuse(error: &(dyn Error + 'static)) -> bool {
    error
        .source()
        .and_then(|source| source.downcast_ref::<h2::Error>())
        .is_some_and(|error| (error.is_go_away() || error.is_library()) && !error.is_remote())
}
