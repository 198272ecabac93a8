use thalweg_wire::{Close, EndCode, Format, StartAt, StreamStart};

use super::super::{
    ids::Ids,
    subscription::{Begun, Subscription},
};
use crate::stream::Feed;

/// The bytes that a connection adds to shared frames. By default shared frames are complete by themselves.
pub(in crate::fanout) trait OwnFrames {
    /// Takes the head of a response, and returns the part that is sent at once. The rest waits for the start of the stream.
    fn hold_head(&mut self, head: Vec<u8>) -> Vec<u8> {
        head
    }

    /// Returns the start of the stream: `None` if the head does not say it, `Some(None)` before the stream begins.
    fn stream_start(&self) -> Option<Option<StreamStart>> {
        None
    }

    /// Handles the beginning of a subscription. `is_resuming`: whether the client named a position.
    fn begun(
        &mut self,
        _feed: &impl Feed,
        _subscription: &mut Subscription,
        _is_resuming: bool,
        _begun: Begun,
        _out: &mut Vec<u8>,
    ) {
    }

    /// Appends the trailer of a frame of `frame_bytes`, in formats that have trailers. `ids` decides whether the
    /// trailer has an id, which names the `cursors` of all topics. Returns the next state of ids.
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

    /// Appends the end of a frame that only this connection gets and that has no other trailer.
    fn end_own(&self, _format: Format, _out: &mut Vec<u8>) {}

    /// Counts sent bytes. Returns whether the client must reload the document.
    fn is_full_after(&mut self, _bytes: usize) -> bool {
        false
    }

    /// Returns whether the stream ends where events are missing, because it cannot carry a gap.
    fn ends_at_gaps(&self) -> bool {
        false
    }

    /// Returns whether topics that have ended keep their place on the connection.
    fn keeps_ended(&self) -> bool {
        false
    }

    fn heartbeat(&self, format: Format, _: &[Subscription], out: &mut Vec<u8>) -> bool {
        format.heartbeat(out);
        self.end_own(format, out);
        true
    }

    /// Appends the close and the end of the stream. `ended`: why the last topic has ended, if so.
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
