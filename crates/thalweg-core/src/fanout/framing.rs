//! Connection framing: the bytes that a connection adds to the frames that it shares with others, namely the head,
//! the trailer of each frame, and the end of the stream.
//!
//! ```text
//! own_frames  the trait, and connections that add no bytes
//! cursors     Server-Sent Events of several topics
//! document    a forever frame
//! columns     a stream of columns
//! ```

mod columns;
mod cursors;
mod document;
mod own_frames;

use thalweg_wire::{Close, EndCode, Format, Framing, StartAt, StreamStart};

use super::{
    ids::Ids,
    subscription::{Begun, Subscription},
};
use crate::stream::Feed;
use columns::ColumnStream;
use cursors::Cursors;
use document::ForeverDocument;
pub(super) use own_frames::OwnFrames;
use own_frames::Plain;

/// The framing of a connection, supplied by its format ([`Self::new`]). To add a framing, add a file, and a variant here.
#[derive(Debug, Clone)]
pub enum ConnectionFraming {
    /// Shared frames are complete by themselves.
    Plain(Plain),
    /// Frames end with cursors.
    Cursors(Cursors),
    /// Frames end with the beginning of the next one.
    Document(Box<ForeverDocument>),
    /// The head says where the stream begins.
    Columns(Box<ColumnStream>),
}

impl ConnectionFraming {
    /// Returns the framing for connections of a format.
    pub fn new(format: Format) -> Self {
        match format.framing() {
            Framing::WebSocket
            | Framing::Sse
            | Framing::SseData
            | Framing::Ndjson
            | Framing::Bare => Self::Plain(Plain),
            Framing::SseMany => Self::Cursors(Cursors),
            Framing::ForeverFrame => Self::document("", u64::MAX),
            Framing::ArrowMessages => Self::Columns(Box::default()),
        }
    }

    /// Returns the framing of a forever frame whose scripts have `nonce`. After `bytes_max` bytes, the client reloads the document
    /// (`4003`).
    pub fn document(nonce: &str, bytes_max: u64) -> Self {
        Self::Document(Box::new(ForeverDocument::new(nonce, bytes_max)))
    }

    /// Returns where the stream begins: `None` if the head does not say this, `Some(None)` before the stream
    /// begins. Clones return the same, even after the subscriber is gone.
    pub fn start(&self) -> Option<Option<StreamStart>> {
        self.stream_start()
    }
}

impl OwnFrames for ConnectionFraming {
    delegate! { ConnectionFraming [Plain Cursors Document Columns]:
        fn stream_start(&self) -> Option<Option<StreamStart>>;
        fn trailer(
            &self,
            format: Format,
            ids: Ids,
            frame_bytes: usize,
            cursors: impl Iterator<Item = StartAt>,
            out: &mut Vec<u8>
        ) -> Ids;
        fn end_own(&self, format: Format, out: &mut Vec<u8>);
        fn ends_at_gaps(&self) -> bool;
        fn keeps_ended(&self) -> bool;
        fn heartbeat(&self, format: Format, all: &[Subscription], out: &mut Vec<u8>) -> bool;
    }

    delegate! { ConnectionFraming [Plain Cursors Document Columns]:
        fn hold_head(&mut self, head: Vec<u8>) -> Vec<u8>;
        fn begun(
            &mut self,
            feed: &impl Feed,
            subscription: &mut Subscription,
            is_resuming: bool,
            begun: Begun,
            out: &mut Vec<u8>
        );
        fn is_full_after(&mut self, bytes: usize) -> bool;
        fn close(
            &mut self,
            format: Format,
            all: &[Subscription],
            close: Close,
            ended: Option<EndCode>,
            out: &mut Vec<u8>
        );
    }
}
