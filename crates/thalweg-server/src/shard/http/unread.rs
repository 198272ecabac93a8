//! Bodies that nobody has asked for: of requests that are refused by their head.

use std::time::Duration;

use http::{header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::{
    config::{UNREAD_BODY_BYTES, UNREAD_BODY_WAIT, UNREAD_STREAM_WAIT},
    shard::Handle,
};

/// Reads away the rest of a body that a request was answered without, before the answer goes out, within the
/// bounds of `config/limits.rs`.
pub(super) async fn read_away(handle: &Handle, parts: Parts, mut body: Incoming) {
    let Some(wait) = wait(&parts, &body) else { return };
    drop(parts);
    let Ok(_place) = handle.unread.try_acquire() else { return };
    let reading = async {
        let mut bytes = 0;
        while bytes < UNREAD_BODY_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes += frame.data_ref().map_or(0, |data| data.len());
        }
    };
    // The answer is sent all the same.
    let _ = timeout(wait, reading).await;
}

/// How long the rest of a body is worth waiting for: not if it is large, or held back
/// until somebody wants it (RFC 9110 §10.1.1).
fn wait(parts: &Parts, body: &Incoming) -> Option<Duration> {
    if parts.headers.contains_key(header::EXPECT) {
        return None;
    }
    match body.size_hint().exact() {
        Some(bytes) if bytes > UNREAD_BODY_BYTES as u64 => None,
        Some(_) => Some(UNREAD_BODY_WAIT),
        None => Some(UNREAD_STREAM_WAIT),
    }
}
