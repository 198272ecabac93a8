//! One unmasked text frame per message (RFC 6455 §5.6).

use crate::{Close, Envelope, Gap, notice, websocket};

pub(super) fn batch(envelope: &Envelope<'_>, out: &mut Vec<u8>) {
    websocket::text_header(envelope.len(), out);
    envelope.write(out);
}

pub(super) fn gap(gap: &Gap<'_>, out: &mut Vec<u8>) {
    let mut json = Vec::new();
    gap.write(&mut json);
    websocket::text_header(json.len(), out);
    out.extend_from_slice(&json);
}

pub(super) fn heartbeat(out: &mut Vec<u8>) {
    websocket::text_header(notice::HEARTBEAT.len(), out);
    out.extend_from_slice(notice::HEARTBEAT);
}

pub(super) fn close(close: Close, out: &mut Vec<u8>) {
    websocket::close(close.code, close.reason, out);
}
