//! Records of SignalR's JSON hub protocol, which wrap the JSON objects.

use super::super::message::{MessageCodec, Outgoing};
use crate::{
    EndCode, Envelope,
    signalr::{
        PING, StreamId,
        delivery::{self, Target},
    },
};

/// One record per message.
pub(super) struct SignalR;

impl MessageCodec for SignalR {
    const TAKES_COMMANDS: bool = true;
    const HAS_STREAMS: bool = true;

    fn write(message: Outgoing<'_>, stream: Option<StreamId>, out: &mut Vec<u8>) {
        match message {
            Outgoing::Batch(envelope) => {
                delivery::begin(Target::Events, stream, out);
                envelope.write(out);
                delivery::end(stream, out);
            }
            Outgoing::Gap(gap) => {
                delivery::begin(Target::Gap, stream, out);
                gap.write(out);
                delivery::end(stream, out);
            }
            Outgoing::End(end) => {
                delivery::begin(Target::End, stream, out);
                end.write(out);
                delivery::end(stream, out);
                if let Some(stream) = stream {
                    delivery::complete(stream, stream_error(end.code).as_deref(), out);
                }
            }
            Outgoing::Heartbeat => out.extend_from_slice(PING),
            Outgoing::Close(_) => {}
        }
    }

    fn len(envelope: &Envelope<'_>, stream: Option<StreamId>) -> usize {
        envelope.len() + delivery::around_len(Target::Events, stream)
    }

    fn write_around(envelope: &Envelope<'_>, stream: Option<StreamId>, out: &mut Vec<u8>) -> usize {
        delivery::begin(Target::Events, stream, out);
        let events_at = envelope.write_around(out);
        delivery::end(stream, out);
        events_at
    }
}

/// Returns the error of a stream whose topic ends with this code; `None` if the topic itself is complete.
fn stream_error(code: EndCode) -> Option<String> {
    match code {
        EndCode::Deleted | EndCode::Gone => None,
        _ => Some(format!("{}: {}", code.name(), code.reason())),
    }
}
