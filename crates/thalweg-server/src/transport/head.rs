//! Response heads. The streaming ones are delimited by the end of the
//! connection (RFC 9112 §6.3), so that the body is the log's own slices.

use std::time::SystemTime;

/// Tells proxies not to hold anything back and not to change it.
const STREAMING: &str = "Cache-Control: no-cache, no-transform\r\n\
                         X-Accel-Buffering: no\r\n\
                         Connection: close\r\n";

/// Tells EventSource how soon to come back, in ms, and is the first body byte
/// that some proxies wait for.
const SSE_RETRY: &str = "retry:1000\n\n";

pub(super) fn sse() -> Vec<u8> {
    streaming("text/event-stream", SSE_RETRY)
}

pub(super) fn http_streaming() -> Vec<u8> {
    streaming("application/x-ndjson", "")
}

/// RFC 6455 §4.2.2.
pub(super) fn websocket(accept: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .into_bytes()
}

fn streaming(content_type: &str, first: &str) -> Vec<u8> {
    let date = httpdate::HttpDate::from(SystemTime::now());
    format!(
        "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: {content_type}\r\n{STREAMING}\r\n{first}"
    )
    .into_bytes()
}
