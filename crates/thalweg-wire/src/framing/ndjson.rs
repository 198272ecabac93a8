//! One message a line.

use crate::{Close, Envelope, Gap, notice};

pub(super) fn batch(envelope: &Envelope<'_>, out: &mut Vec<u8>) {
    line(|out| envelope.write(out), out);
}

/// Appends the line that `write` appends the JSON of.
pub(super) fn line(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    write(out);
    out.push(b'\n');
}

pub(super) fn gap(gap: &Gap<'_>, out: &mut Vec<u8>) {
    gap.write(out);
    out.push(b'\n');
}

pub(super) fn heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(notice::HEARTBEAT);
    out.push(b'\n');
}

pub(super) fn close(close: Close, out: &mut Vec<u8>) {
    close.write(out);
    out.push(b'\n');
}
