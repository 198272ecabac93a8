use super::commands::{What, Wish};
use crate::config::Limits;

/// Reads a command, as from a WebSocket: what it publishes, events joined, if that is
/// what it does; or the answer that refuses it.
pub(crate) fn read_command(text: &str, limits: &Limits) -> Result<Option<Vec<u8>>, Vec<u8>> {
    let wish = Wish::read(text, Some(limits.event_bytes));
    match &wish.what {
        What::Refused(refused) => Err(wish.refuse(refused)),
        What::Publish { payloads, .. } => Ok(Some(payloads.joined().to_vec())),
        What::Subscribe { .. }
        | What::Unsubscribe { .. }
        | What::Echo { .. }
        | What::Ack { .. } => Ok(None),
    }
}
