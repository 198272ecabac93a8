//! The streams of one HTTP/2 connection, one per subscriber. A subscriber whose answer ends continues on another stream.

use super::carrier::PieceDecoder;
use super::carrier::http2::{self, CONNECTION_WINDOW_BYTES, Frame, STREAM_WINDOW_BYTES};
use super::parser::{Parser, Stage};
use super::polls;
use super::resume_state::{Nothing, Positions};
use super::subscribe_request::SubscribeRequest;
use crate::scenario::{Settings, Transport};
use anyhow::{anyhow, bail};
use std::collections::HashMap;

/// Highest number of a stream (RFC 9113 §5.1.1).
const STREAM_MAX: u32 = 0x7FFF_FFFF;

#[derive(Debug)]
pub(super) struct Streams {
    streams: Vec<OpenStream>,
    /// Number of the first stream's subscriber.
    first: usize,
    established: usize,
    /// Bytes of the connection's window that were used and not returned.
    used_bytes: u32,
    /// Set if answers have an end.
    returns: Option<Box<Returns>>,
}

#[derive(Debug)]
struct OpenStream {
    stage: Stage,
    decoder: PieceDecoder,
    /// Bytes of the stream's window that were used and not returned.
    used_bytes: u32,
}

/// The stream of each subscriber, and its position there.
#[derive(Debug)]
struct Returns {
    cursors: Vec<Positions>,
    indices: HashMap<u32, usize>,
    next: u32,
}

impl Streams {
    pub(super) fn new(first: usize, settings: &Settings) -> Streams {
        let count = settings.streams as usize;
        let returns = match settings.transport {
            Transport::LongPolling | Transport::ForeverFrame => Some(Box::new(Returns {
                cursors: (0..count).map(|_| Positions::new(settings.topics)).collect(),
                indices: (0..count).map(|index| (id(index), index)).collect(),
                next: id(count),
            })),
            _ => None,
        };
        let streams = (0..count).map(|_| OpenStream::new(Stage::Asked)).collect();
        Streams { streams, first, established: 0, used_bytes: 0, returns }
    }

    /// Appends the opening bytes of a connection of `count` subscribers.
    pub(super) fn requests(
        request: &SubscribeRequest,
        count: usize,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        http2::preface(out);
        (0..count).try_for_each(|index| request.first_on(id(index), out))
    }

    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Parses the connection's bytes; returns the number consumed. `stage` is the connection's, which is
    /// established once all streams are.
    pub(super) fn parse(
        &mut self,
        parser: &mut Parser<'_>,
        bytes: &[u8],
        stage: &mut Stage,
    ) -> anyhow::Result<usize> {
        let mut used = 0;
        while let Some((frame, length)) = http2::frame(&bytes[used..])? {
            used += length;
            match frame {
                Frame::Data { stream, bytes, window_bytes, is_end } => {
                    let index = self.index(stream)?;
                    self.data(parser, stream, index, bytes)?;
                    self.give_back(parser.replies, stream, index, window_bytes);
                    if is_end {
                        self.end(parser, stream, index)?;
                    }
                }
                Frame::Status { stream, status, is_end } => {
                    if status != 200 || is_end {
                        bail!("the subject answered {status} to a subscription over HTTP/2");
                    }
                    let index = self.index(stream)?;
                    let stage = &mut self.streams[index].stage;
                    *stage = parser.opened(*stage);
                }
                Frame::Reset { stream, error } => {
                    let index = self.index(stream)?;
                    self.cut(parser, stream, index, &format!("reset (error {error})"))?;
                }
                Frame::Settings { streams_max } => {
                    let wanted = self.streams.len();
                    if streams_max.is_some_and(|most| (most as usize) < wanted) {
                        bail!(
                            "the subject takes {} streams per connection and not {wanted}: \
                             set streams to that",
                            streams_max.unwrap_or(0)
                        );
                    }
                    http2::settings_ack(parser.replies);
                }
                Frame::Ping(bytes) => http2::pong(parser.replies, bytes),
                Frame::GoAway { error } => bail!("the subject sent GOAWAY (error {error})"),
                Frame::Nothing => {}
            }
        }
        if self.established == self.streams.len() && *stage == Stage::Asked {
            *stage = Stage::Established;
        }
        Ok(used)
    }

    #[inline]
    fn data(
        &mut self,
        parser: &mut Parser<'_>,
        id: u32,
        index: usize,
        bytes: &[u8],
    ) -> anyhow::Result<()> {
        parser.index = self.first + index;
        let OpenStream { stage, decoder, .. } = &mut self.streams[index];
        if matches!(stage, Stage::Ended | Stage::Asked | Stage::Returning) {
            bail!("the subject sent data on stream {id}, which is not open");
        }
        let was_established = *stage == Stage::Established;
        match &mut self.returns {
            None => parser.piece(bytes, stage, decoder, &mut Nothing)?,
            Some(returns) => {
                parser.piece(bytes, stage, decoder, &mut returns.cursors[index])?;
            }
        }
        if !was_established && *stage == Stage::Established {
            self.established += 1;
        }
        Ok(())
    }

    /// Returns window to the subject once half of it is used.
    #[inline]
    fn give_back(&mut self, replies: &mut Vec<u8>, id: u32, index: usize, bytes: u32) {
        self.used_bytes += bytes;
        if self.used_bytes >= CONNECTION_WINDOW_BYTES / 2 {
            http2::window_update(replies, 0, std::mem::take(&mut self.used_bytes));
        }
        let stream = &mut self.streams[index];
        stream.used_bytes += bytes;
        if stream.used_bytes >= STREAM_WINDOW_BYTES / 2 {
            http2::window_update(replies, id, std::mem::take(&mut stream.used_bytes));
        }
    }

    /// Handles the end of an answer: its subscriber continues on the next stream, if an end was expected.
    fn end(&mut self, parser: &mut Parser<'_>, id: u32, index: usize) -> anyhow::Result<()> {
        let stream = &mut self.streams[index];
        let is_poll = parser.transport == Transport::LongPolling;
        if is_poll {
            polls::check_end(stream.decoder.rest(), stream.stage)?;
        }
        let Some(returns) = &mut self.returns else {
            return self.cut(parser, id, index, "ended");
        };
        let cursors = &mut returns.cursors[index];
        if stream.stage != Stage::Established || !(is_poll || cursors.take_reload()) {
            return self.cut(parser, id, index, "ended");
        }
        *stream = OpenStream::new(Stage::Returning);
        let next = returns.continue_on_next_stream(id, index)?;
        parser.request.again_on(next, &returns.cursors[index], parser.replies)
    }

    /// Handles a stream that the subject ended and that should have lasted.
    fn cut(
        &mut self,
        parser: &mut Parser<'_>,
        id: u32,
        index: usize,
        how: &str,
    ) -> anyhow::Result<()> {
        let stream = &mut self.streams[index];
        if stream.stage != Stage::Established {
            bail!("stream {id} was {how} before its subscription was established");
        }
        stream.stage = Stage::Ended;
        parser.receiver.ledger.cut();
        Ok(())
    }

    #[inline]
    fn index(&self, id: u32) -> anyhow::Result<usize> {
        let index = match &self.returns {
            None => {
                let index = (id as usize).wrapping_sub(1) / 2;
                (id % 2 == 1 && index < self.streams.len()).then_some(index)
            }
            Some(returns) => returns.indices.get(&id).copied(),
        };
        index.ok_or_else(|| anyhow!("the subject answered on stream {id}, which is not open"))
    }
}

impl OpenStream {
    fn new(stage: Stage) -> OpenStream {
        OpenStream { stage, decoder: PieceDecoder::default(), used_bytes: 0 }
    }
}

impl Returns {
    /// Moves the subscriber from a stream to the next one.
    fn continue_on_next_stream(&mut self, from: u32, index: usize) -> anyhow::Result<u32> {
        let next = self.next;
        if next > STREAM_MAX {
            bail!("an HTTP/2 connection has no more streams: measure for a shorter time");
        }
        self.next += 2;
        self.indices.remove(&from);
        self.indices.insert(next, index);
        Ok(next)
    }
}

/// Returns the number of a stream; a client's are odd (RFC 9113 §5.1.1).
fn id(index: usize) -> u32 {
    1 + 2 * index as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<OpenStream>() <= 64, "{}", size_of::<OpenStream>());
    }
}
