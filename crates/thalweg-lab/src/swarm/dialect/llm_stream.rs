//! Answers of a language model, as OpenAI and compatible servers stream them: an event for each piece of the answer, and then
//! `[DONE]`. Other servers end the response after the last piece.

use super::foreign::ForeignProtocol;
use super::message::{Message, alone};
use crate::swarm::carrier::Kind;

pub(super) const FOREIGN: ForeignProtocol =
    ForeignProtocol { subprotocol: None, event_path: "", opening: |_, _| Vec::new(), content };

fn content<'a>(kind: Kind, message: &'a [u8], _: &mut Vec<u8>) -> (Message<'a>, &'a [u8]) {
    alone(match message {
        b"[DONE]" => Message::Done,
        piece => Message::Event(kind, piece),
    })
}
