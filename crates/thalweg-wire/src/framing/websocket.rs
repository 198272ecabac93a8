//! One unmasked text frame per message (RFC 6455 §5.6), compressed or not (RFC
//! 7692 §6.1: each message may be either).

use super::deflate::{SYNC_END, deflated};
use crate::{Close, Envelope, Gap, notice, websocket};

pub(super) fn batch(envelope: &Envelope<'_>, out: &mut Vec<u8>) {
    websocket::text_header(envelope.len(), out);
    envelope.write(out);
}

pub(super) fn deflated_batch(envelope: &Envelope<'_>, out: &mut Vec<u8>) {
    if envelope.is_empty() {
        return batch(envelope, out);
    }
    deflated(
        |json| envelope.write(json),
        // RFC 7692 §7.2.1: without the end of the flush.
        |json, deflated| match deflated.and_then(|bytes| bytes.strip_suffix(&SYNC_END)) {
            Some(payload) => {
                websocket::deflated_text_header(payload.len(), out);
                out.extend_from_slice(payload);
            }
            None => {
                websocket::text_header(json.len(), out);
                out.extend_from_slice(json);
            }
        },
    );
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
