use thalweg_wire::{Close, EndCode, Format, StartAt, StreamStart};

use super::super::{
    ids::Ids,
    subscription::{Begun, Subscription},
};
use crate::stream::Feed;

/// The connection's own part of its bytes. By default shared frames are complete by themselves.
pub(in crate::fanout) trait OwnFrames {
    /// Takes the head of a response, and returns the part that is sent at once. The rest waits for the start of the stream.
    fn hold_head(&mut self, head: Vec<u8>) -> Vec<u8> {
        head
    }

    /// Returns the start of the stream, once it has begun. `None` if its head does not say that.
    fn stream_start(&self) -> Option<Option<StreamStart>> {
        None
    }

    /// A subscription has begun. `is_resuming`: whether its client named a position.
    fn begun(
        &mut self,
        _feed: &impl Feed,
        _subscription: &mut Subscription,
        _is_resuming: bool,
        _begun: Begun,
        _out: &mut Vec<u8>,
    ) {
    }

    /// Appends the trailer of a frame of `frame_bytes`, in formats that have one. `ids` decides whether it has an
    /// id, which names the `cursors` of all topics. Returns the next state of ids.
    fn trailer(
        &self,
        _format: Format,
        ids: Ids,
        _frame_bytes: usize,
        _cursors: impl Iterator<Item = StartAt>,
        _out: &mut Vec<u8>,
    ) -> Ids {
        ids
    }

    /// Appends the end of a frame for the connection alone that has no other trailer.
    fn end_own(&self, _format: Format, _out: &mut Vec<u8>) {}

    /// Counts sent bytes. Returns whether the client must load the document again.
    fn is_full_after(&mut self, _bytes: usize) -> bool {
        false
    }

    /// Whether the stream ends at missing events, because it has no place for a gap.
    fn ends_at_gaps(&self) -> bool {
        false
    }

    /// Whether topics that have ended keep their place on the connection.
    fn keeps_ended(&self) -> bool {
        false
    }

    fn heartbeat(&self, format: Format, _: &[Subscription], out: &mut Vec<u8>) -> bool {
        format.heartbeat(out);
        self.end_own(format, out);
        true
    }

    /// Appends the close and the end of the stream. `ended`: why its last topic has ended, if it has.
    fn close(
        &mut self,
        format: Format,
        _: &[Subscription],
        close: Close,
        _ended: Option<EndCode>,
        out: &mut Vec<u8>,
    ) {
        format.close(close, out);
        self.end_own(format, out);
        format.end(out);
    }
}

/// A connection that adds no bytes.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl OwnFrames for Plain {}
