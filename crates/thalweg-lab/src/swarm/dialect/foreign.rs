//! A protocol on top of a transport that the lab speaks to endpoints of others (`--dialect`), one per file.

use super::message::Message;
use crate::scenario::OpeningStep;
use crate::swarm::carrier::Kind;

/// Returns the first content of a message and the bytes after it, and appends answers.
type FindContent = for<'a> fn(Kind, &'a [u8], &mut Vec<u8>) -> (Message<'a>, &'a [u8]);

/// A protocol that an endpoint speaks.
#[derive(Debug)]
pub(super) struct ForeignProtocol {
    pub(super) subprotocol: Option<&'static str>,
    /// Place of the event in the JSON of a message.
    pub(super) event_path: &'static str,
    /// Returns the dialogue that opens a connection, from the texts of `--auth` and `--subscribe`.
    pub(super) opening: fn(Option<&str>, &[String]) -> Vec<OpeningStep>,
    /// Returns the first content of a message and the bytes after it, and appends answers. Messages of the opening are events.
    pub(super) content: FindContent,
}
