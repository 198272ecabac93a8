//! Server-sent events (WHATWG HTML §9.2). The JSON has no line breaks, so one
//! `data` line holds it; `id` comes last, where a connection's own line can take
//! its place.

use crate::{Close, Envelope, Gap, StartAt, notice};

/// Appends the last line of an event and the blank one after it: the cursors of
/// all topics of a connection, in its order. Alone it sets the id and is no event.
/// The blank line alone also ends an event, whose id is then that of the one before.
pub fn ids(cursors: impl IntoIterator<Item = StartAt>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"id:");
    for (index, cursor) in cursors.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        cursor.write(out);
    }
    out.extend_from_slice(b"\n\n");
}

pub(super) fn batch(envelope: &Envelope<'_>, with_id: bool, out: &mut Vec<u8>) {
    event(envelope, with_id, |out| envelope.write(out), out);
}

/// Appends the event of a batch, whose JSON `write` appends.
pub(super) fn event(
    envelope: &Envelope<'_>,
    with_id: bool,
    write: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"data:");
    write(out);
    out.push(b'\n');
    if with_id {
        out.extend_from_slice(b"id:");
        envelope.write_position(out);
        out.extend_from_slice(b"\n\n");
    }
}

pub(super) fn gap(gap: &Gap<'_>, with_id: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event:gap\ndata:");
    gap.write(out);
    out.push(b'\n');
    if with_id {
        out.extend_from_slice(b"id:");
        out.extend_from_slice(gap.position.to_string().as_bytes());
        out.extend_from_slice(b"\n\n");
    }
}

pub(super) fn heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(b"event:heartbeat\ndata:");
    out.extend_from_slice(notice::HEARTBEAT);
    out.extend_from_slice(b"\n\n");
}

pub(super) fn close(close: Close, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event:close\ndata:");
    close.write(out);
    out.extend_from_slice(b"\n\n");
}
