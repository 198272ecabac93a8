//! A writer between a WebSocket and its socket. It keeps only the newest waiting pong (RFC 6455 §5.5.3 allows this).
//! Otherwise a server that pings and does not read could make the client hold an answer to every ping.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of bytes that wait for the socket, besides a pong. Acks need less.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// The opcode of a pong (RFC 6455 §11.8).
const PONG: u8 = 0xA;

/// A socket with at most one waiting pong.
#[derive(Debug)]
pub(super) struct NewestPong<T> {
    socket: T,
    /// The beginning of an incomplete frame.
    unfinished: Vec<u8>,
    /// Whole frames, or the rest of a partly written one.
    waiting: Vec<u8>,
    /// Bytes of `waiting` that are on the socket.
    written: usize,
    /// The newest pong, unwritten.
    pong: Option<Vec<u8>>,
}

impl<T: AsyncWrite + Unpin> NewestPong<T> {
    pub(super) fn new(socket: T) -> Self {
        Self { socket, unfinished: Vec::new(), waiting: Vec::new(), written: 0, pong: None }
    }

    /// Writes the waiting bytes until the socket blocks.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while let Some(rest) = self.waiting.get(self.written..).filter(|rest| !rest.is_empty())
            {
                match ready!(Pin::new(&mut self.socket).poll_write(cx, rest))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => self.written += count,
                }
            }
            self.written = 0;
            self.waiting.clear();
            match self.pong.take() {
                Some(pong) => self.waiting = pong,
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Splits the bytes that the WebSocket has written into whole frames. Keeps only the newest pong.
    fn sort_frames(&mut self) {
        while let Some(length) = frame_length(&self.unfinished)
            && length <= self.unfinished.len()
        {
            let rest = self.unfinished.split_off(length);
            let frame = std::mem::replace(&mut self.unfinished, rest);
            match frame.first().is_some_and(|first| first & 0x0F == PONG) {
                true => self.pong = Some(frame),
                false => self.waiting.extend_from_slice(&frame),
            }
        }
    }
}

/// Returns the length of a frame with its header (RFC 6455 §5.2); `None` until the header is complete.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let second = *bytes.get(1)?;
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    let (header, payload) = match second & 0x7F {
        126 => (4, u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into()),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        short => (2, short.into()),
    };
    usize::try_from(payload).ok()?.checked_add(header + mask)
}

impl<T: AsyncWrite + Unpin> AsyncWrite for NewestPong<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Read an incomplete frame to its end, to find the pongs behind it.
        if self.unfinished.is_empty() && self.waiting.len() > WAITING_BYTES_MAX {
            ready!(self.poll_drain(cx))?;
        }
        self.unfinished.extend_from_slice(bytes);
        self.sort_frames();
        if let Poll::Ready(Err(error)) = self.poll_drain(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for NewestPong<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // For the WebSocket layer everything is written, and it does not flush again, so write the rest here.
        if let Poll::Ready(Err(error)) = self.poll_drain(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        frame
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_owed_one_pong() {
        let (near, mut far) = duplex(8);
        let mut socket = NewestPong::new(near);
        for number in 0..10_000_u32 {
            // In pieces, as the WebSocket writes.
            let pong = frame(PONG, &number.to_be_bytes());
            socket.write_all(&pong[..6]).await.unwrap();
            socket.write_all(&pong[6..]).await.unwrap();
        }
        assert!(socket.waiting.len() <= 10 && socket.unfinished.is_empty());
        let mut read = [0; 20];
        let (flushed, got) = tokio::join!(socket.flush(), far.read_exact(&mut read));
        flushed.unwrap();
        got.unwrap();
        // The first pong was partly written when the second one came.
        let expected = [frame(PONG, &0_u32.to_be_bytes()), frame(PONG, &9_999_u32.to_be_bytes())];
        assert_eq!(read[..], expected.concat());
    }

    #[tokio::test]
    async fn other_frames_are_kept_in_their_order_whatever_their_length() {
        let (near, mut far) = duplex(1 << 20);
        let mut socket = NewestPong::new(near);
        let mut long = vec![0x81, 0x80 | 126, 0x01, 0x00, 0, 0, 0, 0];
        long.extend([b'x'; 256]);
        let frames = [frame(1, b"one"), long, frame(8, &[3, 232])].concat();
        for piece in frames.chunks(5) {
            socket.write_all(piece).await.unwrap();
        }
        socket.flush().await.unwrap();
        let mut read = vec![0; frames.len()];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(read, frames);
    }

    #[test]
    fn a_frame_is_as_long_as_its_header_says() {
        assert_eq!(frame_length(&[0x81]), None);
        assert_eq!(frame_length(&[0x81, 0x83]), Some(9));
        assert_eq!(frame_length(&[0x81, 126, 1, 0]), Some(260));
        assert_eq!(frame_length(&[0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0]), Some(65_536 + 14));
        assert_eq!(frame_length(&[0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255]), None);
    }
}
