use thalweg_wire::answer::refusal;

use super::commands::{Command, Request};
use crate::config::Limits;

/// Reads a command, as from a WebSocket. If it publishes, returns its events, joined. On an
/// error returns the answer that refuses it.
pub(crate) fn read_command(text: &str, limits: &Limits) -> Result<Option<Vec<u8>>, Vec<u8>> {
    let Request { id, command, .. } = Request::read(text, Some(limits.event_bytes));
    match command {
        Err(refused) => Err(refusal(refused.code, &refused.message, id.as_deref(), None)),
        Ok(Command::Publish { payloads, .. }) => Ok(Some(payloads.joined().to_vec())),
        Ok(_) => Ok(None),
    }
}
