//! Deflate (RFC 1951), each frame by itself: no byte of it depends on another
//! frame, so one compressed frame serves every subscriber, and one partly sent can
//! be made again.

use std::cell::Cell;

use flate2::{Compress, Compression, FlushCompress};

/// A frame is compressed once and sent to many, but its shard waits for it. On the
/// demo's rows, 10 to 1,000 of them, level 6 takes a sixth to three quarters more
/// time than 2 and saves another twentieth; level 1 takes half the time and leaves
/// half as much again.
const LEVEL: Compression = Compression::new(2);

/// How a sync flush ends: an empty stored block's length and its complement.
pub(super) const SYNC_END: [u8; 4] = [0, 0, 0xff, 0xff];

thread_local! {
    /// A compressor is a third of a megabyte of tables: to make one costs as much
    /// as to compress a small frame, a reset a quarter of that. It keeps memory,
    /// not state: which thread makes a frame, and after what, cannot be seen in its
    /// bytes. So callers need not know of it.
    static DEFLATER: Cell<Option<Deflater>> = const { Cell::new(None) };
}

struct Deflater {
    compress: Compress,
    plain: Vec<u8>,
    /// Room for what comes out.
    deflated: Vec<u8>,
}

/// Hands `take` what `write` appends, plain and deflated up to a sync flush; the
/// latter only if it is shorter.
pub(super) fn deflated(write: impl FnOnce(&mut Vec<u8>), take: impl FnOnce(&[u8], Option<&[u8]>)) {
    let mut deflater = DEFLATER.take().unwrap_or_else(Deflater::new);
    deflater.plain.clear();
    write(&mut deflater.plain);
    let deflated = deflater.deflate();
    take(&deflater.plain, deflated.map(|len| &deflater.deflated[..len]));
    DEFLATER.set(Some(deflater));
}

impl Deflater {
    fn new() -> Self {
        let compress = Compress::new(LEVEL, false);
        Self { compress, plain: Vec::new(), deflated: Vec::new() }
    }

    /// How many bytes it makes of the plain ones, if fewer.
    fn deflate(&mut self) -> Option<usize> {
        let room = self.plain.len();
        if self.deflated.len() < room {
            self.deflated.resize(room, 0);
        }
        self.compress.reset();
        // The room, too, is the same for the same frame.
        let output = &mut self.deflated[..room];
        let outcome = self.compress.compress(&self.plain, output, FlushCompress::Sync);
        let len = self.compress.total_out() as usize;
        // A flush that fills its room may not be complete.
        let is_whole = outcome.is_ok() && len < room;
        is_whole.then_some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `plain` deflated with what this thread has, or plain.
    fn deflate(plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        deflated(
            |bytes| bytes.extend_from_slice(plain),
            |same, shorter| {
                assert_eq!(same, plain);
                out.extend_from_slice(shorter.unwrap_or(same));
            },
        );
        out
    }

    #[test]
    fn earlier_frames_leave_no_trace() {
        let rows: Vec<u8> =
            (0..5000).flat_map(|row| format!("[{row},{row}.5],").into_bytes()).collect();
        let frames = [&rows[..100], &rows[..], &rows[500..40_000], &rows[7..1000], b"short", b""];
        for before in frames {
            for frame in frames {
                let fresh = std::thread::scope(|scope| {
                    scope.spawn(|| deflate(frame)).join().expect("no panic")
                });
                deflate(before);
                assert!(deflate(frame) == fresh, "{} bytes after {}", frame.len(), before.len());
            }
        }
    }

    #[test]
    fn what_does_not_become_shorter_stays_plain() {
        for plain in [&b""[..], b"a", b"no two of these: 0123456789"] {
            assert_eq!(deflate(plain), plain);
        }
        let deflated = deflate(&[b'x'; 1000]);
        assert!(deflated.len() < 30 && deflated.ends_with(&SYNC_END));
    }
}
