//! Deflate (RFC 1951), each frame alone: no frame depends on another one. One compressed frame serves every subscriber,
//! and a partly sent frame can be compressed again.

use std::cell::Cell;

use flate2::{Compress, Compression, FlushCompress};

/// A frame is compressed once and sent to many, but its shard waits for the compression. On 10 to 1,000 of the demo's
/// rows, level 6 takes a sixth to three quarters more time than level 2 and saves another twentieth; level 1 takes half
/// the time, and its output is half as large again.
const LEVEL: Compression = Compression::new(2);

/// The end of a sync flush: an empty stored block's length and its complement.
pub(super) const SYNC_END: [u8; 4] = [0, 0, 0xff, 0xff];

thread_local! {
    /// A compressor has a third of a megabyte of tables. Creating one costs as much as compressing a small frame, and a
    /// reset costs a quarter of that. The thread keeps memory, not state: the bytes of a frame depend neither on the
    /// thread nor on earlier frames.
    static DEFLATER: Cell<Option<Deflater>> = const { Cell::new(None) };
}

struct Deflater {
    compress: Compress,
    plain: Vec<u8>,
    deflated: Vec<u8>,
}

/// Passes the output of `write` to `take`, both plain and, if that is shorter, deflated up to a sync flush.
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

    fn deflate(&mut self) -> Option<usize> {
        let room = self.plain.len();
        if self.deflated.len() < room {
            self.deflated.resize(room, 0);
        }
        self.compress.reset();
        // Give equal frames equal room, so that their output is equal.
        let output = &mut self.deflated[..room];
        let outcome = self.compress.compress(&self.plain, output, FlushCompress::Sync);
        let len = self.compress.total_out() as usize;
        // A flush that fills its room may be incomplete.
        let is_whole = outcome.is_ok() && len < room;
        is_whole.then_some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `plain` deflated with this thread's compressor, or `plain`.
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
    fn incompressible_messages_stay_plain() {
        for plain in [&b""[..], b"a", b"no two of these: 0123456789"] {
            assert_eq!(deflate(plain), plain);
        }
        let deflated = deflate(&[b'x'; 1000]);
        assert!(deflated.len() < 30 && deflated.ends_with(&SYNC_END));
    }
}
