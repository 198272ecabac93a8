//! One unmasked text frame per message (RFC 6455 §5.6), compressed or not (RFC 7692 §6.1: each message may be either).
//! A close is a control frame (§5.5.1).

use super::{
    codec::MessageForm,
    deflate::{self, SYNC_END},
    message::Outgoing,
};
use crate::{Envelope, websocket};

pub(super) fn message(form: MessageForm, message: Outgoing<'_>, out: &mut Vec<u8>) {
    match message {
        Outgoing::Batch(envelope) => {
            around(form, envelope, out, |out| form.write(message, out));
        }
        Outgoing::Gap(_) | Outgoing::End(_) | Outgoing::Heartbeat => {
            let mut text = Vec::new();
            form.write(message, &mut text);
            websocket::text_header(text.len(), out);
            out.extend_from_slice(&text);
        }
        Outgoing::Close(close) => websocket::close(close.code, close.reason, out),
    }
}

pub(super) fn around(
    form: MessageForm,
    envelope: &Envelope<'_>,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    websocket::text_header(form.len(envelope), out);
    write(out);
}

pub(super) fn deflated(form: MessageForm, message: Outgoing<'_>, out: &mut Vec<u8>) {
    deflate::deflated(
        |text| form.write(message, text),
        // RFC 7692 §7.2.1: a message omits the end of the flush.
        |text, deflated| match deflated.and_then(|bytes| bytes.strip_suffix(&SYNC_END)) {
            Some(payload) => {
                websocket::deflated_text_header(payload.len(), out);
                out.extend_from_slice(payload);
            }
            None => {
                websocket::text_header(text.len(), out);
                out.extend_from_slice(text);
            }
        },
    );
}
