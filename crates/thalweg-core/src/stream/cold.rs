use thalweg_wire::Envelope;

use super::{Cursor, Encoding, Next};

/// (The rest of) a frame made for one cursor alone: `sent` bytes of it were sent before. It is
/// appended to `scratch`; but for its events, if they are `large` and stand in the frame as they
/// are: they are sent from their own memory.
pub(super) fn rest_of_frame<'a>(
    envelope: &Envelope<'a>,
    encoding: Encoding<'_>,
    is_large: bool,
    sent: usize,
    after: Cursor,
    scratch: &mut Vec<u8>,
) -> Next<'a> {
    let start = scratch.len();
    let around = is_large.then(|| encoding.around(envelope, scratch)).flatten();
    let (mut before, mut events): (usize, &[u8]) = match around {
        Some(before) => (before, envelope.events),
        None => {
            encoding.batch(envelope, scratch);
            (scratch.len() - start, &[])
        }
    };
    // Skips the bytes that were sent before, part by part.
    let mut sent = sent;
    let skipped = sent.min(before);
    scratch.drain(start..start + skipped);
    before -= skipped;
    sent -= skipped;
    let skipped = sent.min(events.len());
    events = &events[skipped..];
    scratch.drain(start + before..start + before + sent - skipped);
    Next::Cold { before, events, after }
}
