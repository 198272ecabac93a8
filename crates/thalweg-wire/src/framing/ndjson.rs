//! One message a line.

use crate::{Close, Envelope, Gap, notice};

pub(super) fn batch(envelope: &Envelope<'_>, out: &mut Vec<u8>) {
    envelope.write(out);
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
