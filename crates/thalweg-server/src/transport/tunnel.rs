use std::{
    borrow::Cow,
    cell::Cell,
    io::IoSlice,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use smallvec::SmallVec;
use thalweg_core::fanout::{Sent, Sink};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

use super::Received;
use crate::connection_limits::ConnectionPermit;

/// Pieces that hyper and h2 hold for a peer whose window is closed: two in hyper's queue, one taken out of the queue, and
/// one that waits for the window of the stream. While the socket is full, h2 holds about as many again.
const PIECES_HELD_MAX: usize = 4;

/// A stream of HTTP/2 that carries a WebSocket in both directions (RFC 8441). Unread bytes of the client stay in its window.
pub(crate) struct Tunnel {
    stream: TokioIo<Upgraded>,
    piece_bytes: usize,
    /// Woken when the client has sent more, and when a full tunnel has room again.
    waker: Waker,
    is_full: bool,
    /// The bytes of the last pieces, in a ring.
    last_pieces: [usize; PIECES_HELD_MAX],
    pieces: usize,
    end: TunnelEnd,
    retired: Rc<Cell<bool>>,
}

/// The handle to complete the task that sends for a tunnel. If the handle is dropped instead, the stream is reset.
pub(crate) struct TunnelEnd {
    complete: Option<oneshot::Sender<()>>,
    /// The task that sends shares it: unsent bytes count as a connection until they are gone.
    _permit: Option<Rc<ConnectionPermit>>,
}

impl TunnelEnd {
    pub(crate) fn new(complete: oneshot::Sender<()>, permit: Option<Rc<ConnectionPermit>>) -> Self {
        Self { complete: Some(complete), _permit: permit }
    }

    fn complete(&mut self) {
        if let Some(complete) = self.complete.take() {
            // The task may have ended.
            let _ = complete.send(());
        }
    }
}

impl Tunnel {
    /// Returns a tunnel that holds at most `bytes_max` for a peer that does not read. `retired` is set when its connection must not
    /// be used for further requests.
    pub(crate) fn new(
        upgraded: Upgraded,
        end: TunnelEnd,
        bytes_max: usize,
        retired: &Rc<Cell<bool>>,
    ) -> Self {
        Self {
            stream: TokioIo::new(upgraded),
            piece_bytes: (bytes_max / PIECES_HELD_MAX).max(1),
            waker: Waker::noop().clone(),
            is_full: false,
            last_pieces: [0; PIECES_HELD_MAX],
            pieces: 0,
            end,
            retired: Rc::clone(retired),
        }
    }

    /// Sets the waker for events, before the first read and before the first send that finds the tunnel full.
    pub(super) fn watch(&mut self, waker: Waker) {
        self.waker = waker;
    }

    pub(super) fn held_bytes(&self) -> usize {
        if self.is_full { self.last_pieces.iter().sum() } else { 0 }
    }

    pub(super) fn retire(&self) {
        self.retired.set(true);
    }

    /// Returns whether it takes another piece. If not, its waker is woken later.
    pub(super) fn has_room(&mut self) -> bool {
        let context = &mut Context::from_waker(&self.waker);
        // Flushing an upgraded stream waits for room in hyper's queue. An error comes with the next write.
        self.is_full = Pin::new(&mut self.stream).poll_flush(context).is_pending();
        !self.is_full
    }

    pub(super) fn finish(&mut self) {
        let context = &mut Context::from_waker(&self.waker);
        // The task that sends ends the stream after the queued pieces.
        let _ = Pin::new(&mut self.stream).poll_shutdown(context);
        self.end.complete();
    }

    /// Reads until the buffer is full or nothing is left. A single read gives at most the bytes of one frame, and h2 ends a
    /// connection with many short unread frames.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> (usize, Received) {
        let mut buffer = ReadBuf::new(buffer);
        let context = &mut Context::from_waker(&self.waker);
        while buffer.remaining() > 0 {
            let before = buffer.filled().len();
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            let is_end = match read {
                Poll::Pending => return (before, Received::Nothing),
                Poll::Ready(Ok(())) if buffer.filled().len() > before => continue,
                Poll::Ready(read) => read.is_ok(),
            };
            // The next read finds the end again.
            if before > 0 {
                break;
            }
            if is_end {
                self.end.complete();
            }
            return (0, Received::Gone);
        }
        (buffer.filled().len(), Received::More)
    }
}

impl Sink for Tunnel {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let mut taken = 0;
        let mut rest: SmallVec<[IoSlice<'_>; 8]> = SmallVec::from_slice(slices);
        let mut rest = rest.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() && self.has_room() {
            let piece = first_piece(rest, self.piece_bytes);
            let context = &mut Context::from_waker(&self.waker);
            match Pin::new(&mut self.stream).poll_write(context, &piece) {
                Poll::Ready(Ok(bytes)) => {
                    self.last_pieces[self.pieces % PIECES_HELD_MAX] = bytes;
                    self.pieces = self.pieces.wrapping_add(1);
                    taken += bytes;
                    IoSlice::advance_slices(&mut rest, bytes);
                }
                Poll::Ready(Err(_)) => return Sent::Gone,
                Poll::Pending => break,
            }
        }
        Sent::Bytes(taken)
    }
}

/// Returns the first `bytes_max` bytes, or all. hyper copies each piece, and sends it as a frame.
fn first_piece<'a>(slices: &'a [IoSlice<'_>], bytes_max: usize) -> Cow<'a, [u8]> {
    if let [first, ..] = slices
        && (slices.len() == 1 || first.len() >= bytes_max)
    {
        return Cow::Borrowed(&first[..first.len().min(bytes_max)]);
    }
    let mut piece = Vec::new();
    for slice in slices {
        let room = bytes_max - piece.len();
        piece.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    Cow::Owned(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_as_many_bytes_as_fit() {
        let check = |parts: &[&str], expected: &str, is_copied: bool| {
            let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part.as_bytes())).collect();
            let piece = first_piece(&slices, 4);
            assert_eq!(&*piece, expected.as_bytes(), "{parts:?}");
            assert_eq!(matches!(piece, Cow::Owned(_)), is_copied, "{parts:?}");
        };
        check(&["abc"], "abc", false);
        check(&["abcde"], "abcd", false);
        check(&["abcde", "f"], "abcd", false);
        check(&["ab", "", "c"], "abc", true);
        check(&["ab", "cde", "f"], "abcd", true);
    }
}
