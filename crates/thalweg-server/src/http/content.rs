//! Bodies of responses, passed to HTTP piece by piece. Each piece is charged to its connection until the client has read
//! it, wherever HTTP keeps it until then.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

use super::{
    context::{Http, RequestConnection},
    trace_body::TraceBody,
};
use crate::{
    answers::{AnswerAccount, Charge},
    shard::HistoryPage,
    transport::{Cut, PipeBody},
};

/// Bytes passed to HTTP at a time: the size of an HTTP/2 frame (RFC 9113 §6.5.2). A stream with a closed window holds
/// no more than this of a long response.
const PIECE_BYTES: usize = 16 << 10;

/// Bytes of a file read at a time.
const FILE_PIECE_BYTES: usize = 64 << 10;

pub(super) enum Content {
    /// Made for this client.
    Made(Vec<u8>),
    /// Made for this client, and counted: the first piece, and the following ones.
    Counted(Bytes, VecDeque<Bytes>),
    /// The server's own bytes, shared by all clients.
    Shared(Bytes),
    History(Box<HistoryBody>),
    File(Box<FileBody>),
    /// A subscriber's pipe. The pipe of a long poll is counted.
    Pipe(PipeBody, Option<Charge>),
    /// The lines of a trace, whose queue is bounded.
    Trace(Box<TraceBody>),
    /// The answer to HEAD for a subscription: no body, and an unknown length.
    Nothing,
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Made(bytes)
    }
}

impl From<&'static str> for Content {
    fn from(text: &'static str) -> Self {
        Self::Shared(Bytes::from_static(text.as_bytes()))
    }
}

impl Content {
    fn count(&mut self, account: &Arc<AnswerAccount>) {
        let Self::Made(bytes) = self else { return };
        let counted = |piece: Vec<u8>| counted_piece(account, piece);
        *self = if bytes.len() > PIECE_BYTES {
            // Copied, so that the memory of each piece is freed when the client has read it.
            let mut pieces = bytes.chunks(PIECE_BYTES).map(|piece| counted(piece.to_vec()));
            Self::Counted(pieces.next().unwrap_or_default(), pieces.collect())
        } else {
            Self::Counted(counted(std::mem::take(bytes)), VecDeque::new())
        };
    }

    /// Returns a long poll's response. The pipe of an incomplete response is refilled while the client reads, and is
    /// therefore charged `pipe_bytes` until it ends.
    pub(super) fn poll(
        mut pipe: PipeBody,
        account: &Arc<AnswerAccount>,
        pipe_bytes: usize,
    ) -> Self {
        let Some(whole) = pipe.take_whole() else {
            let charge = account.charge(pipe_bytes, pipe.bytes());
            return Self::Pipe(pipe, Some(charge));
        };
        let mut pieces = whole.into_iter().map(|piece| counted_piece(account, piece));
        Self::Counted(pieces.next().unwrap_or_default(), pieces.collect())
    }

    /// Returns the number of remaining bytes, as far as it is known.
    pub(super) fn left(&self) -> usize {
        match self {
            Self::Made(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::Counted(first, others) => {
                first.len() + others.iter().map(Bytes::len).sum::<usize>()
            }
            Self::History(history) => history.page.bytes(),
            Self::File(file) => (file.end - file.next) as usize + file.read.len(),
            Self::Pipe(pipe, _) => pipe.bytes(),
            // More may come, and nobody knows how many.
            Self::Trace(_) | Self::Nothing => 0,
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let piece = match self {
            Self::Made(bytes) => (!bytes.is_empty()).then(|| Bytes::from(std::mem::take(bytes))),
            Self::Shared(bytes) => split(bytes),
            Self::Counted(first, others) => {
                let piece = std::mem::replace(first, others.pop_front().unwrap_or_default());
                (!piece.is_empty()).then_some(piece)
            }
            Self::History(history) => history.next_piece(),
            Self::File(file) => return file.poll_piece(context),
            Self::Trace(trace) => return trace.poll_piece(context).map(|piece| piece.map(Ok)),
            Self::Nothing => None,
            Self::Pipe(pipe, charge) => {
                let polled = ready!(Pin::new(pipe).poll_frame(context));
                let piece = match polled.map(|frame| frame.map(Frame::into_data)) {
                    Some(Ok(Ok(piece))) => piece,
                    Some(Err(cut)) => return Poll::Ready(Some(Err(cut))),
                    // The body has no trailers.
                    Some(Ok(Err(_))) | None => return Poll::Ready(None),
                };
                Some(match charge {
                    Some(charge) => transfer(charge, piece),
                    None => piece,
                })
            }
        };
        Poll::Ready(piece.map(Ok))
    }
}

/// Returns the next piece of a body that is complete in memory.
fn split(bytes: &mut Bytes) -> Option<Bytes> {
    (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(PIECE_BYTES)))
}

/// Returns bytes that are charged to a connection while they exist.
fn counted_piece(account: &Arc<AnswerAccount>, piece: impl AsRef<[u8]> + Send + 'static) -> Bytes {
    let bytes = piece.as_ref().len();
    account.charge(bytes, bytes).attach_to(piece)
}

/// Moves a piece to its own charge.
fn transfer(charge: &mut Charge, piece: Bytes) -> Bytes {
    charge.transfer(piece.len());
    counted_piece(&charge.account, piece)
}

/// Charges a response to its connection until the client has read it.
pub(super) fn count(http: &Http, answer: &mut Response<Content>, connection: &RequestConnection) {
    if !answer.body().is_end_stream() {
        answer.body_mut().count(&connection.account);
        http.shard.watch(&connection.account, connection.address.get());
    }
}

/// Events of a topic, with the JSON before and after them.
pub(super) struct HistoryBody {
    page: HistoryPage,
    /// The charge for the remaining bytes.
    charge: Charge,
}

impl HistoryBody {
    pub(super) fn new(page: HistoryPage, account: &Arc<AnswerAccount>) -> Self {
        let charge = account.charge(page.events.borrow().own_bytes(), page.bytes());
        Self { page, charge }
    }

    fn next_piece(&mut self) -> Option<Bytes> {
        let piece = match split(&mut self.page.before) {
            Some(before) => before,
            None => match self.page.events.borrow_mut().next_piece(PIECE_BYTES) {
                Some(events) => events,
                None => split(&mut self.page.after)?,
            },
        };
        Some(transfer(&mut self.charge, piece))
    }
}

/// A file that is read piece by piece while the client receives it, on threads that may wait for a disk.
pub(super) struct FileBody {
    file: Arc<File>,
    next: u64,
    end: u64,
    read: Bytes,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
    /// The charge for one piece of the file, which is read ahead.
    charge: Charge,
}

impl FileBody {
    /// Creates a body of the first `bytes` bytes of a file.
    pub(super) fn new(file: File, bytes: u64, account: &Arc<AnswerAccount>) -> Self {
        let charge = account.charge(FILE_PIECE_BYTES, 0);
        Self {
            file: Arc::new(file),
            next: 0,
            end: bytes,
            read: Bytes::new(),
            reading: None,
            charge,
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        while self.read.is_empty() && self.next < self.end {
            let bytes = (self.end - self.next).min(FILE_PIECE_BYTES as u64) as usize;
            let reading = self.reading.get_or_insert_with(|| {
                let (file, from) = (Arc::clone(&self.file), self.next);
                spawn_blocking(move || {
                    let mut read = vec![0; bytes];
                    file.read_exact_at(&mut read, from).map(|()| read)
                })
            });
            let read = ready!(Pin::new(reading).poll(context));
            self.reading = None;
            // The file is shorter now than when it was opened.
            let Ok(Ok(read)) = read else { return Poll::Ready(Some(Err(Cut))) };
            self.next += read.len() as u64;
            self.read = read.into();
        }
        let piece = split(&mut self.read);
        Poll::Ready(piece.map(|piece| Ok(counted_piece(&self.charge.account, piece))))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let piece = self.get_mut().poll_piece(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pipe(pipe, _) => pipe.is_end_stream(),
            Self::Trace(_) => false,
            _ => self.left() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pipe(pipe, _) => pipe.size_hint(),
            Self::Trace(_) | Self::Nothing => SizeHint::default(),
            _ => SizeHint::with_exact(self.left() as u64),
        }
    }
}
