//! Server-sent events (WHATWG HTML §9.2). The JSON has no line breaks and fits one `data` line; `id` comes last, and a
//! connection can replace it with its own line.

use super::message::Outgoing;
use crate::{
    StartAt,
    position::{write_decimal, write_position},
};

const DATA: &[u8] = b"data:";
const ID: &[u8] = b"id:";

/// Appends the first line of a stream, which sets an EventSource's reconnection time to `ms`. No blank line follows, because
/// several clients dispatch a block without data as an empty event: the line belongs to the block of the first message.
pub fn retry(ms: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"retry:");
    write_decimal(ms, out);
    out.push(b'\n');
}

/// Appends the last line of an event and its blank line: the cursors of all topics of a connection, in the connection's
/// order. The line never stands alone: several clients dispatch a block without data as an empty event. A blank line
/// alone also ends an event; the client then keeps the id of the previous event.
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

/// Appends the event of a message, whose text `write` appends. Omits the last two lines if the connection writes its own id.
pub(super) fn event(
    message: Outgoing<'_>,
    with_id: bool,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    match message {
        Outgoing::Batch(_) => {}
        Outgoing::Gap(_) => out.extend_from_slice(b"event:gap\n"),
        Outgoing::End(_) => out.extend_from_slice(b"event:end\n"),
        Outgoing::Heartbeat => out.extend_from_slice(b"event:heartbeat\n"),
        Outgoing::Close(_) => out.extend_from_slice(b"event:close\n"),
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

/// Appends an event of data alone, whose text `write` appends. Appends nothing for an empty text.
pub(super) fn data(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(DATA);
    write(out);
    if out.len() == start + DATA.len() {
        out.truncate(start);
    } else {
        out.extend_from_slice(b"\n\n");
    }
}

pub(super) fn around_len(with_id: bool) -> usize {
    DATA.len() + 1 + if with_id { ID.len() + 2 } else { 0 }
}
