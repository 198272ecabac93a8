//! One unmasked text frame per message (RFC 6455 §5.6), compressed or not (RFC 7692 §6.1: each message may be either).
//! A close is a control frame (§5.5.1).

use super::{
    codec::MessageForm,
    deflate::{self, SYNC_END},
    gzip,
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

/// Appends the message of the text that `write` appends. With `enters_context`, one that would not become smaller is compressed, too,
/// because only a compressed message enters the context (RFC 7692 §7.2.2).
pub(super) fn deflated(enters_context: bool, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    deflate::deflated(write, |text, deflated| {
        match deflated.filter(|bytes| bytes.ends_with(&SYNC_END)) {
            Some(deflated) => deflated_message(deflated, out),
            None if enters_context => {
                let mut stored = Vec::new();
                gzip::store(text, &mut stored);
                deflated_message(&stored, out);
            }
            None => {
                websocket::text_header(text.len(), out);
                out.extend_from_slice(text);
            }
        }
    });
}

/// Appends the message of deflated text with a sync flush, whose end the message omits (RFC 7692 §7.2.1).
pub(super) fn deflated_message(deflated: &[u8], out: &mut Vec<u8>) {
    let payload = deflated.strip_suffix(&SYNC_END).unwrap_or(deflated);
    websocket::deflated_text_header(payload.len(), out);
    out.extend_from_slice(payload);
}
