//! Server-sent events (WHATWG HTML §9.2). The JSON has no line breaks, so one
//! `data` line holds it; `id` comes last, where a connection's own line can take
//! its place.

use super::Message;
use crate::{
    StartAt,
    position::{write_decimal, write_position},
};

const DATA: &[u8] = b"data:";
const ID: &[u8] = b"id:";

/// Appends the line that a stream begins with: an EventSource reconnects after `ms`. No blank line
/// follows, because several clients dispatch a block without data as an empty event: the line belongs to
/// the block of the first message.
pub fn retry(ms: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"retry:");
    write_decimal(ms, out);
    out.push(b'\n');
}

/// Appends the last line of an event and the blank one after it: the cursors of
/// all topics of a connection, in its order. It never stands alone: a block without data
/// is an empty event to several clients.
/// The blank line alone also ends an event, whose id is then that of the one before.
pub fn ids(cursors: impl IntoIterator<Item = StartAt>, out: &mut Vec<u8>) {
    out.extend_from_slice(ID);
    for (index, cursor) in cursors.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        cursor.write(out);
    }
    out.extend_from_slice(b"\n\n");
}

/// Appends the event of a message, whose text `write` appends; without its last lines
/// where it has an id and that is not to be in it.
pub(super) fn event(
    message: Message<'_>,
    with_id: bool,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    match message {
        Message::Batch(_) => {}
        Message::Gap(_) => out.extend_from_slice(b"event:gap\n"),
        Message::End(_) => out.extend_from_slice(b"event:end\n"),
        Message::Heartbeat => out.extend_from_slice(b"event:heartbeat\n"),
        Message::Close(_) => out.extend_from_slice(b"event:close\n"),
    }
    out.extend_from_slice(DATA);
    write(out);
    out.push(b'\n');
    match message.position() {
        Some(position) if with_id => {
            out.extend_from_slice(ID);
            write_position(position.epoch, position.offset, out);
            out.extend_from_slice(b"\n\n");
        }
        Some(_) => {}
        None => out.push(b'\n'),
    }
}

/// Bytes of a batch's event but for its text and its position.
pub(super) fn around_len(with_id: bool) -> usize {
    DATA.len() + 1 + if with_id { ID.len() + 2 } else { 0 }
}
