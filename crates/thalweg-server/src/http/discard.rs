//! Bodies that the server does not need: of requests that are refused because of their head.

use std::time::Duration;

use http::{Method, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{
    Http,
    respond::{Answer, ErrorResponse, leave_body_away},
};
use crate::{
    config::{DISCARDED_BODY_BYTES, DISCARDED_BODY_WAIT, DISCARDED_STREAM_WAIT},
    transport::parameters::bad,
};

/// What is needed of a request's head when it is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseRules {
    pub(super) is_head: bool,
    /// The client waits with the body until it is asked for it (RFC 9110 §10.1.1).
    expects_continue: bool,
}

impl ResponseRules {
    pub(super) fn of(parts: &Parts) -> Self {
        let expects_continue = parts.headers.contains_key(header::EXPECT);
        Self { is_head: parts.method == Method::HEAD, expects_continue }
    }
}

/// Refuses a GET with a body: nothing would read the body (RFC 9110 §9.3.1).
pub(super) fn reject_get_body(parts: &Parts, body: &Incoming) -> Result<(), ErrorResponse> {
    if parts.method != Method::GET || body.is_end_stream() {
        return Ok(());
    }
    Err(bad("a GET has no body: leave it away, or POST it".into()).into())
}

/// The last step before an answer is sent. The caller drops the request's head before, as it is
/// not needed any more.
pub(super) async fn finish_answer(
    http: &Http,
    rules: ResponseRules,
    mut body: Incoming,
    mut answer: Answer,
) -> Answer {
    if rules.is_head {
        leave_body_away(&mut answer);
    }
    // A body that was too slow before is not waited for again.
    let is_late = answer.status() == StatusCode::REQUEST_TIMEOUT;
    if !body.is_end_stream() && !rules.expects_continue && !is_late {
        // Boxed because it is rare: it must not enlarge the future of every request.
        Box::pin(discard_rest(http, &mut body)).await;
    }
    answer
}

/// Reads and throws away the rest of a body that is not needed, before the answer is sent. The
/// bounds are in `config/limits.rs`.
async fn discard_rest(http: &Http, body: &mut Incoming) {
    let Some(wait) = wait(body) else { return };
    let Ok(_permit) = http.discards.try_acquire() else { return };
    let reading = async {
        let mut bytes = 0;
        while bytes < DISCARDED_BODY_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes += frame.data_ref().map_or(0, |data| data.len());
        }
    };
    // The answer is sent in any case.
    let _ = timeout(wait, reading).await;
}

/// How long to wait for the rest of a body. `None` if it is large.
fn wait(body: &Incoming) -> Option<Duration> {
    match body.size_hint().exact() {
        Some(bytes) if bytes > DISCARDED_BODY_BYTES as u64 => None,
        Some(_) => Some(DISCARDED_BODY_WAIT),
        None => Some(DISCARDED_STREAM_WAIT),
    }
}
