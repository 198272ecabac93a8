//! Discards the rest of a body that the answer does not need.

use std::time::Duration;

use http::{Method, StatusCode, header, request::Parts};
use tokio::time::timeout;

use super::{
    body::RequestBody,
    context::Http,
    respond::{Answer, ErrorResponse, leave_body_away},
};
use crate::{
    config::{DISCARDED_BODY_BYTES, DISCARDED_BODY_WAIT, DISCARDED_STREAM_WAIT},
    transport::parameters::bad,
};

/// The parts of a request's head that its answer depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseRules {
    pub(super) is_head: bool,
    /// Whether the client sends the body only after `100 Continue` (RFC 9110 §10.1.1).
    expects_continue: bool,
}

impl ResponseRules {
    pub(super) fn from_request(parts: &Parts) -> Self {
        let expects_continue = parts.headers.contains_key(header::EXPECT);
        Self { is_head: parts.method == Method::HEAD, expects_continue }
    }
}

/// Rejects a GET with a body, which the server would not read (RFC 9110 §9.3.1).
pub(super) fn reject_get_body(parts: &Parts, body: &RequestBody) -> Result<(), ErrorResponse> {
    if parts.method != Method::GET || body.is_over() {
        return Ok(());
    }
    Err(bad("a GET must not have a body: remove the body, or use POST".into()).into())
}

/// Finishes an answer. The caller has dropped the request's head, which is not needed any more.
pub(super) async fn finish_answer(
    http: &Http,
    rules: ResponseRules,
    mut body: RequestBody,
    mut answer: Answer,
) -> Answer {
    if rules.is_head {
        leave_body_away(&mut answer);
    }
    // A body that was already too slow is not waited for again.
    let is_late = answer.status() == StatusCode::REQUEST_TIMEOUT;
    if !body.is_over() && !rules.expects_continue && !is_late {
        // Boxed because it is rare: it must not enlarge the future of every request.
        Box::pin(discard_rest(http, &mut body)).await;
    }
    answer
}

/// Reads and discards the rest of an unneeded body, before the answer is sent. The bounds are in `config/limits.rs`.
async fn discard_rest(http: &Http, body: &mut RequestBody) {
    let Some(wait) = wait(body) else { return };
    let Ok(_permit) = http.discards.try_acquire() else { return };
    let reading = async {
        let mut bytes = 0;
        while bytes < DISCARDED_BODY_BYTES
            && let Some(Ok(chunk)) = body.chunk().await
        {
            bytes += chunk.len();
        }
    };
    // The answer is sent in any case.
    let _ = timeout(wait, reading).await;
}

/// Returns how long to wait for the rest of a body. `None` if it is large.
fn wait(body: &RequestBody) -> Option<Duration> {
    match body.bytes_left() {
        Some(bytes) if bytes > DISCARDED_BODY_BYTES as u64 => None,
        Some(_) => Some(DISCARDED_BODY_WAIT),
        None => Some(DISCARDED_STREAM_WAIT),
    }
}
