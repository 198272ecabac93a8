//! Messages about topics, which all subscribers of a topic share: each wraps the object that Thalweg's own protocol sends.
//!
//! For a subscription that an invocation began, the server invokes `Events`, `Gap` or `End` of the client, with that object as the
//! only argument. A subscription that is a stream gets the object as an item.

use super::{
    StreamId,
    outgoing::{Outcome, end_completion},
    record,
};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    Events,
    Gap,
    End,
}

impl Target {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Events => b"Events",
            Self::Gap => b"Gap",
            Self::End => b"End",
        }
    }
}

const INVOCATION: &[u8] = br#"{"type":1,"target":""#;
const ARGUMENTS: &[u8] = br#"","arguments":["#;
const ARGUMENTS_END: &[u8] = b"]}";
const ITEM: &[u8] = br#"{"type":2,"invocationId":""#;
const ITEM_BEGIN: &[u8] = br#"","item":"#;
const ITEM_END: &[u8] = b"}";
const COMPLETION: &[u8] = br#"{"type":3,"invocationId":""#;

/// Returns the number of bytes that [`begin`] and [`end`] append.
pub(crate) fn around_len(target: Target, stream: Option<StreamId>) -> usize {
    match stream {
        None => INVOCATION.len() + target.name().len() + ARGUMENTS.len() + ARGUMENTS_END.len() + 1,
        Some(id) => ITEM.len() + id.len() + ITEM_BEGIN.len() + ITEM_END.len() + 1,
    }
}

pub(crate) fn begin(target: Target, stream: Option<StreamId>, out: &mut Vec<u8>) {
    match stream {
        // Without an invocation id no answer is expected ("Non-Blocking Invocations").
        None => {
            out.extend_from_slice(INVOCATION);
            out.extend_from_slice(target.name());
            out.extend_from_slice(ARGUMENTS);
        }
        Some(id) => {
            out.extend_from_slice(ITEM);
            id.write(out);
            out.extend_from_slice(ITEM_BEGIN);
        }
    }
}

pub(crate) fn end(stream: Option<StreamId>, out: &mut Vec<u8>) {
    out.extend_from_slice(if stream.is_some() { ITEM_END } else { ARGUMENTS_END });
    record::end(out);
}

/// Appends the completion of a stream ("Streaming": it indicates the end of results), with an error if there is one.
pub fn complete(stream: StreamId, error: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(COMPLETION);
    stream.write(out);
    out.push(b'"');
    end_completion(error.map_or(Outcome::Done, Outcome::Error), out);
}
