//! The streams of one HTTP/2 connection, each a subscriber.

use super::carrier::http2::{self, CONNECTION_WINDOW_BYTES, Frame, STREAM_WINDOW_BYTES};
use super::inbox::{Parser, Stage};
use crate::subject::dialect::Subscription;
use anyhow::{anyhow, bail};

/// What an HTTP/2 connection carries.
#[derive(Debug)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    /// Number of the first stream's subscriber.
    first: usize,
    standing: usize,
    /// Bytes of the connection's window used and not given back.
    used_bytes: u32,
}

#[derive(Debug)]
struct Stream {
    stage: Stage,
    searched: u32,
    /// Part of a frame of its transport.
    carry: Vec<u8>,
    /// Bytes of its window used and not given back.
    used_bytes: u32,
}

impl Streams {
    pub(super) fn new(first: usize, count: usize) -> Streams {
        let stream =
            || Stream { stage: Stage::Asked, searched: 0, carry: Vec::new(), used_bytes: 0 };
        Streams {
            streams: (0..count).map(|_| stream()).collect(),
            first,
            standing: 0,
            used_bytes: 0,
        }
    }

    /// What opens a connection of `count` subscribers.
    pub(super) fn requests(subscription: &Subscription<'_>, count: usize, is_tls: bool) -> Vec<u8> {
        let (target, host) = (subscription.target(), subscription.host.to_string());
        let fields = [
            (":method", "GET"),
            (":scheme", if is_tls { "https" } else { "http" }),
            (":authority", &host),
            (":path", &target),
            ("accept", subscription.accept()),
        ];
        let mut out = Vec::new();
        http2::preface(&mut out);
        for index in 0..count {
            http2::request(&mut out, id(index), &fields);
        }
        out
    }

    /// How many subscribers it has.
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Takes the connection's bytes apart; says how many are done with. `stage`
    /// is the connection's: it stands when all its streams do.
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
                    self.data(parser, stream, bytes)?;
                    self.give_back(parser.replies, stream, window_bytes);
                    if is_end {
                        self.end(parser, stream, "ended")?;
                    }
                }
                Frame::Status { stream, status, is_end } => {
                    if status != 200 || is_end {
                        bail!("the subject answered {status} to a subscription over HTTP/2");
                    }
                    self.stream(stream)?.stage = parser.inbox.subscribing();
                }
                Frame::Reset { stream, error } => {
                    self.end(parser, stream, &format!("reset (error {error})"))?;
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
        if self.standing == self.streams.len() && *stage == Stage::Asked {
            *stage = Stage::Standing;
        }
        Ok(used)
    }

    /// A stream's bytes go to its transport.
    #[inline]
    fn data(&mut self, parser: &mut Parser<'_>, id: u32, bytes: &[u8]) -> anyhow::Result<()> {
        let index = self.index(id)?;
        parser.index = self.first + index;
        let Stream { stage, searched, carry, .. } = &mut self.streams[index];
        if matches!(stage, Stage::Ended | Stage::Asked) {
            bail!("the subject sent data on stream {id}, which is not open");
        }
        let was_standing = *stage == Stage::Standing;
        if carry.is_empty() {
            let used = parser.frames(bytes, stage, searched)?;
            *carry = bytes[used..].to_vec();
        } else {
            carry.extend_from_slice(bytes);
            let used = parser.frames(carry, stage, searched)?;
            carry.drain(..used);
        }
        if !was_standing && *stage == Stage::Standing {
            self.standing += 1;
        }
        Ok(())
    }

    /// Opens windows again when half of one is used.
    #[inline]
    fn give_back(&mut self, replies: &mut Vec<u8>, id: u32, bytes: u32) {
        self.used_bytes += bytes;
        if self.used_bytes >= CONNECTION_WINDOW_BYTES / 2 {
            http2::window_update(replies, 0, std::mem::take(&mut self.used_bytes));
        }
        let Ok(stream) = self.stream(id) else { return };
        stream.used_bytes += bytes;
        if stream.used_bytes >= STREAM_WINDOW_BYTES / 2 {
            http2::window_update(replies, id, std::mem::take(&mut stream.used_bytes));
        }
    }

    /// The subject ended a stream that should have lasted.
    fn end(&mut self, parser: &mut Parser<'_>, id: u32, how: &str) -> anyhow::Result<()> {
        let stream = self.stream(id)?;
        if stream.stage != Stage::Standing {
            bail!("stream {id} was {how} before its subscription stood");
        }
        stream.stage = Stage::Ended;
        parser.inbox.ledger.cut();
        Ok(())
    }

    fn stream(&mut self, id: u32) -> anyhow::Result<&mut Stream> {
        let index = self.index(id)?;
        Ok(&mut self.streams[index])
    }

    fn index(&self, id: u32) -> anyhow::Result<usize> {
        let index = (id as usize).wrapping_sub(1) / 2;
        (id % 2 == 1 && index < self.streams.len())
            .then_some(index)
            .ok_or_else(|| anyhow!("the subject answered on stream {id}, which was not opened"))
    }
}

/// A client's streams have odd numbers (RFC 9113 §5.1.1).
fn id(index: usize) -> u32 {
    1 + 2 * index as u32
}
