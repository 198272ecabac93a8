/// A counter of the streams that HTTP/2 refuses. It reads the output, because the library itself refuses streams beyond the
/// limit, and reports them only to the peer.
#[derive(Default)]
pub(super) struct RefusedStreamCounter {
    /// The bytes of a frame's header so far, and of a reset's reason after it.
    start: [u8; HEADER_BYTES + REASON_BYTES],
    has: usize,
    /// Remaining bytes of a payload.
    payload: usize,
    count: u64,
}

/// RFC 9113 §4.1: length, type, flags, stream.
const HEADER_BYTES: usize = 9;

/// RFC 9113 §6.4: the payload of `RST_STREAM`.
const REASON_BYTES: usize = 4;
const RST_STREAM: u8 = 3;

/// RFC 9113 §7.
const REFUSED_STREAM: [u8; REASON_BYTES] = [0, 0, 0, 7];

impl RefusedStreamCounter {
    /// Reads the next bytes of the connection.
    pub(super) fn observe(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = &bytes[skipped..];
            let wanted = match self.has >= HEADER_BYTES {
                true => HEADER_BYTES + REASON_BYTES,
                false => HEADER_BYTES,
            };
            let taken = (wanted - self.has).min(bytes.len());
            self.start[self.has..self.has + taken].copy_from_slice(&bytes[..taken]);
            self.has += taken;
            bytes = &bytes[taken..];
            if self.has == wanted {
                self.end_start();
            }
        }
    }

    /// Returns the number of streams refused since the last call.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }

    fn end_start(&mut self) {
        let [high, middle, low, kind, ..] = self.start;
        let is_reset = kind == RST_STREAM;
        if is_reset && self.has == HEADER_BYTES {
            return;
        }
        if is_reset {
            self.count += u64::from(self.start[HEADER_BYTES..] == REFUSED_STREAM);
        } else {
            self.payload = u32::from_be_bytes([0, high, middle, low]) as usize;
        }
        self.has = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn refusals_are_counted_however_they_are_cut() {
        const CANCEL: [u8; 4] = [0, 0, 0, 8];
        const DATA: u8 = 0;
        let written = [
            frame(DATA, &frame(RST_STREAM, &REFUSED_STREAM)),
            frame(RST_STREAM, &REFUSED_STREAM),
            frame(RST_STREAM, &CANCEL),
            frame(DATA, &[]),
            frame(DATA, &[7; 70_000]),
            frame(RST_STREAM, &REFUSED_STREAM),
        ]
        .concat();
        for piece in [1, 2, 3, 7, 9, 13, 64, written.len()] {
            let mut counter = RefusedStreamCounter::default();
            written.chunks(piece).for_each(|bytes| counter.observe(bytes));
            assert_eq!((counter.take(), counter.take()), (2, 0), "in pieces of {piece}");
        }
    }
}
