//! Response heads. A streaming response ends with its connection. Over HTTP/1.1 the last chunk shows that it is
//! complete; over HTTP/1.0, only the close does.

use std::time::SystemTime;

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use thalweg_wire::{
    Format,
    format::{TransferCoding, forever_frame_document, sse_retry},
};

/// The head of a response. Its body contains the first bytes, not yet encoded.
pub(crate) type Head = Response<Vec<u8>>;

/// The media type of Server-Sent Events.
pub(super) const SSE: &str = "text/event-stream";

/// RFC 10036: asks intermediaries to pass on each part of a message as it comes.
const INCREMENTAL: HeaderName = HeaderName::from_static("incremental");

/// Asks nginx to pass on each part of a response as it comes.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Returns the head of Server-Sent Events. An EventSource reconnects after `retry_ms`. Some proxies wait for a first
/// byte of the body, which the line with `retry_ms` provides.
pub(super) fn sse(retry_ms: u64) -> Head {
    let mut first = Vec::new();
    sse_retry(retry_ms, &mut first);
    streaming(SSE, first)
}

/// Returns the head of Server-Sent Events that have only data. Its comment (WHATWG HTML §9.2.6) provides the first byte.
pub(super) fn event_data() -> Head {
    streaming(SSE, b":\n\n".to_vec())
}

/// Returns the head of an answer with messages.
pub(crate) fn messages() -> Head {
    let mut head = Head::default();
    let headers = head.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    head
}

/// Returns the head of HTTP streaming and long polling.
pub(super) fn stream(media_type: &'static str) -> Head {
    streaming(media_type, Vec::new())
}

/// Returns the head for a body of gzip blocks.
pub(super) fn gzipped(mut head: Head) -> Head {
    let headers = head.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    head
}

/// Returns the head of a document whose scripts have `nonce`. Only pages of `ancestors` may frame it.
pub(super) fn forever_frame(nonce: &str, ancestors: &str) -> Head {
    let mut first = Vec::new();
    forever_frame_document(nonce, &mut first);
    let mut head = streaming("text/html; charset=utf-8", first);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; frame-ancestors 'self' {ancestors}"
    );
    if let Ok(policy) = HeaderValue::from_str(policy.trim_end()) {
        head.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    head
}

/// Returns the head of a WebSocket (RFC 6455 §4.2.2; without `accept`, RFC 8441 §5).
pub(super) fn websocket(accept: Option<&str>, extensions: Option<&'static str>) -> Head {
    let mut head = Head::default();
    if accept.is_some() {
        *head.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    }
    let headers = head.headers_mut();
    if let Some(accept) = accept.and_then(|accept| HeaderValue::from_str(accept).ok()) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(extensions) = extensions {
        let extensions = HeaderValue::from_static(extensions);
        headers.insert(header::SEC_WEBSOCKET_EXTENSIONS, extensions);
    }
    head
}

fn streaming(content_type: &'static str, first: Vec<u8>) -> Head {
    let mut head = Head::new(first);
    // Asks proxies not to buffer and not to change anything.
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (INCREMENTAL, "?1"),
        (ACCEL_BUFFERING, "no"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        head.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    head
}

/// Returns a head as HTTP/1.1 bytes, for a socket that is taken over, with the first bytes of the body in a format.
pub(crate) fn to_bytes(head: &Head, format: Format) -> Vec<u8> {
    let status = head.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in head.headers() {
        push_header(name.as_str(), value.as_bytes(), &mut bytes);
    }
    if status == StatusCode::OK {
        let date = httpdate::HttpDate::from(SystemTime::now()).to_string();
        push_header("date", date.as_bytes(), &mut bytes);
        push_header("connection", b"close", &mut bytes);
    }
    if format.transfer() == TransferCoding::Chunked {
        push_header("transfer-encoding", b"chunked", &mut bytes);
    }
    bytes.extend_from_slice(b"\r\n");
    format.begin(head.body(), &mut bytes);
    bytes
}

/// Returns the first bytes of the body in a format.
pub(crate) fn first(head: &Head, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    format.begin(head.body(), &mut bytes);
    bytes
}

fn push_header(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
